//! One keyfold takes over from another, or finds that it can't; whatever happens, somebody serves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use keyfold_proxy::address::ListenAddress;
use keyfold_proxy::config::Admin;
use keyfold_proxy::{Config, Handle, Sockets, StartError, TakeoverError, start, start_with};
use keyfold_testkit::{Server, Wire};
use tempfile::TempDir;

use crate::stage::{address, call, commands, config_for, eventually, start_server};

/// A server, and what keyfolds before it are told.
struct Turns {
    server: Server,
    config: Config,
    path: PathBuf,
    dir: TempDir,
}

fn turns() -> Turns {
    let server = start_server(&[]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("takeover.sock");
    let mut config = config_for(&server);
    config.takeover = Some(path.clone());
    Turns { server, config, path, dir }
}

impl Turns {
    /// One that is to take over from this, by the same addresses.
    fn next(&self, old: &Handle) -> Config {
        let mut config = self.config.clone();
        config.listen = old.addresses().to_vec();
        config
    }
}

fn connect(keyfold: &Handle) -> Wire {
    Wire::connect(address(keyfold)).unwrap()
}

fn clients(keyfold: &Handle) -> usize {
    keyfold.totals().clients
}

#[test]
fn the_new_one_lets_clients_in_and_the_old_one_ends_with_its_last_client() {
    let turns = turns();
    let old = start(turns.config.clone()).unwrap();
    let [mut idle, mut halfway, mut blocked, mut queued] = [(); 4].map(|()| connect(&old));
    assert_eq!(call(&mut idle, "PING"), "+PONG\r\n");
    halfway.send_bytes(b"*2\r\n$3\r\nGET\r\n").unwrap();
    blocked.send_bytes(&commands(&["BLPOP list 0"])).unwrap();
    assert_eq!(call(&mut queued, "MULTI"), "+OK\r\n");
    let mut direct = turns.server.connect().unwrap();
    eventually("it is blocked", || call(&mut direct, "INFO clients").contains("blocked_clients:1"));
    let new = start(turns.next(&old)).unwrap();
    assert_eq!(new.addresses(), old.addresses());

    let mut fresh = connect(&new);
    assert_eq!(call(&mut fresh, "SET a 1"), "+OK\r\n");
    assert_eq!(clients(&new), 1);
    // Who has begun nothing comes back by the new one; the others finish what they have begun.
    assert!(idle.is_closed().unwrap());
    assert_eq!(call(&mut queued, "INCR a"), "+QUEUED\r\n");
    assert_eq!(call(&mut queued, "EXEC"), "*1\r\n:2\r\n");
    assert!(queued.is_closed().unwrap());
    halfway.send_bytes(b"$1\r\na\r\n").unwrap();
    assert_eq!(halfway.reply().unwrap(), b"$1\r\n2\r\n");
    assert!(halfway.is_closed().unwrap());
    assert_eq!(call(&mut fresh, "RPUSH list x"), ":1\r\n");
    assert_eq!(blocked.reply().unwrap(), b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    assert!(blocked.is_closed().unwrap());
    old.join().unwrap();
    assert_eq!(call(&mut fresh, "GET a"), "$1\r\n2\r\n");
    // Another one takes over from the new one, at the same path.
    let third = start(turns.next(&new)).unwrap();
    new.join().unwrap();
    assert_eq!(call(&mut connect(&third), "GET a"), "$1\r\n2\r\n");
    assert_eq!(turns.path.metadata().unwrap().mode() & 0o777, 0o600);
    third.stop();
    third.join().unwrap();
    assert!(!turns.path.exists(), "it goes with the last");
}

#[test]
fn who_listens_or_watches_stays_until_time_is_up() {
    let mut turns = turns();
    turns.config.timeouts.drain = Duration::from_millis(700);
    let old = start(turns.config.clone()).unwrap();
    let [mut listens, mut watches, mut monitors] = [(); 3].map(|()| connect(&old));
    assert!(call(&mut listens, "SUBSCRIBE news").starts_with("*3\r\n$9\r\nsubscribe"));
    assert_eq!(call(&mut watches, "WATCH a"), "+OK\r\n");
    assert_eq!(call(&mut monitors, "MONITOR"), "+OK\r\n");
    let new = start(turns.next(&old)).unwrap();
    // Longer than idle clients are let be.
    std::thread::sleep(Duration::from_millis(450));
    assert_eq!(clients(&old), 3);
    assert_eq!(call(&mut connect(&new), "PUBLISH news hello"), ":1\r\n");
    assert!(String::from_utf8(listens.reply().unwrap()).unwrap().contains("hello"));
    old.join().unwrap();
    for wire in [&mut listens, &mut watches] {
        assert!(wire.is_closed().unwrap());
    }
}

#[test]
fn addresses_may_differ_and_files_go_with_who_has_the_socket() {
    let turns = turns();
    let unix = |name: &str| ListenAddress::Unix(turns.dir.path().join(name));
    let file = |name: &str| turns.dir.path().join(name);
    let mut config = turns.config.clone();
    config.listen.extend([unix("both.sock"), unix("old.sock")]);
    let old = start(config).unwrap();
    let mut config = turns.config.clone();
    config.listen = vec![unix("new.sock"), old.addresses()[0].clone(), unix("both.sock")];
    let new = start(config).unwrap();
    old.join().unwrap();
    assert!(!file("old.sock").exists(), "nobody listens there any more");
    for name in ["both.sock", "new.sock"] {
        assert_eq!(call(&mut Wire::connect_unix(&file(name)).unwrap(), "PING"), "+PONG\r\n");
    }
    assert_eq!(call(&mut connect(&new), "PING"), "+PONG\r\n");
    new.stop();
    new.join().unwrap();
    assert!(!file("both.sock").exists() && !file("new.sock").exists());
}

/// An address may be taken back while the one that had it first waits for its last client.
#[test]
fn the_file_of_a_socket_is_never_removed_later_than_the_socket() {
    let turns = turns();
    let (path, listen) = (turns.dir.path().join("back.sock"), turns.config.listen[0].clone());
    let with = |listen: &ListenAddress| {
        let mut config = turns.config.clone();
        config.listen = vec![listen.clone(), ListenAddress::Unix(path.clone())];
        config
    };
    let first = start(with(&listen)).unwrap();
    let mut stays = Wire::connect_unix(&path).unwrap();
    assert_eq!(call(&mut stays, "MULTI"), "+OK\r\n");
    let mut config = turns.config.clone();
    config.listen = vec![first.addresses()[0].clone()];
    let second = start(config).unwrap();
    eventually("nobody listens there", || !path.exists());
    let third = start(with(&second.addresses()[0])).unwrap();
    second.join().unwrap();
    assert_eq!(call(&mut stays, "EXEC"), "*0\r\n");
    first.join().unwrap();
    assert_eq!(call(&mut Wire::connect_unix(&path).unwrap(), "PING"), "+PONG\r\n");
    drop(third);
}

/// What is answered to a GET by whoever answers there.
fn get(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn operators_come_in_by_the_new_one_too() {
    let mut turns = turns();
    turns.config.admin = Some(Admin::at("127.0.0.1:0".parse().unwrap()));
    let old = start(turns.config.clone()).unwrap();
    let Some(ListenAddress::Tcp(at)) = old.admin_address().cloned() else { panic!("no address") };
    // One that stays connected, as Prometheus does.
    let mut stays = BufReader::new(TcpStream::connect(at).unwrap());
    stays.get_mut().write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut line = String::new();
    stays.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    // A client that keeps the old one.
    let mut client = connect(&old);
    assert_eq!(call(&mut client, "MULTI"), "+OK\r\n");
    let mut config = turns.next(&old);
    config.admin = Some(Admin::at(ListenAddress::Tcp(at)));
    let new = start(config).unwrap();
    let name = |answer: &str| answer.split("\"name\"").nth(1).map(|rest| rest[..40].to_owned());
    // A connection that the old one took in its last moment is closed without an answer, as all of its are, or told that it ends.
    let mut first = String::new();
    eventually("the new one answers", || {
        first = get(at, "/status");
        !first.is_empty() && !first.contains("\"stopping\"")
    });
    assert!(first.contains("\"connected\":0"), "{first}");
    for _ in 0..20 {
        let answer = get(at, "/status");
        assert_eq!(name(&answer), name(&first), "one keyfold answers, and it is the new one");
        assert!(get(at, "/readyz").starts_with("HTTP/1.1 200"));
    }
    // It is closed, so that it asks the new one.
    stays.read_to_string(&mut line).unwrap();
    assert_eq!(clients(&old), 1);
    assert_eq!(call(&mut client, "EXEC"), "*0\r\n");
    old.join().unwrap();
    drop(new);
}

#[test]
fn what_goes_wrong_before_the_new_one_serves_changes_nothing() {
    let turns = turns();
    let old = start(turns.config.clone()).unwrap();
    let asks =
        |protocol: u32| format!("{{\"asks\":{{\"protocol\":{protocol},\"version\":\"\\u001b[1m\",\"pid\":1}}}}\n");
    let say = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&turns.path).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    // One that has the sockets and crashes; others that say nothing, too much, nonsense, or more than there is.
    let mut crashed = BufReader::new(say(asks(1).as_bytes()));
    let mut given = String::new();
    crashed.read_line(&mut given).unwrap();
    assert!(given.contains("\"sockets\":2"), "{given}");
    drop(crashed);
    drop(say(b""));
    drop(say(&b"x".repeat(100_000)[..]));
    drop(say(b"GET / HTTP/1.1\r\n\r\n"));
    let mut answer = String::new();
    say(asks(2).as_bytes()).read_to_string(&mut answer).unwrap();
    assert!(answer.contains("refuses") && answer.contains("another way"), "{answer}");
    let mut wrong = say(asks(1).as_bytes());
    wrong.write_all(b"{\"serves\":{\"on\":[0,99]}}\n").unwrap();
    drop(wrong);
    // The old one serves, lets in, and hands over to one that is right.
    assert_eq!(call(&mut connect(&old), "PING"), "+PONG\r\n");
    let new = start(turns.next(&old)).unwrap();
    old.join().unwrap();
    assert_eq!(call(&mut connect(&new), "PING"), "+PONG\r\n");
}

fn refused(config: Config) -> TakeoverError {
    match start(config) {
        Err(StartError::Takeover(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_that_hangs_or_is_no_keyfold_is_told_of() {
    let turns = turns();
    let listener = UnixListener::bind(&turns.path).unwrap();
    // It takes connections and says nothing, as a stopped process does.
    let error = refused(turns.config.clone());
    assert!(matches!(error, TakeoverError::Silent { .. }), "{error}");
    assert!(error.to_string().contains("takeover.sock doesn't answer within 5 s"), "{error}");
    let answers = |text: &'static str| {
        let listener = listener.try_clone().unwrap();
        std::thread::spawn(move || {
            // The one that was given up comes first.
            for stream in listener.incoming().take(2) {
                let mut stream = stream.unwrap();
                // Only then: what is asked would find it closed.
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(text.as_bytes());
            }
        })
    };
    let answering = answers("+PONG\r\n");
    let error = refused(turns.config.clone());
    assert!(error.to_string().contains("is no keyfold that this one can take over from"), "{error}");
    answering.join().unwrap();
    // One that goes as it is asked is asked again: another may listen by then.
    let going = listener.try_clone().unwrap();
    let going = std::thread::spawn(move || {
        let (stream, _) = going.accept().unwrap();
        drop(stream);
        let (mut stream, _) = going.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"+PONG\r\n");
    });
    let error = refused(turns.config.clone());
    assert!(error.to_string().contains("is no keyfold that this one can take over from"), "{error}");
    going.join().unwrap();
    // A file that nobody listens at any more is no hindrance.
    drop(listener);
    let keyfold = start(turns.config.clone()).unwrap();
    assert_eq!(call(&mut connect(&keyfold), "PING"), "+PONG\r\n");
}

#[test]
fn one_that_cannot_serve_leaves_the_old_one_as_it_is() {
    let turns = turns();
    let old = start(turns.config.clone()).unwrap();
    let mut config = turns.next(&old);
    config.upstream = "redis://127.0.0.1:1".parse().unwrap();
    let error = refused(config);
    assert!(matches!(error, TakeoverError::NotReady { .. }), "{error}");
    assert_eq!(call(&mut connect(&old), "PING"), "+PONG\r\n");
    let new = start(turns.next(&old)).unwrap();
    old.join().unwrap();
    drop(new);
}

#[test]
fn a_socket_that_no_address_names_is_refused() {
    let mut turns = turns();
    turns.config.takeover = None;
    let mut sockets = Sockets::default();
    sockets.add(std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let error = start_with(turns.config.clone(), sockets).unwrap_err();
    assert!(error.to_string().contains("neither --listen nor --admin names"), "{error}");
    assert!(!Path::new(&turns.path).exists());
}
