//! Members that are empty, huge, very many, or look like something else: the plain server says what is right.

use super::LAYOUT;
use crate::both::Both;
use crate::stage::{address, proxy_before};
use keyfold_testkit::{Binary, Wire, found, found_with_redis_7};

fn on_every_server(body: impl Fn(&mut Both)) {
    found().iter().for_each(|binary| on(binary, &body));
}

fn on(binary: &Binary, body: impl Fn(&mut Both)) {
    let (plain, server) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
    let proxy = proxy_before(&server, LAYOUT);
    body(&mut Both::connect(&plain, Wire::connect(address(&proxy)).unwrap()));
}

/// Texts that a stored value, its head, its lengths or its integers could be taken for, and integers in every spelling.
fn hostile() -> Vec<Vec<u8>> {
    let integers = [
        "0",
        "-0",
        "+7",
        "7",
        "007",
        "7.0",
        " 7",
        "7 ",
        "47",
        "48",
        "-1",
        "-128",
        "-129",
        "255",
        "256",
        "65535",
        "2147483648",
        "-2147483649",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "340282366920938463463374607431768211456",
        "1e3",
        "0x10",
        "inf",
    ];
    let bytes: [&[u8]; 16] = [
        b"",
        b"\0",
        b"\0\0",
        b"@",
        b"A",
        b"B\x01f\x01v",
        b"C\x01f\x01v\x01",
        b"D",
        b"\x40\x01a\x01b",
        b"\x1c\x00payload",
        b"\x08\x00\x00\x01",
        b"\xc8\x00\xc0",
        b"\xc9\xff\xff\xff\xff",
        b"\xd0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"*3\r\n$3\r\nSET\r\n",
    ];
    let lengths = [63, 64, 65, 191, 192, 193, 255, 256, 65_535, 65_536].map(|len| vec![b'x'; len]);
    integers.iter().map(|text| text.as_bytes().to_vec()).chain(bytes.map(<[u8]>::to_vec)).chain(lengths).collect()
}

#[test]
fn what_looks_like_something_else_is_itself() {
    on_every_server(|both| {
        let texts = hostile();
        // One by one, so that every integer is the first and the last of its set, then all together.
        for (at, text) in texts.iter().enumerate() {
            let next = texts[(at + 1) % texts.len()].as_slice();
            both.same(&[b"DEL", b"tags:1", b"sess:1"]);
            both.same(&[b"SADD", b"tags:1", text, next, text]);
            both.same(&[b"SMEMBERS", b"tags:1"]);
            both.same(&[b"SISMEMBER", b"tags:1", text]);
            both.same(&[b"HSET", b"sess:1", text, next, next, text]);
            both.same(&[b"HGETALL", b"sess:1"]);
            both.same(&[b"SADD", b"tags:2", text]);
            both.same(&[b"HSET", b"sess:2", text, next]);
        }
        for text in &texts {
            both.same(&[b"SISMEMBER", b"tags:2", text]);
            both.same(&[b"HGET", b"sess:2", text]);
            both.same(&[b"HINCRBY", b"sess:2", text, b"1"]);
            both.same(&[b"HSTRLEN", b"sess:2", text]);
        }
        both.all_same(&[
            "SCARD tags:2",
            "SMEMBERS tags:2",
            "HLEN sess:2",
            "HGETALL sess:2",
            "SUNIONSTORE plain tags:2",
        ]);
        both.all_same(&["RENAME sess:2 elsewhere", "HGETALL elsewhere", "SDIFF plain tags:2", "SCARD plain"]);
        for text in &texts {
            both.same(&[b"SREM", b"tags:2", text]);
            both.same(&[b"SCARD", b"tags:2"]);
        }
        both.all_same(&["EXISTS tags:2", "SUNIONSTORE tags:2 plain", "SDIFF plain tags:2", "SDIFF tags:2 plain"]);
    });
}

#[test]
fn a_folded_string_beside_a_plain_set_that_a_transaction_writes() {
    // Before Redis 7.0 there is no SINTERCARD.
    for binary in found_with_redis_7() {
        on(&binary, |both| {
            for text in [
                "SADD plain a",
                "MULTI",
                "SINTERCARD 2 plain user:1",
                "SADD plain b",
                "SUNION user:1 plain",
                "SDIFF plain user:1 other",
                "SADD other b",
                "SDIFF plain other",
                "EXEC",
                "SET user:1 v",
                "MULTI",
                "SADD plain c",
                "SINTER plain user:1",
                "SCARD plain",
                "DEL user:1",
                "SINTERCARD 2 plain user:1 LIMIT -1",
                "EXEC",
                "SMEMBERS plain",
                "DEL plain other",
            ] {
                both.all_same(&[text]);
            }
        });
    }
}

#[test]
fn members_of_half_a_megabyte_are_members() {
    on_every_server(|both| {
        let [large, other] = [b'x', b'y'].map(|letter| vec![letter; 512 << 10]);
        both.same(&[b"SADD", b"tags:1", &large, b"a", &other]);
        both.same(&[b"SISMEMBER", b"tags:1", &large]);
        both.same(&[b"SMOVE", b"tags:1", b"tags:2", &large]);
        both.same(&[b"SMOVE", b"tags:2", b"plain", &large]);
        both.same(&[b"SMISMEMBER", b"plain", &large, &other]);
        both.same(&[b"SINTERSTORE", b"tags:2", b"tags:1", b"tags:1"]);
        both.all_same(&["MULTI", "SCARD tags:2", "SMEMBERS tags:2", "SREM tags:2 a", "EXEC", "SMEMBERS tags:2"]);
        both.same(&[b"HSET", b"sess:1", &large, &other, b"f", &large, b"g", b"1"]);
        both.same(&[b"HGET", b"sess:1", &large]);
        both.all_same(&["HINCRBY sess:1 g 5", "HSTRLEN sess:1 f", "RENAME sess:1 sess:2", "HGETALL sess:2"]);
        both.same(&[b"HDEL", b"sess:2", &large, b"f"]);
        both.all_same(&["HGETALL sess:2", "DEL sess:2 tags:1 tags:2 plain", "DBSIZE"]);
    });
}

#[test]
fn one_may_have_sixty_thousand_members() {
    const MANY: usize = 60_000;
    on(found().last().unwrap(), |both| {
        let names: Vec<Vec<u8>> = (0..MANY).map(|at| format!("{}", at * 31).into_bytes()).collect();
        let with = |command: &[&'static str], names: &[Vec<u8>]| -> Vec<Vec<u8>> {
            command.iter().map(|word| word.as_bytes().to_vec()).chain(names.iter().cloned()).collect()
        };
        let mut same = |args: Vec<Vec<u8>>| both.same(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        same(with(&["SADD", "tags:1"], &names));
        same(with(&["SADD", "tags:1"], &names[..MANY / 2]));
        same(with(&["SADD", "tags:1", "text"], &names[..9]));
        same(with(&["HSET", "sess:1"], &names));
        same(with(&["SMISMEMBER", "tags:1"], &names[MANY - 10..]));
        same(with(&["SREM", "tags:1"], &names[10..MANY - 10]));
        same(with(&["HDEL", "sess:1"], &names[10..]));
        both.all_same(&["SMEMBERS tags:1", "HGETALL sess:1"]);
        // Out of a bucket they come by several commands, in one step all the same.
        let mut same = |args: Vec<Vec<u8>>| both.same(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        same(with(&["SADD", "tags:1"], &names));
        same(with(&["MULTI"], &[]));
        same(with(&["RENAME", "tags:1", "plain"], &[]));
        same(with(&["SADD", "plain", "more"], &names[..9]));
        same(with(&["SADD", "beside"], &names[..9000]));
        same(with(&["SCARD", "plain"], &[]));
        same(with(&["EXEC"], &[]));
        both.all_same(&[
            "SCARD plain",
            "EXISTS tags:1",
            "SUNIONSTORE tags:2 plain beside",
            "SCARD tags:2",
            "SREM tags:2 more",
        ]);
        both.all_same(&["SDIFF plain tags:2", "SCARD beside", "DEL tags:2 plain beside sess:1", "DBSIZE"]);
    });
}
