//! A blocking connection to a server: TCP, TLS or a unix socket, logged in, over the core's own scanner of replies.
//!
//! It speaks RESP2, and hands on each reply as it came. It counts the replies that it waits for: whoever asks while some
//! are still to come, after an error or a walk that has seen enough, has them read and dropped first. What goes wrong on
//! it breaks it for good. So no question ever gets the answer to an earlier one.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use keyfold_core::resp::{Reply, ReplyScanner};
use keyfold_proxy::address::{Route, ServerAddress};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use socket2::Socket;

use crate::commands::Commands;
use crate::error::LinkError;
use crate::reply;

/// To connect, and to log in.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// For one answer. A long one: SCAN and SAVE on a loaded server take a while, and a dead one is noticed.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Bytes that are read at once, at the most.
const READ_BYTES: usize = 64 << 10;

/// A connection, and what came on it.
pub(crate) struct Link {
    stream: Box<dyn Stream>,
    /// What lies under it.
    socket: Socket,
    input: Vec<u8>,
    /// Where in `input` the next reply begins.
    at: usize,
    scanner: ReplyScanner,
    /// How many replies are to come.
    outstanding: u64,
    /// What broke it.
    broken: Option<LinkError>,
}

trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

impl Link {
    /// Connects, with `tls` over TLS, and logs in, to the address's database.
    pub(crate) fn open(address: &ServerAddress, tls: Option<Arc<ClientConfig>>) -> Result<Self, LinkError> {
        Self::open_within(address, tls, CONNECT_WITHIN)
    }

    /// The same, with another limit for each step of it.
    pub(crate) fn open_within(
        address: &ServerAddress,
        tls: Option<Arc<ClientConfig>>,
        limit: Duration,
    ) -> Result<Self, LinkError> {
        let socket = connect(&address.route, limit)?;
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(ANSWER_WITHIN))?;
        let beneath = socket.try_clone()?;
        let stream: Box<dyn Stream> = match (tls, &address.route) {
            (Some(tls), Route::Tcp { host, .. }) => {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(ClientConnection::new(tls, name).map_err(io::Error::other)?, socket))
            }
            _ => Box::new(socket),
        };
        let (input, scanner) = (Vec::new(), ReplyScanner::default());
        let mut link = Self { stream, socket: beneath, input, at: 0, scanner, outstanding: 0, broken: None };
        link.login(address)?;
        link.set_patience(ANSWER_WITHIN)?;
        Ok(link)
    }

    /// All in one round trip. What a server doesn't know of CLIENT SETINFO (before Redis 7.2), or doesn't let this user
    /// do, it goes without.
    fn login(&mut self, address: &ServerAddress) -> Result<(), LinkError> {
        let mut commands = Commands::default();
        match (&address.user, &address.password) {
            (Some(user), Some(password)) => commands.push(&[b"AUTH", user.as_bytes(), password.as_bytes()]),
            (None, Some(password)) => commands.push(&[b"AUTH", password.as_bytes()]),
            (_, None) => {}
        }
        if address.database != 0 {
            commands.push(&[b"SELECT", address.database.to_string().as_bytes()]);
        }
        let needed = commands.len();
        commands.push(&[b"CLIENT", b"SETINFO", b"LIB-NAME", b"keyfold"]);
        commands.push(&[b"CLIENT", b"SETINFO", b"LIB-VER", env!("CARGO_PKG_VERSION").as_bytes()]);
        self.send(commands.wire(), commands.len() as u64)?;
        (0..needed).try_for_each(|_| reply::read(&self.receive()?))?;
        self.settle()
    }

    /// Lets an answer take this long.
    pub(crate) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(patience))
    }

    /// Sends commands that will have so many replies; earlier ones may still be to come.
    pub(crate) fn send(&mut self, commands: &[u8], replies: u64) -> Result<(), LinkError> {
        self.outstanding += replies;
        self.unless_broken(|link| Ok(link.stream.write_all(commands).and_then(|()| link.stream.flush())?))
    }

    /// The next reply, whole.
    pub(crate) fn receive(&mut self) -> Result<Vec<u8>, LinkError> {
        let Some(left) = self.outstanding.checked_sub(1) else {
            return Err(LinkError::Unexpected("no reply is to come".to_owned()));
        };
        let reply = self.unless_broken(Self::read_reply)?;
        self.outstanding = left;
        Ok(reply)
    }

    /// Reads and drops what is still to come.
    pub(crate) fn settle(&mut self) -> Result<(), LinkError> {
        (0..self.outstanding).try_for_each(|_| self.receive().map(drop))
    }

    fn read_reply(&mut self) -> Result<Vec<u8>, LinkError> {
        loop {
            if let Some(len) = self.scanner.scan(&self.input[self.at..])? {
                let reply = self.input[self.at..self.at + len].to_vec();
                self.at += len;
                Reply::parse(&reply)?;
                return Ok(reply);
            }
            self.input.drain(..mem::take(&mut self.at));
            self.read()?;
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let len = self.input.len();
        self.input.resize(len + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[len..]);
        self.input.truncate(len + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn unless_broken<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, LinkError>) -> Result<T, LinkError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        act(self).inspect_err(|error| self.broken = Some(error.clone()))
    }
}

fn connect(route: &Route, limit: Duration) -> io::Result<Socket> {
    let (host, port) = match route {
        Route::Unix(path) => return Ok(UnixStream::connect(path)?.into()),
        Route::Tcp { host, port, .. } => (host.as_str(), *port),
        Route::Sentinel { .. } => return Err(io::Error::other("Sentinels are asked first where the server is")),
        Route::Cluster { .. } => return Err(io::Error::other("one of the cluster's nodes is to be chosen first")),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    let stream = (host, port)
        .to_socket_addrs()?
        .find_map(|address| TcpStream::connect_timeout(&address, limit).map_err(|error| last = error).ok());
    let stream = stream.ok_or(last)?;
    stream.set_nodelay(true)?;
    Ok(stream.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use keyfold_core::layout::Layout;
    use keyfold_proxy::address::ListenAddress;
    use keyfold_proxy::config::{ClientTls, Config, ServerTls};

    use super::*;
    use crate::connection::{Server, Target};

    fn echo(words: &[&[u8]]) -> Commands {
        let mut commands = Commands::default();
        words.iter().for_each(|word| commands.push(&[b"ECHO", word]));
        commands
    }

    fn send(server: &mut Server, words: &[&[u8]]) {
        let commands = echo(words);
        server.send(commands.wire(), commands.len() as u64).unwrap();
    }

    fn connect(url: &str) -> Server {
        Server::connect(&Target::from(url.parse::<ServerAddress>().unwrap())).unwrap()
    }

    #[test]
    fn replies_that_nobody_read_never_answer_a_later_question() {
        let running = keyfold_testkit::found()[0].start(&[]).unwrap();
        let mut server = connect(&running.url());
        send(&mut server, &[b"a", b"b", b"c"]);
        assert_eq!(server.receive().unwrap(), b"$1\r\na\r\n");
        assert_eq!(server.ask::<String>(&[b"ECHO", b"d"]).unwrap(), "d");
        send(&mut server, &[b"e"]);
        send(&mut server, &[b"f"]);
        assert_eq!(server.receive().unwrap(), b"$1\r\ne\r\n");
        assert_eq!(server.ask_all(&echo(&[b"g"])).unwrap(), [b"$1\r\ng\r\n"]);
        assert!(server.receive().is_err());
    }

    /// A server that answers PING by something that is no reply, with a reply behind it.
    #[test]
    fn a_connection_that_broke_off_is_not_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fake = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let info = "redis_version:7.0.15\r\n";
            let info = format!("${}\r\n{info}\r\n", info.len());
            let mut chunk = [0; 4096];
            while let Ok(len @ 1..) = stream.read(&mut chunk) {
                let is_ping = chunk[..len].ends_with(b"PING\r\n");
                for _ in chunk[..len].iter().filter(|byte| **byte == b'*') {
                    let reply = if is_ping { "?\r\n+LATE\r\n" } else { &info };
                    stream.write_all(reply.as_bytes()).unwrap();
                }
            }
        });
        let mut server = connect(&format!("redis://127.0.0.1:{port}"));
        assert!(server.ask::<String>(&[b"PING"]).is_err());
        let late = server.ask::<String>(&[b"PING"]);
        assert!(late.is_err(), "{late:?}");
        drop(server);
        fake.join().unwrap();
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told() {
        let directory = tempfile::tempdir().unwrap();
        // As `openssl req -x509` makes one: it may sign others.
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let signing_key = rcgen::KeyPair::generate().unwrap();
        let (cert, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
        std::fs::write(&cert, params.self_signed(&signing_key).unwrap().pem()).unwrap();
        std::fs::write(&key, signing_key.serialize_pem()).unwrap();
        let mut config = Config::new("redis://127.0.0.1:1".parse().unwrap(), Layout::default());
        config.listen = vec!["tls://127.0.0.1:0".parse().unwrap()];
        config.client_tls = Some(ClientTls { cert: cert.clone(), key, client_ca: None });
        let proxy = keyfold_proxy::start(config).unwrap();
        let ListenAddress::Tls(at) = &proxy.addresses()[0] else { panic!("no TLS") };
        let address: ServerAddress = format!("rediss://localhost:{}", at.port()).parse().unwrap();
        let tls = ServerTls { ca: Some(cert), ..ServerTls::default() };
        let refused = Server::connect(&Target { tls, ..Target::from(address) }).err().unwrap();
        let told = format!("{refused:#}");
        assert!(told.contains("it is an authority's own (CA:TRUE)"), "{told}");
        assert!(told.ends_with("-addext basicConstraints=critical,CA:FALSE`"), "{told}");
    }

    #[test]
    fn a_server_over_tls_is_checked_by_its_authority() {
        let behind = keyfold_testkit::found()[0].start(&[]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut config = Config::new(behind.url().parse().unwrap(), Layout::default());
        config.listen = vec!["tls://127.0.0.1:0".parse().unwrap()];
        config.client_tls = Some(ClientTls { cert: cert.clone(), key, client_ca: None });
        let proxy = keyfold_proxy::start(config).unwrap();
        let ListenAddress::Tls(at) = &proxy.addresses()[0] else { panic!("no TLS") };
        let address: ServerAddress = format!("rediss://localhost:{}", at.port()).parse().unwrap();
        let connect = |tls| Server::connect(&Target { tls, ..Target::from(address.clone()) });

        let large = vec![b'x'; 300_000];
        let mut server = connect(ServerTls { ca: Some(cert), ..ServerTls::default() }).unwrap();
        server.ask::<()>(&[b"SET", b"large", &large]).unwrap();
        assert!(server.ask::<Vec<u8>>(&[b"GET", b"large"]).unwrap() == large);
        let insecure = ServerTls { insecure: true, ..ServerTls::default() };
        assert_eq!(connect(insecure).unwrap().ask::<u64>(&[b"STRLEN", b"large"]).unwrap(), 300_000);
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let ca = directory.path().join("other.pem");
        std::fs::write(&ca, other.cert.pem()).unwrap();
        let refused = connect(ServerTls { ca: Some(ca), ..ServerTls::default() }).err().unwrap();
        assert!(format!("{refused:#}").contains("--upstream-ca"), "{refused:#}");
    }
}
