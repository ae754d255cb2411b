//! The example client before real servers: what it writes is folded, and what it reads is what was written.

#[path = "../examples/blocking_client.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod blocking_client;

use keyfold_core::layout::Layout;
use keyfold_testkit::found;

const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 100 }\n";

#[test]
fn a_folded_server_is_one_to_a_client_without_a_proxy() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let address = format!("127.0.0.1:{}", server.port());
        let mut wire = server.connect().unwrap();
        let layout = Layout::parse_file(LAYOUT).unwrap().to_stored();
        wire.call(&[
            b"MSET",
            b"keyfold:{home}:layout",
            layout.as_bytes(),
            b"keyfold:{home}:layout:copy",
            layout.as_bytes(),
        ])
        .unwrap();
        wire.call(&[b"SET", b"other", b"plain"]).unwrap();

        let long = "x".repeat(100);
        let set_long = format!("SET user:3 {long}");
        let commands = ["SET user:1 ada", "SET user:2 41", "INCR user:2", &set_long, "GET user:3", "GET other"];
        let answers = blocking_client::run(&address, &commands).unwrap();
        let long = format!("$100\r\n{long}\r\n");
        let expected = ["+OK\r\n", "+OK\r\n", ":42\r\n", "+OK\r\n", &long, "$5\r\nplain\r\n"];
        assert_eq!(answers, expected.map(|answer| answer.as_bytes().to_vec()), "{}", server.name());

        let scan = blocking_client::run(&address, &["SCAN 0 MATCH user:* COUNT 1000", "DBSIZE"]).unwrap();
        let keys = String::from_utf8_lossy(&scan[0]).into_owned();
        for key in ["user:1", "user:2", "user:3"] {
            assert!(keys.contains(&format!("\r\n{key}\r\n")), "{}: {keys}", server.name());
        }
        assert!(!keys.contains('~') && scan[1] == b":4\r\n", "{}: {keys}", server.name());
        assert_eq!(wire.ask(&[b"EXISTS", b"user:1", b"user:2", b"user:3"]).unwrap().integer(), Some(0));
    }
}
