//! A server with a proxy before it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use keyfold_core::change::{Connection, Coordinator, Course, Register};
use keyfold_core::layout::{Attempt, Layout, LayoutFile};
use keyfold_core::resp::write_command;
use keyfold_proxy::address::ListenAddress;
use keyfold_proxy::{Config, Handle, start};
use keyfold_testkit::{Server, Wire, found};

use crate::relay::Relay;

pub(crate) use keyfold_testkit::differential::CACHED_LAYOUT as ALL_WAYS;

/// How long a condition may take to come true on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    pub(crate) proxy: Handle,
    pub(crate) server: Server,
}

/// Starts a server and a proxy before it.
pub(crate) fn stage() -> Stage {
    stage_with(|_| {})
}

/// The same, with another configuration.
pub(crate) fn stage_with(configure: impl FnOnce(&mut Config)) -> Stage {
    let server = start_server(&[]);
    let mut config = config_for(&server);
    configure(&mut config);
    Stage { proxy: serve(&server, config), server }
}

/// A proxy with this configuration, its layout in force on the server.
pub(crate) fn serve(server: &Server, config: Config) -> Handle {
    server.put_in_force(&config.layout).unwrap();
    start(config).unwrap()
}

/// A proxy before this server that sweeps often, its layout in force there.
pub(crate) fn proxy_before(server: &Server, layout: &str) -> Handle {
    let mut config = config_for(server);
    config.layout = Layout::parse_file(layout).unwrap().into();
    config.sweep.pause = Duration::from_millis(50);
    serve(server, config)
}

/// The same while the keys of this layout are moved out of plain ones.
pub(crate) fn proxy_while_folding(server: &Server, layout: &str) -> Handle {
    let file = LayoutFile::parse(layout).unwrap();
    let mut config = config_for(server);
    config.layout = Layout::default().plan_fold(&file).unwrap().layout.with_attempt(Attempt(1)).into();
    serve(server, config)
}

/// Replaces the layout in force as keyfold's tools do: once nobody serves the one before.
pub(crate) fn change_layout(server: &Server, from: &Layout, to: &Layout) {
    let mut wire = server.connect().unwrap();
    let (before, after) = (from.to_stored().into_bytes(), to.to_stored().into_bytes());
    let mut coordinator = Coordinator::new(7, Register::of(&before), &after, from.revision());
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let mut commands = Vec::new();
        let count = coordinator.ask(&mut commands);
        wire.send_bytes(&commands).unwrap();
        let replies: Vec<_> = (0..count).map(|_| wire.reply().unwrap()).collect();
        coordinator.see(&replies).unwrap();
        commands.clear();
        match coordinator.decide() {
            Course::Warn => panic!("one server has no witnesses"),
            Course::Wait(ms) => std::thread::sleep(Duration::from_millis(ms)),
            Course::Announce(announcement) => {
                coordinator.announce(&announcement, &mut commands);
                wire.send_bytes(&commands).unwrap();
                coordinator.announced(&announcement, &wire.reply().unwrap()).unwrap();
            }
            Course::List => {
                let list = wire.ask(&[b"CLIENT", b"LIST"]).unwrap();
                let list = String::from_utf8(list.bytes().unwrap().to_vec()).unwrap();
                coordinator.listed(Connection::read_all(&list, None));
            }
            Course::Activate => {
                coordinator.activate(&mut commands);
                wire.send_bytes(&commands).unwrap();
                coordinator.activated(&wire.reply().unwrap()).unwrap();
            }
            Course::Done => return,
            course @ (Course::Close(_) | Course::GiveUp(_)) => panic!("{course:?}"),
        }
    }
    panic!("the layout was not changed");
}

/// The newest server at hand.
pub(crate) fn start_server(args: &[&str]) -> Server {
    found().last().expect("a server on PATH").start(args).unwrap()
}

/// A proxy for this server, on a free port.
pub(crate) fn config_for(server: &Server) -> Config {
    let mut config = Config::new(server.url().parse().unwrap(), Layout::parse_file("").unwrap());
    config.listen.push("127.0.0.1:0".parse().unwrap());
    config.threads = Some(2.try_into().unwrap());
    // A busy machine is no frozen server; tests of that say so.
    config.timeouts.server = PATIENCE;
    config.timeouts.connect = PATIENCE;
    config
}

/// The same, whose way to the server is a relay, which can lose it.
pub(crate) fn config_behind(relay: &Relay, server: &Server) -> Config {
    let mut config = config_for(server);
    config.upstream = relay.url().parse().unwrap();
    config
}

impl Stage {
    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(address(&self.proxy)).unwrap()
    }
}

/// The proxy's first TCP port.
pub(crate) fn address(proxy: &Handle) -> SocketAddr {
    let tcp = |address: &ListenAddress| match address {
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    };
    proxy.addresses().iter().find_map(tcp).unwrap()
}

/// Waits until a count comes to `wanted`, however slow the machine is; fails when it doesn't go on.
pub(crate) fn reaches(what: &str, wanted: u64, mut count: impl FnMut() -> u64) {
    let mut reached = count();
    while reached < wanted {
        let before = reached;
        eventually(&format!("{what} beyond {before}, towards {wanted}"), || {
            reached = count();
            reached > before
        });
    }
}

/// Waits until something holds; fails when it never does.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Encodes commands, words split at spaces.
pub(crate) fn commands(texts: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        write_command(&mut out, &text.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    out
}

/// Sends one command, words split at spaces, and returns the reply's bytes as text.
pub(crate) fn call(wire: &mut Wire, text: &str) -> String {
    wire.send_bytes(&commands(&[text])).unwrap();
    String::from_utf8(wire.reply().unwrap()).unwrap()
}

/// The server's number, as CLIENT LIST writes it, for a connection whose last command is this one, in lower case.
pub(crate) fn connection_that_asked(direct: &mut Wire, command: &str) -> Option<String> {
    let list = call(direct, "CLIENT LIST");
    let line = list.lines().find(|line| line.contains(&format!(" cmd={command} ")))?;
    line.split(' ').next().map(str::to_owned)
}
