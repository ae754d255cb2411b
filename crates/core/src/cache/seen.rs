//! What several keyfolds tell each other of requests: each sees a part of them, and one evicts.
//!
//! Whoever doesn't evict puts the hashes of the keys that were asked for into a list in the server, some times a second, and
//! whoever does takes them out. A list, as it goes to one place, costs the server little, and is bounded there: what nobody
//! takes is dropped. All that is lost where anything is, is counts.
//!
//! ```text
//! keyfold B ──RPUSH: hashes──▶ keyfold:{home}:asked ──LPOP──▶ keyfold A, which evicts
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use super::{KeyHash, Popularity, Use};
use crate::admin::ASKED_KEY;
use crate::resp::{Reply, write_command};

/// Requests in one message at most. Of more between two messages it has the latest, which stand for all.
const MOST: usize = 2048;
/// Messages that may wait in the server: 16 KiB each.
const MOST_WAITING: &[u8] = b"16";
/// What nobody takes is gone after so long, in milliseconds.
const LASTS_MS: &[u8] = b"10000";

/// In a hash that is told, these bits say what the key was used for.
const READS: u64 = 1;
const WRITES: u64 = 2;

/// What was asked for since it was told last.
#[derive(Debug)]
pub struct Seen {
    latest: Box<[AtomicU64]>,
    noted: AtomicU64,
    told: AtomicU64,
}

impl Default for Seen {
    fn default() -> Self {
        let latest = std::iter::repeat_with(AtomicU64::default).take(MOST).collect();
        Self { latest, noted: AtomicU64::new(0), told: AtomicU64::new(0) }
    }
}

impl Seen {
    /// The bits of a hash that aren't the key's own.
    pub(super) const USES: u64 = READS | WRITES;

    /// Notes what a key was used for.
    #[inline]
    pub fn note(&self, key: KeyHash, used: Use) {
        let at = self.noted.fetch_add(1, Ordering::Relaxed);
        let used = if used.reads() { READS } else { 0 } | if used.writes() { WRITES } else { 0 };
        let told = key.0 & !Self::USES | used;
        self.latest[usize::try_from(at).unwrap_or(0) % MOST].store(told, Ordering::Relaxed);
    }

    /// Writes the message of what was noted since the last one; how many replies it has, none where there is nothing to say.
    /// For one thread at a time.
    pub fn tell(&self, wire: &mut Vec<u8>) -> usize {
        let noted = self.noted.load(Ordering::Relaxed);
        let new = noted - self.told.swap(noted, Ordering::Relaxed);
        let count = usize::try_from(new).unwrap_or(MOST).min(MOST);
        if count == 0 {
            return 0;
        }
        // Each stands for so many.
        let weight = u8::try_from(new / count as u64).unwrap_or(u8::MAX);
        let mut message = vec![weight];
        for at in 0..count {
            let at = usize::try_from(noted - 1).unwrap_or(0).wrapping_sub(at) % MOST;
            message.extend(self.latest[at].load(Ordering::Relaxed).to_le_bytes());
        }
        write_command(wire, &[b"RPUSH", ASKED_KEY, &message]);
        write_command(wire, &[b"LTRIM", ASKED_KEY, &[b"-", MOST_WAITING].concat(), b"-1"]);
        write_command(wire, &[b"PEXPIRE", ASKED_KEY, LASTS_MS]);
        3
    }

    /// Writes the question for what others have told; it has one reply.
    pub fn ask(wire: &mut Vec<u8>) {
        write_command(wire, &[b"LPOP", ASKED_KEY, MOST_WAITING]);
    }

    /// Notes what others have told, by the reply; how many requests that were. What is no message is passed over.
    pub fn take(reply: &[u8], popularity: &Popularity) -> u64 {
        let Ok(Reply::Array(messages)) = Reply::parse(reply) else { return 0 };
        let mut taken = 0;
        for message in messages.filter_map(Reply::bytes) {
            let Some((&weight, hashes)) = message.split_first() else { continue };
            for hash in hashes.chunks_exact(8) {
                let told = hash.try_into().map_or(0, u64::from_le_bytes);
                let key = KeyHash(told & !Self::USES);
                let used = match told & Self::USES {
                    READS => Use::Read,
                    WRITES => Use::Write,
                    Self::USES => Use::Update,
                    _ => continue,
                };
                for _ in 0..weight {
                    popularity.note(key, used);
                    taken += 1;
                }
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::super::Standing;
    use super::*;

    fn key(number: u32) -> KeyHash {
        KeyHash::of(format!("key:{number}").as_bytes())
    }

    /// The message, as a server gives it back.
    fn popped(seen: &Seen) -> Vec<u8> {
        let mut wire = Vec::new();
        assert_eq!(seen.tell(&mut wire), 3);
        let first = memchr::memmem::find(&wire, b"*4\r\n").unwrap();
        let message = match Reply::parse(&wire[..first]).unwrap() {
            Reply::Array(mut args) => args.nth(2).unwrap().bytes().unwrap().to_vec(),
            other => panic!("{other:?}"),
        };
        let mut reply = Vec::new();
        write_command(&mut reply, &[&message]);
        reply
    }

    #[test]
    fn what_one_has_seen_another_knows() {
        let (seen, popularity) = (Seen::default(), Popularity::new(1 << 20));
        (0..5).for_each(|_| seen.note(key(1), Use::Read));
        seen.note(key(2), Use::Update);
        assert_eq!(Seen::take(&popped(&seen), &popularity), 6);
        assert_eq!(
            [1, 2, 3].map(|one| popularity.standing(key(one))),
            [Standing::Known(5), Standing::New, Standing::Known(0)]
        );
        assert_eq!(seen.tell(&mut Vec::new()), 0, "it is told once");
    }

    #[test]
    fn of_more_than_a_message_holds_the_latest_stand_for_all() {
        let (seen, popularity) = (Seen::default(), Popularity::new(1 << 20));
        (0..4 * 2048).for_each(|at| seen.note(key(at % 2), Use::Read));
        assert_eq!(Seen::take(&popped(&seen), &popularity), 4 * 2048);
        assert_eq!(popularity.standing(key(0)), Standing::Known(255));
    }

    #[test]
    fn what_is_no_message_is_passed_over() {
        let popularity = Popularity::new(1 << 20);
        for reply in [
            &b"$-1\r\n"[..],
            b"*-1\r\n",
            b"*1\r\n$0\r\n\r\n",
            b"*1\r\n$3\r\n\x01ab\r\n",
            b"-WRONGTYPE\r\n",
            b"*1\r\n:1\r\n",
        ] {
            assert_eq!(Seen::take(reply, &popularity), 0, "{}", reply.escape_ascii());
        }
    }
}
