//! INFO, where it speaks of clients and of keys.

use keyfold_core::layout::Layout;
use keyfold_testkit::Wire;

use crate::stage::{address, call, config_for, eventually, serve};
use crate::talk::ends;

const USERS: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n";

/// What a line of INFO says; nothing where there is no such line.
fn line(wire: &mut Wire, section: &str, name: &str) -> String {
    let text = call(wire, &format!("INFO {section}"));
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_default().to_owned()
}

fn number(wire: &mut Wire, section: &str, name: &str) -> u64 {
    line(wire, section, name).parse().unwrap()
}

#[test]
fn clients_requests_and_keys_are_keyfolds_own() {
    for binary in ends() {
        let server = binary.start(&[]).unwrap();
        let mut config = config_for(&server);
        config.layout = Layout::parse_file(USERS).unwrap().into();
        let proxy = serve(&server, config);
        let mut me = Wire::connect(address(&proxy)).unwrap();
        let others: Vec<Wire> = (0..5).map(|_| Wire::connect(address(&proxy)).unwrap()).collect();
        eventually("all have come", || number(&mut me, "clients", "connected_clients") == 6);
        drop(others);
        eventually("five have gone", || number(&mut me, "clients", "connected_clients") == 1);
        assert_eq!(number(&mut me, "stats", "total_connections_received"), 6);
        let mut waiting = Wire::connect(address(&proxy)).unwrap();
        waiting.send(&[b"BLPOP", b"never", b"0"]).unwrap();
        eventually("one waits", || number(&mut me, "clients", "blocked_clients") == 1);

        let before = number(&mut me, "stats", "total_commands_processed");
        for id in 0..100 {
            call(&mut me, &format!("SET user:{id} v"));
        }
        call(&mut me, "SET plain v");
        let [hits, misses] = ["keyspace_hits", "keyspace_misses"].map(|name| number(&mut me, "stats", name));
        call(&mut me, "MGET user:1 user:2 user:1000 plain nothing");
        for command in
            ["GET user:3", "GET user:999", "GET plain", "GET nothing", "EXISTS user:1 user:1000", "INCR user:x"]
        {
            call(&mut me, command);
        }
        let found = number(&mut me, "stats", "keyspace_hits") - hits;
        let missed = number(&mut me, "stats", "keyspace_misses") - misses;
        assert_eq!((found, missed), (3 + 1 + 1 + 1, 2 + 1 + 1 + 1), "{}", binary.name());
        let after = number(&mut me, "stats", "total_commands_processed");
        assert_eq!(after - before, 101 + 2 + 1 + 6 + 2 + 1, "{}", binary.name());
        eventually("a rate is told", || {
            call(&mut me, "PING");
            number(&mut me, "stats", "instantaneous_ops_per_sec") > 0
        });

        // The keys, one by the INCR included, are logical ones.
        let shown = line(&mut me, "keyspace", "db0");
        assert!(shown.starts_with("keys=102,expires="), "{}: {shown}", binary.name());
        let all = call(&mut me, "INFO");
        assert!(all.contains("\ndb0:keys=102,") && all.contains("\n# Keyfold\r\n"), "{all}");
        assert!(!call(&mut me, "INFO replication").contains("# Keyfold"));
        call(&mut me, "HELLO 3");
        assert!(call(&mut me, "INFO server").starts_with("=") && call(&mut me, "INFO server").contains("txt:# Server"));
    }
}
