//! Scripts of many clients at once, of two keyfolds, on values that codecs write and on keys that are moved meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_core::placement::handmade::{Handmade, Packing};
use keyfold_testkit::coded::store;
use keyfold_testkit::conformance::CODED_LAYOUT;
use keyfold_testkit::differential::{self, Options, Stage};
use keyfold_testkit::model::HASHES;
use keyfold_testkit::{Server, Subject, Value, Wire, found, subject};

/// What one client calls so often, and how many clients each keyfold has.
const CALLS: usize = 60;
const CLIENTS: usize = 4;
/// Adds one to the number at the end of a text that a codec makes shorter; one key has it in a field, one under its own name.
const COUNT: &[u8] = b"\
local found = {}
for at, key in ipairs(KEYS) do
  local text = redis.call('GET', key) or ''
  found[at] = tonumber(string.match(text, '=(%d+)$') or '0') + 1
  redis.call('SET', key, string.rep('abcabcabd', 6) .. '=' .. found[at])
end
if found[1] ~= found[2] then return redis.error_reply('torn: ' .. found[1] .. ' and ' .. found[2]) end
return found[1]";
const KEYS: [&[u8]; 2] = [b"cnt:visits", b"page:/visits"];

/// The numbers that one client's scripts count to, none for an answer that was lost: whoever changes the layout has the server
/// close the connections of a keyfold that doesn't stand still in time.
fn count(address: SocketAddr, in_transactions: bool) -> Vec<Option<i64>> {
    let mut wire = Wire::connect(address).expect("it listens");
    let call: [&[u8]; 5] = [b"EVAL", COUNT, b"2", KEYS[0], KEYS[1]];
    let is_loss = |answer: &Value| format!("{answer:?}").contains("may or may not have been carried out");
    // On a slow machine others may come first a thousand times, and it is to be tried again.
    let is_worn_out = |answer: &Value| format!("{answer:?}").contains("nothing was carried out, try again");
    let mut counted = Vec::new();
    while counted.len() < CALLS {
        let answer = if in_transactions {
            let strlen: [&[u8]; 2] = [b"STRLEN", KEYS[0]];
            let answers = wire.transact(&[&strlen, &call, &strlen]).expect("it answers");
            match answers {
                Value::Array(mut answers) if answers.len() == 3 => answers.swap_remove(1),
                other => other,
            }
        } else {
            wire.ask(&call).expect("it answers")
        };
        if is_worn_out(&answer) {
            continue;
        }
        assert!(answer.integer().is_some() || is_loss(&answer), "{answer:?}");
        counted.push(answer.integer());
    }
    counted
}

/// Has clients count until all have; what is between them happens meanwhile.
fn count_at_once(addresses: &[SocketAddr], meanwhile: impl Fn(&AtomicBool) + Sync) {
    let is_over = AtomicBool::new(false);
    let counted: Vec<Option<i64>> = thread::scope(|scope| {
        let clients: Vec<_> = addresses
            .iter()
            .flat_map(|address| (0..CLIENTS).map(move |client| (*address, client)))
            .map(|(address, client)| scope.spawn(move || count(address, client % 2 == 1)))
            .collect();
        let meanwhile = scope.spawn(|| meanwhile(&is_over));
        let counted: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        meanwhile.join().expect("it ends");
        counted.into_iter().flat_map(|counted| counted.expect("it counts")).collect()
    });
    let mut wire = Wire::connect(addresses[0]).expect("it listens");
    let text = wire.ask(&[b"GET", KEYS[0]]).expect("it answers");
    let text = String::from_utf8_lossy(text.bytes().unwrap_or_default()).into_owned();
    let last: usize = text.rsplit('=').next().and_then(|number| number.parse().ok()).expect("a number");
    let answered: Vec<i64> = counted.iter().filter_map(|number| *number).collect();
    let different: BTreeSet<i64> = answered.iter().copied().collect();
    assert_eq!(different.len(), answered.len(), "no number is counted twice");
    assert!(
        (answered.len()..=counted.len()).contains(&last),
        "{} of {} answered, {last}",
        answered.len(),
        counted.len()
    );
    assert!(
        different.last().is_some_and(|most| usize::try_from(*most).is_ok_and(|most| most <= last)),
        "{different:?}"
    );
}

fn start(options: &str) -> (Server, Vec<Subject>) {
    let binary = found().pop().expect("no redis-server or valkey-server; run scripts/ensure-server");
    let server = binary.start(&[]).expect("it starts");
    let first = Subject::start(&server, options).expect("keyfold serves");
    let second = Subject::beside(&server).expect("keyfold serves");
    (server, vec![first, second])
}

#[test]
fn scripts_of_many_clients_lose_nothing_that_codecs_write() {
    let (server, subjects) = start(CODED_LAYOUT);
    let addresses: Vec<SocketAddr> = subjects.iter().map(Subject::address).collect();
    count_at_once(&addresses, |is_over| {
        // A command on the same key conflicts too, and changes nothing that is counted.
        let mut wire = Wire::connect(addresses[0]).expect("it listens");
        while !is_over.load(Ordering::Relaxed) {
            wire.ask(&[b"EXPIRE", KEYS[0], b"1000"]).expect("it answers");
            wire.ask(&[b"PERSIST", KEYS[0]]).expect("it answers");
        }
    });
    // What the last script wrote was encoded behind it.
    let mut wire = server.connect().expect("it listens");
    let found = wire.ask(&[b"KEYS", b"~*"]).expect("it answers");
    let Value::Array(names) = found else { panic!("{found:?}") };
    let stored = names.iter().filter_map(Value::bytes).filter_map(|name| {
        let value = wire.ask(&[b"GET", name]).expect("it answers");
        value.bytes().map(<[u8]>::to_vec)
    });
    let stored: Vec<Vec<u8>> = stored.collect();
    assert!(stored.iter().any(|value| value.len() < 50), "a codec wrote the page: {stored:?}");
}

#[test]
fn scripts_of_many_clients_lose_nothing_while_keys_are_moved() {
    let other = CODED_LAYOUT.replace("count = 2", "count = 3").replace("codec = \"zstd\"\n", "");
    let (server, subjects) = start(CODED_LAYOUT);
    let addresses: Vec<SocketAddr> = subjects.iter().map(Subject::address).collect();
    let dir = tempfile::tempdir().expect("a directory");
    let files = [CODED_LAYOUT, &other].map(|text| {
        let file = dir.path().join(format!("{}.toml", text.len()));
        fs::write(&file, text).expect("it is written");
        file
    });
    count_at_once(&addresses, |is_over| {
        // From one placement to another and back, out of the buckets and in.
        for round in 0.. {
            let mut command = Command::new(subject::program());
            command.arg(if round % 3 == 2 { "unfold" } else { "fold" }).arg(server.url()).arg("--yes");
            if round % 3 < 2 {
                command.arg("--layout").arg(&files[round % 3]);
            }
            let output = command.stdin(Stdio::null()).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
            if is_over.load(Ordering::Relaxed) && round >= 2 {
                return;
            }
        }
    });
}

#[test]
fn scripts_find_values_in_an_applications_own_hashes() {
    let binary = found().pop().expect("no redis-server or valkey-server; run scripts/ensure-server");
    let server = binary.start(&[]).expect("it starts");
    let file = LayoutFile::parse("[[namespace]]\nkeys = 's:{id:int}'\nbucket = { span = 8 }\n").expect("it is right");
    let template = file.namespaces[0].keys.first();
    let rule = Handmade::new(template, "sbucket:{id/4}", "{id}", Packing::Zlib).expect("it is right");
    let moving = Layout::default().plan_fold_from(&file, &[rule]).expect("it can begin").layout;
    let mut wire = server.connect().expect("it listens");
    store(&moving, &mut wire).expect("it is stored");
    for [hash, field, stored, ..] in HASHES {
        wire.ask(&[b"HSET", hash, field, stored]).expect("it answers");
    }
    let subject = Subject::beside(&server).expect("keyfold serves");
    let mut client = Wire::connect(subject.address()).expect("it listens");
    let keys = HASHES.map(|[.., key, _]| key);
    let mut run = |name: &[u8], script: &[u8]| {
        let answer = client.ask(&[name, script, b"3", keys[0], keys[1], keys[2]]).expect("it answers");
        let Value::Array(values) = answer else { panic!("{answer:?}") };
        values.iter().map(|value| value.bytes().expect("a value").to_vec()).collect::<Vec<_>>()
    };
    let values = HASHES.map(|[.., value]| value.to_vec());
    assert_eq!(run(b"EVAL_RO", b"return redis.call('MGET', unpack(KEYS))"), values);
    let append =
        b"for _, key in ipairs(KEYS) do redis.call('APPEND', key, '+') end return redis.call('MGET', unpack(KEYS))";
    let longer = values.map(|value| [value.as_slice(), b"+"].concat());
    assert_eq!(run(b"EVAL", append), longer);
    assert_eq!(run(b"EVAL_RO", b"return redis.call('MGET', unpack(KEYS))"), longer);
    let left = wire.ask(&[b"EXISTS", HASHES[0][0], HASHES[2][0]]).expect("it answers");
    assert_eq!(left.integer(), Some(0), "the application's hashes are empty");
}

/// Half of random commands on sets and hashes come as scripts of one command.
#[test]
fn random_scripts_on_sets_and_hashes_answer_as_on_plain_ones() {
    for (seed, binary) in (1..).zip(found()) {
        let stage = Stage::of_collections(&binary, seed % 2 == 0).unwrap();
        let trial =
            Options { commands: 4000, seed, later: true, collections: true, in_scripts: true, ..Options::default() };
        let agreed = differential::run(stage.sides(), &trial, |_| {}).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(agreed.commands >= trial.commands);
    }
}
