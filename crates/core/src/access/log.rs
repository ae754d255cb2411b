//! ACL LOG: what was denied, the latest first.

use std::collections::VecDeque;

use crate::resp::Answer;
use crate::server_info::ServerInfo;

/// As many entries as a server keeps by default (`acllog-max-len`).
const MAX_ENTRIES: usize = 128;

/// Denials that are alike are counted as one for so long.
const GROUPED_MS: i64 = 60_000;

/// What was denied, to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied<'a> {
    /// `auth`, `command`, `key` or `channel`.
    pub(crate) reason: &'static str,
    /// Within MULTI.
    pub(crate) queued: bool,
    /// The name of the command, key or channel.
    pub(crate) object: &'a [u8],
    /// The user, or the name that was tried.
    pub(crate) user: &'a [u8],
    /// The client's line of CLIENT LIST.
    pub(crate) client: String,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    count: u64,
    reason: &'static str,
    context: &'static str,
    object: Vec<u8>,
    user: Vec<u8>,
    client: String,
    first_ms: i64,
    last_ms: i64,
}

/// The log.
#[derive(Debug, Default)]
pub(crate) struct DenialLog {
    entries: VecDeque<Entry>,
    next: u64,
}

impl DenialLog {
    /// Adds a denial; one like another of just before is counted with it.
    pub(crate) fn add(&mut self, denied: Denied<'_>, now_ms: i64) {
        let context = if denied.queued { "multi" } else { "toplevel" };
        let alike = |entry: &Entry| {
            entry.reason == denied.reason
                && entry.context == context
                && now_ms - entry.last_ms <= GROUPED_MS
                && entry.object == denied.object
                && entry.user == denied.user
        };
        let entry = match self.entries.iter().position(alike).and_then(|at| self.entries.remove(at)) {
            Some(entry) => Entry { count: entry.count + 1, client: denied.client, last_ms: now_ms, ..entry },
            None => {
                self.next += 1;
                Entry {
                    number: self.next - 1,
                    count: 1,
                    reason: denied.reason,
                    context,
                    object: denied.object.to_vec(),
                    user: denied.user.to_vec(),
                    client: denied.client,
                    first_ms: now_ms,
                    last_ms: now_ms,
                }
            }
        };
        self.entries.push_front(entry);
        self.entries.truncate(MAX_ENTRIES);
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Answers ACL LOG with the latest entries.
    pub(crate) fn answer(&self, count: usize, now_ms: i64, server: &ServerInfo, answer: &mut Answer<'_>) {
        let shown = count.min(self.entries.len());
        let has_numbers = server.is_since((7, 2), (7, 2));
        answer.array(shown);
        for entry in self.entries.iter().take(shown) {
            answer.map(if has_numbers { 10 } else { 7 });
            answer.bulk(b"count");
            answer.integer(i64::try_from(entry.count).unwrap_or(i64::MAX));
            let texts: [(&str, &[u8]); 4] = [
                ("reason", entry.reason.as_bytes()),
                ("context", entry.context.as_bytes()),
                ("object", &entry.object),
                ("username", &entry.user),
            ];
            for (name, text) in texts {
                answer.bulk(name.as_bytes());
                answer.bulk(text);
            }
            answer.bulk(b"age-seconds");
            answer.milliseconds_as_seconds(now_ms - entry.last_ms);
            answer.bulk(b"client-info");
            answer.bulk(entry.client.trim_end().as_bytes());
            if has_numbers {
                answer.bulk(b"entry-id");
                answer.integer(i64::try_from(entry.number).unwrap_or(i64::MAX));
                answer.bulk(b"timestamp-created");
                answer.integer(entry.first_ms);
                answer.bulk(b"timestamp-last-updated");
                answer.integer(entry.last_ms);
            }
        }
    }
}
