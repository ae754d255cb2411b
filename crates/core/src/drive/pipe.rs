//! One connection's replies, and whose they are.

use std::collections::VecDeque;

use crate::resp::{ReplyError, ReplyScanner};

/// What is awaited on a connection, in the order in which it was asked.
#[derive(Debug)]
pub struct Pipe<W> {
    scanner: ReplyScanner,
    awaited: VecDeque<(W, u32)>,
}

impl<W> Default for Pipe<W> {
    fn default() -> Self {
        Self { scanner: ReplyScanner::default(), awaited: VecDeque::new() }
    }
}

impl<W> Pipe<W> {
    /// So many replies more will come, for `whose`.
    pub fn expect(&mut self, whose: W, replies: u32) {
        debug_assert!(replies > 0, "nobody waits for nothing");
        self.awaited.push_back((whose, replies));
    }

    /// Whose reply comes next.
    pub fn front(&self) -> Option<&W> {
        self.awaited.front().map(|(whose, _)| whose)
    }

    /// The same, to note something of it.
    pub fn front_mut(&mut self) -> Option<&mut W> {
        self.awaited.front_mut().map(|(whose, _)| whose)
    }

    /// Who asked last, or so many before the last, to note something of it.
    pub fn nth_back_mut(&mut self, before: usize) -> Option<&mut W> {
        self.awaited.iter_mut().nth_back(before).map(|(whose, _)| whose)
    }

    /// Who asked, the last first.
    pub fn latest(&self) -> impl Iterator<Item = &W> {
        self.awaited.iter().rev().map(|(whose, _)| whose)
    }

    /// How many replies are still to come for the front.
    pub fn left_for_front(&self) -> u32 {
        self.awaited.front().map_or(0, |(_, left)| *left)
    }

    /// Whether nothing is awaited.
    pub fn is_idle(&self) -> bool {
        self.awaited.is_empty()
    }

    /// The length of the reply that `input` begins with; none where more bytes are needed, with which it goes on where
    /// it stopped.
    ///
    /// # Errors
    /// Bytes that no reply begins with.
    pub fn scan(&mut self, input: &[u8]) -> Result<Option<usize>, ReplyError> {
        self.scanner.scan(input)
    }

    /// Forgets what was scanned of a reply that isn't whole.
    pub fn rescan(&mut self) {
        self.scanner = ReplyScanner::default();
    }

    /// The front has had one of its replies; whose that was, where it was the last.
    pub fn advance(&mut self) -> Option<W> {
        let (_, left) = self.awaited.front_mut()?;
        *left = left.saturating_sub(1);
        if *left > 0 {
            return None;
        }
        self.awaited.pop_front().map(|(whose, _)| whose)
    }

    /// The connection is lost: everybody who was still owed replies, in order.
    pub fn lose(&mut self) -> impl Iterator<Item = W> + use<W> {
        self.rescan();
        std::mem::take(&mut self.awaited).into_iter().map(|(whose, _)| whose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_go_to_who_asked_in_order() {
        let mut pipe = Pipe::default();
        pipe.expect('a', 2);
        pipe.expect('b', 1);
        assert_eq!((pipe.front().copied(), pipe.left_for_front(), pipe.advance()), (Some('a'), 2, None));
        assert_eq!((pipe.left_for_front(), pipe.advance()), (1, Some('a')));
        pipe.expect('a', 1);
        assert_eq!((pipe.advance(), pipe.advance(), pipe.advance()), (Some('b'), Some('a'), None));
        assert!(pipe.is_idle());
    }

    #[test]
    fn half_a_reply_is_forgotten_with_its_connection() {
        let mut pipe = Pipe::default();
        pipe.expect('a', 1);
        pipe.expect('b', 3);
        assert_eq!(pipe.scan(b"$5\r\nhe").unwrap(), None);
        assert_eq!(pipe.lose().collect::<String>(), "ab");
        assert_eq!((pipe.is_idle(), pipe.scan(b"+OK\r\n").unwrap()), (true, Some(5)));
    }
}
