//! A plain client of clusters: small, blocking, one command or transaction at a time, and right. It is what others are compared with.
//!
//! It keeps a map of slots, patched by every MOVED and read anew after one; follows ASK for one command, with ASKING
//! before it; and waits, for as long as its patience lasts, where the cluster says that it is down or to try again.
//! Nothing is sent a second time that may have been carried out: where a connection breaks after a command was sent,
//! the caller is told ([`CallError::Lost`]).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use crate::reply::Value;
use crate::wire::{Wire, WireError};

use super::slots::{SLOTS, slot_of};

/// Between two tries.
const AGAIN_AFTER: Duration = Duration::from_millis(10);
/// Errors that mean that nothing was done, and that it may be done later.
const LATER: [&[u8]; 4] = [b"TRYAGAIN", b"CLUSTERDOWN", b"LOADING", b"MASTERDOWN"];

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The command was sent, and no answer came: it may have been carried out, or may still be.
    #[error("no answer from {node}: {source}")]
    Lost {
        /// Whom it was sent to.
        node: SocketAddr,
        /// What came instead.
        source: WireError,
    },
    /// It was not sent: nobody was there to send it to, in all the time there was.
    #[error("slot {slot} has nobody to be asked; the last try: {last}")]
    Nobody {
        /// The slot of its key.
        slot: u16,
        /// What the last try met.
        last: String,
    },
}

/// A client.
#[derive(Debug)]
pub struct PlainClient {
    seeds: Vec<SocketAddr>,
    password: Option<String>,
    owners: HashMap<u16, SocketAddr>,
    wires: HashMap<SocketAddr, Wire>,
    /// Which seed is asked for the map next.
    next_seed: usize,
    is_stale: bool,
    timeout: Duration,
    patience: Duration,
    /// How often it was sent elsewhere.
    pub redirects: u64,
}

impl PlainClient {
    /// A client that knows some nodes.
    pub fn new(seeds: Vec<SocketAddr>, password: Option<String>) -> Self {
        Self {
            seeds,
            password,
            owners: HashMap::new(),
            wires: HashMap::new(),
            next_seed: 0,
            is_stale: true,
            timeout: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            redirects: 0,
        }
    }

    /// Limits the wait for one answer, and the time for one command with all its tries.
    pub fn set_limits(&mut self, timeout: Duration, patience: Duration) {
        (self.timeout, self.patience) = (timeout, patience);
        self.wires.clear();
    }

    /// Sends a command to the owner of its key, or of slot 0 where it has none, and returns the answer, be it an error.
    /// Errors that say to try later are answers once the patience has ended.
    ///
    /// # Errors
    /// Where no answer comes; the error says whether the command may have been carried out.
    pub fn call(&mut self, key: &[u8], args: &[&[u8]]) -> Result<Value, CallError> {
        self.settle(slot_of(key), &|wire| wire.ask(args))
    }

    /// Sends commands on keys of one slot between MULTI and EXEC, and returns what EXEC is answered by, as
    /// [`Wire::transact`] does.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn transact(&mut self, key: &[u8], commands: &[&[&[u8]]]) -> Result<Value, CallError> {
        self.settle(slot_of(key), &|wire| wire.transact(commands))
    }

    /// Asks the owner of a slot, wherever it is led.
    fn settle(&mut self, slot: u16, ask: &Question<'_>) -> Result<Value, CallError> {
        let deadline = Instant::now() + self.patience;
        let mut redirected: Option<(Redirect, SocketAddr)> = None;
        loop {
            let result = self.send_once(slot, redirected.take(), ask);
            let may_again = Instant::now() < deadline;
            match result {
                Sent::Answer(Value::Error(error), node) => {
                    if let (Some((kind, to)), true) = (redirect(&error, node), may_again) {
                        self.redirects += 1;
                        redirected = Some((kind, to));
                        if kind == Redirect::Moved {
                            self.owners.insert(slot, to);
                            self.is_stale = true;
                        }
                        continue;
                    }
                    let is_later = LATER.iter().any(|code| error.starts_with(code));
                    let is_replica = error.starts_with(b"READONLY");
                    if !may_again || !(is_later || is_replica) {
                        return Ok(Value::Error(error));
                    }
                    self.is_stale |= !error.starts_with(b"TRYAGAIN");
                }
                Sent::Answer(answer, _) => return Ok(answer),
                Sent::Lost(node, source) => {
                    self.is_stale = true;
                    return Err(CallError::Lost { node, source });
                }
                Sent::Not(last) if !may_again => return Err(CallError::Nobody { slot, last }),
                Sent::Not(_) => self.is_stale = true,
            }
            thread::sleep(AGAIN_AFTER);
        }
    }

    /// One try. Who was redirected goes there before the map is read anew.
    fn send_once(&mut self, slot: u16, redirected: Option<(Redirect, SocketAddr)>, ask: &Question<'_>) -> Sent {
        if self.is_stale && redirected.is_none() {
            self.read_map();
        }
        let Some(node) = redirected.map(|(_, to)| to).or_else(|| self.owners.get(&slot).copied()) else {
            return Sent::Not("no node names an owner".to_owned());
        };
        let wire = match self.wire(node) {
            Ok(wire) => wire,
            Err(error) => {
                self.owners.remove(&slot);
                return Sent::Not(format!("{node}: {error}"));
            }
        };
        let result = match redirected {
            Some((Redirect::Ask, _)) => wire.ask(&[b"ASKING"]).and_then(|_| ask(wire)),
            _ => ask(wire),
        };
        match result {
            Ok(answer) => Sent::Answer(answer, node),
            Err(source) => {
                self.wires.remove(&node);
                Sent::Lost(node, source)
            }
        }
    }

    /// Asks one node for the map, at each call the next.
    fn read_map(&mut self) {
        let mut known = self.seeds.clone();
        let mut owners: Vec<SocketAddr> = self.owners.values().copied().collect();
        owners.sort_unstable();
        owners.dedup();
        known.extend(owners);
        let Some(node) = known.get(self.next_seed % known.len().max(1)).copied() else { return };
        self.next_seed += 1;
        let reply = self.wire(node).and_then(|wire| wire.ask(&[b"CLUSTER", b"SLOTS"]));
        let Ok(reply) = reply else {
            self.wires.remove(&node);
            return;
        };
        for range in reply.elements().unwrap_or_default() {
            if let Some((first, last, owner)) = read_range(range, node) {
                self.owners.extend((first..=last.min(SLOTS - 1)).map(|slot| (slot, owner)));
                self.is_stale = false;
            }
        }
    }

    fn wire(&mut self, node: SocketAddr) -> Result<&mut Wire, WireError> {
        if !self.wires.contains_key(&node) {
            let wire = Wire::connect(node)?;
            wire.set_timeout(self.timeout)?;
            self.wires.insert(node, wire.authenticated(self.password.as_deref())?);
        }
        self.wires.get_mut(&node).ok_or_else(|| WireError::Closed(Vec::new()))
    }
}

/// What is asked of a node. ASKING before it holds for all of a transaction.
type Question<'q> = dyn Fn(&mut Wire) -> Result<Value, WireError> + 'q;

/// What became of one try.
enum Sent {
    Answer(Value, SocketAddr),
    Lost(SocketAddr, WireError),
    Not(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Redirect {
    Moved,
    Ask,
}

/// Reads `MOVED 3999 127.0.0.1:6381` and `ASK …`.
fn redirect(error: &[u8], node: SocketAddr) -> Option<(Redirect, SocketAddr)> {
    let text = str::from_utf8(error).ok()?;
    let mut words = text.split(' ');
    let kind = match words.next()? {
        "MOVED" => Redirect::Moved,
        "ASK" => Redirect::Ask,
        _ => return None,
    };
    let (host, port) = words.nth(1)?.rsplit_once(':')?;
    Some((kind, (resolve(host, node), port.parse().ok()?).into()))
}

/// Reads one range of CLUSTER SLOTS: first, last, the owner, its replicas.
fn read_range(range: &Value, node: SocketAddr) -> Option<(u16, u16, SocketAddr)> {
    let [first, last, owner, ..] = range.elements()? else { return None };
    let [host, port, ..] = owner.elements()? else { return None };
    let host = host.bytes().and_then(|host| str::from_utf8(host).ok()).unwrap_or_default();
    let number = |value: &Value| u16::try_from(value.integer()?).ok();
    Some((number(first)?, number(last)?, (resolve(host, node), number(port)?).into()))
}

/// A host's address. All nodes of a test are on one machine, so a name, an empty one and `?` mean the node that said so.
fn resolve(host: &str, node: SocketAddr) -> IpAddr {
    host.parse().unwrap_or(node.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_of_all_kinds() {
        let node: SocketAddr = "127.0.0.1:7000".parse().unwrap();
        let to = |text: &str| redirect(text.as_bytes(), node);
        assert_eq!(to("MOVED 3999 127.0.0.2:6381"), Some((Redirect::Moved, "127.0.0.2:6381".parse().unwrap())));
        assert_eq!(to("ASK 3999 :6381"), Some((Redirect::Ask, "127.0.0.1:6381".parse().unwrap())));
        assert_eq!(to("MOVED 1 ?:6381"), Some((Redirect::Moved, "127.0.0.1:6381".parse().unwrap())));
        assert_eq!(to("MOVED 1 ::1:6381"), Some((Redirect::Moved, "[::1]:6381".parse().unwrap())));
        assert_eq!(to("ERR no"), None);
    }
}
