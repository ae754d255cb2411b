use super::*;
use crate::collection::parts::Class;
use crate::drive::Context;
use crate::frame;
use crate::memory::{Allocator, Limits};
use crate::server_info::ServerInfo;

const NOW_MS: i64 = 1_700_000_000_000;
const BUCKET: &[u8] = b"bucket";

/// The reply to a look through a bucket in which one field has expired, and one has not.
fn page(fields: [(&[u8], i64); 2]) -> Vec<u8> {
    let mut page = b"*2\r\n$1\r\n0\r\n*4\r\n".to_vec();
    for (field, expires_at_ms) in fields {
        let mut stored = Vec::new();
        frame::encode(b"value", Some(expires_at_ms), &mut stored);
        for part in [field, &stored] {
            page.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            page.extend_from_slice(part);
            page.extend_from_slice(b"\r\n");
        }
    }
    page
}

/// When the bucket is to be looked through again, after the server has answered the removals like this.
fn due_after(answer: &[u8]) -> Option<i64> {
    let layout = Layout::parse_file("[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n").unwrap();
    let context = Context::new(&layout, ServerInfo { name: "redis".into(), version: "7.0.15".into() });
    let mut nonces = || 7;
    let env = context.env(NOW_MS, &mut nonces);
    let mut sweep = Sweep::over(None);
    sweep.suspects.push(Suspect::Bucket(BucketWalk::new(NamespaceIndex(0), BUCKET)));
    let mut wire = Vec::new();
    assert_eq!(sweep.next(&mut wire), Some(1));
    // The other expires so late that nobody notes it.
    let looked = sweep.handle_replies(&[page([(b"old", NOW_MS - 1), (b"new", i64::MAX / 2)])], &env).unwrap();
    assert_eq!((looked.fields, looked.expired), (2, 1));
    assert_eq!(sweep.next(&mut wire), Some(2));
    sweep.handle_replies(&[b"$2\r\nid\r\n".to_vec(), answer.to_vec()], &env).unwrap();
    assert_eq!(sweep.next(&mut wire), None);
    let expiring = &env.stats.sweep().expiring;
    (0..1000).map(|after_ms| NOW_MS + after_ms).find(|now_ms| expiring.take_due(*now_ms, 9) == [BUCKET])
}

#[test]
fn a_bucket_of_which_the_server_left_a_field_alone_is_looked_through_again() {
    assert_eq!(due_after(b"*1\r\n:1\r\n"), Some(NOW_MS + 200));
    assert_eq!(due_after(b"*0\r\n"), None);
    // What lies elsewhere by now, or can't be removed, waits for the walk.
    assert_eq!(due_after(b"-MOVED 7 127.0.0.1:7001\r\n"), None);
    // Numbers that no group of the call has.
    assert_eq!(due_after(b"*3\r\n:0\r\n:2\r\n:-9223372036854775808\r\n"), None);
}

/// Parts of a set are hashes where the server that they were written to packs no sets, and another may have them by now.
#[test]
fn a_part_of_the_other_type_is_read_as_that_once() {
    let layout =
        Layout::parse_file("[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 64 }\n").unwrap();
    let context = Context::new(&layout, ServerInfo { name: "redis".into(), version: "8.0.0".into() });
    let mut nonces = || 7;
    let env = context.env(NOW_MS, &mut nonces);
    let mut count = ContentsCount::new(env.server, Limits::default(), Allocator::BUNDLED, false);
    let name = b"~0|0000000000000007t1";
    let look = count.meet_part(NamespaceIndex(0), PartName::Part(Class::Texts, 1), name, &layout).unwrap();
    let mut sweep = Sweep::over(None).counting(Some(count));
    sweep.suspects.push(Suspect::Look(look));
    for command in ["SMEMBERS", "HGETALL"] {
        let mut wire = Vec::new();
        assert_eq!(sweep.next(&mut wire), Some(1));
        assert!(String::from_utf8_lossy(&wire).contains(command), "{}", wire.escape_ascii());
        let wrong = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_vec();
        sweep.handle_replies(&[wrong], &env).unwrap();
    }
    assert_eq!(sweep.next(&mut Vec::new()), None);
}
