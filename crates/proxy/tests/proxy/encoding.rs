//! Large values are encoded beside the worker: what they come to is the same, in order, and others don't wait for it.

use std::sync::{Arc, Condvar, Mutex};

use keyfold_core::codec::{Codec, CodecError, CodecKind, Kinds, Options, Owner};
use keyfold_core::layout::{Layout, LayoutFile, NamespaceIndex};
use keyfold_core::placement::Secrets;
use keyfold_proxy::Config;
use keyfold_testkit::Wire;

use super::stage::{Stage, change_layout, eventually, stage_with, start_server};

const LAYOUT: &str = "[[namespace]]\nkeys = \"doc:{id:int}\"\nbucket = { span = 64 }\ncodec = \"zstd\"\n\n\
    [[namespace]]\nkeys = \"page:{path}\"\nplacement = \"framed\"\ncodec = \"zstd\"\n";

/// A proxy of one worker, with so many threads beside it.
fn stage_of(encode_threads: usize, configure: impl FnOnce(&mut Config)) -> Stage {
    stage_with(|config| {
        config.layout = Layout::parse_file(LAYOUT).unwrap().into();
        config.threads = Some(1.try_into().unwrap());
        config.encode_threads = Some(encode_threads);
        configure(config);
    })
}

/// Text that compresses, other for each number.
fn text(number: usize, len: usize) -> Vec<u8> {
    let line = |at: usize| format!("{{\"number\":{number},\"line\":{at},\"of\":\"a text that says much the same\"}}\n");
    (0..).flat_map(|at| line(at).into_bytes()).take(len).collect()
}

/// The strings that the server holds of logical keys, but for replaced ones, which it holds for some seconds more.
fn held_bytes(stage: &Stage) -> Vec<Vec<u8>> {
    let mut wire = stage.server.connect().unwrap();
    let names = wire.ask(&[b"KEYS", b"~*"]).unwrap();
    let names = names.elements().unwrap().iter().map(|name| name.bytes().unwrap().to_vec());
    let strings = names.map(|name| (wire.call(&[b"TTL", &name]).unwrap(), wire.call(&[b"GET", &name]).unwrap()));
    let stays = |ttl: &[u8]| ttl == b":-1\r\n" || ttl.len() > b":100\r\n".len();
    let mut held: Vec<Vec<u8>> =
        strings.filter(|(ttl, reply)| stays(ttl) && reply.starts_with(b"$")).map(|(_, reply)| reply).collect();
    held.sort();
    held
}

const WRITES: [&[&str]; 10] = [
    &["SET", "doc:1", "#"],
    &["SET", "doc:2", "#", "EX", "1000"],
    &["SETEX", "doc:3", "1000", "#"],
    &["PSETEX", "page:one", "100000000", "#"],
    &["SETNX", "doc:4", "#"],
    &["GETSET", "doc:1", "#"],
    &["SET", "page:two", "#", "GET"],
    &["MSET", "doc:5", "#", "doc:6", "small", "page:three", "#", "plain", "#"],
    &["MSETNX", "doc:7", "#", "doc:8", "#"],
    &["MSETEX", "2", "doc:9", "#", "page:four", "#", "EX", "100000"],
];

/// Sends all writes at once, each with reads of what it wrote behind it; the answers.
fn converse(wire: &mut Wire) -> Vec<Vec<u8>> {
    let mut answers = 0;
    for (number, words) in WRITES.iter().enumerate() {
        let value = text(number, 9_000 + number * 40_000);
        let args: Vec<&[u8]> = words.iter().map(|word| if *word == "#" { &value } else { word.as_bytes() }).collect();
        wire.send(&args).unwrap();
        wire.send(&[b"GET", b"doc:1"]).unwrap();
        wire.send(&[b"MGET", b"doc:5", b"page:two", b"plain", b"doc:8"]).unwrap();
        answers += 3;
    }
    (0..answers).map(|_| wire.reply().unwrap()).collect()
}

#[test]
fn what_is_encoded_elsewhere_is_the_same_in_the_same_order() {
    let (inline, beside) = (stage_of(0, |_| {}), stage_of(2, |_| {}));
    let plain = start_server(&[]);
    let expected = converse(&mut plain.connect().unwrap());
    for stage in [&inline, &beside] {
        let found = converse(&mut stage.connect());
        // A server that doesn't know MSETEX yet refuses it.
        let differs =
            |(found, expected): &(&Vec<u8>, &Vec<u8>)| found != expected && !expected.starts_with(b"-ERR unknown");
        assert!(found.iter().zip(&expected).find(differs).is_none(), "answers differ");
    }
    assert!(held_bytes(&inline) == held_bytes(&beside), "stored otherwise");
    assert!(held_bytes(&beside).iter().all(|held| held.len() < 60_000), "it is compressed");
}

/// A codec for values of one repeated byte that lets large ones through one at a time, as it is told to.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<(Mutex<Passing>, Condvar)>);

#[derive(Debug, Default)]
struct Passing {
    /// Values that were brought by threads beside the workers.
    came: usize,
    /// How many of them may pass.
    let_in: usize,
    /// Large values that workers encoded.
    by_workers: usize,
    /// Who comes dies of it.
    kills: bool,
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut Passing)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    fn let_in(&self, more: usize) {
        self.change(|passing| passing.let_in += more);
    }

    fn by_workers(&self) -> usize {
        self.0.0.lock().unwrap().by_workers
    }

    /// Returns once so many values have come.
    fn await_values(&self, count: usize) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |passing| passing.came < count).unwrap());
    }

    /// As a value of this size comes along.
    fn pass(&self) {
        let mut passing = self.0.0.lock().unwrap();
        if !std::thread::current().name().is_some_and(|name| name.starts_with("keyfold-enc")) {
            passing.by_workers += 1;
            return;
        }
        passing.came += 1;
        let (mine, kills) = (passing.came, passing.kills);
        self.0.1.notify_all();
        drop(self.0.1.wait_while(passing, |passing| passing.let_in < mine).unwrap());
        assert!(!kills, "it was told to die");
    }
}

impl CodecKind for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn open(&self, _options: &Options, _dictionary: Option<&[u8]>) -> Result<Arc<dyn Codec>, CodecError> {
        Ok(Arc::new(self.clone()))
    }
}

impl Codec for Gate {
    fn encode(&self, value: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        let Some(&first) = value.first() else { return false };
        if value.len() > 1000 {
            self.pass();
        }
        out.push(first);
        out.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        value.iter().all(|byte| *byte == first)
    }

    fn decode(&self, payload: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let (first, len) = payload.split_first().ok_or_else(|| CodecError::payload("nothing"))?;
        let len = u32::from_be_bytes(len.try_into().map_err(|_| CodecError::payload("no length"))?);
        out.extend(std::iter::repeat_n(*first, len as usize));
        Ok(())
    }

    fn max_len(&self) -> usize {
        usize::MAX
    }
}

/// A proxy of one worker and one thread beside it, whose values pass a gate.
fn gated() -> (Stage, Gate) {
    let gate = Gate::default();
    let kinds = Kinds::default().with(Arc::new(gate.clone()));
    let file = LayoutFile::parse_with(&LAYOUT.replace("zstd", "gate"), &kinds, &Secrets::default()).unwrap();
    let mut layout = file.into_layout();
    layout.open(&kinds, &Default::default());
    let stage = stage_of(1, |config| {
        config.layout = layout.into();
        config.codecs = kinds;
    });
    (stage, gate)
}

const LARGE: usize = 100_000;

fn large(byte: u8) -> Vec<u8> {
    vec![byte; LARGE]
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

#[test]
fn only_its_own_client_waits_for_a_large_value() {
    let (stage, gate) = gated();
    let (mut writer, mut other) = (stage.connect(), stage.connect());
    writer.send(&[b"SET", b"doc:1", &large(b'x')]).unwrap();
    writer.send(&[b"GET", b"doc:1"]).unwrap();
    gate.await_values(1);
    for (command, answer) in [
        (&[&b"SET"[..], b"doc:2", b"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"][..], &b"+OK\r\n"[..]),
        (&[b"GET", b"doc:2"], b"$30\r\nyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"),
        (&[b"GET", b"doc:1"], b"$-1\r\n"),
        (&[b"SET", b"doc:1", b"before"], b"+OK\r\n"),
    ] {
        assert_eq!(other.call(command).unwrap(), answer);
    }
    gate.let_in(1);
    assert_eq!(writer.reply().unwrap(), b"+OK\r\n");
    assert!(writer.reply().unwrap() == bulk(&large(b'x')));
    assert_eq!(gate.by_workers(), 0);
}

#[test]
fn every_command_that_brings_values_has_them_encoded_beside() {
    let (stage, gate) = gated();
    gate.let_in(1000);
    let (mut writer, value) = (stage.connect(), large(b'x'));
    let mut large_values = 0;
    for words in WRITES {
        let args: Vec<&[u8]> = words.iter().map(|word| if *word == "#" { &value } else { word.as_bytes() }).collect();
        let answer = writer.call(&args).unwrap();
        assert!(!answer.starts_with(b"-"), "{words:?}: {}", answer.escape_ascii());
        large_values += words.windows(2).filter(|pair| pair[1] == "#" && pair[0] != "plain").count();
    }
    let passing = gate.0.0.lock().unwrap();
    assert_eq!((passing.came, passing.by_workers), (large_values, 0));
}

#[test]
fn a_value_whose_client_has_gone_is_written_whole_or_not_at_all() {
    let (stage, gate) = gated();
    let mut other = stage.connect();
    let mut writer = stage.connect();
    writer.send(&[b"SET", b"doc:1", &large(b'x')]).unwrap();
    gate.await_values(1);
    drop(writer);
    assert_eq!(other.call(&[b"GET", b"doc:1"]).unwrap(), b"$-1\r\n");
    gate.let_in(1);
    eventually("what had come before the client went is carried out", || {
        let found = other.call(&[b"GET", b"doc:1"]).unwrap();
        assert!(found == b"$-1\r\n" || found == bulk(&large(b'x')));
        found != b"$-1\r\n"
    });
}

#[test]
fn workers_encode_what_a_thread_has_died_over() {
    let (stage, gate) = gated();
    gate.change(|passing| passing.kills = true);
    gate.let_in(1);
    let mut writer = stage.connect();
    assert_eq!(writer.call(&[b"SET", b"doc:1", &large(b'x')]).unwrap(), b"+OK\r\n");
    assert_eq!(gate.by_workers(), 1);
    gate.change(|passing| passing.kills = false);
    gate.let_in(1);
    assert_eq!(writer.call(&[b"SET", b"doc:1", &large(b'z')]).unwrap(), b"+OK\r\n");
    assert_eq!(gate.by_workers(), 1, "the thread goes on");
    assert!(writer.call(&[b"GET", b"doc:1"]).unwrap() == bulk(&large(b'z')));
}

#[test]
fn what_another_layout_has_encoded_is_not_written() {
    let (stage, gate) = gated();
    let mut writer = stage.connect();
    writer.send(&[b"SET", b"doc:1", &large(b'x')]).unwrap();
    gate.await_values(1);
    let before = stage.proxy.layout();
    let mut codecs = before.namespaces()[0].codecs.clone();
    codecs.write_raw();
    change_layout(&stage.server, &before, &before.with_codecs([(NamespaceIndex(0), codecs)].into()));
    gate.let_in(1);
    assert_eq!(writer.reply().unwrap(), b"+OK\r\n");
    let mut held = held_bytes(&stage);
    assert!(held.pop().unwrap() == bulk(&large(b'x')) && held.is_empty(), "it is stored as it is");
}

#[test]
fn clients_wait_to_be_let_in_where_too_much_is_to_be_encoded() {
    const HUGE: usize = 30 << 20;
    let (stage, gate) = gated();
    let mut writers: Vec<Wire> = (0..4).map(|_| stage.connect()).collect();
    for (number, writer) in writers.iter_mut().enumerate() {
        writer.send(&[b"SET", format!("doc:{number}").as_bytes(), &vec![b'x'; HUGE]]).unwrap();
    }
    gate.await_values(1);
    assert_eq!(stage.connect().call(&[b"PING"]).unwrap(), b"+PONG\r\n");
    gate.let_in(4);
    for writer in &mut writers {
        assert_eq!(writer.reply().unwrap(), b"+OK\r\n");
    }
    assert_eq!(gate.by_workers(), 0);
}

#[test]
fn a_proxy_that_stops_carries_out_what_is_being_encoded() {
    let (stage, gate) = gated();
    let mut writer = stage.connect();
    writer.send(&[b"SET", b"doc:1", &large(b'x')]).unwrap();
    gate.await_values(1);
    stage.proxy.stop();
    gate.let_in(1);
    assert_eq!(writer.reply().unwrap(), b"+OK\r\n");
    stage.proxy.join().unwrap();
    let mut server = stage.server.connect().unwrap();
    let buckets = server.ask(&[b"KEYS", b"~*"]).unwrap();
    let bucket = buckets.elements().unwrap()[0].bytes().unwrap().to_vec();
    let held = server.call(&[b"HVALS", &bucket]).unwrap();
    assert!(held.ends_with(b"x\x00\x01\x86\xa0\r\n"), "{}", held.escape_ascii());
}
