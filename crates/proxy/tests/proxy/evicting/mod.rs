//! A cache is kept within its memory by the key: by the right ones, and each is there with its value or absent.
//!
//! | module | what it asks |
//! | --- | --- |
//! | `memory` | does memory stay at the mark, and follow one that is lowered? |
//! | `which` | do the keys leave that are worth the least, and of no namespace one that stays? |
//! | `values` | is a key there with its value or absent, whoever writes it how, and is nothing left over? |
//! | `faults` | what of keyfolds, servers and scripts that are gone, and of a server that evicts by itself? |
//! | `full` | are writes refused as a server does it where nothing may leave? |
//! | `told` | do subscribers and clients that cache hear of what leaves? |
//! | `cluster` | is each primary kept by its own memory? |
//! | `collections` | do sets and hashes leave whole? |

mod cluster;
mod collections;
mod faults;
mod full;
mod memory;
mod told;
mod values;
mod which;

use std::sync::Arc;

use keyfold_core::eviction::ServerMemory;
use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_proxy::{Handle, start};
use keyfold_testkit::{Binary, Server, Wire};

use super::stage::{address, change_layout, config_for, eventually};

/// Buckets, of whose values some spill; keys with names of their own; values that are frames and are packed.
const WAYS: &str = r#"
    [[namespace]]
    keys = "user:{id:int}"
    bucket = { span = 64 }
    value_limit = 64
    [[namespace]]
    keys = "cart:{id:int}"
    bucket = { count = 128 }
    codec = "hex"
    [[namespace]]
    keys = "zip:{id:int}"
    [[namespace]]
    keys = "own:{id:int}"
    placement = "framed"
    codec = "hex"
"#;

const MB: u64 = 1 << 20;

/// A server whose own eviction begins a quarter above the mark, and keyfolds that keep it below. A tenth is enough for larger ones: the
/// tables of so small a server take more than that when they double.
struct Cached {
    proxy: Handle,
    server: Server,
    /// What the server took when it was empty.
    empty: u64,
    mark: u64,
}

/// A cache of so many bytes beside what an empty server takes.
fn cached(binary: &Binary, namespaces: &str, bytes: u64) -> Cached {
    let server = binary.start(&["--maxmemory-policy", "allkeys-lru"]).unwrap();
    let empty = counted(&server);
    let mark = empty + bytes;
    set_max(&server, mark + mark / 4);
    let layout = Arc::new(Layout::parse_file(&text_of(namespaces, &mark.to_string())).unwrap());
    server.put_in_force(&layout).unwrap();
    let proxy = another(&server, &layout);
    Cached { proxy, server, empty, mark }
}

/// What comes before the first namespace goes on with the cache.
fn text_of(namespaces: &str, max_memory: &str) -> String {
    format!("[cache]\nmax_memory = \"{max_memory}\"\n{namespaces}")
}

/// Puts a layout in force that says otherwise how the cache is kept, and waits until the keyfold goes by it.
fn change(stage: &Cached, namespaces: &str, max_memory: &str) {
    let (before, text) = (stage.proxy.layout(), text_of(namespaces, max_memory));
    let next = Layout::merge(Some(&before), &LayoutFile::parse(&text).unwrap()).unwrap().layout;
    change_layout(&stage.server, &before, &next);
    eventually("the layout is adopted", || stage.proxy.layout().epoch() == next.epoch());
}

/// A keyfold before a server that has this layout in force.
fn another(server: &Server, layout: &Arc<Layout>) -> Handle {
    let mut config = config_for(server);
    config.layout = Arc::clone(layout);
    config.sweep.pause = std::time::Duration::from_millis(50);
    start(config).unwrap()
}

fn set_max(server: &Server, bytes: u64) {
    let set = server.connect().unwrap().call(&[b"CONFIG", b"SET", b"maxmemory", bytes.to_string().as_bytes()]);
    assert_eq!(set.unwrap(), b"+OK\r\n");
}

fn info(wire: &mut Wire, section: &str) -> String {
    let text = wire.ask(&[b"INFO", section.as_bytes()]).unwrap();
    String::from_utf8_lossy(text.bytes().unwrap()).into_owned()
}

/// What the server counts of its memory.
fn counted(server: &Server) -> u64 {
    ServerMemory::read(&info(&mut server.connect().unwrap(), "memory")).unwrap().counted
}

impl Cached {
    fn connect(&self) -> Wire {
        Wire::connect(address(&self.proxy)).unwrap()
    }

    fn counted(&self) -> u64 {
        counted(&self.server)
    }

    /// Keys that the proxy has evicted of all namespaces.
    fn evicted(&self) -> u64 {
        self.proxy.namespaces().iter().map(|counts| counts.evicted).sum()
    }

    /// Nothing was evicted by the server itself.
    fn assert_server_kept_out(&self) {
        let stats = info(&mut self.server.connect().unwrap(), "stats");
        assert!(stats.contains("\nevicted_keys:0\r"), "{}: {stats}", self.server.name());
        assert_eq!(self.proxy.cache().by_server(), 0);
    }
}

/// Sends commands by the hundred; their replies.
fn send_all(wire: &mut Wire, commands: impl IntoIterator<Item = Vec<Vec<u8>>>) -> Vec<Vec<u8>> {
    let (mut commands, mut replies) = (commands.into_iter().peekable(), Vec::new());
    while commands.peek().is_some() {
        let sent = commands.by_ref().take(100).map(|command| {
            wire.send(&command.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        });
        for () in sent.collect::<Vec<_>>() {
            replies.push(wire.reply().unwrap());
        }
    }
    replies
}

/// A command of words, split at spaces.
fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Writes values of this length under the names of a kind with these numbers.
fn write(wire: &mut Wire, kind: &str, ids: std::ops::Range<u64>, length: usize) {
    let value = "x".repeat(length);
    let replies = send_all(wire, ids.map(|id| words(&format!("SET {kind}:{id} {value}"))));
    if let Some(other) = replies.iter().find(|reply| *reply != b"+OK\r\n") {
        let count = replies.iter().filter(|reply| *reply == other).count();
        panic!("{count} of {}: {}", replies.len(), other.escape_ascii());
    }
}

/// How many of these keys are there.
fn there(wire: &mut Wire, kind: &str, ids: impl IntoIterator<Item = u64>) -> usize {
    let replies = send_all(wire, ids.into_iter().map(|id| words(&format!("STRLEN {kind}:{id}"))));
    replies.iter().filter(|reply| *reply != b":0\r\n").count()
}

/// Reads keys as an application does its cache: what is gone is set again. How many were there.
fn read_through(wire: &mut Wire, kind: &str, ids: impl IntoIterator<Item = u64>, length: usize) -> usize {
    let ids: Vec<u64> = ids.into_iter().collect();
    let replies = send_all(wire, ids.iter().map(|id| words(&format!("STRLEN {kind}:{id}"))));
    let gone = ids.iter().zip(replies).filter(|(_, reply)| reply == b":0\r\n").map(|(id, _)| *id);
    let gone: Vec<u64> = gone.collect();
    gone.iter().for_each(|id| write(wire, kind, *id..id + 1, length));
    ids.len() - gone.len()
}
