//! A layout on its way to a server, and what is refused on it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use keyfold_testkit::{Server, found};
use rustix::process::Signal;
use tempfile::TempDir;

use super::keyfold::{COUNTERS, Keyfold, command, run, write_layout};

/// Every server at hand, each with a layout's file.
fn on_every_server(body: impl Fn(&Server, &str)) {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let dir = TempDir::new().unwrap();
        let layout = write_layout(dir.path(), COUNTERS);
        body(&server, layout.to_str().unwrap());
    }
}

fn serve_refused(server: &Server, args: &[&str]) -> String {
    let url = server.url();
    let common = ["serve", "--listen", "127.0.0.1:0", "--upstream", &url];
    let (code, stdout, stderr) = run(&[&common, args].concat());
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{}: {stderr}", server.name());
    stderr
}

#[test]
fn a_new_namespace_whose_keys_are_there_is_refused() {
    on_every_server(|server, layout| {
        let mut direct = server.connect().unwrap();
        for key in [&b"user:1"[..], b"user:2", b"user:x", b"other"] {
            direct.call(&[b"SET", key, b"1"]).unwrap();
        }
        direct.call(&[b"SELECT", b"3"]).unwrap();
        direct.call(&[b"RPUSH", b"user:3", b"1"]).unwrap();
        let stderr = serve_refused(server, &["--layout", layout]);
        assert!(stderr.contains("user:{id:int}: 3 keys, such as \"user:"), "{}: {stderr}", server.name());
        assert!(stderr.contains("--skip-key-check"), "{stderr}");
        direct.call(&[b"SELECT", b"0"]).unwrap();
        assert_eq!(direct.call(&[b"EXISTS", b"keyfold:{home}:layout"]).unwrap(), b":0\r\n", "nothing was written");

        let keyfold = Keyfold::serve(&["--upstream", &server.url(), "--layout", layout, "--skip-key-check"]);
        assert_eq!(keyfold.connect().call(&[b"GET", b"user:1"]).unwrap(), b"$-1\r\n");
        assert_eq!(keyfold.connect().call(&[b"GET", b"other"]).unwrap(), b"$1\r\n1\r\n");
    });
}

/// The port that is named may well be the server's own.
#[test]
fn a_keyfold_that_can_not_listen_changes_nothing() {
    on_every_server(|server, layout| {
        let (url, taken) = (server.url(), format!("127.0.0.1:{}", server.port()));
        for args in [&["--listen", taken.as_str()][..], &["--listen", "127.0.0.1:0", "--admin", &taken]] {
            let (code, _, stderr) = run(&[&["serve", "--upstream", &url, "--layout", layout], args].concat());
            assert_eq!(code, Some(1), "{args:?}: {stderr}");
            assert!(stderr.contains("something listens there already"), "{args:?}: {stderr}");
        }
        let mut direct = server.connect().unwrap();
        assert_eq!(direct.call(&[b"EXISTS", b"keyfold:{home}:layout"]).unwrap(), b":0\r\n");
    });
}

/// From the announcement on the look is over: what is written then was not seen by it.
#[test]
fn no_key_that_is_written_while_its_namespace_is_added_reads_as_absent() {
    on_every_server(|server, layout| {
        let url = server.url();
        let keyfold = Keyfold::serve(&["--upstream", &url]);
        let push = ["layout", "push", layout, "--upstream", &url];
        let mut push = command(&push).stdout(Stdio::null()).spawn().unwrap();
        let mut direct = server.connect().unwrap();
        while direct.call(&[b"EXISTS", b"keyfold:{home}:change"]).unwrap() == b":0\r\n" {}
        let (mut client, mut written) = (keyfold.connect(), 0);
        let ended = loop {
            written += 1;
            let key = format!("user:{written}");
            assert_eq!(client.call(&[b"SET", key.as_bytes(), key.as_bytes()]).unwrap(), b"+OK\r\n");
            if let Some(status) = push.try_wait().unwrap() {
                break status;
            }
        };
        assert!(ended.success(), "{}", server.name());
        for number in 1..=written {
            let key = format!("user:{number}");
            let reply = client.call(&[b"GET", key.as_bytes()]).unwrap();
            assert_eq!(reply, format!("${}\r\n{key}\r\n", key.len()).into_bytes(), "{} of {written}", server.name());
        }
        let own = direct.call(&[b"EXISTS", b"user:1"]).unwrap();
        assert_eq!(own, b":0\r\n", "{}: what was written before is folded too", server.name());
    });
}

/// All but one of them find that another has changed the layout meanwhile.
#[test]
fn keyfolds_that_start_together_with_one_file_all_serve_it() {
    on_every_server(|server, layout| {
        let url = server.url();
        let keyfolds = std::thread::scope(|scope| {
            let starts = [(); 3].map(|()| scope.spawn(|| Keyfold::serve(&["--upstream", &url, "--layout", layout])));
            starts.map(|start| start.join().unwrap())
        });
        for (number, keyfold) in keyfolds.iter().enumerate() {
            keyfold.connect().call(&[b"SET", format!("user:{number}").as_bytes(), b"v"]).unwrap();
        }
        for keyfold in &keyfolds {
            let values = keyfold.connect().call(&[b"MGET", b"user:0", b"user:1", b"user:2"]).unwrap();
            assert_eq!(values, b"*3\r\n$1\r\nv\r\n$1\r\nv\r\n$1\r\nv\r\n", "{}", server.name());
        }
    });
}

#[test]
fn a_layout_stays_on_its_server_and_what_would_move_keys_is_refused() {
    on_every_server(|server, layout| {
        let url = server.url();
        let keyfold = Keyfold::serve(&["--upstream", &url, "--layout", layout]);
        keyfold.connect().call(&[b"SET", b"user:1000", b"v"]).unwrap();
        keyfold.end_by(Signal::TERM);

        // Without a file, the stored one.
        let keyfold = Keyfold::serve(&["--upstream", &url]);
        assert_eq!(keyfold.connect().call(&[b"GET", b"user:1000"]).unwrap(), b"$1\r\nv\r\n");
        drop(keyfold);

        let dir = TempDir::new().unwrap();
        let other = write_layout(dir.path(), &COUNTERS.replace("128", "64"));
        let stderr = serve_refused(server, &["--layout", other.to_str().unwrap()]);
        assert!(stderr.contains("in use:  bucket = { span = 128 }"), "{stderr}");
        assert!(stderr.contains("in file: bucket = { span = 64 }"), "{stderr}");
        let (code, _, _) = run(&["layout", "push", other.to_str().unwrap(), "--upstream", &url]);
        assert_eq!(code, Some(1));
    });
}

#[test]
fn push_show_and_where() {
    on_every_server(|server, layout| {
        let url = server.url();
        let (code, _, stderr) = run(&["layout", "show", &url]);
        assert_eq!(code, Some(1));
        assert!(stderr.contains("has no layout"), "{stderr}");
        let (code, stdout, _) = run(&["layout", "push", layout, "--upstream", &url]);
        assert_eq!(code, Some(0));
        assert!(
            stdout.starts_with("change number 2 of the layout stored on the server: 1 namespace, 1 new, 0 changed"),
            "{stdout}"
        );
        let (_, stdout, _) = run(&["layout", "push", layout, "--upstream", &url]);
        assert!(stdout.starts_with("change number 2 of the layout, as the server has it"), "{stdout}");
        let (_, stdout, _) = run(&["layout", "show", &url, "--file"]);
        assert!(stdout.starts_with("[[namespace]]\nkeys = \"user:{id:int}\"\n"), "{stdout}");
        let dir = TempDir::new().unwrap();
        let shown = write_layout(dir.path(), &stdout);
        let (code, stdout, _) = run(&["layout", "push", shown.to_str().unwrap(), "--upstream", &url]);
        assert!(
            code == Some(0) && stdout.starts_with("change number 2 of the layout, as the server has it"),
            "{stdout}"
        );

        let keyfold = Keyfold::serve(&["--upstream", &url]);
        let mut wire = keyfold.connect();
        let long = vec![b'x'; 1000];
        wire.call(&[b"SET", b"user:1000", b"5", b"PX", b"100000"]).unwrap();
        wire.call(&[b"SET", b"user:1001", &long]).unwrap();
        let shown = |key: &str| run(&["where", key, "--upstream", &url]).1;
        let counter = shown("user:1000");
        for line in ["\"~tnrO:7\"", "\"104\"", "integer", "in 9", "bucket's entries   2", "listpack"] {
            let line = if server.version().major < 7 { line.replace("listpack", "ziplist") } else { line.to_owned() };
            assert!(counter.contains(&line), "{line} in {counter}");
        }
        assert!(shown("user:1001").contains("spilled bytes      1,000"), "{}", shown("user:1001"));
        assert!(shown("user:1002").contains("nothing: the key doesn't exist"), "{}", shown("user:1002"));
        assert!(shown("elsewhere").contains("the key is plain"), "{}", shown("elsewhere"));
    });
}

#[test]
fn settings_that_fall_short_are_said_with_the_line_that_helps() {
    on_every_server(|server, layout| {
        let dir = TempDir::new().unwrap();
        let raised = write_layout(dir.path(), &format!("{COUNTERS}value_limit = 300\n"));
        let (code, stdout, _) = run(&["layout", "push", raised.to_str().unwrap(), "--upstream", &server.url()]);
        assert_eq!(code, Some(0), "{layout}");
        let name = if server.version().major < 7 { "hash-max-ziplist-value" } else { "hash-max-listpack-value" };
        assert!(stdout.contains(&format!("CONFIG SET {name} 300")), "{stdout}");
        let assumed = ["--assume", "hash-max-listpack-value=512"];
        let push = ["layout", "push", raised.to_str().unwrap(), "--upstream", &server.url()];
        assert!(!run(&[&push[..], &assumed[..]].concat()).1.contains("warning"));
    });
}

#[test]
fn a_changed_file_is_taken_up_on_sighup() {
    on_every_server(|server, layout| {
        let keyfold = Keyfold::serve(&["--upstream", &server.url(), "--layout", layout]);
        let mut client = keyfold.connect();
        client.call(&[b"SET", b"user:1", b"v"]).unwrap();
        let more = format!("{COUNTERS}\n[[namespace]]\nkeys = \"cart:{{id:int}}\"\nbucket = {{ span = 64 }}\n");
        std::fs::write(layout, more).unwrap();
        keyfold.signal(Signal::HUP);

        let deadline = Instant::now() + Duration::from_secs(60);
        let mut served = Vec::new();
        while !served.windows(b"keyfold_namespaces:2".len()).any(|part| part == b"keyfold_namespaces:2") {
            assert!(Instant::now() < deadline, "{}: the layout is taken up", server.name());
            served = client.call(&[b"INFO", b"keyfold"]).unwrap();
        }
        client.call(&[b"SET", b"cart:1", b"c"]).unwrap();
        assert_eq!(server.connect().unwrap().call(&[b"EXISTS", b"cart:1"]).unwrap(), b":0\r\n", "it is folded");
        assert_eq!(client.call(&[b"MGET", b"user:1", b"cart:1"]).unwrap(), b"*2\r\n$1\r\nv\r\n$1\r\nc\r\n");
    });
}

/// With slots and all: what is shown may be set as it is.
#[test]
fn the_layout_shown_is_what_the_server_holds() {
    on_every_server(|server, layout| {
        std::fs::write(layout, format!("{COUNTERS}codec = \"zstd\"\n")).unwrap();
        let url = server.url();
        assert_eq!(run(&["layout", "push", layout, "--upstream", &url]).0, Some(0));
        let keyfold = Keyfold::serve(&["--upstream", &url]);
        let mut client = keyfold.connect();
        for id in 0..2000 {
            let value = format!("{{\"id\":{id},\"name\":\"somebody\"}}");
            client.call(&[b"SET", format!("user:{id}").as_bytes(), value.as_bytes()]).unwrap();
        }
        assert_eq!(run(&["train", &url]).0, Some(0));
        let mut direct = server.connect().unwrap();
        let held = direct.ask(&[b"GET", b"keyfold:{home}:layout"]).unwrap();
        let (_, shown, _) = run(&["layout", "show", &url, "--toml"]);
        assert!(shown.contains("[[namespace.slot]]"), "{}: {shown}", server.name());
        assert_eq!(held.bytes().unwrap(), shown.as_bytes(), "{}", server.name());
    });
}
