//! Whether others use a server while keys are moved there, so that the move leaves them room by itself.
//!
//! A server counts the bytes that it was sent. What is more than the move's own is others' requests.

use std::time::{Duration, Instant};

use keyfold_server::Server;

/// How often it is asked.
const EVERY: Duration = Duration::from_millis(100);

/// Up to so many bytes a second nobody is taken to be there: keyfolds that serve nobody, replicas and monitoring send some
/// hundreds each.
const QUIET_BYTES_PER_SECOND: f64 = 16_000.0;

/// So many times in a row it has to be quiet. Others who wait for the move send little meanwhile: one quiet moment that let it
/// go faster would keep them quiet.
const QUIET_LOOKS: u32 = 10;

/// What is known of one server's others.
#[derive(Debug)]
pub(super) struct Others {
    /// When it was asked, and what it had been sent by then.
    asked: Option<(Instant, u64)>,
    /// What the move has sent since.
    own: u64,
    /// How often in a row nobody was seen.
    quiet_looks: u32,
}

impl Others {
    /// Nothing is known yet, and so they are taken to be there.
    pub(super) fn new() -> Self {
        Self { asked: None, own: 0, quiet_looks: 0 }
    }

    /// Notes what the move sends.
    pub(super) fn note_own(&mut self, bytes: usize) {
        self.own += bytes as u64;
    }

    /// Whether there are any.
    pub(super) fn are_there(&mut self, server: &mut Server) -> anyhow::Result<bool> {
        match self.asked {
            Some((at, _)) if at.elapsed() < EVERY => {}
            before => {
                let sent: u64 = server.info("stats")?.needed("total_net_input_bytes")?;
                let now = Instant::now();
                if let Some((at, sent_before)) = before {
                    let others = sent.saturating_sub(sent_before).saturating_sub(self.own);
                    let is_quiet = others as f64 / (now - at).as_secs_f64() <= QUIET_BYTES_PER_SECOND;
                    self.quiet_looks = if is_quiet { self.quiet_looks + 1 } else { 0 };
                }
                (self.asked, self.own) = (Some((now, sent)), 0);
            }
        }
        Ok(self.quiet_looks < QUIET_LOOKS)
    }
}

#[cfg(test)]
mod tests {
    use keyfold_proxy::address::ServerAddress;
    use keyfold_testkit::found;

    use super::*;

    #[test]
    fn others_are_those_who_send_more_than_the_move() {
        let server = found().remove(0).start(&[]).unwrap();
        let mut tool = Server::connect(&server.url().parse::<ServerAddress>().unwrap().into()).unwrap();
        let mut other = server.connect().unwrap();
        let mut others = Others::new();
        let mut look = |sends: &mut dyn FnMut(&mut Others)| {
            sends(&mut others);
            std::thread::sleep(EVERY);
            others.are_there(&mut tool).unwrap()
        };
        assert!(look(&mut |_| {}), "nothing is known yet");
        assert!((1..QUIET_LOOKS).all(|_| look(&mut |_| {})), "they may only be waiting");
        assert!(!look(&mut |_| {}));
        let request =
            b"*2\r\n$4\r\nPING\r\n$50000\r\n".iter().chain(&[b'x'; 50_000]).chain(b"\r\n").copied().collect::<Vec<_>>();
        let mut send = || {
            other.send_bytes(&request).unwrap();
            other.reply().unwrap();
        };
        assert!(look(&mut |_| (0..40).for_each(|_| send())), "2 MB in a tenth of a second");
        assert!((1..QUIET_LOOKS).all(|_| look(&mut |_| {})));
        assert!(!look(&mut |others| {
            (0..40).for_each(|_| send());
            others.note_own(40 * request.len());
        }));
    }
}
