//! The command table against the servers it was made from: the same keys in every request, by COMMAND
//! GETKEYSANDFLAGS; and what keyfold tells of commands that the server behind lacks.

use keyfold_core::command::{Access, Command, table};
use keyfold_testkit::conformance::LAYOUT;
use keyfold_testkit::{Flavor, Server, Subject, Value, Wire, found};

/// Requests whose keys are not simply at fixed places.
const REQUESTS: &[&str] = &[
    "SET k v",
    "SET k v EX 10 GET",
    "SET k v NX get",
    "BITFIELD k",
    "BITFIELD k GET u8 0 OVERFLOW SAT GET u4 8",
    "BITFIELD k OVERFLOW SAT INCRBY u4 8 1",
    "BITFIELD k GET u8",
    "EVAL s 2 a b c",
    "EVALSHA_RO s 1 a b",
    "FCALL f 3 a b c",
    "ZUNION 2 a b WEIGHTS 1 2",
    "ZINTERSTORE d 3 a b c",
    "SORT k BY w_* LIMIT 0 10 GET # ALPHA STORE d",
    "SORT k BY STORE STORE d STORE e",
    "SORT k LIMIT STORE STORE",
    "SORT_RO k BY w_*",
    "XREAD COUNT 2 BLOCK 0 STREAMS a b 0 0",
    "XREADGROUP GROUP g c NOACK STREAMS a b > >",
    "GEORADIUS k 1 2 3 m WITHCOORD STORE d",
    "GEORADIUSBYMEMBER k m 3 km STOREDIST d COUNT 1",
    "MIGRATE h 1 k 0 9 COPY REPLACE",
    "XREADGROUP GROUP g c STREAMS\0x a b > >",
    "SORT k LIMIT\0 0 1 bY\0 w_* sTORE\0d d",
    "MIGRATE h 1  0 9 AUTH2 keys keys COPY KEYS a b c",
    "MEMORY USAGE k SAMPLES 5",
    "OBJECT FREQ k",
    "XGROUP CREATECONSUMER k g c",
    "LMPOP 2 a b LEFT COUNT 3",
    "BZMPOP 0 2 a b MAX",
    "LCS a b IDX",
    "BITOP NOT d s",
];

/// What the server says of a request: keys and their flags; none where it refuses.
fn asked(wire: &mut Wire, args: &[&[u8]]) -> Option<Vec<(Vec<u8>, Access)>> {
    let mut request: Vec<&[u8]> = vec![b"COMMAND", b"GETKEYSANDFLAGS"];
    request.extend(args);
    let reply = wire.ask(&request).expect("a reply to COMMAND GETKEYSANDFLAGS");
    let read = |key: &Value| {
        let [name, flags] = key.elements()? else { return None };
        let flags = flags.elements()?.iter().filter_map(Value::bytes);
        let access = flags.map(|flag| {
            let name = String::from_utf8_lossy(flag).to_ascii_uppercase();
            Access::from_name(&name).unwrap_or_else(|| panic!("new access flag {name}"))
        });
        Some((name.bytes()?.to_vec(), access.collect()))
    };
    Some(reply.elements()?.iter().map(|key| read(key).expect("a name and flags")).collect())
}

fn ours(command: &Command, args: &[&[u8]]) -> Vec<(Vec<u8>, Access)> {
    command.keys_in(args).iter().map(|key| (args[key.index].to_vec(), key.access)).collect()
}

fn names(keys: &[(Vec<u8>, Access)]) -> Vec<String> {
    keys.iter().map(|(name, _)| name.escape_ascii().to_string()).collect()
}

#[test]
fn keys_and_access_as_the_newest_redis_says() {
    let Some(binary) = found().into_iter().rfind(|binary| binary.flavor() == Flavor::Redis) else { return };
    let server = binary.start(&[]).unwrap();
    let mut wire = server.connect().unwrap();
    for request in REQUESTS {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let theirs = asked(&mut wire, &args).unwrap_or_else(|| panic!("{} refuses {request}", server.name()));
        // The table says whether the flags vary; once they are narrowed down, they do not any more.
        let plain = |access: Access| access - Access::VARIABLE_FLAGS - Access::INCOMPLETE;
        let plain = |keys: &[(Vec<u8>, Access)]| -> Vec<_> {
            keys.iter().map(|(name, access)| (name.escape_ascii().to_string(), plain(*access))).collect()
        };
        let ours = ours(table().resolve(&args).unwrap(), &args);
        assert_eq!(plain(&ours), plain(&theirs), "{request} on {}", server.name());
    }
}

/// Random requests of every command, on every server: wherever the server finds keys, so do we.
#[test]
fn the_same_keys_as_every_server() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let mut wire = server.connect().unwrap();
        let mut random = 0x9E37_79B9_u32;
        let mut compared = 0;
        for command in table() {
            for _ in 0..20 {
                let words = random_request(command, &mut random);
                let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                if georadius_stores(&args) {
                    continue;
                }
                let Some(theirs) = asked(&mut wire, &args) else { continue };
                let theirs: Vec<_> =
                    theirs.into_iter().filter(|(_, access)| !access.contains(Access::NOT_KEY)).collect();
                let ours = ours(table().resolve(&args).unwrap(), &args);
                assert_eq!(names(&ours), names(&theirs), "{} on {}", words.join(" "), server.name());
                compared += 1;
            }
        }
        assert!(compared > 2000, "{}: only {compared} requests had keys", server.name());
    }
}

/// Questions of commands that servers at hand came to have after Redis 7.0.
const LATER: &[&str] = &[
    "COMMAND INFO DELIFEQ",
    "COMMAND INFO get MsetEx nope delifeq",
    "COMMAND GETKEYS DELIFEQ k v",
    "COMMAND GETKEYS DELIFEQ k",
    "COMMAND GETKEYS MSETEX 2 a 1 b 2 NX EX 10",
    "COMMAND GETKEYS MSETEX 3 a 1 b 2",
    "COMMAND GETKEYS MSETEX x a 1",
    "COMMAND GETKEYS MSETEX 1",
    "COMMAND GETKEYSANDFLAGS MSETEX 2 a 1 b 2",
    "COMMAND GETKEYSANDFLAGS DELIFEQ k v",
    "COMMAND GETKEYS NOPE k",
];

/// What each question is answered.
fn told(wire: &mut Wire, questions: &[&str]) -> Vec<String> {
    let mut ask = |question: &&str| {
        let args: Vec<&[u8]> = question.split(' ').map(str::as_bytes).collect();
        format!("{question}: {}", wire.call(&args).expect("an answer").escape_ascii())
    };
    questions.iter().map(&mut ask).collect()
}

#[test]
fn commands_that_the_server_lacks_are_told_as_by_one_that_has_them() {
    let servers: Vec<Server> = found().iter().map(|binary| binary.start(&[]).unwrap()).collect();
    let lacks = |server: &&Server| {
        let answer = server.connect().unwrap().call(&[b"COMMAND", b"INFO", b"DELIFEQ"]).unwrap();
        answer == b"*1\r\n*-1\r\n" || answer == b"*1\r\n$-1\r\n"
    };
    let oracle = servers.iter().find(|server| !lacks(server));
    for server in servers.iter().filter(lacks) {
        let connect = |subject: &Subject| Wire::connect(subject.address()).unwrap();
        let subject = Subject::start(server, LAYOUT).unwrap();
        let mut wire = connect(&subject);
        let docs = String::from_utf8(wire.call(&[b"COMMAND", b"DOCS", b"GET", b"DELIFEQ"]).unwrap()).unwrap();
        assert!(docs.starts_with("*4\r\n$3\r\nget\r\n") && docs.contains("$7\r\ndelifeq\r\n*8\r\n"), "{docs}");
        assert_ne!(told(&mut wire, LATER), told(&mut server.connect().unwrap(), LATER));
        if let Some(oracle) = oracle {
            // Of GET itself servers of several releases say different things.
            let questions: Vec<&str> = LATER.iter().copied().filter(|question| !question.contains("get")).collect();
            assert_eq!(
                told(&mut wire, &questions),
                told(&mut oracle.connect().unwrap(), &questions),
                "{}",
                server.name()
            );
        }
        // All that isn't asked by name is the server's, and everything where it is to be so.
        let listed =
            &["COMMAND COUNT", "COMMAND LIST FILTERBY PATTERN delifeq", "COMMAND INFO NOPE", "COMMAND DOCS NOPE"];
        assert_eq!(told(&mut wire, listed), told(&mut server.connect().unwrap(), listed));
        let off = Subject::beside_with(server, &["--newest-commands", "off"]).unwrap();
        assert_eq!(told(&mut connect(&off), LATER), told(&mut server.connect().unwrap(), LATER));
    }
}

/// Whether it is a GEORADIUS with STORE, anywhere. Of two destinations some servers name the first, and all
/// write to the last; where a unit should be, some take STORE for one. [`REQUESTS`] has the sane ones.
fn georadius_stores(args: &[&[u8]]) -> bool {
    args[0].starts_with(b"georadius") && args.iter().any(|arg| arg.to_ascii_lowercase().starts_with(b"store"))
}

/// A request of at least as many words as the command takes: small numbers, keywords and words of its own.
fn random_request(command: &Command, random: &mut u32) -> Vec<String> {
    const KEYWORDS: [&str; 13] = [
        "STREAMS",
        "store",
        "KEYS",
        "GET",
        "by",
        "LIMIT",
        "auth",
        "",
        "sTreams\0",
        "STORE\0x",
        "keys\0",
        "Get\0",
        "aUTh2\0",
    ];
    let mut next = |below: u32| {
        *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*random >> 16) % below
    };
    let mut words: Vec<String> = command.name.split('|').map(str::to_owned).collect();
    let least = command.arity.unsigned_abs() as usize;
    let len = if command.arity < 0 { least + next(6) as usize } else { least };
    while words.len() < len {
        words.push(match next(4) {
            0 => next(4).to_string(),
            1 => KEYWORDS[next(13) as usize].to_owned(),
            _ => format!("word{}", words.len()),
        });
    }
    words
}
