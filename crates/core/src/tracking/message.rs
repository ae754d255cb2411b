//! How a client is told what to forget.
//!
//! ```text
//! >2 invalidate *2 k1 k2                             a push, to who speaks RESP3
//! >2 invalidate _                                    everything
//! *3 message __redis__:invalidate *2 k1 k2           to a subscriber who speaks RESP2, from who redirects there
//! >2 tracking-redir-broken 17                        client 17, to whom is redirected, is gone
//! ```

use super::mailbox::Stale;
use crate::resp::{Answer, Protocol};

/// The channel that RESP2 has for it.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Tells who speaks RESP3.
pub(crate) fn push(stale: &Stale, out: &mut Vec<u8>) {
    let mut answer = Answer::new(out, Protocol::Resp3);
    answer.push(2);
    answer.bulk(b"invalidate");
    write_keys(stale, &mut answer);
}

/// Tells a subscriber who speaks RESP2.
pub(crate) fn publish(stale: &Stale, out: &mut Vec<u8>) {
    let mut answer = Answer::new(out, Protocol::Resp2);
    answer.array(3);
    answer.bulk(b"message");
    answer.bulk(CHANNEL);
    write_keys(stale, &mut answer);
}

/// Tells who speaks RESP3 that this client, to whom it redirects, is gone.
pub(crate) fn push_broken(redirect: u64, out: &mut Vec<u8>) {
    let mut answer = Answer::new(out, Protocol::Resp3);
    answer.push(2);
    answer.bulk(b"tracking-redir-broken");
    answer.integer(i64::try_from(redirect).unwrap_or(i64::MAX));
}

fn write_keys(stale: &Stale, answer: &mut Answer<'_>) {
    if stale.is_all() {
        return answer.nil();
    }
    answer.array(stale.keys().len());
    stale.keys().iter().for_each(|key| answer.bulk(key));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::mailbox::Key;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        out.escape_ascii().to_string()
    }

    #[test]
    fn messages_are_those_of_the_server() {
        let mut stale = Stale::default();
        stale.add(&Key::from(&b"k\r\n"[..]));
        assert_eq!(written(|out| push(&stale, out)), r">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nk\r\n\r\n");
        assert_eq!(
            written(|out| publish(&stale, out)),
            r"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$3\r\nk\r\n\r\n"
        );
        assert_eq!(written(|out| push(&Stale::all(), out)), r">2\r\n$10\r\ninvalidate\r\n_\r\n");
        assert_eq!(
            written(|out| publish(&Stale::all(), out)),
            r"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n"
        );
        assert_eq!(written(|out| push_broken(17, out)), r">2\r\n$21\r\ntracking-redir-broken\r\n:17\r\n");
    }
}
