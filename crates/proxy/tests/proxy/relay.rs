//! A relay between the proxy and its server, whose connections can be stopped one by one.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use keyfold_testkit::Server;

/// Carries bytes to a server and back.
pub(crate) struct Relay {
    address: SocketAddr,
    lines: Arc<Mutex<Vec<Arc<Line>>>>,
}

/// One connection through a relay.
pub(crate) struct Line {
    ends: [TcpStream; 2],
    said: Mutex<Vec<u8>>,
    is_frozen: AtomicBool,
}

impl Relay {
    /// A relay to this server, on a free port.
    pub(crate) fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let lines = Arc::<Mutex<Vec<Arc<Line>>>>::default();
        let (server, opened) = (server.address(), Arc::clone(&lines));
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(server) else { continue };
                opened.lock().unwrap().push(Line::carry(near, far));
            }
        });
        Self { address, lines }
    }

    /// Where the proxy is to connect.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// The connections so far, oldest first; those that have ended too.
    pub(crate) fn lines(&self) -> Vec<Arc<Line>> {
        self.lines.lock().unwrap().clone()
    }

    /// The newest connection on which the proxy has said these words.
    pub(crate) fn line_that_said(&self, words: &str) -> Option<Arc<Line>> {
        self.lines().into_iter().rfind(|line| line.has_said(words))
    }
}

impl Line {
    fn carry(near: TcpStream, far: TcpStream) -> Arc<Self> {
        for end in [&near, &far] {
            end.set_nodelay(true).unwrap();
        }
        let clones = [near.try_clone().unwrap(), far.try_clone().unwrap()];
        let line = Arc::new(Self { ends: clones, said: Mutex::default(), is_frozen: false.into() });
        let [there, back] = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
        for (notes, (from, to)) in [(true, there), (false, back)] {
            let line = Arc::clone(&line);
            thread::spawn(move || line.pump(from, to, notes));
        }
        line
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, notes: bool) {
        let mut bytes = [0; 16 * 1024];
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            if notes {
                self.said.lock().unwrap().extend_from_slice(&bytes[..len]);
            }
            while self.is_frozen.load(Ordering::Relaxed) {
                thread::park();
            }
            if to.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Carries nothing more, in either direction; both ends stay open.
    pub(crate) fn freeze(&self) {
        self.is_frozen.store(true, Ordering::Relaxed);
    }

    /// Closes the proxy's end.
    pub(crate) fn cut(&self) {
        let _ = self.ends[0].shutdown(Shutdown::Both);
    }

    /// Whether the proxy has said these words here.
    pub(crate) fn has_said(&self, words: &str) -> bool {
        self.said.lock().unwrap().windows(words.len()).any(|window| window == words.as_bytes())
    }
}
