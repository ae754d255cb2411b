//! `keyfold top` as a process, before real keyfolds: one frame as text.

use keyfold_testkit::{Certificates, Server, Wire, found};
use tempfile::TempDir;

use crate::serve::keyfold::{Keyfold, run, write_layout};

/// The second would clear a terminal and colour it.
const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n\
                      [[namespace]]\nkeys = \"\\u001b[2J\\u001b[31mevil:{id:int}\"\nbucket = { span = 64 }\n";

struct Stage {
    server: Server,
    keyfold: Keyfold,
    operators: String,
    token: String,
    _dir: TempDir,
}

/// A keyfold with some keys, and nobody who asks for more.
fn stage() -> Stage {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let dir = TempDir::new().unwrap();
    let layout = write_layout(dir.path(), LAYOUT);
    let token = dir.path().join("token");
    std::fs::write(&token, "0123456789abcdef0123\n").unwrap();
    let (layout, token) = (layout.to_str().unwrap().to_owned(), token.to_str().unwrap().to_owned());
    let url = server.url();
    let args = ["--upstream", &url, "--layout", &layout, "--admin", "0", "--admin-token-file", &token];
    let mut keyfold = Keyfold::serve(&[&args[..], &["--usd-per-gb-month", "2.5"]].concat());
    let operators = format!("http://{}", keyfold.said("admin on "));
    let mut client = keyfold.connect();
    for id in 0..300 {
        assert_eq!(client.call(&[b"SET", format!("user:{id}").as_bytes(), b"a value"]).unwrap(), b"+OK\r\n");
    }
    for id in 0..400 {
        client.call(&[b"GET", format!("user:{id}").as_bytes()]).unwrap();
    }
    client.call(&[b"SET", b"\x1b[2J\x1b[31mevil:7", b"x"]).unwrap();
    Stage { server, keyfold, operators, token, _dir: dir }
}

fn once(args: &[&str]) -> String {
    let (code, out, err) = run(&[&["top", "--once", "--interval", "200ms"], args].concat());
    assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}: {out}");
    assert!(!out.contains(|one: char| one.is_control() && one != '\n'), "{args:?}: {out:?}");
    out
}

/// The cells of the row that begins with this.
fn row<'o>(out: &'o str, name: &str) -> Vec<&'o str> {
    let line =
        out.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("no {name} in {out}"));
    line.split_whitespace().collect()
}

/// What INFO says of the first namespace.
fn field(client: &mut Wire, name: &str) -> String {
    let info = String::from_utf8(client.call(&[b"INFO", b"keyfold"]).unwrap()).unwrap();
    let line = info.lines().find(|line| line.starts_with("keyfold_namespace_0:")).unwrap().to_owned();
    line.split(',').find_map(|part| part.strip_prefix(&format!("{name}="))).unwrap().to_owned()
}

#[test]
fn the_figures_are_those_of_info_by_either_address() {
    let stage = stage();
    let mut client = stage.keyfold.connect();
    let url = stage.keyfold.url();
    for out in [once(&[&url]), once(&[&stage.operators, "--token-file", &stage.token])] {
        let cells = row(&out, "user:{id:int}");
        // The columns behind what a codec makes of values: reads, found, misses, writes, spills.
        let counts: Vec<String> = cells[cells.len() - 5..].iter().map(|cell| (*cell).to_owned()).collect();
        let expected = ["reads", "hits", "misses", "writes", "spills"].map(|name| field(&mut client, name));
        assert_eq!(counts, expected, "{out}");
        assert_eq!(expected, ["400", "300", "100", "300", "0"]);
        assert!(out.contains("\\u{1b}[2J\\u{1b}[31mevil:{id:int}"), "{out}");
        assert!(
            out.starts_with(&format!(
                "keyfold top: {}, ready\n",
                if out.contains("http") { &stage.operators } else { &url }
            )),
            "{out}"
        );
        assert!(out.contains("nothing to warn of\n"), "{out}");
    }
    let both = once(&[&url, &stage.operators, &stage.server.url(), "--token-file", &stage.token]);
    assert!(both.starts_with("keyfold top: 3 sources\n"), "{both}");
    assert!(row(&both, "user:{id:int}").contains(&"800"), "two keyfolds are added up: {both}");
    assert!(both.contains("\nserving\n  keyfold:") && row(&both, &stage.server.url()).contains(&"layout"), "{both}");
}

#[test]
fn the_server_behind_says_who_serves_and_what_is_saved() {
    let stage = stage();
    let out = once(&[&stage.server.url()]);
    assert!(out.contains(" connections\n") && out.contains("\nserving\n  keyfold:"), "{out}");
    assert_eq!(row(&out, "user:{id:int}").iter().filter(|cell| **cell == "300").count(), 1, "{out}");
    let plain = found().pop().unwrap().start(&[]).unwrap();
    let out = once(&[&plain.url()]);
    assert!(out.contains("nothing folded") && out.contains("no keyfold is connected"), "{out}");
}

#[test]
fn what_can_not_be_asked_is_said_and_the_others_are_shown() {
    let stage = stage();
    let away = "redis://127.0.0.1:1";
    let (code, out, _) = run(&["top", "--once", away]);
    assert!(code == Some(1) && out.contains("away") && out.contains("It can't be asked"), "{out}");
    let out = once(&[away, &stage.keyfold.url()]);
    assert!(out.starts_with("keyfold top: 2 sources, 1 away\n") && row(&out, away).contains(&"away"), "{out}");
    let (code, out, _) = run(&["top", "--once", &stage.operators]);
    assert!(code == Some(1) && out.contains("it wants a token: name its file by --token-file"), "{out}");
    for (args, why) in [
        (&["ftp://a"][..], "ftp"),
        (&["http://me:secret@a:1"], "--token-file"),
        (&["--interval", "10ms"], "200ms"),
        (&["6379"], "127.0.0.1:6379"),
    ] {
        let (code, _, err) = run(&[&["top", "--once"], args].concat());
        assert!(code == Some(2) && err.contains(why), "{args:?}: {err}");
    }
}

#[test]
fn operators_by_tls_and_by_a_unix_socket_are_asked_too() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let files = Certificates::of(&["localhost", "127.0.0.1"]).unwrap();
    let [cert, key, ca] = [&files.cert, &files.key, &files.ca].map(|path| path.to_str().unwrap());
    let dir = TempDir::new().unwrap();
    let socket = format!("unix:{}", dir.path().join("admin.sock").display());
    let url = server.url();
    let tls = ["--tls-cert", cert, "--tls-key", key, "--admin-client-ca", ca];
    let by_tls = [&["--upstream", &url, "--admin", "tls://127.0.0.1:0"][..], &tls].concat();
    let mut keyfold = Keyfold::serve(&by_tls);
    let operators = keyfold.said("admin on ").replace("tls://", "https://");
    let shown = ["--upstream-ca", ca, "--upstream-cert", cert, "--upstream-key", key];
    let out = once(&[&[operators.as_str()][..], &shown].concat());
    assert!(out.contains(", ready\n") && out.contains("There is no layout"), "{out}");
    let (code, out, _) = run(&["top", "--once", &operators]);
    assert!(code == Some(1) && out.contains("It can't be asked"), "its authority is nobody's: {out}");

    let mut keyfold = Keyfold::serve(&["--upstream", &url, "--admin", &socket]);
    let path = keyfold.said("admin on ").replace("unix:", "http+unix://");
    assert!(once(&[&path]).contains(", ready\n"));
}
