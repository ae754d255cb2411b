//! The server's time: what expires goes by it, never by this machine's.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use redis::Value;

use super::Server;

/// What TIME answered, in milliseconds since 1970.
pub(crate) fn read_ms(reply: Value) -> Option<i64> {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(reply).ok()?;
    Some(seconds * 1000 + micros / 1000)
}

/// The server's time, by its TIME once and the monotonic clock since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerTime {
    asked: Instant,
    at_ms: i64,
}

impl ServerTime {
    pub(crate) fn ask(server: &mut Server) -> anyhow::Result<Self> {
        let asked = Instant::now();
        // Some managed servers refuse TIME; then this machine's clock has to do.
        let at_ms = server.ask(&redis::cmd("TIME")).ok().and_then(read_ms).unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        });
        Ok(Self { asked, at_ms })
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.at_ms + i64::try_from(self.asked.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}
