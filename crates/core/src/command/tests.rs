use super::*;
use crate::server_info::ServerInfo;

/// The keys of a request given as words: index and access in short.
fn keys(request: &str) -> Vec<(usize, String)> {
    let args: Vec<&[u8]> = request.split(' ').map(|word| if word == "''" { b"" } else { word.as_bytes() }).collect();
    let command = table().resolve(&args).unwrap();
    let short = |access: Access| access.iter_names().map(|(name, _)| name.to_lowercase()).collect::<Vec<_>>().join("+");
    command.keys_in(&args).iter().map(|key| (key.index, short(key.access))).collect()
}

/// No keys. (What `[]` is of can't be told where a dependency compares numbers with values of its own.)
const NONE: [usize; 0] = [];

fn indices(request: &str) -> Vec<usize> {
    keys(request).into_iter().map(|(index, _)| index).collect()
}

fn is_open(request: &str) -> bool {
    let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    table().resolve(&args).unwrap().keys_in(&args).is_open()
}

#[test]
fn names_are_found_in_any_case() {
    let get = table().lookup(b"get").unwrap();
    assert_eq!((get.name, get.arity), ("get", 2));
    assert_eq!(get.flags, Flags::READONLY | Flags::FAST);
    assert_eq!(get.categories, Categories::READ | Categories::STRING | Categories::FAST);
    assert_eq!(table().lookup(b"GeT").unwrap().name, "get");
    assert_eq!(table().lookup(b"ZRANGEBYSCORE").unwrap().name, "zrangebyscore");
}

#[test]
fn other_names_are_not_found() {
    let long = [b'a'; 1000];
    for name in [b"".as_slice(), b"nosuch", b"get ", b"config|get", b"\xff\xfe", b"get\0", &long] {
        assert!(table().lookup(name).is_none(), "{}", name.escape_ascii());
    }
}

#[test]
fn every_command_is_found_by_its_own_name() {
    for command in table() {
        let found = match command.name.split_once('|') {
            Some((container, sub)) => {
                let container = table().lookup(container.as_bytes()).unwrap();
                assert!(container.is_container);
                table().lookup_sub(container, sub.to_uppercase().as_bytes())
            }
            None => table().lookup(command.name.to_uppercase().as_bytes()),
        };
        assert_eq!(found.unwrap().name, command.name);
    }
    assert!(table().iter().count() > 400);
}

#[test]
fn subcommands_belong_to_their_container() {
    let config = table().lookup(b"CONFIG").unwrap();
    let get = table().lookup_sub(config, b"GET").unwrap();
    assert_eq!((get.name, get.arity), ("config|get", -3));
    assert!(get.flags.contains(Flags::ADMIN | Flags::NOSCRIPT));
    assert!(table().lookup_sub(config, b"nosuch").is_none());
    assert!(table().lookup_sub(config, &[b'x'; 100]).is_none());
    assert!(table().lookup_sub(table().lookup(b"get").unwrap(), b"set").is_none());
}

#[test]
fn a_request_resolves_to_the_subcommand_it_names() {
    let name = |args: &[&[u8]]| table().resolve(args).map(|command| command.name);
    assert_eq!(name(&[b"object", b"ENCODING", b"k"]), Some("object|encoding"));
    assert_eq!(name(&[b"object", b"nosuch"]), Some("object"));
    assert_eq!(name(&[b"object"]), Some("object"));
    assert_eq!(name(&[b"get", b"set"]), Some("get"));
    assert_eq!(name(&[]), None);
}

#[test]
fn arity_is_exact_or_a_minimum() {
    let get = table().lookup(b"get").unwrap();
    assert!(get.arity_ok(2));
    assert!(!get.arity_ok(1) && !get.arity_ok(3) && !get.arity_ok(0));
    let mget = table().lookup(b"mget").unwrap();
    assert!(mget.arity_ok(2) && mget.arity_ok(1000));
    assert!(!mget.arity_ok(1));
    // 3 in Redis 7.0, at least 3 since 7.2, which knows WITHSCORE.
    assert_eq!(table().lookup(b"zrank").unwrap().arity, -3);
}

#[test]
fn keys_at_fixed_places() {
    assert_eq!(keys("GET k"), [(1, "ro+access".into())]);
    assert_eq!(keys("STRLEN k"), [(1, "ro".into())]);
    assert_eq!(keys("DEL a b"), [(1, "rm+delete".into()), (2, "rm+delete".into())]);
    assert_eq!(keys("GETDEL k"), [(1, "rw+access+delete".into())]);
    assert_eq!(keys("MSET a 1 b 2"), [(1, "ow+update".into()), (3, "ow+update".into())]);
    assert_eq!(keys("RENAME a b"), [(1, "rw+access+delete".into()), (2, "ow+update".into())]);
    assert_eq!(keys("BITOP AND d a b"), [(2, "ow+update".into()), (3, "ro+access".into()), (4, "ro+access".into())]);
    assert_eq!(indices("BLPOP a b 0"), [1, 2]);
    assert_eq!(indices("WATCH a b c"), [1, 2, 3]);
    assert_eq!(indices("PING x"), NONE);
}

#[test]
fn keys_of_subcommands() {
    assert_eq!(keys("OBJECT ENCODING k"), [(2, "ro".into())]);
    assert_eq!(indices("OBJECT FREQ k"), [2]);
    assert_eq!(indices("OBJECT HELP"), NONE);
    assert_eq!(keys("MEMORY USAGE k SAMPLES 0"), [(2, "ro".into())]);
    assert_eq!(keys("XGROUP CREATE k g 0"), [(2, "rw+insert".into())]);
    assert_eq!(indices("CONFIG GET save"), NONE);
}

#[test]
fn keys_by_number() {
    assert_eq!(indices("EVAL s 2 a b c"), [3, 4]);
    assert_eq!(indices("EVALSHA s 0 a"), NONE);
    assert_eq!(indices("FCALL f 1 a b"), [3]);
    assert_eq!(keys("EVAL_RO s 1 a"), [(3, "ro+access".into())]);
    assert_eq!(
        keys("ZUNIONSTORE d 2 a b WEIGHTS 1 2"),
        [(1, "ow+update".into()), (3, "ro+access".into()), (4, "ro+access".into())]
    );
    assert_eq!(indices("ZUNION 2 a b WITHSCORES"), [2, 3]);
    assert_eq!(indices("SINTERCARD 1 a LIMIT 3"), [2]);
    assert_eq!(indices("LMPOP 2 a b LEFT"), [2, 3]);
    assert_eq!(indices("BLMPOP 0 2 a b LEFT"), [3, 4]);
}

#[test]
fn keys_after_a_keyword() {
    assert_eq!(indices("XREAD COUNT 2 STREAMS a b 0 0"), [4, 5]);
    assert_eq!(indices("XREADGROUP GROUP g streams COUNT 1 streams a 0"), [7]);
    assert_eq!(keys("GEORADIUS k 1 2 3 m STORE d"), [(1, "ro+access".into()), (7, "ow+update".into())]);
    assert_eq!(indices("GEORADIUSBYMEMBER k m 3 km STOREDIST d"), [1, 6]);
    assert_eq!(indices("GEORADIUS k 1 2 3 m STORE d STOREDIST e"), [1, 9]);
    assert_eq!(indices("MIGRATE h 1 k 0 9 COPY"), [3]);
    assert_eq!(indices("MIGRATE h 1 '' 0 9 AUTH keys KEYS a b"), [9, 10]);
    assert_eq!(indices("MIGRATE h 1 '' 0 9 AUTH2 keys keys COPY KEYS a"), [11]);
}

#[test]
fn keys_of_sort() {
    assert_eq!(keys("SORT k STORE d"), [(1, "ro+access".into()), (3, "ow+update".into())]);
    assert_eq!(indices("SORT k LIMIT 0 STORE STORE a STORE d"), [1, 8]);
    assert_eq!(indices("SORT k BY STORE STORE d"), [1, 5]);
    assert_eq!(indices("SORT k STORE"), [1]);
    assert_eq!(indices("SORT_RO k BY nosort"), [1]);
    assert!(is_open("SORT k BY w_*"));
    assert!(is_open("SORT_RO k GET # GET v_*->f"));
    assert!(!is_open("SORT k BY nosort GET #"));
    assert!(!is_open("GET k"));
}

#[test]
fn the_other_arguments_narrow_access_down() {
    assert_eq!(keys("SET k v"), [(1, "ow+update".into())]);
    assert_eq!(keys("SET get get EX 10"), [(1, "ow+update".into())]);
    assert_eq!(keys("SET k v EX 10 GET"), [(1, "rw+access+update".into())]);
    assert_eq!(keys("SET k v IFEQ w"), [(1, "rw+access+update".into())]);
    assert_eq!(keys("DELEX k"), [(1, "rm+delete".into())]);
    assert_eq!(keys("DELEX k IFNE v"), [(1, "rw+access+delete".into())]);
    assert_eq!(keys("BITFIELD k GET u8 0"), [(1, "ro+access".into())]);
    assert_eq!(keys("BITFIELD k"), [(1, "ro+access".into())]);
    assert_eq!(keys("BITFIELD k GET u8 0 SET u8 0 1"), [(1, "rw+access+update".into())]);
}

#[test]
fn what_later_servers_brought_is_told_from_what_all_have() {
    let has = |request: &str, name: &str, version: &str| {
        let server = ServerInfo { name: name.to_owned(), version: version.to_owned() };
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        table().resolve(&args).unwrap().server_has(&args, Dialect::new(&server, true))
    };
    for (request, redis, valkey) in [
        ("GET k", "7.0.0", "7.2.0"),
        ("SET k v NX", "7.0.0", "7.2.0"),
        ("SET k v EX 5 ifeq w", "8.4.0", "8.1.0"),
        ("SET k v IFNE w", "8.4.0", "9.2.0"),
        ("BITOP AND d a", "7.0.0", "7.2.0"),
        ("MSETEX 1 k v", "8.4.0", "9.1.0"),
        ("INCREX k", "8.8.0", "9.2.0"),
    ] {
        assert!(has(request, "redis", redis) && has(request, "valkey", valkey), "{request}");
    }
    for (request, redis, valkey) in [
        ("SET k v IFDEQ w", "8.3.9", "99.0.0"),
        ("BITOP diff1 d a b", "8.1.9", "99.0.0"),
        ("DELEX k", "8.2.0", "99.0.0"),
        ("DIGEST k", "8.2.0", "99.0.0"),
        ("DELIFEQ k v", "99.0.0", "8.9.0"),
    ] {
        assert!(!has(request, "redis", redis) && !has(request, "valkey", valkey), "{request}");
    }
}

#[test]
fn channels_are_no_keys() {
    assert_eq!(indices("SSUBSCRIBE a b"), NONE);
    assert_eq!(indices("SPUBLISH a m"), NONE);
    assert!(!table().lookup(b"spublish").unwrap().has_keys());
    assert!(table().lookup(b"get").unwrap().has_keys());
}

#[test]
fn malformed_requests_have_fewer_keys() {
    assert_eq!(indices("GET"), NONE);
    assert_eq!(indices("MSET a 1 b"), [1, 3]);
    assert_eq!(indices("RENAME a"), [1]);
    assert_eq!(indices("BLPOP 0"), NONE);
    for number in ["3", "-1", "x", "''", "18446744073709551615", "99999999999999999999", "+1"] {
        assert_eq!(indices(&format!("EVAL s {number} a b")), NONE, "{number}");
    }
    assert_eq!(indices("EVAL s"), NONE);
    assert_eq!(indices("EVAL s 1"), NONE);
    assert_eq!(indices("ZUNIONSTORE d 9 a"), [1]);
    assert_eq!(indices("XREAD COUNT 2"), NONE);
    assert_eq!(indices("XREAD STREAMS"), NONE);
    assert_eq!(indices("XREAD STREAMS a"), NONE);
    assert_eq!(indices("MIGRATE h 1 ''"), [3]);
    assert_eq!(indices("GEORADIUS k 1 2 3 m STORE"), [1]);
}

#[test]
fn any_request_of_any_command_ends() {
    let words: [&[u8]; 9] = [b"", b"1", b"2", b"-1", b"keys", b"STREAMS", b"store", b"by", b"*"];
    for command in table() {
        for seed in 0..200_usize {
            let args: Vec<&[u8]> = (0..seed % 9).map(|at| words[(seed / 3 + at * seed) % words.len()]).collect();
            for key in &command.keys_in(&args) {
                assert!(key.index > 0 && key.index < args.len(), "{} {args:?}", command.name);
            }
        }
    }
}

#[test]
fn a_subcommand_has_an_id_of_its_own_or_its_containers() {
    let id = |request: &str| {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        table().resolve(&args).unwrap().id
    };
    for (request, expected) in [
        ("GeT k", Id::Get),
        ("CLIENT", Id::Client),
        ("CLIENT LIST", Id::Client),
        ("CLIENT HELP", Id::ClientHelp),
        ("SCRIPT KILL", Id::ScriptKill),
        ("SCRIPT LOAD x", Id::ScriptLoad),
        ("SCRIPT SHOW x", Id::Other),
        ("LPUSH k v", Id::Other),
    ] {
        assert_eq!(id(request), expected, "{request}");
    }
}

#[test]
fn a_container_lends_its_function_to_its_subcommands() {
    let run = |request: &[&[u8]]| table().resolve(request).unwrap().run;
    assert!(run(&[b"GET"]).is_some());
    assert!(run(&[b"OBJECT", b"ENCODING"]).is_some());
    assert!(run(&[b"CONFIG", b"GET"]).is_none());
}
