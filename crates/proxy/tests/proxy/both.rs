//! A plain server and a keyfold before another, asked the same, one command after the other.

use keyfold_testkit::compare::{Compare, Queue};
use keyfold_testkit::{Server, Wire};

/// Milliseconds that the two servers may be apart when they carry out the same command.
const SLACK_MS: i64 = 500;

/// One connection to each.
pub(crate) struct Both {
    pub(crate) plain: Wire,
    pub(crate) folded: Wire,
    queue: Queue,
}

impl Both {
    pub(crate) fn connect(plain: &Server, folded: Wire) -> Self {
        Self { plain: plain.connect().unwrap(), folded, queue: Queue::default() }
    }

    /// Asks both, and fails where they answer otherwise; with the answer.
    pub(crate) fn same(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let expected = self.plain.call(args).unwrap();
        let found = self.folded.call(args).unwrap();
        let owned: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
        let agree = self.queue.agree(&owned, Compare::of(&owned), &expected, &found, SLACK_MS);
        assert!(agree, "{}: {} instead of {}", shown(args), short(&found), short(&expected));
        expected
    }

    /// The same of several, their words split at spaces.
    pub(crate) fn all_same(&mut self, texts: &[&str]) {
        for text in texts {
            self.same(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
    }
}

pub(crate) fn shown(args: &[&[u8]]) -> String {
    args.iter().take(8).map(|arg| short(arg)).collect::<Vec<_>>().join(" ")
}

pub(crate) fn short(bytes: &[u8]) -> String {
    format!("{} ({} bytes)", bytes[..bytes.len().min(80)].escape_ascii(), bytes.len())
}
