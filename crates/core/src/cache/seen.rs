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

use super::{KeyHash, Popularity};
use crate::admin::ASKED_KEY;
use crate::resp::{Reply, write_command};

/// Requests in one message at most. Of more between two messages it has the latest, which stand for all.
const MOST: usize = 2048;
/// Messages that may wait in the server: 16 KiB each.
const MOST_WAITING: &[u8] = b"16";
/// What nobody takes is gone after so long, in milliseconds.
const LASTS_MS: &[u8] = b"10000";

/// In a hash that is told, this bit says that the key was written.
const WRITTEN: u64 = 1;

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
    /// Notes that a key was asked for, or written.
    #[inline]
    pub fn note(&self, key: KeyHash, is_written: bool) {
        let at = self.noted.fetch_add(1, Ordering::Relaxed);
        let told = key.0 & !WRITTEN | u64::from(is_written);
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
                // The writer's bit is told with the hash, and everywhere the same.
                let key = KeyHash(told & !WRITTEN);
                for _ in 0..weight {
                    popularity.note(key, told & WRITTEN != 0);
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
        (0..5).for_each(|_| seen.note(key(1), false));
        seen.note(key(2), true);
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
        (0..4 * 2048).for_each(|at| seen.note(key(at % 2), false));
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
