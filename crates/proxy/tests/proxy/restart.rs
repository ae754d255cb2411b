//! A load that doesn't notice that keyfolds take turns.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use keyfold_core::layout::Layout;
use keyfold_proxy::address::ListenAddress;
use keyfold_proxy::config::ClientTls;
use keyfold_proxy::{Config, Handle, Sockets, start_with};
use keyfold_testkit::{Certificates, Server};

use crate::stage::{ALL_WAYS, call, commands, config_for, eventually, start_server};
use crate::transport::tls_client;

const RESTARTS: usize = 5;
/// Of each kind.
const CLIENTS: usize = 4;
const DEPTH: usize = 20;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Where clients come in.
#[derive(Clone)]
enum Way {
    Plain(SocketAddr),
    Tls(SocketAddr, Certificates),
    Unix(PathBuf),
}

impl Way {
    /// A connection, which nobody may refuse.
    fn connect(&self) -> BufReader<Box<dyn Stream>> {
        BufReader::new(match self {
            Self::Plain(address) => Box::new(TcpStream::connect(address).unwrap()),
            Self::Tls(address, files) => Box::new(tls_client(*address, files, false)),
            Self::Unix(path) => Box::new(UnixStream::connect(path).unwrap()),
        })
    }
}

/// What all clients together have seen.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    /// Requests that met a connection that was being closed. They were not carried out, and were sent once more.
    sent_again: AtomicUsize,
    connections: AtomicUsize,
    over: AtomicBool,
}

/// Counts a key of its own up, many requests at once, by one connection after the other; how far it came. The answers are
/// consecutive numbers, which shows that each request was carried out once and no more.
fn count_up(way: &Way, key: &str, stays: bool, seen: &Seen) -> usize {
    let mut count = 0;
    let mut connection = None;
    while !seen.over.load(Ordering::Relaxed) {
        let mut left = DEPTH;
        while left > 0 {
            let stream = connection.get_or_insert_with(|| {
                seen.connections.fetch_add(1, Ordering::Relaxed);
                way.connect()
            });
            // What can't be written meets a connection that is closed; its answers may be there all the same.
            let _ = stream.get_mut().write_all(&commands(&[&format!("INCR {key}")]).repeat(left));
            while left > 0 {
                let mut line = String::new();
                match stream.read_line(&mut line) {
                    Ok(0) | Err(_) => {
                        assert_eq!(line, "", "an answer is cut off");
                        break;
                    }
                    Ok(_) => {
                        count += 1;
                        left -= 1;
                        assert_eq!(line, format!(":{count}\r\n"), "{key}");
                        seen.answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            if left > 0 {
                seen.sent_again.fetch_add(left, Ordering::Relaxed);
                connection = None;
            }
        }
        connection = connection.filter(|_| stays);
    }
    count
}

/// Keyfolds that follow one another at the same addresses.
struct Turns {
    _server: Server,
    config: Config,
    ways: Vec<Way>,
}

impl Turns {
    fn new(dir: &Path) -> Self {
        let server = start_server(&[]);
        let files = Certificates::of(&["localhost", "127.0.0.1"]).unwrap();
        let mut config = config_for(&server);
        config.layout = Layout::parse_file(ALL_WAYS).unwrap().into();
        server.put_in_force(&config.layout).unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (plain, tls, unix) = (free(), free(), dir.join("keyfold.sock"));
        config.listen = vec![ListenAddress::Tcp(plain), ListenAddress::Tls(tls), ListenAddress::Unix(unix.clone())];
        config.client_tls = Some(ClientTls { cert: files.cert.clone(), key: files.key.clone(), client_ca: None });
        // Those that are never idle change over too.
        config.timeouts.drain = Duration::from_millis(300);
        Self { _server: server, config, ways: vec![Way::Plain(plain), Way::Tls(tls, files), Way::Unix(unix)] }
    }

    fn start(&self, sockets: Sockets) -> Handle {
        start_with(self.config.clone(), sockets).unwrap()
    }

    /// Puts all under load while `restart` does its work so many times.
    fn count_through(&self, first: Handle, restart: impl Fn(&Self, Handle) -> Handle) {
        let seen = Seen::default();
        let (counts, keyfold) = thread::scope(|scope| {
            let mut keyfold = first;
            let mut clients = Vec::new();
            for way in &self.ways {
                for _ in 0..CLIENTS {
                    for stays in [true, false] {
                        let (key, seen) = (format!("user:{}", clients.len()), &seen);
                        clients.push((key.clone(), scope.spawn(move || count_up(way, &key, stays, seen))));
                    }
                }
            }
            for _ in 0..RESTARTS {
                let before = seen.answered.load(Ordering::Relaxed);
                let more = clients.len() * DEPTH * 3;
                eventually("the load goes on", || seen.answered.load(Ordering::Relaxed) > before + more);
                keyfold = restart(self, keyfold);
            }
            let before = seen.answered.load(Ordering::Relaxed);
            eventually("the load goes on", || seen.answered.load(Ordering::Relaxed) > before + clients.len() * DEPTH);
            seen.over.store(true, Ordering::Relaxed);
            let counts = clients.into_iter().map(|(key, client)| (key, client.join().unwrap()));
            (counts.collect::<Vec<_>>(), keyfold)
        });
        let Way::Plain(address) = &self.ways[0] else { unreachable!() };
        let mut wire = keyfold_testkit::Wire::connect(address).unwrap();
        for (key, count) in counts {
            let text = count.to_string();
            assert_eq!(call(&mut wire, &format!("GET {key}")), format!("${}\r\n{text}\r\n", text.len()), "{key}");
        }
        eprintln!(
            "{RESTARTS} restarts: {} connections, 0 refused; {} requests, 0 failed; {} met a closed connection",
            seen.connections.into_inner(),
            seen.answered.into_inner(),
            seen.sent_again.into_inner()
        );
        drop(keyfold);
    }
}

#[test]
fn nobody_notices_that_a_keyfold_takes_over_from_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut turns = Turns::new(dir.path());
    turns.config.takeover = Some(dir.path().join("takeover.sock"));
    let first = turns.start(Sockets::default());
    turns.count_through(first, |turns, old| {
        let new = turns.start(Sockets::default());
        old.join().unwrap();
        new
    });
}

#[test]
fn nobody_notices_that_a_keyfold_is_started_again_on_sockets_that_live_on() {
    let dir = tempfile::tempdir().unwrap();
    let turns = Turns::new(dir.path());
    let listeners = turns.ways.iter().map(|way| match way {
        Way::Plain(address) | Way::Tls(address, _) => std::os::fd::OwnedFd::from(TcpListener::bind(address).unwrap()),
        Way::Unix(path) => UnixListener::bind(path).unwrap().into(),
    });
    let listeners: Vec<_> = listeners.collect();
    let sockets = || {
        let mut sockets = Sockets::default();
        listeners.iter().for_each(|listener| sockets.add(listener.try_clone().unwrap()).unwrap());
        sockets
    };
    let first = turns.start(sockets());
    turns.count_through(first, |turns, old| {
        old.stop();
        old.join().unwrap();
        turns.start(sockets())
    });
    assert!(dir.path().join("keyfold.sock").exists(), "the file is not keyfold's to remove");
}
