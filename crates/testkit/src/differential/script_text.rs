//! Random Lua scripts on declared keys.

use crate::random::Random;

/// How many keys a script is called with: strings, and behind them one that may hold another type.
pub(super) const STRING_KEYS: usize = 3;
/// How many other arguments.
pub(super) const ARGS: usize = 2;

/// What a function is called, in a library of any name.
pub(super) const FUNCTION: &str = "fold_it";

/// Where the values are gathered that it answers with.
const GATHERED: &str = "local r = {}\n";

/// Makes of a reply a string that tells it from all others. What the length of a table with nil in it is, isn't looked at: Lua
/// doesn't say, and servers differ. Times are given apart, and never looked at to the second.
const HEAD: &str = "\
local function s(x)
  if type(x) ~= 'table' then return type(x) .. ':' .. tostring(x) end
  if x.err then return 'error:' .. x.err end
  if x.ok then return 'status:' .. x.ok end
  local all = {}
  for i = 1, 5 do all[i] = s(x[i]) end
  return '{' .. table.concat(all, ',') .. '}'
end
local function t(x)
  if x < 1000000000 then return math.floor((x + 500000) / 1000000) end
  return 'far ' .. math.floor(x / 100000000)
end
";

/// What a command writes or is given: as Lua has it.
const VALUES: &[&str] = &[
    "''",
    "'abc'",
    "'5'",
    "'-3'",
    "'007'",
    "'0'",
    "'-0'",
    "'9007199254740992'",
    "'9223372036854775806'",
    "'-9223372036854775808'",
    "'999999999999999'",
    "'1000000000000001'",
    "'1.5'",
    "'\\0\\1x'",
    "'\\31'",
    "'a\\r\\nb'",
    "string.rep('x', 58)",
    "string.rep('x', 64)",
    "string.rep('x', 65)",
    "string.rep('\\5', 64)",
    "string.rep('yz', 300)",
    "12",
    "-7",
    "0.1",
    "-0",
    "123456789012345678",
    "ARGV[1]",
    "ARGV[2]",
    "KEYS[1]",
    "KEYS[2]",
];

const NUMBERS: &[&str] = &[
    "1",
    "'1'",
    "'-1'",
    "5",
    "0",
    "'0'",
    "-2",
    "'100'",
    "'9007199254740991'",
    "'-9007199254740993'",
    "'9223372036854775807'",
    "'x'",
    "''",
    "1.5",
    "'1.5'",
    "1e3",
    "' 1'",
    "ARGV[1]",
];

const OFFSETS: &[&str] = &["0", "1", "-1", "'3'", "-3", "7", "'-100'", "70", "'x'", "100"];

/// Times to live, far from any that ends while a run lasts.
const SECONDS: &[&str] = &["1000", "'2000'", "100000", "0", "-1", "'x'", "'9223372036854775807'", "'3000'"];
const MILLIS: &[&str] = &["1000000", "'2000000'", "100000000", "0", "-5", "''"];
const AT_SECONDS: &[&str] = &["2000000000", "'4000000000'", "1", "-1", "'x'"];
const AT_MILLIS: &[&str] = &["2000000000000", "'4000000000000'", "1", "'1577836800001'"];

/// Commands: `k` is a string key, `o` a key that may be of another type, `v` a value, `n` a number, `i` an offset, `s`, `m`,
/// `S`, `M` times in seconds and milliseconds, left and absolute. A reply that tells a time has a `~` before it.
const COMMANDS: &[&str] = &[
    "GET k",
    "GET k",
    "get k",
    "GET o",
    "SET k v",
    "SET k v",
    "SET k v EX s",
    "SET k v PX m",
    "SET k v EXAT S",
    "SET k v PXAT M",
    "SET k v NX",
    "SET k v xx",
    "SET k v GET",
    "SET k v NX GET",
    "SET k v KEEPTTL",
    "SET k v NX EX s",
    "SET k v NX PX m",
    "SET k v KEEPTTL XX GET",
    "SET k v NX XX",
    "SET k v EX",
    "SET k v EX s PX m",
    "SET k v FOO",
    "SET k",
    "SET o v",
    "SETNX k v",
    "SETEX k s v",
    "PSETEX k m v",
    "GETSET k v",
    "GETDEL k",
    "GETEX k",
    "GETEX k EX s",
    "GETEX k PXAT M",
    "GETEX k PERSIST",
    "GETEX k EXAT S",
    "MGET k k",
    "MGET k o k k",
    "MSET k v k v",
    "MSET k v",
    "MSET k",
    "MSETNX k v k v",
    "DEL k",
    "DEL k k",
    "DEL o k",
    "UNLINK k",
    "EXISTS k",
    "EXISTS k k o k",
    "TOUCH k k",
    "TYPE k",
    "TYPE o",
    "STRLEN k",
    "APPEND k v",
    "APPEND k v",
    "GETRANGE k i i",
    "GETRANGE k i i",
    "SUBSTR k i i",
    "SETRANGE k i v",
    "SETRANGE k i v",
    "INCR k",
    "INCR k",
    "DECR k",
    "INCRBY k n",
    "INCRBY k n",
    "DECRBY k n",
    "INCRBYFLOAT k n",
    "EXPIRE k s",
    "EXPIRE k s NX",
    "EXPIRE k s xx",
    "EXPIRE k s LT",
    "EXPIRE k s NX GT",
    "EXPIREAT k S GT",
    "EXPIREAT k S XX GT",
    "EXPIRE k s FOO",
    "PEXPIRE k m",
    "EXPIREAT k S",
    "PEXPIREAT k M",
    "PEXPIREAT k M GT",
    "PERSIST k",
    "~PTTL k",
    "~PTTL k",
    "~PEXPIRETIME k",
    "TTL o",
    "SETBIT k 7 1",
    "SETBIT k 600 1",
    "GETBIT k i",
    "BITCOUNT k",
    "BITCOUNT k 0 1",
    "BITPOS k 1",
    "BITFIELD k INCRBY u8 0 200",
    "BITFIELD k GET u4 0",
    "BITOP OR k k k",
    "BITOP NOT k k",
    "LCS k k",
    "LCS k k LEN",
    "RENAME k k",
    "RENAMENX k k",
    "COPY k k",
    "COPY k k REPLACE",
    "HGET k v",
    "LLEN k",
    "LRANGE k 0 -1",
    "SCARD k",
    "ZSCORE k v",
    "LPUSH o v",
    "RPUSH o k",
    "SADD o k",
    "LRANGE o 0 -1",
    "SISMEMBER o k",
    "HSET o v k",
    "ECHO k",
    "PUBLISH k v",
    "PING",
    "NOPE k v",
    "GET",
    "GET k k",
    "INCR k k",
    "TTL k k",
    "DEL",
    "EXPIRE k",
    "STRLEN",
    "APPEND k",
    "SORT k",
    "PFCOUNT k",
    "GETRANGE k i",
    "EXISTS",
];

/// Reading a folded key by these takes a scratch key, which a script that may only read hasn't.
const NEED_SCRATCH: &[&str] = &[
    "GETBIT", "BITCOUNT", "BITPOS", "BITFIELD", "LCS", "HGET", "LLEN", "LRANGE", "SCARD", "ZSCORE", "SORT", "PFCOUNT",
];

/// A script.
pub(super) fn script(random: &mut Random, reads_only: bool) -> String {
    let mut text = String::new();
    if random.chance(5) {
        text.push_str("#!lua\n");
    } else if reads_only && random.chance(20) {
        text.push_str("#!lua flags=no-writes\n");
    }
    text.push_str(HEAD);
    text.push_str(&body(random, reads_only));
    text
}

/// A library of one function or some.
pub(super) fn library(random: &mut Random, reads_only: bool) -> String {
    let may_load = random.chance(95);
    let no_writes = if reads_only && may_load { Some("'no-writes'") } else { None };
    let others = ["'allow-oom'", "'allow-stale'", "'allow-cross-slot-keys'"].into_iter().filter(|_| random.chance(5));
    let flags = no_writes.into_iter().chain(others).collect::<Vec<_>>().join(", ");
    let mut text = "#!lua name=keyfold_differential\n".to_owned();
    let is_head_apart = random.chance(70);
    if is_head_apart {
        text.push_str(HEAD);
    }
    if random.chance(20) {
        text.push_str("redis.register_function('other', function() return redis.status_reply('OTHER') end)\n");
    }
    let head = if is_head_apart { "" } else { HEAD };
    let body = body(random, reads_only);
    let (begin, end) = match flags.is_empty() && random.chance(50) {
        true => (format!("redis.register_function('{FUNCTION}', "), ")".to_owned()),
        false => (
            format!("redis.register_function{{function_name = '{FUNCTION}', callback = "),
            format!(", flags = {{{flags}}}, description = 'it is compared'}}"),
        ),
    };
    text + &format!("{begin}function(KEYS, ARGV)\n{head}{body}\nend{end}\n")
}

/// What it does.
fn body(random: &mut Random, reads_only: bool) -> String {
    let mut text = GATHERED.to_owned();
    if random.chance(10) {
        text.push_str("redis.setresp(3)\n");
    }
    for _ in 0..1 + random.below(6) {
        text.push_str(&statement(random, reads_only, 0));
    }
    text.push_str(&end(random, reads_only));
    text
}

fn end(random: &mut Random, reads_only: bool) -> String {
    match random.below(12) {
        0 => format!("return redis.call({})\n", plain_call(random, reads_only)),
        1 => format!("return redis.pcall({})", plain_call(random, reads_only)),
        2 => "return {KEYS[1], #KEYS, ARGV[2], #ARGV, r}".to_owned(),
        3 => "return redis.error_reply('MY error')".to_owned(),
        4 => "return {1, 2.9, 'x', redis.status_reply('FINE'), false, 3}".to_owned(),
        5 => format!("error('boom' .. s(redis.call({})))", plain_call(random, reads_only)),
        6 => "local x = nil\nreturn x.y".to_owned(),
        _ => "return r".to_owned(),
    }
}

fn statement(random: &mut Random, reads_only: bool, depth: u32) -> String {
    match random.below(if depth < 2 { 20 } else { 14 }) {
        0 => format!(
            "local ok, e = pcall(redis.call, {}) r[#r + 1] = s(ok and 1 or e)\n",
            plain_call(random, reads_only)
        ),
        1 | 2 => format!("r[#r + 1] = s(redis.call({}))\n", plain_call(random, reads_only)),
        3 => format!("local call = redis.call\nr[#r + 1] = s(call({}))\n", plain_call(random, reads_only)),
        4..14 => {
            let (is_time, call) = call(random, reads_only);
            match is_time {
                true => format!("r[#r + 1] = t(redis.call({call}))\n"),
                false => format!("r[#r + 1] = s(redis.pcall({call}))\n"),
            }
        }
        14 | 15 => {
            let (condition, then, other) = (
                plain_call(random, reads_only),
                statement(random, reads_only, depth + 1),
                statement(random, reads_only, depth + 1),
            );
            format!("if s(redis.pcall({condition})) == 'number:1' then\n{then}else\n{other}end\n")
        }
        16 | 17 => format!("for i = 1, 3 do\n{}end\n", statement(random, reads_only, depth + 1)),
        18 => format!(
            "local function f{depth}()\n  return redis.call({})\nend\nr[#r + 1] = s(f{depth}())\n",
            plain_call(random, reads_only)
        ),
        _ => format!("do\n{}end\n", statement(random, reads_only, depth + 1)),
    }
}

/// A call that tells no time.
fn plain_call(random: &mut Random, reads_only: bool) -> String {
    loop {
        if let (false, call) = call(random, reads_only) {
            return call;
        }
    }
}

/// The arguments of a call, and whether it tells a time.
fn call(random: &mut Random, reads_only: bool) -> (bool, String) {
    let mut command = random.pick(COMMANDS);
    while reads_only && NEED_SCRATCH.iter().any(|name| command.starts_with(name)) {
        command = random.pick(COMMANDS);
    }
    let (is_time, command) = command.strip_prefix('~').map_or((false, *command), |command| (true, command));
    let mut words = command.split(' ');
    let mut call = format!("'{}'", words.next().unwrap_or_default());
    for word in words {
        let arg = match word {
            "k" => format!("KEYS[{}]", 1 + random.below(STRING_KEYS as u64)),
            "o" => format!("KEYS[{}]", 1 + STRING_KEYS),
            "v" => (*random.pick(VALUES)).to_owned(),
            "n" => (*random.pick(NUMBERS)).to_owned(),
            "i" => (*random.pick(OFFSETS)).to_owned(),
            "s" => (*random.pick(SECONDS)).to_owned(),
            "m" => (*random.pick(MILLIS)).to_owned(),
            "S" => (*random.pick(AT_SECONDS)).to_owned(),
            "M" => (*random.pick(AT_MILLIS)).to_owned(),
            word if word.parse::<i64>().is_ok() && random.chance(50) => word.to_owned(),
            word => format!("'{word}'"),
        };
        call = format!("{call}, {arg}");
    }
    (is_time, call)
}
