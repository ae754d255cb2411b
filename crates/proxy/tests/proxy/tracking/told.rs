//! Who has read a key is told of its change, whatever key it is and whoever changes it.

use std::collections::BTreeSet;
use std::time::Duration;

use keyfold_core::layout::{Layout, LayoutFile, Located};
use keyfold_proxy::Handle;
use keyfold_testkit::{Server, Value, Wire, found};

use crate::stage::{
    ALL_WAYS, Stage, address, call, change_layout, config_for, eventually, proxy_before, serve, start_server,
};

/// A key of each kind.
const KEYS: [&str; 5] = ["user:1", "cart:1", "zip:1", "own:1", "plain"];

/// What a client was told to forget: one key, or everything.
const EVERYTHING: &str = "*";

/// A client that notes what it is told.
pub(crate) struct Told {
    pub(crate) wire: Wire,
    pub(crate) heard: BTreeSet<String>,
}

impl Told {
    /// A client of this proxy that asks to be told.
    pub(crate) fn new(proxy: &Handle, options: &str) -> Self {
        let mut wire = Wire::connect(address(proxy)).unwrap();
        wire.set_timeout(Duration::from_secs(60)).unwrap();
        call(&mut wire, "HELLO 3");
        assert_eq!(call(&mut wire, &format!("CLIENT TRACKING ON{options}")), "+OK\r\n");
        Self { wire, heard: BTreeSet::new() }
    }

    /// Asks, noting what it is told before the answer comes.
    pub(crate) fn ask(&mut self, command: &str) -> Value {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.wire.send(&args).unwrap();
        loop {
            let reply = self.wire.reply().unwrap();
            if !self.note(&reply) {
                return Value::parse(&reply).unwrap();
            }
        }
    }

    /// Notes a push; whether it is one.
    pub(super) fn note(&mut self, reply: &[u8]) -> bool {
        if !reply.starts_with(b">") {
            return false;
        }
        self.heard.extend(keys_of(reply));
        true
    }

    /// Waits until it is told of a key.
    pub(crate) fn hear(&mut self, key: &str, why: &str) {
        eventually(&format!("{key} is told: {why}"), || {
            self.ask("PING");
            self.heard.contains(key) || self.heard.contains(EVERYTHING)
        });
        self.heard.clear();
    }
}

/// The keys that a push, or a message in its place, names.
pub(crate) fn keys_of(push: &[u8]) -> Vec<String> {
    let push = Value::parse(push).unwrap();
    let last = push.elements().and_then(|parts| parts.last()).unwrap();
    let name = |key: &Value| String::from_utf8_lossy(key.bytes().unwrap()).into_owned();
    last.elements().map_or(vec![EVERYTHING.to_owned()], |keys| keys.iter().map(name).collect())
}

/// Where a key lies in the server: a key, and a field where that is a hash.
fn place(layout: &Layout, key: &str) -> (Vec<u8>, Option<Vec<u8>>) {
    match layout.locate(key.as_bytes()) {
        Located::Placed(place) if place.kind.is_field() => (place.physical.to_vec(), Some(place.field.to_vec())),
        Located::Placed(place) => (place.physical.to_vec(), None),
        _ => (key.as_bytes().to_vec(), None),
    }
}

/// Two keyfolds before a server.
fn two() -> (Server, Handle, Handle) {
    two_before(start_server(&[]))
}

fn two_before(server: Server) -> (Server, Handle, Handle) {
    let (one, other) = (proxy_before(&server, ALL_WAYS), proxy_before(&server, ALL_WAYS));
    (server, one, other)
}

fn connect(proxy: &Handle) -> Wire {
    Wire::connect(address(proxy)).unwrap()
}

#[test]
fn whoever_changes_a_key_its_readers_are_told() {
    for binary in found() {
        let (server, one, other) = two_before(binary.start(&[]).unwrap());
        let layout = one.layout();
        let (mut here, mut there) = (connect(&one), connect(&other));
        let mut direct = server.connect().unwrap();
        let mut me = Told::new(&one, "");
        for key in KEYS {
            let long = "long".repeat(50);
            for write in [
                "SET {} a",
                "APPEND {} b",
                &format!("SET {{}} {long}"),
                "SETRANGE {} 3 xyz",
                "PEXPIRE {} 100000",
                "DEL {}",
            ] {
                let write = write.replace("{}", key);
                for (who, wire) in [("through the same keyfold", &mut here), ("through another", &mut there)] {
                    call(wire, &format!("SET {key} before"));
                    me.ask("PING");
                    me.ask(&format!("GET {key}"));
                    me.heard.clear();
                    call(wire, &write);
                    me.hear(key, &format!("{write} {who}, on {}", server.name()));
                }
            }
            call(&mut there, &format!("SET {key} before"));
            me.ask(&format!("GET {key}"));
            match place(&layout, key) {
                (name, Some(field)) => direct.call(&[b"HSET", &name, &field, b"past keyfold"]).unwrap(),
                (name, None) => direct.call(&[b"UNLINK", &name]).unwrap(),
            };
            me.hear(key, "written past keyfold");
            me.ask(&format!("GET {key}"));
            call(&mut there, "FLUSHALL");
            me.hear(EVERYTHING, "FLUSHALL");
        }
        assert_eq!(me.ask("GET user:1"), Value::Nil);
    }
}

#[test]
fn readers_of_all_kinds_are_told() {
    let (_server, one, other) = two();
    let mut there = connect(&other);
    let mut me = Told::new(&one, "");
    for (read, key) in [
        ("MGET user:1 plain user:2", "user:2"),
        ("EXISTS user:1 cart:5", "cart:5"),
        ("TTL user:1", "user:1"),
        ("GETRANGE zip:1 0 1", "zip:1"),
        ("BITCOUNT own:1", "own:1"),
        ("LCS user:1 cart:1", "cart:1"),
        ("TYPE user:99", "user:99"),
    ] {
        me.ask(read);
        me.heard.clear();
        call(&mut there, &format!("SET {key} {}", read.len()));
        me.hear(key, read);
    }
    for command in ["MULTI", "GET user:1", "GET plain", "EXEC"] {
        me.ask(command);
    }
    me.heard.clear();
    call(&mut there, "INCRBY user:300 5");
    call(&mut there, "SET user:1 v");
    me.hear("user:1", "EXEC");
    // Many at once go in steps.
    let many: Vec<String> = (0..700).map(|id| format!("user:{id}")).collect();
    me.ask(&format!("MGET {}", many.join(" ")));
    me.heard.clear();
    call(&mut there, "SET user:690 v");
    me.hear("user:690", "MGET of many");
}

#[test]
fn neighbours_in_a_bucket_are_told_and_others_are_not() {
    let (server, one, other) = two();
    let mut there = connect(&other);
    let mut me = Told::new(&one, "");
    for key in ["user:1", "user:2", "user:1000"] {
        me.ask(&format!("GET {key}"));
    }
    call(&mut there, "SET user:63 v");
    me.hear("user:2", "a key of its bucket has changed");
    for key in ["user:1", "user:2"] {
        me.ask(&format!("GET {key}"));
    }
    // Its own word comes before that of what follows on the same connection.
    call(&mut there, "SET user:1000 v");
    me.hear("user:1000", "it has changed");
    assert!(me.heard.is_empty());
    drop(server);
}

/// A proxy behind which what has expired stays where it is.
fn without_sweep(server: &Server, layout: &str) -> Handle {
    let mut config = config_for(server);
    config.layout = Layout::parse_file(layout).unwrap().into();
    config.sweep.fields_per_second = 0;
    serve(server, config)
}

/// Has a key be set so that it expires, and be read. Told of its being set the reader reads once more, until it is told that it is gone;
/// what it has read too late for that is set anew.
fn told_of_expiry(writer: &mut Wire, me: &mut Told, key: &str, read: &str, mut set: impl FnMut(&mut Wire, &mut Told)) {
    // Clocks differ by some milliseconds.
    let is_over = |wire: &mut Wire| {
        let left = call(wire, &format!("PTTL {key}"));
        left.trim().strip_prefix(':').unwrap().parse::<i64>().unwrap() < 50
    };
    'set: loop {
        set(writer, me);
        loop {
            for command in read.split('|') {
                me.ask(command);
            }
            if is_over(writer) {
                continue 'set;
            }
            me.hear(key, read);
            if is_over(writer) {
                break 'set;
            }
        }
    }
}

#[test]
fn what_expires_in_a_bucket_is_told_at_that_time() {
    let server = start_server(&[]);
    // What others read elsewhere is nothing that its own proxy could note.
    let [proxy, elsewhere] = [(); 2].map(|()| without_sweep(&server, ALL_WAYS));
    let mut writer = connect(&elsewhere);
    let mut me = Told::new(&proxy, "");
    let long = "long".repeat(50);
    let reads = [
        "GET user:1",
        "MGET user:1 user:2",
        "EXISTS user:1",
        "STRLEN user:1",
        "EVAL_RO return(redis.call('GET',KEYS[1])) 1 user:1",
        "EVAL_RO return(redis.call('EXISTS',unpack(KEYS))) 2 user:2 user:1",
        // An answer of 0: nothing was written.
        "EVAL return(redis.call('EXISTS',KEYS[1])-1) 1 user:1",
        "MULTI|GET user:1|EXEC",
        "MULTI|EVAL_RO return(redis.call('GET',KEYS[1])) 1 user:1|EXEC",
        "MULTI|FCALL_RO get 1 user:1|EXEC",
    ];
    let library = b"#!lua name=read\nredis.register_function{function_name='get',\
        callback=function(keys) return redis.call('GET',keys[1]) end,flags={'no-writes'}}";
    assert_eq!(writer.call(&[b"FUNCTION", b"LOAD", library]).unwrap(), b"$4\r\nread\r\n");
    for value in ["short", &long] {
        for read in reads {
            told_of_expiry(&mut writer, &mut me, "user:1", read, |writer, _| {
                call(writer, &format!("SET user:1 {value} PX 300"));
            });
        }
    }
}

/// Its header says when it expires, and members can be read without.
#[test]
fn what_expires_in_parts_is_told_at_that_time() {
    const TAGS: &str = "[[namespace]]\nkeys = \"tags:{id:int}\"\ntype = \"set\"\nbucket = { span = 16 }\n";
    let server = start_server(&[]);
    let [proxy, elsewhere] = [(); 2].map(|()| without_sweep(&server, TAGS));
    let mut writer = connect(&elsewhere);
    let mut me = Told::new(&proxy, "");
    let members: Vec<String> = (0..300).map(|number| format!("member{number}")).collect();
    let reads = [
        "SISMEMBER tags:1 member7",
        "SMISMEMBER tags:1 member7 x",
        "SMEMBERS tags:1",
        "SSCAN tags:1 0",
        "SCARD tags:1",
        "EVAL_RO return(redis.call('SISMEMBER',KEYS[1],'member7')) 1 tags:1",
    ];
    for read in reads {
        told_of_expiry(&mut writer, &mut me, "tags:1", read, |writer, me| {
            call(writer, "DEL tags:1");
            call(writer, &format!("SADD tags:1 {}", members.join(" ")));
            // From now on its proxy knows where its parts are.
            me.ask("SISMEMBER tags:1 member1");
            me.ask("SISMEMBER tags:1 member2");
            call(writer, "PEXPIRE tags:1 500");
        });
    }
}

#[test]
fn the_sweep_is_heard() {
    let (server, one, _other) = two();
    let mut direct = server.connect().unwrap();
    let mut me = Told::new(&one, "");
    let (bucket, _) = place(&one.layout(), "user:1");
    me.ask("GET user:1");
    // A frame that expired in 2020.
    direct.call(&[b"HSET", &bucket, b"1", b"\x01\0\0\0\0\0old"]).unwrap();
    me.hear("user:1", "it was written");
    me.ask("GET user:1");
    eventually("it is swept", || direct.call(&[b"EXISTS", &bucket]).unwrap() == b":0\r\n");
    me.hear("user:1", "it was swept");
}

#[test]
fn broadcasts_tell_of_what_anybody_reads_here() {
    let (_server, one, other) = two();
    let (mut reader, mut there) = (connect(&one), connect(&other));
    let mut me = Told::new(&one, " BCAST PREFIX user: PREFIX zip: PREFIX pl");
    call(&mut reader, "GET user:1");
    call(&mut reader, "GET cart:1");
    call(&mut there, "SET user:1 v");
    me.hear("user:1", "another client has read it");
    call(&mut there, "SET cart:1 v");
    // Keys of their own are told whoever reads them.
    for key in ["zip:9", "plain"] {
        call(&mut there, &format!("SET {key} v"));
        me.hear(key, "it has changed");
    }
    assert!(me.heard.is_empty());
    me.ask("GET user:7");
    call(&mut there, "SET user:7 v");
    me.hear("user:7", "it has read it itself");
}

#[test]
fn the_loss_of_the_servers_word_is_told_and_made_good() {
    let mut server = start_server(&[]);
    let proxy = proxy_before(&server, ALL_WAYS);
    let mut me = Told::new(&proxy, "");
    let mut direct = server.connect().unwrap();
    let listener = |direct: &mut Wire| {
        let list = call(direct, "CLIENT LIST");
        let line = list.lines().find(|line| line.contains(" flags=tB ")).map(str::to_owned);
        line.and_then(|line| Some(line.split(' ').next()?.strip_prefix("id=")?.to_owned()))
    };
    let id = listener(&mut direct).expect("the connection that hears changes");
    me.ask("GET user:1");
    me.heard.clear();
    call(&mut direct, &format!("CLIENT KILL ID {id}"));
    me.hear(EVERYTHING, "the connection was killed");
    eventually("it is back", || listener(&mut direct).is_some_and(|now| now != id));
    me.hear(EVERYTHING, "it stands again");
    for round in 0..20 {
        me.ask("GET user:1");
        call(&mut connect(&proxy), &format!("SET user:1 {round}"));
        me.hear("user:1", "it has changed");
    }
    me.ask("GET user:1");
    me.heard.clear();
    server.restart().unwrap();
    me.hear(EVERYTHING, "the server was restarted");
    let mut writer = connect(&proxy);
    eventually("it is served again", || call(&mut writer, "SET user:1 v").starts_with('+'));
    eventually("what is read is told", || {
        me.ask("GET user:1");
        me.heard.clear();
        call(&mut server.connect().unwrap(), "FLUSHALL");
        me.ask("PING");
        me.heard.contains(EVERYTHING)
    });
}

#[test]
fn what_is_read_while_the_servers_word_is_missing_is_not_kept() {
    let server = start_server(&[]);
    let proxy = proxy_before(&server, ALL_WAYS);
    let mut me = Told::new(&proxy, "");
    let mut direct = server.connect().unwrap();
    // From now on no other connection is allowed to hear.
    call(&mut direct, "ACL SETUSER default -client|tracking");
    call(&mut direct, "CLIENT KILL TYPE normal SKIPME yes");
    eventually("all is lost", || call(&mut connect(&proxy), "SET user:1 v").starts_with('+'));
    me.heard.clear();
    for key in KEYS {
        eventually("it is read", || !matches!(me.ask(&format!("GET {key}")), Value::Error(_)));
        me.hear(key, "nobody would tell of its change");
    }
    let mut newcomer = connect(&proxy);
    call(&mut newcomer, "HELLO 3");
    assert_eq!(call(&mut newcomer, "CLIENT TRACKING ON"), "+OK\r\n", "it is told behind each answer as well");
    call(&mut direct, "ACL SETUSER default +client|tracking");
    me.heard.clear();
    me.hear(EVERYTHING, "the server tells again");
}

#[test]
fn a_server_that_may_not_be_asked_is_named_to_who_asks() {
    let server = start_server(&[]);
    call(&mut server.connect().unwrap(), "ACL SETUSER default -client|tracking");
    let proxy = proxy_before(&server, ALL_WAYS);
    let mut me = connect(&proxy);
    call(&mut me, "HELLO 3");
    for _ in 0..2 {
        let answer = call(&mut me, "CLIENT TRACKING ON");
        assert!(answer.starts_with("-ERR keyfold: CLIENT TRACKING is not possible: the server at "), "{answer}");
        assert!(answer.contains("NOPERM") && answer.contains("+client|tracking"), "{answer}");
    }
    assert!(call(&mut me, "CLIENT TRACKINGINFO").contains("off"));
    call(&mut server.connect().unwrap(), "ACL SETUSER default +client|tracking");
    eventually("it is allowed", || call(&mut me, "CLIENT TRACKING ON") == "+OK\r\n");
}

#[test]
fn another_layout_empties_all_caches() {
    let server = start_server(&[]);
    let before = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n";
    let proxy = proxy_before(&server, before);
    let mut me = Told::new(&proxy, "");
    me.ask("GET user:1");
    me.heard.clear();
    let file = LayoutFile::parse(&format!("{before}[[namespace]]\nkeys = \"more:{{id:int}}\"\n")).unwrap();
    let next = Layout::merge(Some(&proxy.layout()), &file).unwrap().layout;
    change_layout(&server, &proxy.layout(), &next);
    me.hear(EVERYTHING, "another layout is in force");
    me.ask("GET user:1");
    call(&mut connect(&proxy), "SET user:1 v");
    me.hear("user:1", "it has changed");
}

#[test]
fn own_writes_are_told_right_behind_their_answers() {
    let (_server, one, _other) = two();
    for options in ["", " BCAST"] {
        let mut me = Told::new(&one, options);
        for key in KEYS {
            for write in ["SET {} v", "APPEND {} x", "SETRANGE {} 1 y", "DEL {}", "MSET {} a user:5 b"] {
                me.ask(&format!("GET {key}"));
                me.heard.clear();
                me.ask(&write.replace("{}", key));
                // This needs no server, which might be quicker to tell.
                me.ask("CLIENT GETREDIR");
                assert!(me.heard.contains(key), "{write} of {key}, {options}");
            }
        }
    }
}

#[test]
fn own_writes_are_not_told_to_who_wants_it_so() {
    let stage = {
        let server = start_server(&[]);
        Stage { proxy: proxy_before(&server, ALL_WAYS), server }
    };
    let mut me = Told::new(&stage.proxy, " NOLOOP");
    let mut direct = stage.server.connect().unwrap();
    for round in 0..200 {
        me.ask("GET user:1");
        me.ask("GET end");
        assert!(!matches!(me.ask(&format!("SET user:1 {round}")), Value::Error(_)));
        // What the server says of this comes behind what it said of that.
        call(&mut direct, &format!("SET end {round}"));
        eventually("the end", || {
            me.ask("PING");
            me.heard.contains("end")
        });
        assert_eq!(me.heard, BTreeSet::from(["end".to_owned()]), "round {round}");
        me.heard.clear();
    }
    me.ask("GET user:1");
    call(&mut stage.connect(), "SET user:1 other");
    me.hear("user:1", "another's write is told");
}

#[test]
fn nobody_listens_where_nobody_asks() {
    let server = start_server(&[]);
    let proxy = proxy_before(&server, ALL_WAYS);
    let mut wire = connect(&proxy);
    call(&mut wire, "SET user:1 v");
    let mut direct = server.connect().unwrap();
    let clients = |direct: &mut Wire| call(direct, "INFO clients").contains("tracking_clients:1");
    assert!(!clients(&mut direct));
    drop(Told::new(&proxy, ""));
    assert!(clients(&mut direct));
    eventually("nobody listens any more", || !clients(&mut direct));
}
