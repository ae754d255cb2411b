//! Hashes that are kept by a vocabulary: writes of single fields are one call of a script, whatever names and values there are, and
//! leave what a plain server has, while the vocabulary is replaced by others.

use keyfold_core::admin::DICTIONARIES_KEY;
use keyfold_core::codec::{CodecRule, Codecs, DictionaryId, Kinds, pack};
use keyfold_core::collection::Vocabulary;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::resp::write_command;
use keyfold_proxy::Handle;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Server, Wire, found};

use super::member_calls::{calls, content, send};
use super::stage::{address, call, change_layout, config_for, serve, start_server};

/// The second is worked out without a script, as its values may be long; the third spills.
const LAYOUT: &str = r#"
    [[namespace]]
    keys = "sess:{id:int}"
    type = "hash"
    bucket = { count = 2 }
    value_limit = 250
    codec = "fields"
    [[namespace]]
    keys = "cart:{id:int}"
    type = "hash"
    bucket = { count = 2 }
    value_limit = 3000
    codec = "fields"
    [[namespace]]
    keys = "tiny:{id:int}"
    type = "hash"
    bucket = { span = 8 }
    value_limit = 24
    codec = "fields"
"#;

/// Names of one vocabulary after the other.
const LISTS: [&[&str]; 6] = [
    &["uid", "ip", "ua", "csrf", "seen", "7", ""],
    &["seen", "uid", "47", "0", "12"],
    &["x"],
    &["-1", "48", "ua", "ip", "140737488355328"],
    &["ip", "csrf"],
    &["csrf", "", "7", "007"],
];

/// All have these values.
const VALUES: [&str; 3] = ["Mozilla/5.0 (X11; Linux)", "curl/8.4", "yyyyyyyy"];

/// A layout, all of whose hashes are written by a vocabulary of these names from now on.
fn written_by_names(layout: &Layout, names: &[&str]) -> Layout {
    let list =
        Vocabulary::stored(names.iter().map(|name| name.as_bytes()), VALUES.iter().map(|value| value.as_bytes()));
    let codecs = layout.iter().map(|(index, namespace)| {
        let mut codecs = namespace.codecs.clone();
        codecs.write_trained(&CodecRule::named("fields"), Some(&list)).unwrap();
        (index, codecs)
    });
    layout.with_codecs(codecs.collect())
}

fn store_dictionaries(server: &Server, layout: &Layout) {
    let mut wire = server.connect().unwrap();
    for (id, list) in layout.open_dictionaries() {
        wire.call(&[b"HSET", DICTIONARIES_KEY, id.to_string().as_bytes(), &pack(list)]).unwrap();
    }
}

fn proxy_before(server: &Server) -> Handle {
    let layout = written_by_names(&Layout::parse_file(LAYOUT).unwrap(), LISTS[0]);
    store_dictionaries(server, &layout);
    let mut config = config_for(server);
    config.layout = layout.into();
    serve(server, config)
}

fn name(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0..=5 => random.pick(&["uid", "ip", "ua", "csrf", "seen"]).as_bytes().to_vec(),
        6 => random.below(50).to_string().into_bytes(),
        7 => random.pick(&["7", "47", "0", "12", "48", "-1", "007", "140737488355328"]).as_bytes().to_vec(),
        8 => (0..random.below(4)).map(|_| *random.pick(b"\x00\xff\xc0\xc8\xd0\xd1\xcaEB")).collect(),
        9 => vec![b'x'; [0, 1, 60, 191, 192, 240][random.index(6)]],
        _ => random.pick(&["a", "name", ""]).as_bytes().to_vec(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(9) {
        6 => random
            .pick(&["curl/8.4", "10.0.0.17", "010.0.0.1", "f3d72fe1-750b-47c0-9526-4728852a4e5b"])
            .as_bytes()
            .to_vec(),
        7 => format!("{:08x}", random.below(1 << 32)).into_bytes(),
        8 => vec![b'a'; [188, 190, 192, 8][random.index(4)]],
        0..=2 => (random.below(1 << 20).cast_signed() - 100).to_string().into_bytes(),
        3 => (0..random.below(5)).map(|_| *random.pick(b"\x00\xff\xc0\xc8\xd0A")).collect(),
        4 => vec![b'y'; random.index(40)],
        _ => name(random),
    }
}

fn command(random: &mut Random) -> Vec<Vec<u8>> {
    let family = *random.pick(&["sess", "sess", "sess", "cart", "tiny"]);
    let key = format!("{family}:{}", random.below(3)).into_bytes();
    let words = |name: &str| vec![name.as_bytes().to_vec(), key.clone()];
    let mut names = (0..=random.below(3)).map(|_| name(random)).collect::<Vec<_>>();
    match random.below(12) {
        0..=3 => {
            let pairs = names.into_iter().flat_map(|name| [name, value(random)]).collect();
            [words(random.pick::<&str>(&["HSET", "HMSET"])), pairs].concat()
        }
        4 => [words("HSETNX"), vec![name(random), value(random)]].concat(),
        5..=7 => [words("HDEL"), names].concat(),
        8 | 9 => [words("HINCRBY"), vec![name(random), value(random)]].concat(),
        10 => match random.below(12) {
            0 => words("DEL"),
            1 => [words("PEXPIRE"), vec![b"5000000".to_vec()]].concat(),
            2 => words("PERSIST"),
            3 => [words("HINCRBYFLOAT"), vec![name(random), b"0.5".to_vec()]].concat(),
            _ => words("HLEN"),
        },
        _ => [words("HGET"), vec![names.remove(0)]].concat(),
    }
}

/// A script is told of a hash that a codec wrote by what it means: that the frame ends with the last of its fields is part of that.
#[test]
fn in_scripts_the_expiry_of_the_last_field_is_not_the_keys() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        for script in [
            "return redis.call('HSET',KEYS[1],'ip','x')",
            "return redis.call('HPERSIST',KEYS[1],'FIELDS','1','uid')[1]",
            "return redis.call('HSET',KEYS[1],'uid','y')+1",
        ] {
            call(&mut client, "DEL sess:1");
            call(&mut client, "HSET sess:1 uid v");
            assert_eq!(call(&mut client, "HPEXPIRE sess:1 300 FIELDS 1 uid"), "*1\r\n:1\r\n");
            assert_eq!(run_script(&mut client, "return redis.call('PTTL',KEYS[1])"), ":-1\r\n", "{}", server.name());
            let said = run_script(&mut client, script);
            if said.contains("the server has no fields that expire") {
                continue;
            }
            assert_eq!(said, ":1\r\n", "{}: {script}", server.name());
            assert_eq!(call(&mut client, "PTTL sess:1"), ":-1\r\n", "{}: {script}", server.name());
            std::thread::sleep(std::time::Duration::from_millis(350));
            assert_eq!(call(&mut client, "HLEN sess:1"), ":1\r\n", "{}: {script}", server.name());
        }
    }
}

fn run_script(client: &mut Wire, script: &str) -> String {
    String::from_utf8(client.call(&[b"EVAL", script.as_bytes(), b"1", b"sess:1"]).unwrap()).unwrap()
}

fn shown(command: &[Vec<u8>]) -> String {
    command.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

/// All keys, whatever slot their values name.
fn same(plain: &mut Wire, folded: &mut Wire, what: &str) {
    for family in ["sess", "cart", "tiny"] {
        for id in 0..3 {
            let key = format!("{family}:{id}");
            assert_eq!(content(folded, &key, true), content(plain, &key, true), "{key} after {what}");
        }
    }
}

/// Has another vocabulary come into force, or none.
fn change(server: &Server, proxy: &Handle, names: Option<&[&str]>) {
    let before = proxy.layout();
    let after = names.map_or_else(
        || {
            let raw = |codecs: &Codecs| {
                let mut codecs = codecs.clone();
                codecs.write_raw();
                codecs
            };
            before.with_codecs(before.iter().map(|(index, namespace)| (index, raw(&namespace.codecs))).collect())
        },
        |names| written_by_names(&before, names),
    );
    store_dictionaries(server, &after);
    change_layout(server, &before, &after);
}

#[test]
fn any_fields_leave_what_a_plain_server_has_under_any_vocabulary() {
    for binary in found() {
        let (oracle, server) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let proxy = proxy_before(&server);
        let mut config = config_for(&server);
        config.layout = proxy.layout();
        let other = serve(&server, config);
        let mut plain = oracle.connect().unwrap();
        let mut clients = [&proxy, &other].map(|proxy| Wire::connect(address(proxy)).unwrap());
        let mut random = Random::new(31);
        for round in 0..3000_usize {
            let folded = &mut clients[random.index(2)];
            if round % 300 == 299 {
                // The fifth and sixth are of slots that the script doesn't know.
                let names = LISTS.get(round / 300 % 7).copied();
                change(&server, &proxy, names);
                same(&mut plain, folded, "another vocabulary");
            }
            if random.below(60) == 0 {
                // In a day: what the hash holds stays the same.
                let key = format!("sess:{}", random.below(3));
                call(folded, &format!("HPEXPIRE {key} 86400000 FIELDS 1 uid"));
            }
            let command = command(&mut random);
            let (expected, answer) = (send(&mut plain, &command), send(folded, &command));
            assert_eq!(answer.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{}", shown(&command));
            let key = std::str::from_utf8(&command[1]).unwrap();
            let [left, right] = [&mut plain, folded].map(|wire| content(wire, key, true));
            assert_eq!(right, left, "{key} after {} in round {round}", shown(&command));
        }
        clients.iter_mut().for_each(|folded| same(&mut plain, folded, "all of it"));
    }
}

#[test]
fn requests_behind_each_other_are_joined_and_answered_in_order() {
    for binary in found() {
        let (oracle, server) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let proxy = proxy_before(&server);
        let (mut plain, mut folded) = (oracle.connect().unwrap(), Wire::connect(address(&proxy)).unwrap());
        let mut random = Random::new(32);
        for round in 0..40_usize {
            if round % 10 == 9 {
                change(&server, &proxy, Some(LISTS[round / 10 % 3]));
            }
            let commands: Vec<_> = (0..50).map(|_| command(&mut random)).collect();
            let mut bytes = Vec::new();
            for command in &commands {
                write_command(&mut bytes, &command.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
            let answers = [&mut plain, &mut folded].map(|wire| {
                wire.send_bytes(&bytes).unwrap();
                commands.iter().map(|_| wire.reply().unwrap().escape_ascii().to_string()).collect::<Vec<_>>()
            });
            assert_eq!(answers[0], answers[1], "round {round}");
            same(&mut plain, &mut folded, &format!("round {round}"));
        }
    }
}

/// What lies in the server for a key of `sess:{id:int}`.
fn stored(server: &Server, proxy: &Handle, key: &str) -> Vec<u8> {
    let place = proxy.layout().locate(key.as_bytes()).place().unwrap();
    let reply = server.connect().unwrap().ask(&[b"HGET", &place.physical, &place.field]).unwrap();
    reply.bytes().unwrap().to_vec()
}

#[test]
fn a_hash_whose_fields_are_set_one_by_one_grows_past_what_is_written_at_once() {
    let server = start_server(&[]);
    let text = "w".repeat(180);
    let layout = "[[namespace]]\nkeys = 'wide:{id:int}'\ntype = 'hash'\nbucket = { count = 2 }\nvalue_limit = 2048\ncodec = 'fields'\n";
    let layout = Layout::parse_file(layout).unwrap();
    let list = Vocabulary::stored([b"uid".as_slice()], [text.as_bytes()]);
    let layout = layout.written_by(NamespaceIndex(0), &CodecRule::named("fields"), Some(&list)).unwrap();
    store_dictionaries(&server, &layout);
    let mut config = config_for(&server);
    config.layout = layout.into();
    let proxy = serve(&server, config);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    let mut grown = 0;
    for field in 100..700 {
        assert_eq!(call(&mut client, &format!("HSET wide:1 {field} {text}")), ":1\r\n", "{field}");
        let written = stored(&server, &proxy, "wide:1");
        grown += usize::from(written[0] == 0x10 && (field - 100) * (text.len() + 4) > 64 << 10);
        assert_eq!(call(&mut client, "HLEN wide:1"), format!(":{}\r\n", field - 99));
    }
    assert!(grown > 20, "{grown}: past 64 KiB, and not written as a whole yet");
    assert_eq!(call(&mut client, "HGET wide:1 333"), format!("$180\r\n{text}\r\n"));
    for field in 100..700 {
        assert_eq!(call(&mut client, &format!("HDEL wide:1 {field}")), ":1\r\n", "{field}");
    }
    assert_eq!(call(&mut client, "EXISTS wide:1"), ":0\r\n");
}

#[test]
fn a_field_is_written_by_one_request_to_the_server() {
    let server = start_server(&[]);
    let proxy = proxy_before(&server);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    call(&mut client, "HSET sess:9 uid 1");
    let before = (calls(&server, "evalsha"), calls(&server, "hget"));
    for line in [
        "HSET sess:1 uid 1 ip there",
        "HSET sess:1 uid 2 another 3",
        "HSETNX sess:1 seen 1",
        "HMSET sess:1 ua 1",
        "HDEL sess:1 another",
        "HINCRBY sess:1 seen 46",
        "HINCRBY sess:2 7 1",
        "HDEL sess:2 5 7",
    ] {
        assert!(!call(&mut client, line).starts_with('-'), "{line}");
    }
    assert_eq!(calls(&server, "evalsha") - before.0, 8, "each is one call");
    // The script's own reads are counted with those of clients.
    assert_eq!(calls(&server, "hget") - before.1, 8, "nothing is read but by these");
    assert_eq!(call(&mut client, "EXISTS sess:2"), ":0\r\n");
    let written = stored(&server, &proxy, "sess:1");
    assert_eq!(
        written.escape_ascii().to_string(),
        b"\x10\xd0\xd2\xd1\x05there\xd4\xff\xd2\xd1".escape_ascii().to_string()
    );
    call(&mut client, "HSET sess:3 ua curl/8.4 ip 10.0.0.17 csrf 00ff7a91");
    let written = stored(&server, &proxy, "sess:3");
    let expected = b"\x10\xd2\xca\x01\xd1\xcc\x0a\x00\x00\x11\xd3\xcb\x04\x00\xff\x7a\x91";
    assert_eq!(written.escape_ascii().to_string(), expected.escape_ascii().to_string());
    call(&mut client, "PEXPIREAT sess:1 2400000000000");
    assert_eq!(call(&mut client, "HSET sess:1 csrf x"), ":1\r\n");
    let written = stored(&server, &proxy, "sess:1");
    assert_eq!((written[0], &written[written.len() - 3..]), (0x11, &b"\xd3\x01x"[..]));
    // What would be longer than without the codec is worked out, and lies there as it would without.
    assert_eq!(call(&mut client, "HSET sess:4 5 x"), ":1\r\n");
    assert_eq!(stored(&server, &proxy, "sess:4"), b"\x42\xd5\x01x");
    assert_eq!(call(&mut client, "HSET sess:4 uid 1"), ":1\r\n");
    assert_eq!(stored(&server, &proxy, "sess:4"), b"\x10\xc0\x05\x01x\xd0\xd1");
}

#[test]
fn damaged_bytes_are_refused_and_stay() {
    let server = start_server(&[]);
    let proxy = proxy_before(&server);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    let place = proxy.layout().locate(b"sess:1").place().unwrap();
    for damaged in [
        // No name of the vocabulary, a name that has a byte of its own, one that is there twice, an end in the middle.
        &b"\x10\xef\xd1"[..],
        b"\x10\x03uid\xd1",
        b"\x10\xd0\xd1\xd0\xd2",
        b"\x10\xd0",
        b"\x10\xce\xd0\xd1",
        b"\x11\x00\xd0\xd1",
        // A slot that there is not, and a form that is never stored as it is.
        b"\x14\xd0\xd1",
        b"E\xd0\xd1",
    ] {
        server.connect().unwrap().call(&[b"HSET", &place.physical, &place.field, damaged]).unwrap();
        for line in ["HGETALL sess:1", "HSET sess:1 uid 5", "HDEL sess:1 uid", "HINCRBY sess:1 uid 1"] {
            let answer = call(&mut client, line);
            let is_seen = answer.starts_with('-');
            // What the script passes by it doesn't look at; what it wrote is as damaged as it was.
            assert!(is_seen || !line.starts_with("HGETALL"), "{line} of {}: {answer}", damaged.escape_ascii());
        }
    }
}

#[test]
fn a_vocabulary_that_is_missing_costs_its_hashes_and_no_others() {
    let server = start_server(&[]);
    let layout = written_by_names(&Layout::parse_file(LAYOUT).unwrap(), LISTS[0]);
    let mut config = config_for(&server);
    let mut codecs = Codecs::default();
    codecs.write_by(&CodecRule::named("fields"), Some(DictionaryId::of(b"lost")));
    codecs.open(&Kinds::default(), &std::collections::BTreeMap::new());
    config.layout = layout.with_codecs([(NamespaceIndex(0), codecs)].into()).into();
    let proxy = serve(&server, config);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    let place = proxy.layout().locate(b"sess:1").place().unwrap();
    let lies_there = b"\x10\xd0\xd1";
    server.connect().unwrap().call(&[b"HSET", &place.physical, &place.field, lies_there]).unwrap();
    for line in ["HGETALL sess:1", "HSET sess:1 uid 5", "HDEL sess:1 uid", "HINCRBY sess:1 uid 1"] {
        let answer = call(&mut client, line);
        assert!(answer.starts_with('-') && answer.contains("is missing from the server"), "{line}: {answer}");
    }
    assert_eq!(stored(&server, &proxy, "sess:1"), lies_there);
    assert_eq!(call(&mut client, "HSET sess:2 uid 5"), ":1\r\n");
    assert_eq!(stored(&server, &proxy, "sess:2"), b"\x42\x03uid\xd5");
    assert_eq!(call(&mut client, "HGET sess:2 uid"), "$1\r\n5\r\n");
}
