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
    stop: Arc<Mutex<Option<Stop>>>,
}

/// Where a connection ends once the proxy says something there.
struct Stop {
    words: Vec<u8>,
    how: Ending,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is cut, and the server never hears what was said.
    Unheard,
    /// It is cut once the server has been told, before it can answer.
    Unanswered,
    /// The server never hears what was said, and nobody is told.
    Frozen,
}

/// One connection through a relay.
pub(crate) struct Line {
    ends: [TcpStream; 2],
    said: Mutex<Vec<u8>>,
    is_frozen: AtomicBool,
    stop: Arc<Mutex<Option<Stop>>>,
}

impl Relay {
    /// A relay to this server, on a free port.
    pub(crate) fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let lines = Arc::<Mutex<Vec<Arc<Line>>>>::default();
        let stop = Arc::<Mutex<Option<Stop>>>::default();
        let (server, opened, stops) = (server.address(), Arc::clone(&lines), Arc::clone(&stop));
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(server) else { continue };
                opened.lock().unwrap().push(Line::carry(near, far, Arc::clone(&stops)));
            }
        });
        Self { address, lines, stop }
    }

    /// Ends the first connection on which the proxy says these words from now on.
    pub(crate) fn end_at(&self, words: &str, how: Ending) {
        *self.stop.lock().unwrap() = Some(Stop { words: words.as_bytes().to_vec(), how });
    }

    /// Whether the words of [`Self::end_at`] have been said.
    pub(crate) fn has_ended(&self) -> bool {
        self.stop.lock().unwrap().is_none()
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
    fn carry(near: TcpStream, far: TcpStream, stop: Arc<Mutex<Option<Stop>>>) -> Arc<Self> {
        for end in [&near, &far] {
            end.set_nodelay(true).unwrap();
        }
        let clones = [near.try_clone().unwrap(), far.try_clone().unwrap()];
        let line = Arc::new(Self { ends: clones, said: Mutex::default(), is_frozen: false.into(), stop });
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
            let mut ending = None;
            if notes {
                self.said.lock().unwrap().extend_from_slice(&bytes[..len]);
                let says = |stop: &mut Stop| bytes[..len].windows(stop.words.len()).any(|part| part == stop.words);
                ending = self.stop.lock().unwrap().take_if(says).map(|stop| stop.how);
            }
            match ending {
                Some(Ending::Unheard) => self.cut(),
                Some(Ending::Unanswered) => self.ends[0].shutdown(Shutdown::Write).unwrap(),
                Some(Ending::Frozen) => self.freeze(),
                None => {}
            }
            if ending == Some(Ending::Unheard) {
                break;
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
