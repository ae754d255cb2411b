//! An entry as one line of CLIENT LIST, with the fields that the server behind has.
//!
//! What a proxy has no such thing for reads 0: the sizes of a server's own buffers (`qbuf-free`, `rbs`, `rbp`, `obl`,
//! `oll`), and bytes on the wire.

use std::fmt::Write;

use super::{ClientFlags, Entry};
use crate::resp::Protocol;
use crate::server_info::ServerInfo;

/// One line, its line break included.
pub(crate) fn line(entry: &Entry, server: &ServerInfo, now_ms: i64) -> String {
    let mut line = Line(String::new());
    let (state, words) = (entry.state(), entry.words().clone());
    let waiting = entry.answer_bytes();
    line.add("id", entry.id());
    line.add("addr", entry.address());
    line.add("laddr", entry.local_address());
    line.add("fd", entry.descriptor());
    line.add("name", words.name.escape_ascii());
    line.add("age", entry.age_seconds(now_ms));
    line.add("idle", entry.idle_seconds(now_ms));
    line.add("flags", letters(state.flags));
    if server.is_valkey_since(8, 1) {
        line.add("capa", if state.flags.contains(ClientFlags::REDIRECT) { "r" } else { "" });
    }
    line.add("db", state.database);
    line.add("sub", state.channels);
    line.add("psub", state.patterns);
    line.add("ssub", state.shards);
    match state.flags.contains(ClientFlags::MULTI) {
        true => line.add("multi", state.queued),
        false => line.add("multi", -1),
    }
    if server.is_since((7, 4), (8, 0)) {
        line.add("watch", state.watched);
    }
    line.add("qbuf", entry.unread_bytes());
    for unknown in ["qbuf-free", "argv-mem"] {
        line.add(unknown, 0);
    }
    line.add("multi-mem", state.queued_bytes);
    for unknown in ["rbs", "rbp", "obl", "oll"] {
        line.add(unknown, 0);
    }
    line.add("omem", waiting);
    line.add("tot-mem", entry.unread_bytes() + state.queued_bytes + waiting);
    line.add("events", if waiting > 0 { "rw" } else { "r" });
    line.add("cmd", entry.command());
    line.add("user", if words.user.is_empty() { "(superuser)" } else { &words.user });
    line.add("redir", state.redirect);
    line.add("resp", if entry.protocol() == Protocol::Resp3 { 3 } else { 2 });
    if server.is_since((7, 2), (7, 2)) {
        line.add("lib-name", words.library_name.escape_ascii());
        line.add("lib-ver", words.library_version.escape_ascii());
    }
    if server.is_redis_since(8, 0) {
        line.add("io-thread", 0);
    }
    if server.is_valkey_since(8, 0) {
        line.add("tot-net-in", 0);
        line.add("tot-net-out", 0);
        line.add("tot-cmds", entry.requests());
    }
    line.0.push('\n');
    line.0
}

struct Line(String);

impl Line {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let gap = if self.0.is_empty() { "" } else { " " };
        // Writing to a string can't fail.
        let _ = write!(self.0, "{gap}{name}={value}");
    }
}

/// The letters of a client's flags, in the server's order; `N` for none.
pub(super) fn letters(flags: ClientFlags) -> String {
    let letters: String = LETTERS.iter().filter(|(_, flag)| flags.contains(*flag)).map(|(letter, _)| *letter).collect();
    if letters.is_empty() { "N".to_owned() } else { letters }
}

/// Those that a client of a proxy can have.
const LETTERS: &[(char, ClientFlags)] = &[
    ('O', ClientFlags::MONITOR),
    ('P', ClientFlags::PUBSUB),
    ('x', ClientFlags::MULTI),
    ('b', ClientFlags::BLOCKED),
    ('t', ClientFlags::TRACKING),
    ('R', ClientFlags::BROKEN_REDIRECT),
    ('B', ClientFlags::BROADCAST),
    ('e', ClientFlags::NO_EVICT),
    ('T', ClientFlags::NO_TOUCH),
];
