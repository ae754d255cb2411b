use proptest::prelude::*;

use super::*;
use crate::resp::write_command;

/// A connection's bytes, and what each command was told.
#[derive(Default)]
struct Wire {
    joining: Joining,
    bytes: Vec<u8>,
    base: u64,
    sent: u64,
}

impl Wire {
    /// Whether a command was joined to those before.
    fn push(&mut self, command: &[&[u8]]) -> bool {
        let command_at = self.base + self.bytes.len() as u64;
        write_command(&mut self.bytes, command);
        let Self { joining, bytes, base, sent } = self;
        joining.join(Written { bytes, base: *base, sent: *sent, command: command_at }) > 1
    }

    fn text(&self) -> String {
        let words: Vec<&[u8]> = self.bytes.split(|byte| *byte == b'\n').collect();
        let words = words.iter().filter(|word| !word.is_empty() && !b"$".contains(&word[0]));
        words.map(|word| String::from_utf8_lossy(word).trim_end().to_owned()).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn what_follows_on_the_same_bucket_is_one_command() {
    let mut wire = Wire::default();
    let joined = ["5", "6", "7"].map(|field| wire.push(&[b"HGET", b"~a:1", field.as_bytes()]));
    assert_eq!((joined, wire.text()), ([false, true, true], "*5 HMGET ~a:1 5 6 7".to_owned()));
    let mut wire = Wire::default();
    let joined = ["5", ""].map(|field| wire.push(&[b"HSET", b"~a:1", field.as_bytes(), b"v"]));
    assert_eq!((joined, wire.text()), ([false, true], "*6 HSET ~a:1 5 v  v".to_owned()));
}

#[test]
fn other_buckets_other_commands_and_what_was_sent_are_left_alone() {
    let commands: [&[&[u8]]; 7] = [
        &[b"HGET", b"~a:1", b"5"],
        &[b"HGET", b"~a:2", b"5"],
        &[b"HSET", b"~a:2", b"5", b"v"],
        &[b"HGET", b"~a:2", b"5"],
        &[b"GET", b"~a:2"],
        &[b"HGET", b"~a:2", b"5"],
        // A client's own hash.
        &[b"HGET", b"a:2", b"5"],
    ];
    let mut wire = Wire::default();
    assert!(commands.iter().chain([commands.last().unwrap()]).all(|command| !wire.push(command)));
    let mut wire = Wire::default();
    assert!(!wire.push(commands[0]));
    wire.sent = 1;
    assert!(!wire.push(commands[0]), "its first byte is on its way");
    assert!(wire.push(commands[0]), "but not the second's");
    wire.joining.forget();
    assert!(!wire.push(commands[0]));
    // Several commands were written at once.
    let at = wire.bytes.len() as u64;
    commands[..2].iter().for_each(|command| write_command(&mut wire.bytes, command));
    let Wire { joining, bytes, .. } = &mut wire;
    assert_eq!(joining.join(Written { bytes, base: 0, sent: 0, command: at }), 1);
}

/// A call of the script on fields, of so many keys.
fn call<'a>(keys: &[&'a [u8]], limit: &'a [u8], command: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let count: &[u8] = if keys.len() == 1 { b"1" } else { b"2" };
    [&[b"EVALSHA", &FIELD_CALL[18..58], count], keys, &[limit], command].concat()
}

#[test]
fn calls_on_one_bucket_are_one_call() {
    let mut wire = Wire::default();
    let bucket: &[&[u8]] = &[b"~a:1"];
    assert!(!wire.push(&call(bucket, b"64", &[b"ADD", b"5", b"1", b"3"])));
    assert!(wire.push(&call(bucket, b"64", &[b"EXPIRE", b"5", b"2", b"\r\n$*1", b""])));
    assert!(wire.push(&call(bucket, b"64", &[b"TAKE", b"6", b"1", b"DEL"])));
    let mut expected = Vec::new();
    let words: [&[u8]; 13] =
        [b"ADD", b"5", b"1", b"3", b"EXPIRE", b"5", b"2", b"\r\n$*1", b"", b"TAKE", b"6", b"1", b"DEL"];
    write_command(&mut expected, &call(bucket, b"64", &words));
    assert_eq!(wire.bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

/// A call of the script on parts, with hints of those of this nonce.
fn parts_call<'a>(
    field: &'a [u8],
    shared: &'a [u8],
    [seen, nonce]: [&'a [u8]; 2],
    command: &[&'a [u8]],
) -> Vec<&'a [u8]> {
    let call = [b"EVALSHA", &PARTS_CALL[18..58], b"1", b"~a:1"];
    let limits: [&[u8]; 5] = [b"~a|", b"64", b"320", b"120", b"16"];
    [&call[..], &[shared, field], &limits, &[seen, nonce], command].concat()
}

#[test]
fn calls_on_parts_of_one_key_are_one_call() {
    const HINTED: [&[u8]; 2] = [b"", b"f7"];
    let (has, add): (&[&[u8]], &[&[u8]]) = (&[b"h", b"t9", b"m"], &[b"ADD", b"2", b"n", b""]);
    let mut wire = Wire::default();
    assert!(!wire.push(&parts_call(b"5", b"+", HINTED, has)));
    assert!(wire.push(&parts_call(b"5", b"+", HINTED, add)));
    let mut expected = Vec::new();
    write_command(&mut expected, &parts_call(b"5", b"+", HINTED, &[has, add].concat()));
    assert_eq!(wire.bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
    for other in [
        parts_call(b"6", b"+", HINTED, has),
        parts_call(b"6", b"+", [b"seen", b"f7"], has),
        parts_call(b"6", b"-", [b"seen", b"f7"], has),
        parts_call(b"6", b"-", [b"seen", b"f7"], has),
        parts_call(b"6", b"+", HINTED, has),
        parts_call(b"6", b"+", [b"", b"f8"], has),
        call(&[b"~a:1"], b"64", &[b"ADD", b"5", b"1", b"3"]),
        parts_call(b"6", b"+", HINTED, has),
    ] {
        assert!(!wire.push(&other));
    }
}

#[test]
fn other_calls_stay_alone() {
    let add: &[&[u8]] = &[b"ADD", b"5", b"1", b"3"];
    let calls = [
        call(&[b"~a:1"], b"64", add),
        call(&[b"~a:2"], b"64", add),
        call(&[b"~a:2"], b"99", add),
        call(&[b"~a:2", b"scratch"], b"99", add),
        call(&[b"a:2"], b"99", add),
        call(&[b"a:2"], b"99", add),
        vec![b"EVALSHA", b"b80da47fb54eccb418a0b247a6380a7cb99bd168", b"1", b"~a:2", b"99"],
        vec![b"EVALSHA", b"b80da47fb54eccb418a0b247a6380a7cb99bd168", b"1", b"~a:2", b"99"],
        vec![b"HGET", b"~a:2", b"5"],
        call(&[b"~a:2"], b"64", add),
    ];
    let mut wire = Wire::default();
    assert!(calls.iter().all(|call| !wire.push(call)));
    assert!(wire.push(calls.last().unwrap()));
    let mut wire = Wire::default();
    assert!(!wire.push(&calls[3]));
    assert!(wire.push(&calls[3]), "what needs both keys goes with its like");
}

#[test]
fn what_will_be_joined_is_known_before() {
    let add = call(&[b"~a:1"], b"64", &[b"ADD", b"5", b"1", b"3"]);
    let mut wire = Wire::default();
    let open = |wire: &Wire, bytes| wire.joining.open_call(wire.sent, wire.base + wire.bytes.len() as u64, bytes);
    assert_eq!(open(&wire, 100), 0);
    for count in 1..CALLS_AT_ONCE {
        assert_eq!(wire.push(&add), count > 1);
        assert_eq!(open(&wire, 500), count);
    }
    assert!(wire.push(&add));
    assert_eq!(open(&wire, 500), 0, "it is full");
    assert!(!wire.push(&add));
    assert_eq!(open(&wire, BYTES_AT_ONCE), 0, "too large");
    assert_eq!(open(&wire, 500), 1);
    write_command(&mut wire.bytes, &[b"PING"]);
    assert_eq!(open(&wire, 500), 0, "another command is behind it");
    let mut wire = Wire::default();
    wire.push(&add);
    wire.sent = 1;
    assert_eq!(open(&wire, 500), 0, "it is on its way");
    let mut wire = Wire::default();
    wire.push(&[b"HGET", b"~a:1", b"5"]);
    assert_eq!(open(&wire, 500), 0, "it is no call");
}

#[test]
fn no_command_gets_too_large() {
    let mut wire = Wire::default();
    let joined = (0..200).filter(|_| wire.push(&[b"HGET", b"~a:1", b"5"])).count();
    assert_eq!((joined, wire.text().matches("HMGET").count()), (196, 4));
    let mut wire = Wire::default();
    let large = vec![b'x'; BYTES_AT_ONCE / 3];
    let joined: Vec<bool> = (0..5).map(|_| wire.push(&[b"HSET", b"~a:1", b"5", &large])).collect();
    assert_eq!(joined, [false, true, false, true, false]);
}

proptest! {
    /// Read one after the other, joined commands name the fields of all, in their order.
    #[test]
    fn nothing_is_lost_and_nothing_moved(
        commands in prop::collection::vec((0..2_usize, 0..3_u8, "[a-z\r\n$*~]{0,12}", "[0-9\r\n]{0,12}"), 1..150),
        sent in prop::collection::vec(any::<bool>(), 150),
    ) {
        let mut wire = Wire { base: 1000, sent: 1000, ..Wire::default() };
        let mut expected = Vec::new();
        for ((verb, bucket, field, value), sends) in commands.iter().zip(sent) {
            let bucket = [b'~', b'a' + bucket];
            let (field, value) = (field.as_bytes(), value.as_bytes());
            let command: &[&[u8]] =
                if *verb == 0 { &[b"HGET", &bucket, field] } else { &[b"HSET", &bucket, field, value] };
            wire.push(command);
            expected.push((*verb, bucket, field.to_vec(), (*verb == 1).then(|| value.to_vec())));
            if sends {
                wire.sent = wire.base + wire.bytes.len() as u64;
            }
        }
        let mut found = Vec::new();
        let mut rest = &wire.bytes[..];
        while !rest.is_empty() {
            let count: usize = line(&mut rest).parse().unwrap();
            let words: Vec<Vec<u8>> = (0..count).map(|_| bulk(&mut rest)).collect();
            let bucket = [words[1][0], words[1][1]];
            match &words[0][..] {
                b"HSET" => found.extend(words[2..].chunks(2).map(|pair| (1, bucket, pair[0].clone(), Some(pair[1].clone())))),
                _ => found.extend(words[2..].iter().map(|field| (0, bucket, field.clone(), None))),
            }
        }
        prop_assert_eq!(found, expected);
    }
}

/// The number in the line that comes next.
fn line(rest: &mut &[u8]) -> String {
    let end = rest.iter().position(|byte| *byte == b'\r').unwrap();
    let text = String::from_utf8(rest[1..end].to_vec()).unwrap();
    *rest = &rest[end + 2..];
    text
}

fn bulk(rest: &mut &[u8]) -> Vec<u8> {
    let len: usize = line(rest).parse().unwrap();
    let (bytes, others) = rest.split_at(len);
    *rest = &others[2..];
    bytes.to_vec()
}
