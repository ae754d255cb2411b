//! Sets and hashes of many members are moved in steps: what clients see half-way, and what becomes of it when a mover dies there.

use std::collections::BTreeSet;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::collection::parts::Header;
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::Layout;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Server, Subject, Value, Wire, found};

use super::stage::{Stage, finish, on_every_server, said};

const LAYOUT: &str = "[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 32 }\n\
     [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { count = 8 }\n";

/// The same keys in other buckets.
const OTHER_LAYOUT: &str = "[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { count = 4 }\n\
     [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { span = 16 }\n";

/// Members of the set, and fields of the hash.
const MEMBERS: u64 = 9000;

/// So slow that a mover is half-way in one of both for some seconds.
const SLOW: [&str; 2] = ["--max-ops", "6000"];

/// So long a mover goes on that turns another round.
const SOON: Duration = Duration::from_millis(150);

/// How long it may take until it is.
const HALF_WAY_WITHIN: Duration = Duration::from_secs(30);

/// A member: an integer, a short text, or a long one.
fn member(number: u64) -> String {
    match number % 4 {
        0 | 1 => (number * 7919).to_string(),
        2 => format!("member-{number}"),
        _ if number.is_multiple_of(101) => format!("{number}-{}", "long".repeat(40)),
        _ => format!("{number:010}"),
    }
}

fn fill(wire: &mut Wire) {
    let mut tell = |line: String| {
        let reply = said(wire, &line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    };
    for first in (0..MEMBERS).step_by(500) {
        let members: Vec<String> = (first..first + 500).map(member).collect();
        tell(format!("SADD tags:1 {}", members.join(" ")));
        let fields: Vec<String> = members.iter().map(|name| format!("{name} {}", name.len())).collect();
        tell(format!("HSET sess:1 {}", fields.join(" ")));
    }
    tell("SADD tags:2 1 two".to_owned());
    tell("HSET sess:2 name value".to_owned());
    tell("PEXPIREAT tags:1 2209000000123".to_owned());
}

/// All that an answer says, in an order of its own.
fn sorted(value: &Value, texts_each: usize) -> Vec<Vec<Vec<u8>>> {
    let Value::Array(texts) = value else { panic!("{value:?}") };
    let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.bytes().unwrap().to_vec()).collect();
    let mut all: Vec<Vec<Vec<u8>>> = texts.chunks(texts_each).map(<[Vec<u8>]>::to_vec).collect();
    all.sort();
    all
}

/// A walk under way.
struct Walk {
    command: &'static str,
    key: &'static str,
    texts_each: usize,
    cursor: Vec<u8>,
    /// What it has come by, each once.
    found: BTreeSet<Vec<Vec<u8>>>,
    is_over: bool,
}

impl Walk {
    fn begin(command: &'static str, key: &'static str, texts_each: usize) -> Self {
        Self { command, key, texts_each, cursor: b"0".to_vec(), found: BTreeSet::new(), is_over: false }
    }

    /// Goes on by so many steps, unless it ends before.
    fn go_on(&mut self, wire: &mut Wire, steps: usize) {
        for _ in 0..steps {
            if self.is_over {
                return;
            }
            let page =
                wire.ask(&[self.command.as_bytes(), self.key.as_bytes(), &self.cursor, b"COUNT", b"97"]).unwrap();
            let Value::Array(page) = page else { panic!("{}: {page:?}", self.command) };
            self.found.extend(sorted(&page[1], self.texts_each));
            page[0].bytes().unwrap().clone_into(&mut self.cursor);
            self.is_over = self.cursor == b"0";
        }
    }

    fn end(mut self, wire: &mut Wire) -> BTreeSet<Vec<Vec<u8>>> {
        self.go_on(wire, 10_000);
        assert!(self.is_over, "{} never ends", self.command);
        self.found
    }
}

/// A keyfold and a plain server that are told the same.
struct Pair {
    folded: Wire,
    plain: Wire,
    random: Random,
}

impl Pair {
    fn both(&mut self, line: &str) -> String {
        let [one, other] = [&mut self.folded, &mut self.plain].map(|wire| said(wire, line));
        assert_eq!(one, other, "{line}");
        one
    }

    /// Commands on a few members.
    fn talk(&mut self, commands: u64) {
        for _ in 0..commands {
            let one = member(self.random.below(MEMBERS + 500));
            let other = member(self.random.below(MEMBERS + 500));
            let number = self.random.below(1000);
            let line = match self.random.below(22) {
                0 | 1 => format!("SISMEMBER tags:1 {one}"),
                2 => format!("SMISMEMBER tags:1 {one} {other}"),
                3 | 4 => format!("SADD tags:1 {one} {other}"),
                5 => format!("SADD tags:1 new-{number}"),
                6 | 7 => format!("SREM tags:1 {one}"),
                8 => "SCARD tags:1".to_owned(),
                9 | 10 => format!("HGET sess:1 {one}"),
                11 => format!("HMGET sess:1 {one} {other}"),
                12 => {
                    format!("HSET sess:1 {one} {number} {other} {}", "x".repeat(usize::try_from(number).unwrap() / 8))
                }
                13 => format!("HSET sess:1 new-{number} {number}"),
                14 => format!("HSETNX sess:1 {one} {number}"),
                15 | 16 => format!("HDEL sess:1 {one}"),
                17 => format!("HINCRBY sess:1 count-{} {number}", number % 9),
                18 => format!("HSTRLEN sess:1 {one}"),
                19 => format!("HEXISTS sess:1 {one}"),
                20 => "HLEN sess:1".to_owned(),
                _ => format!("TTL {}:1", if number.is_multiple_of(2) { "tags" } else { "sess" }),
            };
            self.both(&line);
        }
    }

    /// What is drawn is a member, and is gone where it was taken.
    fn draw(&mut self) {
        for line in ["SPOP tags:1", "SPOP tags:1 7"] {
            let taken = self.folded.ask(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()).unwrap();
            let taken = match taken {
                Value::Array(taken) => taken,
                one => vec![one],
            };
            for member in taken {
                let reply = self.plain.ask(&[b"SREM", b"tags:1", member.bytes().unwrap()]).unwrap();
                assert_eq!(reply, Value::Integer(1), "{line}: {member:?}");
            }
        }
        for (line, find) in [("SRANDMEMBER tags:1 40", "SISMEMBER tags:1"), ("HRANDFIELD sess:1 40", "HEXISTS sess:1")]
        {
            let drawn = self.folded.ask(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()).unwrap();
            let drawn = sorted(&drawn, 1);
            assert_eq!((drawn.len(), drawn.iter().collect::<BTreeSet<_>>().len()), (40, 40), "{line}");
            for one in drawn {
                let (command, key) = find.split_once(' ').unwrap();
                let found = self.plain.ask(&[command.as_bytes(), key.as_bytes(), &one[0]]).unwrap();
                assert_eq!(found, Value::Integer(1), "{line}");
            }
        }
    }

    /// All of it, at once and by walks.
    fn compare(&mut self) {
        for (command, walk, key, texts_each) in [("SMEMBERS", "SSCAN", "tags:1", 1), ("HGETALL", "HSCAN", "sess:1", 2)]
        {
            let [folded, plain] = [&mut self.folded, &mut self.plain].map(|wire| {
                let all = wire.ask(&[command.as_bytes(), key.as_bytes()]).unwrap();
                let walked = Walk::begin(walk, key, texts_each).end(wire);
                let all = sorted(&all, texts_each);
                assert_eq!(walked, all.iter().cloned().collect(), "{walk}");
                all
            });
            assert!(folded == plain, "{command}: {} and {} of the plain server", folded.len(), plain.len());
        }
        for line in ["SCARD tags:1", "HLEN sess:1", "PEXPIRETIME tags:1", "TYPE tags:1", "TYPE sess:1"] {
            self.both(line);
        }
    }

    fn on_all(&mut self) {
        self.talk(400);
        self.draw();
        for (line, undo) in [
            ("PEXPIREAT sess:1 2209000000999", "PERSIST sess:1"),
            ("RENAME tags:1 tags:3", "RENAME tags:3 tags:1"),
            ("RENAME sess:1 sess:3", "RENAME sess:3 sess:1"),
        ] {
            for line in [line, undo] {
                self.both(line);
            }
        }
        self.compare();
    }
}

/// Whether a mover has begun with one of the keys and has not ended it.
fn is_half_way(direct: &mut Wire) -> bool {
    said(direct, "KEYS ~*|*r") != "*0\\r\\n"
}

fn wait_until_half_way(direct: &mut Wire, mover: &mut Child) {
    let since = Instant::now();
    while !is_half_way(direct) {
        assert!(since.elapsed() < HALF_WAY_WITHIN && mover.try_wait().unwrap().is_none(), "it was never half-way");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until it is half-way, and kills it then.
fn kill_half_way(stage: &Stage, mover: Child) {
    kill_after(stage, mover, Duration::from_millis(700));
}

/// The same after this time. One that is turned round has only that to do which the one before did.
fn kill_after(stage: &Stage, mut mover: Child, time: Duration) {
    let mut wire = stage.connect();
    wait_until_half_way(&mut wire, &mut mover);
    thread::sleep(time);
    mover.kill().unwrap();
    mover.wait().unwrap();
    assert!(is_half_way(&mut wire), "it is half-way");
}

fn pair_of(stage: &Stage, oracle: &Server, proxy: &Subject) -> Pair {
    let (mut stage_wire, mut plain) = (stage.connect(), oracle.connect().unwrap());
    fill(&mut stage_wire);
    fill(&mut plain);
    Pair { folded: Wire::connect(proxy.address()).unwrap(), plain, random: Random::new(7) }
}

#[test]
fn half_way_clients_see_what_a_plain_server_would_show() {
    on_every_server(&[], |stage| {
        let oracle = found().pop().unwrap().start(&[]).unwrap();
        let proxy = Subject::beside(&stage.server).unwrap();
        let mut pair = pair_of(stage, &oracle, &proxy);
        // There, to another place, and back, each time by two movers of which the first dies.
        kill_half_way(stage, stage.begin_fold(LAYOUT, &SLOW));
        pair.on_all();
        stage.fold(LAYOUT, &[]).assert_code(0);
        pair.on_all();
        kill_half_way(stage, stage.begin_fold(OTHER_LAYOUT, &SLOW));
        pair.on_all();
        stage.fold(OTHER_LAYOUT, &[]).assert_code(0);
        pair.on_all();
        kill_half_way(stage, stage.begin_unfold(&SLOW));
        pair.on_all();
        // And turned round in the midst of it.
        stage.fold(OTHER_LAYOUT, &[]).assert_code(0);
        pair.on_all();
        stage.verify();
        kill_half_way(stage, stage.begin_unfold(&SLOW));
        pair.talk(400);
        stage.unfold(&["--clean"]).assert_code(0);
        pair.compare();
        drop(pair);
        drop(proxy);
        assert_eq!(said(&mut stage.connect(), "KEYS ~*"), "*0\\r\\n", "nothing is left of it");
    });
}

/// A walk may be begun wherever the key lies, and go on wherever it lies by then.
#[test]
fn walks_miss_nothing_though_their_key_is_moved_and_turned_round() {
    on_every_server(&[], |stage| {
        let oracle = found().pop().unwrap().start(&[]).unwrap();
        let proxy = Subject::beside(&stage.server).unwrap();
        let mut pair = pair_of(stage, &oracle, &proxy);
        let mut walks: Vec<Walk> = Vec::new();
        // At each stage walks are begun of which one takes few steps at each, and others more.
        let mut at_stage = |wire: &mut Wire| {
            for walk in &mut walks {
                walk.go_on(wire, 3);
            }
            for steps in [1, 12, 40] {
                for (command, key, texts_each) in [("SSCAN", "tags:1", 1), ("HSCAN", "sess:1", 2)] {
                    let mut walk = Walk::begin(command, key, texts_each);
                    walk.go_on(wire, steps);
                    walks.push(walk);
                }
            }
        };
        at_stage(&mut pair.folded);
        kill_half_way(stage, stage.begin_fold(LAYOUT, &SLOW));
        at_stage(&mut pair.folded);
        kill_after(stage, stage.begin_unfold(&SLOW), SOON);
        at_stage(&mut pair.folded);
        stage.fold(LAYOUT, &[]).assert_code(0);
        at_stage(&mut pair.folded);
        kill_half_way(stage, stage.begin_unfold(&SLOW));
        at_stage(&mut pair.folded);
        kill_after(stage, stage.begin_fold(LAYOUT, &SLOW), SOON);
        at_stage(&mut pair.folded);
        stage.unfold(&["--clean"]).assert_code(0);
        at_stage(&mut pair.folded);
        for (nth, walk) in walks.into_iter().enumerate() {
            let [command, all] = if walk.texts_each == 1 { ["SSCAN", "SMEMBERS"] } else { ["HSCAN", "HGETALL"] };
            let (key, texts_each) = (walk.key, walk.texts_each);
            let found = walk.end(&mut pair.folded);
            let all = sorted(&pair.plain.ask(&[all.as_bytes(), key.as_bytes()]).unwrap(), texts_each);
            let missed = all.iter().filter(|one| !found.contains(*one)).count();
            assert_eq!((missed, found.len()), (0, all.len()), "{command}, walk {nth}");
        }
    });
}

#[test]
fn a_fold_that_died_half_way_is_taken_back() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let oracle = found().pop().unwrap().start(&[]).unwrap();
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut pair = pair_of(&stage, &oracle, &proxy);
    kill_half_way(&stage, stage.begin_fold(LAYOUT, &SLOW));
    pair.on_all();
    stage.unfold(&["--clean"]).assert_code(0);
    pair.compare();
    drop((pair, proxy));
    assert_eq!(said(&mut stage.connect(), "KEYS ~*"), "*0\\r\\n", "nothing is left of it");
}

/// A full server takes no step, and has each member in one of both places; it goes on once there is room.
#[test]
fn a_server_that_is_full_half_way_loses_no_member() {
    on_every_server(&[], |stage| {
        let oracle = found().pop().unwrap().start(&[]).unwrap();
        let proxy = Subject::beside(&stage.server).unwrap();
        let mut pair = pair_of(stage, &oracle, &proxy);
        let mut direct = stage.connect();
        let full_half_way = |mut mover: Child, direct: &mut Wire, pair: &mut Pair| {
            wait_until_half_way(direct, &mut mover);
            assert_eq!(said(direct, "CONFIG SET maxmemory 1000000"), "+OK\\r\\n");
            finish(mover)
                .assert_code(1)
                .assert_says("used memory > 'maxmemory'")
                .assert_says("run the same command again");
            assert!(is_half_way(direct));
            pair.compare();
            let reply = said(&mut pair.folded, "SADD tags:1 one-more");
            assert!(reply.starts_with("-OOM "), "{reply}");
            pair.both("SREM tags:1 member-2 member-6 none");
            assert_eq!(said(direct, "CONFIG SET maxmemory 0"), "+OK\\r\\n");
            pair.on_all();
        };
        full_half_way(stage.begin_fold(LAYOUT, &SLOW), &mut direct, &mut pair);
        stage.fold(LAYOUT, &[]).assert_code(0);
        pair.on_all();
        full_half_way(stage.begin_unfold(&SLOW), &mut direct, &mut pair);
        stage.unfold(&["--clean"]).assert_code(0);
        pair.compare();
    });
}

/// What is removed half-way leaves nothing behind, and doesn't come back.
#[test]
fn what_goes_half_way_is_gone_with_all_that_belongs_to_it() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let proxy = Subject::beside(&stage.server).unwrap();
    fill(&mut stage.connect());
    kill_half_way(&stage, stage.begin_fold(LAYOUT, &SLOW));
    let mut client = Wire::connect(proxy.address()).unwrap();
    assert_eq!(said(&mut client, "DEL tags:1 sess:1"), ":2\\r\\n");
    stage.fold(LAYOUT, &[]).assert_code(0);
    assert_eq!(said(&mut client, "EXISTS tags:1 sess:1"), ":0\\r\\n");
    let (mut wire, since) = (stage.connect(), Instant::now());
    while said(&mut wire, "KEYS ~*|*") != "*0\\r\\n" {
        assert!(since.elapsed() < Duration::from_secs(40), "{}", said(&mut wire, "KEYS ~*|*"));
        thread::sleep(Duration::from_millis(200));
    }
    while said(&mut client, "DBSIZE") != ":2\\r\\n" {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", said(&mut client, "DBSIZE"));
        thread::sleep(Duration::from_millis(200));
    }
}

/// The calls of a command that a server has had.
fn calls(direct: &mut Wire, command: &str) -> u64 {
    let stats = said(direct, "INFO commandstats");
    let line = stats
        .split("\\r\\n")
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls="))?.split(',').next());
    line.map_or(0, |calls| calls.parse().unwrap())
}

/// However many there are, and of whichever class.
#[test]
fn each_part_is_read_once_on_the_way_out_of_them() {
    on_every_server(&[], |stage| {
        let mut direct = stage.connect();
        for first in (0..20_000).step_by(1000) {
            let fields: Vec<String> = (first..first + 1000).map(|field| format!("field{field} {field}")).collect();
            said(&mut direct, &format!("HSET sess:1 {}", fields.join(" ")));
        }
        stage.fold(LAYOUT, &[]).assert_code(0);
        let parts = said(&mut direct, "KEYS ~*|*t*").matches("$").count() as u64 - 1;
        assert!(parts > 150, "{parts}");
        let before = calls(&mut direct, "hgetall");
        stage.unfold(&["--clean"]).assert_code(0);
        assert_eq!(said(&mut direct, "HLEN sess:1"), ":20000\\r\\n");
        let read = calls(&mut direct, "hgetall") - before;
        assert!((parts..parts + parts / 10 + 20).contains(&read), "{read} reads of {parts} parts");
    });
}

/// There and back, and to buckets that have no room for them; also a hash in one value for its field that expires, which a server
/// without such can't take.
#[test]
fn what_lies_packed_is_moved_as_a_whole_whatever_its_members() {
    const ROOMY: &str = "[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 32 }\nvalue_limit = 2000\n\
         [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { count = 8 }\n";
    const TIGHT: &str = "[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 16 }\nvalue_limit = 100\n\
         [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { count = 4 }\n";
    on_every_server(&["--hash-max-listpack-value", "2000"], |stage| {
        let name = stage.server.name();
        let mut direct = stage.connect();
        let members: Vec<String> = (0..700).map(|number| (number + 5).to_string()).collect();
        said(&mut direct, &format!("SADD tags:1 {}", members.join(" ")));
        let are_in_parts = |direct: &mut Wire| said(direct, "KEYS ~*|*i*") != "*0\\r\\n";
        stage.fold(ROOMY, &[]).assert_code(0);
        assert!(!are_in_parts(&mut direct), "{name}");
        stage.fold(TIGHT, &[]).assert_code(0);
        assert!(are_in_parts(&mut direct), "{name}");
        stage.fold(ROOMY, &[]).assert_code(0);
        assert!(!are_in_parts(&mut direct), "{name}");
        let proxy = Subject::beside(&stage.server).unwrap();
        let mut wire = Wire::connect(proxy.address()).unwrap();
        let fields: Vec<String> = (0..600).map(|number| format!("f{number} v{number}")).collect();
        said(&mut wire, &format!("HSET sess:1 {}", fields.join(" ")));
        assert_eq!(said(&mut wire, "HEXPIRE sess:1 10000 FIELDS 1 f1"), "*1\\r\\n:1\\r\\n", "{name}");
        stage.fold(TIGHT, &[]).assert_code(0);
        assert_eq!(said(&mut wire, "HTTL sess:1 FIELDS 1 f2"), "*1\\r\\n:-1\\r\\n", "{name}");
        let field_expires = !said(&mut direct, "HTTL none FIELDS 1 f1").starts_with("-ERR");
        stage.unfold(&[]).assert_code(if field_expires { 0 } else { 3 });
        assert_eq!(said(&mut direct, "SCARD tags:1"), ":700\\r\\n", "{name}");
        assert_eq!(said(&mut wire, "HLEN sess:1"), ":600\\r\\n", "{name}");
        assert_eq!(said(&mut direct, "EXISTS sess:1"), if field_expires { ":1\\r\\n" } else { ":0\\r\\n" }, "{name}");
    });
}

/// A header that says more or fewer members than there are, as no keyfold leaves it.
#[test]
fn what_is_damaged_stays_and_is_named() {
    for more in [5, -300] {
        let Some(stage) = Stage::newest(&[]) else { return };
        let mut direct = stage.connect();
        let members: Vec<String> = (0..3000).map(|number| format!("member-{number}")).collect();
        said(&mut direct, &format!("SADD tags:1 {}", members.join(" ")));
        stage.fold(LAYOUT, &[]).assert_code(0);
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let place = layout.locate(b"tags:1").place().unwrap();
        let stored = direct.ask(&[b"HGET", &place.physical, &place.field]).unwrap().bytes().unwrap().to_vec();
        let Body::Parts { header, .. } = Frame::decode(&stored).unwrap().body else { panic!("it lies in parts") };
        let mut changed = Header::decode(header).unwrap();
        let count = &mut changed.classes[1].count;
        *count = count.checked_add_signed(more).unwrap();
        let damaged = [&stored[..stored.len() - header.len()], &changed.encode()].concat();
        assert_eq!(direct.ask(&[b"HSET", &place.physical, &place.field, &damaged]).unwrap(), Value::Integer(0));
        stage.unfold(&[]).assert_code(3).assert_says("tags:1").assert_says("is not what its header says");
        // Whatever was moved before it was seen: no member is given up.
        let mut found = BTreeSet::new();
        for name in direct.ask(&[b"KEYS", b"~*|*"]).unwrap().elements().unwrap() {
            let name = name.bytes().unwrap();
            let command: &[u8] = match said(&mut direct, &format!("TYPE {}", String::from_utf8_lossy(name))).as_str() {
                "+set\\r\\n" => b"SMEMBERS",
                "+hash\\r\\n" => b"HKEYS",
                _ => continue,
            };
            let all = direct.ask(&[command, name]).unwrap();
            found.extend(all.elements().unwrap().iter().map(|member| member.bytes().unwrap().to_vec()));
        }
        assert_eq!(found.len(), 3000, "{more}");
    }
}
