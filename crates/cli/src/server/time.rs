//! The server's time: what expires goes by it, never by this machine's.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Server;

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
        let at_ms = match server.ask::<(i64, i64)>(&redis::cmd("TIME")) {
            Ok((seconds, micros)) => seconds * 1000 + micros / 1000,
            Err(_) => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
        };
        Ok(Self { asked, at_ms })
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.at_ms + i64::try_from(self.asked.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}
