//! A forwarder in front of one port, which can lose the network between the two.
//!
//! What comes from a peer passes, or is held: then connections stay open, new ones are accepted, and nothing gets
//! through in either direction, the end of a connection included. So it is when packets are lost on the way: nobody
//! is told. Once it passes again, what was sent meanwhile arrives late, as TCP would have sent it again;
//! [`Relay::break_held`] ends such connections instead, as a machine that came back without knowing them would.
//!
//! A relay may also be slow: each side's bytes wait for as long as it says before they go on, as on a way from afar.
//!
//! A relay may also be away: then its port refuses connections, and those there were are closed.
//!
//! Peers are told apart by the address that they connect from. Nodes of a cluster connect each from a loopback address
//! of its own, so that a relay can hold what other nodes send and pass what clients do, or the other way round.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const READ_BYTES: usize = 64 * 1024;

/// Whose connections a relay holds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Held {
    /// Those of all peers that [`Held::but`] doesn't name.
    pub others: bool,
    /// Those of these peers, where others' pass; and of all but these where others' are held.
    pub but: BTreeSet<IpAddr>,
}

impl Held {
    /// Everybody's.
    pub fn all() -> Self {
        Self { others: true, but: BTreeSet::new() }
    }

    fn holds(&self, peer: IpAddr) -> bool {
        self.others != self.but.contains(&peer)
    }
}

/// A forwarder on a port of 127.0.0.1.
pub struct Relay {
    port: u16,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the thread that accepts is to end.
    is_away: AtomicBool,
}

#[derive(Default)]
struct State {
    held: Held,
    delay: Duration,
    links: Vec<Arc<Link>>,
}

/// One connection and, once there is one, its continuation.
struct Link {
    peer: IpAddr,
    near: TcpStream,
    far: Mutex<Option<TcpStream>>,
    is_closed: AtomicBool,
}

impl Relay {
    /// Forwards from a port to another from now on.
    ///
    /// # Errors
    /// Where the port is taken.
    pub fn start(port: u16, target: u16) -> io::Result<Self> {
        let target = (Ipv4Addr::LOCALHOST, target).into();
        let shared =
            Shared { target, state: Mutex::default(), changed: Condvar::new(), is_away: AtomicBool::new(false) };
        let mut relay = Self { port, shared: Arc::new(shared), listener: None };
        relay.come_back()?;
        Ok(relay)
    }

    /// The port that it listens at.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Holds these peers' connections from now on, and lets others' pass.
    pub fn hold(&self, held: Held) {
        self.shared.lock().held = held;
        self.shared.changed.notify_all();
    }

    /// Takes so long for what passes either way, from now on: a round trip takes twice as long.
    pub fn slow(&self, delay: Duration) {
        self.shared.lock().delay = delay;
    }

    /// Closes the connections that are held, both sides.
    pub fn break_held(&self) {
        let state = self.shared.lock();
        for link in state.links.iter().filter(|link| state.held.holds(link.peer)) {
            link.close();
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Closes all connections and refuses new ones.
    pub fn go_away(&mut self) {
        if let Some(listener) = self.listener.take() {
            self.shared.is_away.store(true, Ordering::SeqCst);
            // It waits for a connection, so it gets one. Where none can be had it has ended already.
            let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
            let _ = listener.join();
        }
        for link in self.shared.lock().links.drain(..) {
            link.close();
        }
        self.shared.changed.notify_all();
    }

    /// Listens again. Whose connections are held is what it was.
    ///
    /// # Errors
    /// Where another has taken the port meanwhile.
    pub fn come_back(&mut self) -> io::Result<()> {
        if self.listener.is_none() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))?;
            self.shared.is_away.store(false, Ordering::SeqCst);
            let shared = Arc::clone(&self.shared);
            self.listener = Some(thread::spawn(move || accept(&listener, &shared)));
        }
        Ok(())
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = &self.shared.lock().held;
        write!(f, "Relay({} to {}, holding {held:?})", self.port, self.shared.target)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.go_away();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for as long as the link is held; false where it is closed.
    fn may_pass(&self, link: &Link) -> bool {
        let mut state = self.lock();
        while !link.is_closed() && state.held.holds(link.peer) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !link.is_closed()
    }
}

impl Link {
    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // They fail where the other side has closed already.
        let _ = self.near.shutdown(Shutdown::Both);
        if let Some(far) = &*self.far.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = far.shutdown(Shutdown::Both);
        }
    }
}

/// Takes connections until the relay is to go away.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for near in listener.incoming() {
        if shared.is_away.load(Ordering::SeqCst) {
            return;
        }
        // One that went away before it was accepted needs nothing.
        let Ok(near) = near else { continue };
        let Ok(peer) = near.peer_addr() else { continue };
        let link = Link { peer: peer.ip(), near, far: Mutex::default(), is_closed: AtomicBool::new(false) };
        let link = Arc::new(link);
        let mut state = shared.lock();
        state.links.retain(|link| !link.is_closed());
        state.links.push(Arc::clone(&link));
        drop(state);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // An error is a connection's end, which is what follows.
            let _ = forward(&link, &shared);
            link.close();
        });
    }
}

/// Forwards both ways until both have ended.
fn forward(link: &Arc<Link>, shared: &Arc<Shared>) -> io::Result<()> {
    if !shared.may_pass(link) {
        return Ok(());
    }
    let far = TcpStream::connect(shared.target)?;
    far.set_nodelay(true)?;
    link.near.set_nodelay(true)?;
    let (near_reader, far_reader) = (link.near.try_clone()?, far.try_clone()?);
    let (near_writer, far_writer) = (link.near.try_clone()?, far.try_clone()?);
    *link.far.lock().unwrap_or_else(PoisonError::into_inner) = Some(far);
    // It may have been closed while it had no other side to close.
    if link.is_closed() {
        link.close();
    }
    let back = {
        let (link, shared) = (Arc::clone(link), Arc::clone(shared));
        thread::spawn(move || pump(far_reader, near_writer, &link, &shared))
    };
    pump(near_reader, far_writer, link, shared);
    let _ = back.join();
    Ok(())
}

/// Forwards one way until the sender has ended, and passes the end on. Where the receiver is gone, so is the link.
fn pump(mut from: TcpStream, mut to: TcpStream, link: &Link, shared: &Shared) {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let len = match from.read(&mut bytes) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        let delay = shared.lock().delay;
        thread::sleep(delay);
        if !shared.may_pass(link) {
            return;
        }
        if len == 0 {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
        if to.write_all(&bytes[..len]).is_err() {
            return link.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::ports;

    /// A relay before a server that sends back what it gets.
    fn before_an_echo() -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || io::copy(&mut stream.try_clone().unwrap(), &mut stream));
            }
        });
        Relay::start(ports::free().unwrap(), target).unwrap()
    }

    fn connect(relay: &Relay) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).unwrap()
    }

    fn echo(stream: &mut TcpStream) -> io::Result<[u8; 4]> {
        let mut answer = [0; 4];
        stream.write_all(b"ping")?;
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }

    fn gets_nothing(stream: &mut TcpStream) {
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let error = stream.read(&mut [0; 4]).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    }

    #[test]
    fn what_is_held_comes_later_and_in_order() {
        let relay = before_an_echo();
        let mut old = connect(&relay);
        assert_eq!(echo(&mut old).unwrap(), *b"ping");
        relay.hold(Held::all());
        old.write_all(b"pong").unwrap();
        let mut new = connect(&relay);
        new.write_all(b"new!").unwrap();
        gets_nothing(&mut old);
        gets_nothing(&mut new);
        relay.hold(Held::default());
        let mut answer = [0; 4];
        old.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"pong");
        new.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"new!");
    }

    #[test]
    fn a_slow_one_takes_its_time_both_ways() {
        let relay = before_an_echo();
        let mut stream = connect(&relay);
        relay.slow(Duration::from_millis(40));
        let since = Instant::now();
        assert_eq!(echo(&mut stream).unwrap(), *b"ping");
        assert!(since.elapsed() >= Duration::from_millis(80), "{:?}", since.elapsed());
        relay.slow(Duration::ZERO);
        assert_eq!(echo(&mut stream).unwrap(), *b"ping");
    }

    #[test]
    fn held_connections_can_be_broken() {
        let relay = before_an_echo();
        let mut stream = connect(&relay);
        echo(&mut stream).unwrap();
        relay.hold(Held::all());
        relay.break_held();
        assert_eq!(stream.read(&mut [0; 4]).unwrap(), 0);
        relay.hold(Held::default());
        assert_eq!(echo(&mut connect(&relay)).unwrap(), *b"ping");
    }

    #[test]
    fn one_that_is_away_refuses_and_comes_back() {
        let mut relay = before_an_echo();
        let mut stream = connect(&relay);
        echo(&mut stream).unwrap();
        relay.go_away();
        assert_eq!(stream.read(&mut [0; 4]).unwrap(), 0);
        let error = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        relay.come_back().unwrap();
        assert_eq!(echo(&mut connect(&relay)).unwrap(), *b"ping");
    }

    #[test]
    fn peers_are_told_apart() {
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let only = Held { others: false, but: BTreeSet::from([one]) };
        assert!(only.holds(one) && !only.holds(other));
        let all_but = Held { others: true, but: BTreeSet::from([one]) };
        assert!(!all_but.holds(one) && all_but.holds(other));
    }
}
