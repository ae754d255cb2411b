//! Scripts on folded sets and hashes beside a plain server's: wherever these lie, while they are moved too, and in one step for all.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use keyfold_core::layout::LayoutFile;
use keyfold_testkit::{Server, Wire, found};

use super::LAYOUT;
use crate::stage::{address, call, change_layout, eventually, proxy_before};

/// Commands, a line each; what stands between backticks is one word.
const CONVERSATION: &str = "
    EVAL `return redis.call('SADD', KEYS[1], unpack(ARGV))` 1 tags:1 a 7 -5 9223372036854775807 -9223372036854775808 007 `` b
    EVAL `return redis.call('SADD', KEYS[1], 'a', 8, -0, 1.5)` 1 tags:1
    EVAL `local all = redis.call('SMEMBERS', KEYS[1]) table.sort(all) return all` 1 tags:1
    EVAL `return {redis.call('SREM', KEYS[1], ARGV[1], ARGV[1], 'nobody'), redis.call('SCARD', KEYS[1])}` 1 tags:1 a
    EVAL `return redis.call('SMISMEMBER', KEYS[1], 'a', '7', '007', '')` 1 tags:1
    SISMEMBER tags:1 9223372036854775807
    EVAL `return redis.call('SADD', KEYS[1], unpack(ARGV))` 1 tags:2 1 2 3 100000 9007199254740993 9007199254740995
    EVAL `local all = redis.call('SMEMBERS', KEYS[1]) table.sort(all) return all` 1 tags:2
    EVAL `return {redis.call('TYPE', KEYS[1]), redis.call('EXISTS', KEYS[1], KEYS[2]), redis.call('TTL', KEYS[1])}` 2 tags:2 tags:3
    EVAL `return {redis.call('EXPIRE', KEYS[1], 1000), redis.call('TTL', KEYS[1]), redis.call('SADD', KEYS[1], 4)}` 1 tags:2
    TTL tags:2
    EVAL `return redis.call('PERSIST', KEYS[1])` 1 tags:2
    TTL tags:2
    SADD plain 7 2 none
    EVAL `local all = redis.call('SUNION', KEYS[1], KEYS[2], KEYS[3]) table.sort(all) return all` 3 tags:1 tags:2 plain
    EVAL `return {redis.call('SINTERSTORE', KEYS[1], KEYS[2], KEYS[3]), redis.call('SISMEMBER', KEYS[1], 7)}` 3 tags:3 tags:1 plain
    EVAL `return {redis.call('SMOVE', KEYS[1], KEYS[2], 7), redis.call('SMOVE', KEYS[3], KEYS[1], 'none')}` 3 tags:1 tags:2 plain
    EVAL `return {redis.call('SCARD', KEYS[1]), redis.call('SCARD', KEYS[2]), redis.call('SCARD', KEYS[3])}` 3 tags:1 tags:2 plain
    EVAL `return redis.call('RENAME', KEYS[1], KEYS[2])` 2 tags:2 tags:4
    EVAL `return {redis.call('COPY', KEYS[1], KEYS[2]), redis.call('COPY', KEYS[1], KEYS[2])}` 2 tags:4 tags:5
    EVAL `return {#redis.call('SPOP', KEYS[1], 3), redis.call('SCARD', KEYS[1])}` 1 tags:5
    EVAL `return {redis.call('DEL', KEYS[1], KEYS[2]), redis.call('EXISTS', KEYS[1])}` 2 tags:5 tags:9
    EVAL `return {redis.call('SREM', KEYS[1], 1, 2, 3, 4, 7, 100000, 9007199254740993, 9007199254740995), 'left'}` 1 tags:4
    SMEMBERS tags:4
    EVAL `return redis.call('HSET', KEYS[1], unpack(ARGV))` 1 sess:1 uid 7 name ann empty `` n 41
    EVAL `return {redis.call('HSET', KEYS[1], 'uid', 7, 'more', 'x'), redis.call('HSETNX', KEYS[1], 'uid', 8)}` 1 sess:1
    EVAL `return {redis.call('HINCRBY', KEYS[1], 'n', 1), redis.call('HINCRBYFLOAT', KEYS[1], 'f', 0.5)}` 1 sess:1
    EVAL `return redis.call('HMGET', KEYS[1], 'uid', 'none', 'empty', 'n')` 1 sess:1
    EVAL `return {redis.call('HGET', KEYS[1], 'name'), redis.call('HLEN', KEYS[1]), redis.call('HSTRLEN', KEYS[1], 'name')}` 1 sess:1
    EVAL `return {redis.call('HEXISTS', KEYS[1], 'none'), redis.call('HDEL', KEYS[1], 'more', 'none'), #redis.call('HGETALL', KEYS[1])}` 1 sess:1
    EVAL `redis.setresp(3) return {type(redis.call('HGETALL', KEYS[1]).map), redis.call('HGET', KEYS[1], 'none') == nil}` 1 sess:1
    EVAL `return redis.call('HMSET', KEYS[1], 'long', string.rep('x', 3000))` 1 sess:1
    EVAL `return {#redis.call('HGET', KEYS[1], 'long'), redis.call('HDEL', KEYS[1], 'long'), redis.call('HLEN', KEYS[1])}` 1 sess:1
    HGET sess:1 uid
    EVAL_RO `return {redis.call('HGET', KEYS[1], 'uid'), redis.call('SCARD', KEYS[2])}` 2 sess:1 tags:1
    EVAL_RO `return redis.call('SADD', KEYS[1], 'x')` 1 tags:1
    EVAL `redis.call('SADD', KEYS[1], 'before') redis.call('INCR', KEYS[1]) redis.call('SADD', KEYS[1], 'after')` 1 tags:1
    SMISMEMBER tags:1 before after
    EVAL `return redis.pcall('HGET', KEYS[1], 'f')` 1 tags:1
    EVAL `return redis.pcall('GET', KEYS[1])` 1 tags:1
    EVAL `return redis.pcall('SADD', KEYS[1])` 1 tags:1
    EVAL `return redis.pcall('HSET', KEYS[1], 'f')` 1 sess:1
    EVAL `return redis.pcall('SISMEMBER', KEYS[1], {})` 1 tags:1
    EVAL `return {redis.pcall('DEL', KEYS[1], KEYS[9]), redis.call('EXISTS', KEYS[1])}` 1 tags:1
    EVAL `return {redis.pcall('UNLINK', KEYS[1], {}), redis.call('EXISTS', KEYS[1])}` 1 tags:1
    EVAL `return {redis.pcall('EXPIRE', KEYS[1], 100, ''), redis.call('TTL', KEYS[1])}` 1 tags:1
    MULTI
    SADD tags:7 one two
    EVAL `return {redis.call('SREM', KEYS[1], 'one'), redis.call('SCARD', KEYS[1])}` 1 tags:7
    HINCRBY sess:7 n 9007199254740993
    EVAL `return redis.call('HGET', KEYS[1], 'n')` 1 sess:7
    SMEMBERS tags:7
    EXEC
    EVAL `return redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])` 3 tags:1 tags:7 sess:7
    DEL sess:1 tags:3 tags:4 plain
    DBSIZE
";

fn words(line: &str) -> Vec<Vec<u8>> {
    let quoted = line.split('`').enumerate();
    let words = quoted.flat_map(|(nth, text)| match nth % 2 {
        1 => vec![text.as_bytes().to_vec()],
        _ => text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect(),
    });
    words.collect()
}

fn said(wire: &mut Wire, words: &[Vec<u8>]) -> String {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    wire.call(&words).unwrap().escape_ascii().to_string()
}

/// The same of large ones, which lie in parts: of texts short and long, and of integers.
const LARGE: &str = "
    EVAL `for n = 1, 2000 do redis.call('SADD', KEYS[1], 'member' .. n, n * 7) end return redis.call('SCARD', KEYS[1])` 1 tags:1
    SADD tags:1 one 9223372036854775807 -9223372036854775808 007
    EVAL `return {redis.call('SADD', KEYS[1], 'one', 'two', 7, 5), redis.call('SCARD', KEYS[1])}` 1 tags:1
    EVAL `return {redis.call('SISMEMBER', KEYS[1], 'two'), redis.call('SISMEMBER', KEYS[1], 'three'), redis.call('SMISMEMBER', KEYS[1], 7, 8, '007', 'none')}` 1 tags:1
    EVAL_RO `return {redis.call('SISMEMBER', KEYS[1], '9223372036854775807'), redis.call('SCARD', KEYS[1])}` 1 tags:1
    EVAL `return {redis.call('SREM', KEYS[1], 'two', 'three', 9), redis.call('SREM', KEYS[1], 'one'), redis.call('SCARD', KEYS[1])}` 1 tags:1
    EVAL `local all = redis.call('SMEMBERS', KEYS[1]) table.sort(all) return {#all, all[1], all[77], all[#all]}` 1 tags:1
    EVAL_RO `redis.setresp(3) local n = 0 for m in pairs(redis.call('SMEMBERS', KEYS[1]).set) do n = n + #m end return n` 1 tags:1
    EVAL `local one, some = redis.call('SPOP', KEYS[1]), redis.call('SPOP', KEYS[1], 5) for _, m in ipairs(some) do redis.call('SADD', KEYS[1], m) end return {redis.call('SADD', KEYS[1], one), #some, redis.call('SCARD', KEYS[1])}` 1 tags:1
    EVAL `local some = redis.call('SRANDMEMBER', KEYS[1], 20) return {#some, redis.call('SISMEMBER', KEYS[1], some[1]), #redis.call('SRANDMEMBER', KEYS[1], -30), #redis.call('SRANDMEMBER', KEYS[1], 100000), type(redis.call('SRANDMEMBER', KEYS[1]))}` 1 tags:1
    EVAL `return {redis.call('SPOP', KEYS[1], 0), redis.pcall('SPOP', KEYS[1], -1), redis.pcall('SPOP', KEYS[1], 'x')}` 1 tags:1
    SADD plain member5 nobody 14
    SADD tags:2 1 nobody
    EVAL `local all = redis.call('SINTER', KEYS[1], KEYS[2]) table.sort(all) return all` 2 tags:1 plain
    EVAL `return {redis.call('SINTERSTORE', KEYS[3], KEYS[1], KEYS[2]), redis.call('SINTERCARD', 2, KEYS[1], KEYS[3]), redis.call('SDIFFSTORE', KEYS[3], KEYS[1], KEYS[2])}` 3 tags:1 plain tags:3
    SCARD tags:3
    EVAL `return {redis.call('SMOVE', KEYS[1], KEYS[2], 'member5'), redis.call('SMOVE', KEYS[1], KEYS[2], 'none'), redis.call('SMOVE', KEYS[2], KEYS[1], 1), redis.call('SCARD', KEYS[1]), redis.call('SCARD', KEYS[2])}` 2 tags:1 tags:2
    EVAL `return {redis.call('SMOVE', KEYS[1], KEYS[2], 'member6'), redis.call('SMOVE', KEYS[2], KEYS[1], 'nobody')}` 2 tags:1 plain
    EVAL_RO `return redis.call('SMOVE', KEYS[1], KEYS[2], 'nobody')` 2 tags:1 tags:2
    EVAL `local t = {} for n = 1, 7998 do t[n] = 'many' .. n end return {redis.call('SADD', KEYS[1], unpack(t)), redis.call('SREM', KEYS[1], unpack(t))}` 1 tags:1
    EVAL `return {redis.call('SADD', KEYS[1], 0.5, 1e15, -0), redis.call('SISMEMBER', KEYS[1], '0.5'), redis.pcall('EXPIRE', KEYS[1], 'x'), redis.call('PERSIST', KEYS[1])}` 1 tags:1
    EVAL `return {redis.call('PEXPIREAT', KEYS[1], 2209000000123), redis.call('PERSIST', KEYS[1]), redis.call('TTL', KEYS[1])}` 1 tags:1
    EVAL `return {redis.call('EXPIRE', KEYS[1], 1000), redis.call('TTL', KEYS[1]), redis.call('SADD', KEYS[1], 'later')}` 1 tags:1
    EVAL `return {redis.call('RENAMENX', KEYS[1], KEYS[2]), redis.call('RENAME', KEYS[1], KEYS[2]), redis.call('EXISTS', KEYS[1]), redis.call('SCARD', KEYS[2])}` 2 tags:1 tags:2
    TTL tags:2
    SCARD tags:2
    EVAL `return {redis.call('COPY', KEYS[1], KEYS[2]), redis.call('SCARD', KEYS[2]), redis.call('SADD', KEYS[2], 'x')}` 2 tags:2 tags:4
    SCARD tags:4
    EVAL `return {redis.pcall('HGET', KEYS[1], 'f'), redis.pcall('GET', KEYS[1]), redis.pcall('SADD', KEYS[1]), redis.pcall('SISMEMBER', KEYS[1], 'a', 'b')}` 1 tags:2
    EVAL `for n = 1, 2000 do redis.call('SREM', KEYS[1], 'member' .. n, n * 7) end return {redis.call('SCARD', KEYS[1]), redis.call('EXISTS', KEYS[1])}` 1 tags:4
    EVAL `local all = redis.call('SMEMBERS', KEYS[1]) return {redis.call('SREM', KEYS[1], unpack(all)), redis.call('EXISTS', KEYS[1]), redis.call('TYPE', KEYS[1])}` 1 tags:4
    EVAL `return {#redis.call('SPOP', KEYS[1], 100000), redis.call('EXISTS', KEYS[1])}` 1 tags:2
    EVAL `for n = 1, 600 do redis.call('HSET', KEYS[1], 'field' .. n, n, 'long' .. n, string.rep('x', n)) end return redis.call('HLEN', KEYS[1])` 1 sess:1
    HSET sess:1 n 41
    EVAL `return {redis.call('HSET', KEYS[1], 'field1', 'new', 'other', 'x'), redis.call('HSETNX', KEYS[1], 'other', 'y'), redis.call('HSETNX', KEYS[1], 'third', 'z'), redis.call('HMSET', KEYS[1], 'n', 41)}` 1 sess:1
    EVAL `return {redis.call('HINCRBY', KEYS[1], 'n', 1), redis.call('HINCRBYFLOAT', KEYS[1], 'f', 0.5), redis.pcall('HINCRBY', KEYS[1], 'other', 1), redis.pcall('HINCRBY', KEYS[1], 'n', 'x')}` 1 sess:1
    EVAL_RO `return {redis.call('HGET', KEYS[1], 'n'), redis.call('HGET', KEYS[1], 'none'), redis.call('HMGET', KEYS[1], 'none', 'third', 'field7', 'no'), redis.call('HSTRLEN', KEYS[1], 'long99'), redis.call('HEXISTS', KEYS[1], 'long601')}` 1 sess:1
    EVAL `redis.setresp(3) local all = redis.call('HGETALL', KEYS[1]).map return {all.third, all.long5, redis.call('HGET', KEYS[1], 'none') == nil, #redis.call('HRANDFIELD', KEYS[1], 3, 'WITHVALUES')[1]}` 1 sess:1
    EVAL `return {#redis.call('HGETALL', KEYS[1]), #redis.call('HKEYS', KEYS[1]), #redis.call('HVALS', KEYS[1]), #redis.call('HRANDFIELD', KEYS[1], 30, 'WITHVALUES')}` 1 sess:1
    EVAL `return {redis.call('HDEL', KEYS[1], 'n', 'none', 'long7'), redis.call('HLEN', KEYS[1]), redis.call('TTL', KEYS[1])}` 1 sess:1
    EVAL `return {redis.call('HINCRBYFLOAT', KEYS[1], 'f', 0.25), redis.call('HSET', KEYS[1], 'f', 1.5), redis.call('HGET', KEYS[1], 'f')}` 1 sess:1
    EVAL `for n = 1, 400 do redis.call('HSET', KEYS[1], 'f' .. n, n) end return {redis.call('EXPIRE', KEYS[1], -1), redis.call('EXISTS', KEYS[1])}` 1 sess:2
    EVAL `for n = 1, 600 do redis.call('HDEL', KEYS[1], 'field' .. n, 'long' .. n) end return redis.call('HLEN', KEYS[1])` 1 sess:1
    HGET sess:1 third
    MULTI
    SADD tags:3 again
    EVAL `return {redis.call('SREM', KEYS[1], 'again'), redis.call('SCARD', KEYS[1])}` 1 tags:3
    SCARD tags:3
    EXEC
    EVAL `return redis.call('DEL', KEYS[1], KEYS[2])` 2 tags:3 sess:1
    DEL plain
    DBSIZE
";

/// The same of hashes of which fields expire, for servers that have such themselves.
const EXPIRING: &str = "
    EVAL `return {redis.call('HSET', KEYS[1], 'a', 1, 'b', 2, 'c', 3), redis.call('HPEXPIREAT', KEYS[1], 2209000000123, 'FIELDS', 2, 'a', 'b')}` 1 sess:1
    EVAL `return {redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 4, 'a', 'b', 'c', 'd'), redis.call('HLEN', KEYS[1]), redis.call('TTL', KEYS[1])}` 1 sess:1
    HPEXPIRETIME sess:1 FIELDS 3 a b c
    EVAL `return {redis.call('HSET', KEYS[1], 'a', 'again', 'd', 4), redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 3, 'a', 'b', 'd')}` 1 sess:1
    EVAL `return {redis.call('HSETNX', KEYS[1], 'b', 'no'), redis.call('HINCRBY', KEYS[1], 'b', 5), redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 1, 'b')}` 1 sess:1
    EVAL `return {redis.call('HDEL', KEYS[1], 'a', 'c', 'd'), redis.call('EXPIRE', KEYS[1], 100000), redis.call('HPERSIST', KEYS[1], 'FIELDS', 2, 'b', 'no')}` 1 sess:1
    EVAL `return {redis.call('PERSIST', KEYS[1]), redis.call('HEXPIREAT', KEYS[1], 4000000000, 'FIELDS', 1, 'b'), redis.call('TTL', KEYS[1]), redis.call('HEXPIRETIME', KEYS[1], 'FIELDS', 1, 'b')}` 1 sess:1
    EVAL `return {redis.call('RENAME', KEYS[1], KEYS[2]), redis.call('HGET', KEYS[2], 'b'), redis.call('HPEXPIRETIME', KEYS[2], 'FIELDS', 1, 'b'), redis.call('EXISTS', KEYS[1])}` 2 sess:1 sess:2
    EVAL `return {redis.call('COPY', KEYS[1], KEYS[2]), redis.call('HPEXPIRETIME', KEYS[2], 'FIELDS', 1, 'b'), redis.call('COPY', KEYS[1], KEYS[3])}` 3 sess:2 sess:3 plain
    HPEXPIRETIME plain FIELDS 1 b
    HGETALL sess:3
    EVAL `return {redis.call('HEXPIRE', KEYS[1], 0, 'FIELDS', 1, 'b'), redis.call('EXISTS', KEYS[1]), redis.call('HEXPIRE', KEYS[1], 9, 'FIELDS', 1, 'b')}` 1 sess:3
    EVAL `return {redis.pcall('HEXPIRE', KEYS[1], 'x', 'FIELDS', 1, 'b'), redis.pcall('HEXPIRE', KEYS[1], 9, 'FIELDS', 2, 'b'), redis.pcall('HTTL', KEYS[1])}` 1 sess:2
    EVAL `for n = 1, 300 do redis.call('HSET', KEYS[1], 'f' .. n, n) end return {redis.call('HPEXPIREAT', KEYS[1], 2209000000123, 'FIELDS', 1, 'f7'), redis.call('HLEN', KEYS[1]), redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 2, 'f7', 'f8')}` 1 sess:4
    HPEXPIRETIME sess:4 FIELDS 2 f7 f8
    EVAL `return {redis.call('HSET', KEYS[1], 'f301', 'x'), redis.call('HGET', KEYS[1], 'f300'), redis.call('HPERSIST', KEYS[1], 'FIELDS', 1, 'f7'), redis.call('HSET', KEYS[1], 'f302', 'x'), redis.call('HLEN', KEYS[1])}` 1 sess:4
    EVAL_RO `return {redis.call('HGET', KEYS[1], 'b'), redis.call('HLEN', KEYS[1]), redis.call('HGETALL', KEYS[1]), redis.call('EXISTS', KEYS[1])}` 1 sess:2
    MULTI
    HSET sess:2 new 1
    HPEXPIREAT sess:2 2209000000123 FIELDS 1 new
    EVAL `return redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 2, 'b', 'new')` 1 sess:2
    EXEC
    EVAL `return {redis.call('HSETEX', KEYS[1], 'PXAT', 2209000000123, 'FIELDS', 2, 'k', 1, 'l', 2), redis.call('HSETEX', KEYS[1], 'FNX', 'FIELDS', 1, 'k', 3), redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 2, 'k', 'l')}` 1 sess:5
    EVAL `return {redis.call('HGETEX', KEYS[1], 'PERSIST', 'FIELDS', 2, 'k', 'none'), redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 2, 'k', 'l')}` 1 sess:5
    EVAL `return {redis.call('HGETDEL', KEYS[1], 'FIELDS', 2, 'k', 'l'), redis.call('EXISTS', KEYS[1])}` 1 sess:5
    HGETALL sess:5
    DEL sess:2 sess:4 sess:5 plain
    DBSIZE
";

/// Of a line the commands that not every server has.
fn has_all(plain: &Server, line: &str) -> bool {
    let is_newer = |name: &&str| line.contains(&format!("'{name}'")) || line.trim_start().starts_with(name);
    // Before Redis 7.0 there is no EVAL_RO.
    let names = ["EVAL_RO", "HPEXPIRETIME", "HPEXPIREAT", "HEXPIRE", "HTTL", "HPERSIST", "HSETEX", "HGETEX", "HGETDEL"];
    let mut wire = plain.connect().unwrap();
    names.into_iter().filter(is_newer).all(|name| {
        let known = call(&mut wire, &format!("COMMAND INFO {name}"));
        !matches!(known.as_str(), "*1\r\n*-1\r\n" | "*1\r\n$-1\r\n")
    })
}

/// Holds all of a conversation against that of a plain server.
fn hold(plain: &Server, client: &mut Wire) {
    let mut oracle = plain.connect().unwrap();
    call(&mut oracle, "FLUSHALL");
    let has_expiring = has_all(plain, "HPEXPIRETIME");
    let conversations = [CONVERSATION, LARGE].into_iter().chain(has_expiring.then_some(EXPIRING));
    let lines = conversations.flat_map(str::lines).filter(|line| !line.trim().is_empty());
    for line in lines.filter(|line| has_all(plain, line)) {
        let words = words(line);
        assert_eq!(said(client, &words), said(&mut oracle, &words), "{}: {}", plain.name(), line.trim());
    }
}

#[test]
fn they_answer_as_on_plain_ones() {
    for binary in found() {
        let [plain, behind] = [(); 2].map(|()| binary.start(&[]).unwrap());
        let proxy = proxy_before(&behind, LAYOUT);
        hold(&plain, &mut Wire::connect(address(&proxy)).unwrap());
        let mut direct = behind.connect().unwrap();
        eventually("nothing is left", || call(&mut direct, "KEYS ~*") == "*0\r\n");
        assert_eq!(call(&mut direct, "EXISTS keyfold:{home}:scratch1 keyfold:{home}:scratch2"), ":0\r\n");
    }
}

/// A script may make a small one large, and more than once.
#[test]
fn what_scripts_make_large_lies_in_parts() {
    for binary in found() {
        let [plain, behind] = [(); 2].map(|()| binary.start(&[]).unwrap());
        let proxy = proxy_before(&behind, LAYOUT);
        let (mut client, mut oracle) = (Wire::connect(address(&proxy)).unwrap(), plain.connect().unwrap());
        let mut direct = behind.connect().unwrap();
        let names = |direct: &mut Wire, pattern: &str| {
            call(direct, &format!("KEYS {pattern}")).lines().next().unwrap()[1..].parse::<usize>().unwrap()
        };
        let grows = "EVAL `for n = 1, 1000 do redis.call('SADD', KEYS[1], 'm' .. n, n) redis.call('HSET', KEYS[2], 'f' .. n, n) end \
                     return {redis.call('SCARD', KEYS[1]), redis.call('HLEN', KEYS[2])}` 2 tags:1 sess:1";
        let again = "EVAL `local function grow() for n = 1, 300 do redis.call('SADD', KEYS[1], 'm' .. n) end end \
                     grow() redis.call('DEL', KEYS[1]) grow() redis.call('SREM', KEYS[1], 'm7') \
                     local all = redis.call('SMEMBERS', KEYS[1]) table.sort(all) return all` 1 tags:2";
        for line in [grows, again] {
            assert_eq!(said(&mut client, &words(line)), said(&mut oracle, &words(line)), "{}", binary.name());
        }
        assert!(names(&mut direct, "~*|*") > 20 && names(&mut direct, "~*!tags:1") == 0);
        for line in ["SISMEMBER tags:1 m999", "SCARD tags:2", "HGET sess:1 f1000", "DEL tags:1 tags:2 sess:1"] {
            assert_eq!(call(&mut client, line), call(&mut oracle, line), "{line}");
        }
        eventually("nothing is left", || call(&mut direct, "KEYS ~*") == "*0\r\n");
    }
}

#[test]
fn they_answer_as_on_plain_ones_while_these_are_moved() {
    let binary = found().pop().unwrap();
    for unfolds in [false, true] {
        let [plain, behind] = [(); 2].map(|()| binary.start(&[]).unwrap());
        let other = "[[namespace]]\nkeys = \"other:{id:int}\"\nbucket = { span = 8 }\n";
        let all = format!("{other}{LAYOUT}");
        let proxy = proxy_before(&behind, if unfolds { &all } else { other });
        let before = proxy.layout();
        let moving = match unfolds {
            true => before.plan_unfold(&before.iter().map(|(index, _)| index).collect::<Vec<_>>()).unwrap().layout,
            false => before.plan_fold(&LayoutFile::parse(&all).unwrap()).unwrap().layout,
        };
        let mut client = Wire::connect(address(&proxy)).unwrap();
        // Some lie in their old places when it begins.
        let old = ["SADD tags:8 a 7 9223372036854775807", "HSET sess:8 f v g 1"];
        old.iter().for_each(|line| assert!(call(&mut client, line).starts_with(':')));
        call(&mut client, "EXPIRE tags:8 1000");
        change_layout(&behind, &before, &moving);
        eventually("the layout is adopted", || proxy.layout().revision() == moving.revision());
        let swapped = call(&mut client, "SWAPDB 1 2");
        assert!(swapped.starts_with("-ERR keyfold: SWAPDB waits"), "{swapped}");
        // Keys of another type, which were there before the namespace was, stay what they are.
        let mut direct = behind.connect().unwrap();
        for (key, packed, write) in
            [("sess:7", "B", "'HSET', KEYS[1], 'f', 'x'"), ("tags:7", "A", "'SADD', KEYS[1], 'x'")]
        {
            assert_eq!(call(&mut direct, &format!("SET {key} {packed}")), "+OK\r\n");
            let line = format!(
                "EVAL `return {{redis.call('GET', KEYS[1]), redis.call('TYPE', KEYS[1]), redis.pcall({write})}}` 1 {key}"
            );
            let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
            assert_eq!(plainly(&mut client, &line), format!("*3 $1 {packed} +string {wrong}"), "{key}");
            assert_eq!(call(&mut direct, &format!("GET {key}")), format!("$1\r\n{packed}\r\n"));
            assert_eq!(call(&mut direct, &format!("DEL {key}")), ":1\r\n");
        }
        for (line, answer) in [
            ("EVAL `return redis.call('SADD', KEYS[1], 'b', 'a')` 1 tags:8", ":1"),
            ("EVAL `return {redis.call('SCARD', KEYS[1]), redis.call('TTL', KEYS[1]) > 900}` 1 tags:8", "*2 :4 :1"),
            ("SCARD tags:8", ":4"),
            ("EVAL `return redis.call('SREM', KEYS[1], 'b', '9223372036854775807')` 1 tags:8", ":2"),
            ("EVAL `return redis.call('HSET', KEYS[1], 'g', 2, 'h', 3)` 1 sess:8", ":1"),
            ("HMGET sess:8 f g h", "*3 $1 v $1 2 $1 3"),
            ("EVAL `return redis.call('RENAME', KEYS[1], KEYS[2])` 2 sess:8 sess:9", "+OK"),
            ("HGET sess:9 h", "$1 3"),
            ("EVAL `redis.call('DEL', KEYS[1]) return redis.call('SADD', KEYS[1], 1)` 1 tags:8", ":1"),
            ("SMEMBERS tags:8", "*1 $1 1"),
            ("DEL tags:8 sess:9", ":2"),
            ("DBSIZE", ":0"),
        ] {
            assert_eq!(plainly(&mut client, line), answer, "{line}, {}", if unfolds { "out" } else { "in" });
        }
        hold(&plain, &mut client);
    }
}

/// What can't be written behind the command takes nothing away before.
#[test]
fn what_expires_too_late_for_a_script_stays_where_it_is() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let proxy = proxy_before(&server, LAYOUT);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    for line in ["SET user:1 one", "SET user:2 two", "SADD tags:1 a", "SADD tags:2 b"] {
        call(&mut client, line);
    }
    for key in ["user:1", "tags:2"] {
        assert_eq!(call(&mut client, &format!("PEXPIREAT {key} 9007199254740992")), ":1\r\n");
    }
    for line in [
        "EVAL `return redis.call('RENAME', KEYS[1], KEYS[2])` 2 user:1 user:2",
        "EVAL `return redis.call('SMOVE', KEYS[1], KEYS[2], 'a')` 2 tags:1 tags:2",
    ] {
        let said = said(&mut client, &words(line));
        assert!(said.contains("an expiry so far in the future"), "{said}");
    }
    for (line, answer) in
        [("MGET user:1 user:2", "*2 $3 one $3 two"), ("SMEMBERS tags:1", "*1 $1 a"), ("SMEMBERS tags:2", "*1 $1 b")]
    {
        assert_eq!(plainly(&mut client, line), answer, "{line}");
    }
}

/// From buckets to other buckets parts stay where they belong.
#[test]
fn those_in_parts_stay_whole_between_two_places() {
    for binary in found() {
        let [plain, behind] = [(); 2].map(|()| binary.start(&[]).unwrap());
        let proxy = proxy_before(&behind, LAYOUT);
        let (before, other) =
            (proxy.layout(), LAYOUT.replace("{ count = 2 }", "{ count = 3 }").replace("{ span = 8 }", "{ span = 9 }"));
        let moving = before.plan_fold(&LayoutFile::parse(&other).unwrap()).unwrap().layout;
        let (mut client, mut oracle) = (Wire::connect(address(&proxy)).unwrap(), plain.connect().unwrap());
        let many: Vec<String> = (0..300).map(|number| format!("member{number}")).collect();
        let old = [format!("SADD tags:1 {}", many.join(" ")), format!("HSET sess:1 {} x", many.join(" x "))];
        for line in &old {
            assert_eq!(call(&mut client, line), call(&mut oracle, line));
        }
        change_layout(&behind, &before, &moving);
        eventually("the layout is adopted", || proxy.layout().revision() == moving.revision());
        for line in [
            "EVAL `return {redis.pcall('EXPIRE', KEYS[1], 1000), redis.pcall('SCARD', KEYS[1])}` 1 tags:1",
            "SCARD tags:1",
            "EVAL `return {redis.pcall('PERSIST', KEYS[1]), redis.pcall('TTL', KEYS[1])}` 1 tags:1",
            "EVAL `return {redis.pcall('EXPIRE', KEYS[1], 1000), redis.pcall('HGET', KEYS[1], 'member7')}` 1 sess:1",
            "HLEN sess:1",
            "EVAL `return {redis.call('SADD', KEYS[1], 'more'), redis.call('SISMEMBER', KEYS[1], 'member9')}` 1 tags:1",
            "SCARD tags:1",
            "DEL tags:1 sess:1",
        ] {
            let words = words(line);
            assert_eq!(said(&mut client, &words), said(&mut oracle, &words), "{}: {line}", binary.name());
        }
        let mut direct = behind.connect().unwrap();
        eventually("nothing is left", || call(&mut direct, "KEYS ~*") == "*0\r\n");
    }
}

/// Before a server that has no fields that expire itself, scripts read and write those that commands have made expire.
#[test]
fn they_work_on_fields_that_expire_where_the_server_has_none() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let has_itself = has_all(&server, "HPEXPIRETIME");
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        let needs = "the server has no fields that expire; use commands instead of a script";
        let elsewhere = "it has a field that expires";
        for (line, answer) in [
            ("HSET sess:1 a 1 b 2 c 3", ":3"),
            ("HPEXPIREAT sess:1 2209000000123 FIELDS 2 a b", "*2 :1 :1"),
            ("EVAL `return {redis.call('HGET', KEYS[1], 'a'), redis.call('HLEN', KEYS[1])}` 1 sess:1", "*2 $1 1 :3"),
            ("EVAL `return redis.call('HINCRBY', KEYS[1], 'a', 41)` 1 sess:1", ":42"),
            ("EVAL `return redis.call('HSET', KEYS[1], 'b', 'new', 'd', 4)` 1 sess:1", ":1"),
            ("EVAL `return redis.call('EXPIRE', KEYS[1], 100000)` 1 sess:1", ":1"),
            ("EVAL `return redis.call('PERSIST', KEYS[1])` 1 sess:1", ":1"),
            ("HPEXPIRETIME sess:1 FIELDS 4 a b c d", "*4 :2209000000123 :-1 :-1 :-1"),
            (
                "EVAL `return {redis.call('HDEL', KEYS[1], 'b', 'c', 'd'), redis.call('TTL', KEYS[1])}` 1 sess:1",
                "*2 :3 :-1",
            ),
            ("HPEXPIRETIME sess:1 FIELDS 1 a", "*1 :2209000000123"),
            // It has passed with the last of its fields, though the key would have stayed.
            ("HSET sess:2 a 1", ":1"),
            ("HPEXPIRE sess:2 300 FIELDS 1 a", "*1 :1"),
            ("HSET sess:3 a 1 b 2", ":2"),
            ("HPEXPIRE sess:3 300 FIELDS 2 a b", "*2 :1 :1"),
            ("EXPIRE sess:3 1000", ":1"),
            ("HSET sess:4 a 1 b 2", ":2"),
            ("HPEXPIRE sess:4 300 FIELDS 1 a", "*1 :1"),
        ] {
            assert_eq!(plainly(&mut client, line), answer, "{}: {line}", server.name());
        }
        thread::sleep(Duration::from_millis(400));
        for (line, answer) in [
            ("EVAL `return redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3])` 3 sess:2 sess:3 sess:4", ":1"),
            (
                "EVAL `return {redis.call('TYPE', KEYS[1]), redis.call('TTL', KEYS[1]), redis.call('HLEN', KEYS[1])}` 1 sess:3",
                "*3 +none :-2 :0",
            ),
            (
                "EVAL `return {redis.call('HLEN', KEYS[1]), redis.call('HSETNX', KEYS[1], 'a', 7), redis.call('HGETALL', KEYS[1])}` 1 sess:4",
                "*3 :1 :1 *4 $1 b $1 2 $1 a $1 7",
            ),
            ("EVAL `return {redis.call('HSET', KEYS[1], 'n', 1), redis.call('TTL', KEYS[1])}` 1 sess:3", "*2 :1 :-1"),
            ("HGETALL sess:3", "*2 $1 n $1 1"),
            ("DEL sess:3 sess:4", ":2"),
        ] {
            assert_eq!(plainly(&mut client, line), answer, "{}: {line}", server.name());
        }
        if !has_itself {
            let persist = "EVAL `return redis.call('HPERSIST', KEYS[1], 'FIELDS', 1, 'a')` 1 sess:1";
            let rename = "EVAL `return redis.call('RENAME', KEYS[1], KEYS[2])` 2 sess:1 sess:9";
            for (line, why) in [(persist, needs), (rename, elsewhere)] {
                let said = said(&mut client, &words(line));
                assert!(said.starts_with("-") && said.contains(why), "{said}");
            }
        }
        assert_eq!(plainly(&mut client, "HPEXPIRETIME sess:1 FIELDS 1 a"), "*1 :2209000000123");
    }
}

fn plainly(client: &mut Wire, line: &str) -> String {
    let words = words(line);
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    String::from_utf8(client.call(&words).unwrap()).unwrap().trim_end().replace("\r\n", " ")
}

/// Who takes the last one out is told so, and nobody else is.
#[test]
fn one_of_many_brings_a_set_to_empty() {
    const CHILDREN: usize = 24;
    let server = found().pop().unwrap().start(&[]).unwrap();
    let proxies = [proxy_before(&server, LAYOUT), proxy_before(&server, LAYOUT)];
    for round in 0..10 {
        let key = format!("tags:{round}");
        let children = (0..CHILDREN).map(|child| format!("job{child}")).collect::<Vec<_>>();
        let mut client = Wire::connect(address(&proxies[0])).unwrap();
        assert_eq!(call(&mut client, &format!("SADD {key} {}", children.join(" "))), format!(":{CHILDREN}\r\n"));
        let last = AtomicUsize::new(0);
        thread::scope(|scope| {
            for (nth, some) in children.chunks(3).enumerate() {
                let (proxy, key, last) = (&proxies[nth % 2], &key, &last);
                scope.spawn(move || {
                    let mut client = Wire::connect(address(proxy)).unwrap();
                    let script =
                        "return redis.call('SREM', KEYS[1], ARGV[1]) == 1 and redis.call('SCARD', KEYS[1]) == 0";
                    for child in some {
                        let reply = client.call(&[b"EVAL", script.as_bytes(), b"1", key.as_bytes(), child.as_bytes()]);
                        last.fetch_add(usize::from(reply.unwrap() == b":1\r\n"), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((last.into_inner(), call(&mut client, &format!("EXISTS {key}"))), (1, ":0\r\n".to_owned()));
    }
}

#[test]
fn what_a_script_cannot_do_with_them_is_refused_before_anything_is_done() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let proxy = proxy_before(&server, LAYOUT);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    for line in ["SADD tags:2 a b", "HSET sess:1 f v", "HSET sess:2 f v g w", "SADD plain a", "SET user:1 x"] {
        call(&mut client, line);
    }
    assert_eq!(call(&mut client, "HEXPIRE sess:2 1000 FIELDS 1 f"), "*1\r\n:1\r\n");
    for (line, why) in [
        ("EVAL `return redis.call('SET', KEYS[1], 'x')` 1 tags:2", "it would hold another type than a set"),
        ("EVAL `return redis.call('MSET', KEYS[1], 'x')` 1 sess:1", "it would hold another type than a hash"),
        (
            "EVAL `return redis.call('RENAME', KEYS[1], KEYS[2])` 2 tags:2 sess:3",
            "it would hold another type than a hash",
        ),
        (
            "EVAL `return redis.call('RENAME', KEYS[1], KEYS[2])` 2 tags:2 user:2",
            "it would hold another type than a string",
        ),
        (
            "EVAL `return redis.call('RENAME', KEYS[1], KEYS[2])` 2 plain sess:3",
            "it would hold another type than a hash",
        ),
        (
            "EVAL `return redis.call('SMOVE', KEYS[1], KEYS[2], 'a')` 2 plain sess:3",
            "it would hold another type than a hash",
        ),
        (
            "EVAL `return redis.call('SUNIONSTORE', KEYS[1], KEYS[2])` 2 user:1 tags:2",
            "it would hold another type than a string",
        ),
        ("EVAL `return redis.call('ZADD', KEYS[1], 1, 'a')` 1 tags:3", "it would hold another type than a set"),
        ("EVAL_RO `return redis.call('SRANDMEMBER', KEYS[1])` 1 tags:2", "not supported where a script may only read"),
    ] {
        let said = said(&mut client, &words(line));
        assert!(said.starts_with("-ERR keyfold: ") && said.contains(why), "{line}: {said}");
    }
    for (line, answer) in [
        ("SMEMBERS tags:2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("HGETALL sess:1", "*2\r\n$1\r\nf\r\n$1\r\nv\r\n"),
        ("HLEN sess:2", ":2\r\n"),
        ("SMEMBERS plain", "*1\r\n$1\r\na\r\n"),
        ("GET user:1", "$1\r\nx\r\n"),
        ("DBSIZE", ":5\r\n"),
    ] {
        assert_eq!(call(&mut client, line), answer, "{line}");
    }
    // What needs no members is as it is elsewhere, whatever lies there.
    let script = "return {redis.call('TYPE', KEYS[1]), redis.call('TTL', KEYS[1]), redis.call('DEL', KEYS[1])}";
    let words = ["EVAL", script, "1", "sess:2"].map(|word| word.as_bytes().to_vec());
    assert_eq!(said(&mut client, &words), "*3\\r\\n+hash\\r\\n:-1\\r\\n:1\\r\\n");
    let mut direct = server.connect().unwrap();
    call(&mut client, "DEL tags:2 sess:1 user:1");
    eventually("parts are swept", || call(&mut direct, "KEYS ~*") == "*0\r\n");
}
