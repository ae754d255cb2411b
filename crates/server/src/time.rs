//! The server's time: what expires goes by it, never by this machine's.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use keyfold_core::resp::Reply;

use crate::connection::Server;
use crate::reply::FromReply;

/// What TIME says, in milliseconds since 1970.
pub struct Moment(pub i64);

impl FromReply for Moment {
    fn from_reply(reply: Reply<'_>) -> Option<Self> {
        reply.time_us().map(|us| Self(us / 1000))
    }
}

/// The server's time, by its TIME once and the monotonic clock since.
#[derive(Clone, Copy, Debug)]
pub struct ServerTime {
    asked: Instant,
    at_ms: i64,
}

impl ServerTime {
    /// Asks the server, or this machine where the server refuses.
    pub fn ask(server: &mut Server) -> anyhow::Result<Self> {
        // Some managed servers refuse TIME; then this machine's clock has to do.
        let at_ms = server.ask(&[b"TIME"]).map(|Moment(ms)| ms).unwrap_or_else(|_| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        });
        // The request may have waited behind others, and hardly the reply.
        Ok(Self { asked: Instant::now(), at_ms })
    }

    /// How long ago the server was asked.
    pub fn age(&self) -> Duration {
        self.asked.elapsed()
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.at_ms + i64::try_from(self.asked.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}
