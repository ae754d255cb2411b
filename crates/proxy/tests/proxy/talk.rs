//! The same conversation with a plain server and with a proxy before another, and what was heard in both.

use std::net::SocketAddr;
use std::time::Duration;

use keyfold_testkit::{Binary, Value, Wire, found_with_redis_7};

use crate::stage::{address, call, config_for};

/// The oldest server at hand whose words keyfold has, and the newest of each kind.
pub(crate) fn ends() -> Vec<Binary> {
    let all = found_with_redis_7();
    let last = |flavor| all.iter().rfind(|binary| binary.flavor() == flavor);
    let newest = all.iter().map(Binary::flavor).filter_map(last);
    let mut ends: Vec<Binary> = all.first().into_iter().chain(newest).cloned().collect();
    ends.dedup();
    ends
}

/// Holds the same conversation with a plain server and with a proxy before another, and compares what was heard.
pub(crate) fn alike(converse: impl Fn(SocketAddr) -> Vec<String>) {
    for binary in ends() {
        let [plain, behind] = [(); 2].map(|()| binary.start(&[]).unwrap());
        let proxy = keyfold_proxy::start(config_for(&behind)).unwrap();
        let (theirs, ours) = (converse(plain.address()), converse(address(&proxy)));
        let unlike: Vec<_> = theirs.iter().zip(&ours).filter(|(theirs, ours)| theirs != ours).collect();
        assert!(unlike.is_empty() && ours.len() == theirs.len(), "{}: plain, keyfold: {unlike:#?}", binary.name());
    }
}

/// Clients of one conversation, and what was heard, with what must differ masked.
pub(crate) struct Talk {
    address: SocketAddr,
    pub(crate) heard: Vec<String>,
}

/// What one server or another says of its own.
pub(crate) const MASKED: &[&str] = &[
    "id",
    "addr",
    "laddr",
    "fd",
    "age",
    "idle",
    "qbuf",
    "qbuf-free",
    "argv-mem",
    "multi-mem",
    "rbs",
    "rbp",
    "obl",
    "oll",
    "omem",
    "tot-mem",
    "events",
    "tot-net-in",
    "tot-net-out",
    "tot-cmds",
];

impl Talk {
    pub(crate) fn with(address: SocketAddr) -> Self {
        Self { address, heard: Vec::new() }
    }

    pub(crate) fn connect(&self) -> Wire {
        let wire = Wire::connect(self.address).unwrap();
        wire.set_timeout(Duration::from_secs(60)).unwrap();
        wire
    }

    /// Asks, notes the answer and returns it.
    pub(crate) fn ask(&mut self, wire: &mut Wire, command: &str) -> String {
        let reply = call(wire, command);
        self.heard.push(format!("{command}: {}", masked(&reply)));
        reply
    }

    /// The same where the command holds what is another's: only the answer is noted.
    pub(crate) fn ask_unsaid(&mut self, wire: &mut Wire, command: &str) -> String {
        let reply = call(wire, command);
        self.heard.push(masked(&reply));
        reply
    }

    pub(crate) fn read(&mut self, wire: &mut Wire) {
        let reply = String::from_utf8(wire.reply().unwrap()).unwrap();
        self.heard.extend(by_key(&masked(&reply)));
    }

    pub(crate) fn note_closed(&mut self, wire: &mut Wire) {
        self.heard.push(format!("closed: {}", wire.is_closed().unwrap()));
    }
}

pub(crate) fn id(wire: &mut Wire) -> String {
    match wire.ask(&[b"CLIENT", b"ID"]).unwrap() {
        Value::Integer(id) => id.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A message that several keys are no longer what they were is the same as one for each, in any order.
fn by_key(heard: &str) -> Vec<String> {
    let lines: Vec<&str> = heard.lines().collect();
    let keys = lines.iter().position(|line| line.ends_with("invalidate")).map_or(lines.len(), |at| at + 1);
    match lines.get(keys) {
        Some(count) if count.starts_with('*') && lines.len() > keys + 1 => {
            let head = lines[..keys].join("\n");
            let mut each: Vec<&[&str]> = lines[keys + 1..].chunks(2).collect();
            each.sort_by_key(|key| key.last().copied());
            each.iter().map(|key| format!("{head}\n*1\n{}", key.join("\n"))).collect()
        }
        _ => vec![heard.to_owned()],
    }
}

/// A reply without its length and without the values of fields that differ.
pub(crate) fn masked(reply: &str) -> String {
    let mask = |word: &str| match word.split_once('=') {
        Some((name, _)) if MASKED.contains(&name) => format!("{name}=…"),
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(mask).collect::<Vec<_>>().join(" ");
    let is_text = reply.contains(" laddr=");
    let lines = reply.lines().skip(usize::from(is_text));
    lines.map(|text| line(text.strip_prefix("txt:").unwrap_or(text))).collect::<Vec<_>>().join("\n")
}
