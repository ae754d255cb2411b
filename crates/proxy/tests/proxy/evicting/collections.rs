//! Sets and hashes leave a cache whole, and come back only as they are written anew.

use keyfold_testkit::random::Random;
use keyfold_testkit::{Value, Wire, found};

use super::values::assert_clean;
use super::{MB, cached, counted, send_all, words};
use crate::stage::{call, eventually, reaches};

const LAYOUT: &str = r#"
    [[namespace]]
    keys = "tags:{id:int}"
    type = "set"
    bucket = { span = 32 }
    value_limit = 64
    [[namespace]]
    keys = "sess:{id:int}"
    type = "hash"
    bucket = { count = 256 }
    value_limit = 64
"#;

/// Sets and hashes, few of which a bucket has, as they lie in parts.
const LARGE: &str = r#"
    [[namespace]]
    keys = "tags:{id:int}"
    type = "set"
    bucket = { span = 8 }
    [[namespace]]
    keys = "sess:{id:int}"
    type = "hash"
    bucket = { count = 64 }
"#;

/// Keys of each type: more than there is room for.
const KEYS: u64 = 15_000;

#[test]
fn one_that_was_evicted_is_gone_with_all_its_members() {
    let stage = cached(found().last().unwrap(), LAYOUT, MB);
    let mut wire = stage.connect();
    let mut random = Random::new(7);
    let (mut gone, mut asked, mut refused) = (0, 0, 0);
    reaches("many leave", 6_000, || {
        // Each key is written whole, some of them too long for a bucket; and of some a member more, so that one that left
        // since has that alone.
        let ids: Vec<u64> = (0..500).map(|_| random.below(KEYS)).collect();
        let write = |id: &u64| {
            let long = if id.is_multiple_of(10) { "-".repeat(80) } else { String::new() };
            [
                words(&format!("SADD tags:{id} {id} a{id} b{long}")),
                words(&format!("HSET sess:{id} x {id} y {id} z {id}{long}")),
            ]
        };
        send_all(&mut wire, ids.iter().flat_map(write));
        let read: Vec<u64> = (0..500).map(|_| random.below(KEYS)).collect();
        let ask = |id: &u64| {
            let [more, field] = [words(&format!("SADD tags:{id} more")), words(&format!("HSET sess:{id} more {id}"))];
            let [count, len] = [words(&format!("SCARD tags:{id}")), words(&format!("HLEN sess:{id}"))];
            let [less, taken] = [words(&format!("SREM tags:{id} more")), words(&format!("HDEL sess:{id} more"))];
            [count, more, less, len, field, taken]
        };
        let replies = send_all(&mut wire, read.iter().flat_map(ask));
        for (id, said) in read.iter().zip(replies.chunks(6)) {
            for (kind, said) in [("tags", &said[..3]), ("sess", &said[3..])] {
                let said: Vec<String> = said.iter().map(|reply| reply.escape_ascii().to_string()).collect();
                asked += 1;
                // On a slow machine so small a cache is full for a moment.
                if said[1].starts_with("-OOM ") {
                    refused += 1;
                    continue;
                }
                assert!([":0\\r\\n", ":3\\r\\n"].contains(&said[0].as_str()), "{kind}:{id}: {said:?}");
                assert_eq!(said[1], ":1\\r\\n", "{kind}:{id}: {said:?}");
                // It may have left between the two.
                assert!([":0\\r\\n", ":1\\r\\n"].contains(&said[2].as_str()), "{kind}:{id}: {said:?}");
                gone += usize::from(said[0] == ":0\\r\\n");
            }
        }
        stage.evicted()
    });
    assert!(gone > 500, "{gone} were found gone");
    assert!(refused * 10 < asked, "{refused} of {asked} were refused");
    // A burst into so small a cache may have the server evict whole buckets before keyfold gets to it.
    if stage.proxy.cache().by_server() == 0 {
        assert_clean(&stage);
    }
}

/// What a large one takes counts, and is free again at once: no more of them leave than have to.
#[test]
fn large_ones_leave_with_their_parts_and_no_more_than_have_to() {
    const SETS: u64 = 3000;
    for binary in found() {
        let stage = cached(&binary, LARGE, 12 * MB);
        let mut wire = stage.connect();
        let mut above = 0;
        for id in 0..SETS {
            let members: Vec<String> = (0..300).map(|member| format!("member{id}:{member}")).collect();
            assert_eq!(call(&mut wire, &format!("SADD tags:{id} {}", members.join(" "))), ":300\r\n", "{id}");
            above = above.max(counted(&stage.server).saturating_sub(stage.mark));
        }
        assert!(above < MB, "{}: {above} bytes above the mark", binary.name());
        let taken = counted(&stage.server) - stage.empty;
        assert!(taken > 10 * MB, "{}: {taken} bytes of 12 MiB are left", binary.name());
        let before = stage.evicted();
        let counts = send_all(&mut wire, (0..SETS).map(|id| words(&format!("SCARD tags:{id}"))));
        assert!(counts.iter().all(|count| [&b":0\r\n"[..], b":300\r\n"].contains(&count.as_slice())));
        let left = counts.iter().filter(|count| *count == b":300\r\n").count() as u64;
        // One may leave while it is counted.
        let evicted = before..=stage.evicted();
        assert!(left > 1000 && evicted.contains(&(SETS - left)), "{left} are left, {evicted:?} have gone");
        stage.assert_server_kept_out();
        // The names that say whose parts are.
        let mut direct = stage.server.connect().unwrap();
        let owners = direct.ask(&[b"KEYS", format!("~*|{}", "?".repeat(16)).as_bytes()]).unwrap();
        assert!(owners.elements().unwrap().len() as u64 <= left, "parts go with their set");
    }
}

/// Its parts are more than are removed at once: hardly anything else leaves while they do.
#[test]
fn a_very_large_one_leaves_in_several_steps_and_alone() {
    for binary in found() {
        let stage = cached(&binary, LARGE, 12 * MB);
        let (mut wire, mut direct) = (stage.connect(), stage.server.connect().unwrap());
        for first in (0..220_000).step_by(1000) {
            let members: Vec<String> = (first..first + 1000).map(|member| format!("member{member}")).collect();
            call(&mut wire, &format!("SADD tags:0 {}", members.join(" ")));
        }
        let names = |pattern: &str, direct: &mut Wire| direct.ask(&[b"KEYS", pattern.as_bytes()]).unwrap();
        let parts = names("~*|*", &mut direct).elements().unwrap().len();
        assert!(parts > 2200, "{parts} parts");
        // The name that says whose they are.
        let owner =
            names(&format!("~*|{}", "?".repeat(16)), &mut direct).elements().unwrap()[0].bytes().unwrap().to_vec();
        let of = |direct: &mut Wire| direct.ask(&[b"GET", &owner]).unwrap();
        let large = of(&mut direct);
        for id in 1.. {
            assert!(id < 6000, "{}: it never leaves", binary.name());
            let members: Vec<String> = (0..300).map(|member| format!("member{id}:{member}")).collect();
            call(&mut wire, &format!("SADD tags:{id} {}", members.join(" ")));
            call(&mut wire, &format!("SCARD tags:{id}"));
            if of(&mut direct) != large {
                break;
            }
        }
        let before = stage.evicted();
        eventually("all parts of it are gone", || of(&mut direct) == Value::Nil);
        let beside = stage.evicted() - before;
        assert!(beside < 20, "{}: {beside} leave beside it", binary.name());
        let counted = counted(&stage.server);
        assert!(counted + 3 * MB < stage.mark, "{}: {counted} of {}", binary.name(), stage.mark);
        stage.assert_server_kept_out();
    }
}

/// What it takes isn't told by how many members it has.
#[test]
fn what_long_members_take_counts() {
    const FIELDS: u64 = 40;
    for binary in found() {
        let stage = cached(&binary, LARGE, 12 * MB);
        let mut wire = stage.connect();
        let long = "-".repeat(50_000);
        for id in 0..5 {
            let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field} {long}")).collect();
            assert_eq!(call(&mut wire, &format!("HSET sess:{id} {}", fields.join(" "))), format!(":{FIELDS}\r\n"));
        }
        // Two megabytes are left; four are written.
        for id in 0..4 * MB / 6000 {
            let members: Vec<String> = (0..200).map(|member| format!("member{id}:{member}")).collect();
            call(&mut wire, &format!("SADD tags:{id} {}", members.join(" ")));
        }
        let left = (0..5).filter(|id| call(&mut wire, &format!("HLEN sess:{id}")) != ":0\r\n").count();
        assert!(left >= 2, "{}: {left} of five are left", binary.name());
        let taken = counted(&stage.server) - stage.empty;
        assert!(taken > 9 * MB, "{}: {taken} bytes of 12 MiB are left", binary.name());
        stage.assert_server_kept_out();
    }
}
