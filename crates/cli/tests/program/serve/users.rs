//! Who may come in, read from files and changed while keyfold runs.

use std::path::Path;

use keyfold_testkit::{Wire, found};
use rustix::process::Signal;

use super::keyfold::Keyfold;

fn ask(wire: &mut Wire, command: &str) -> String {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let reply = String::from_utf8(wire.call(&words).unwrap()).unwrap();
    reply.split("\r\n").next().unwrap().to_owned()
}

fn log_in(keyfold: &Keyfold, name: &str, password: &str) -> Wire {
    let mut wire = keyfold.connect();
    assert_eq!(ask(&mut wire, &format!("AUTH {name} {password}")), "+OK");
    wire
}

fn serve(file: &Path, option: &str) -> (keyfold_testkit::Server, Keyfold) {
    let server = found().last().expect("a server").start(&[]).unwrap();
    let keyfold = Keyfold::serve(&["--upstream", &server.url(), option, file.to_str().unwrap()]);
    (server, keyfold)
}

#[test]
fn users_are_read_again_on_sighup() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.acl");
    std::fs::write(&file, "user a on >one ~* +@all\nuser b on >two ~* +@all\n").unwrap();
    let (_server, mut keyfold) = serve(&file, "--users");
    let (mut stays, mut goes) = (log_in(&keyfold, "a", "one"), log_in(&keyfold, "b", "two"));
    assert_eq!(ask(&mut stays, "SET k v"), "+OK");

    std::fs::write(&file, "user a on >one +nosuch\n").unwrap();
    keyfold.signal(Signal::HUP);
    let logged = keyfold.log_until("as it was");
    assert!(logged.contains("line 1: rule '+nosuch' of user 'a'"), "{logged}");
    assert_eq!(ask(&mut stays, "SET k v"), "+OK");
    assert_eq!(ask(&mut goes, "PING"), "+PONG");

    std::fs::write(&file, "user a on >new ~* +get\n").unwrap();
    keyfold.signal(Signal::HUP);
    keyfold.log_until("read again who may come in");
    assert!(ask(&mut stays, "SET k w").starts_with("-NOPERM "), "the rules are new");
    assert_eq!(ask(&mut stays, "GET k"), "$1", "and the connection is not");
    assert!(goes.is_closed().unwrap(), "who is no user any more is closed");
    assert!(ask(&mut keyfold.connect(), "AUTH a one").starts_with("-WRONGPASS "));
    log_in(&keyfold, "a", "new");
}

#[test]
fn the_password_is_read_again_on_sighup() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "one\n").unwrap();
    let (_server, mut keyfold) = serve(&file, "--password-file");
    let mut before = log_in(&keyfold, "default", "one");
    std::fs::write(&file, "two\n").unwrap();
    keyfold.signal(Signal::HUP);
    keyfold.log_until("read again who may come in");
    assert_eq!(ask(&mut before, "PING"), "+PONG");
    assert!(ask(&mut keyfold.connect(), "AUTH one").starts_with("-WRONGPASS "));
    log_in(&keyfold, "default", "two");
    assert!(ask(&mut before, "ACL SAVE").contains("instance is not configured to use an ACL file."));
}

/// A certificate is renewed every few weeks, and SIGHUP sent for it.
#[test]
fn what_acl_commands_changed_outlives_a_sighup_where_the_file_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    for (option, text) in [("--password-file", "one\n"), ("--users", "user default on >one ~* &* +@all\n")] {
        std::fs::write(&file, text).unwrap();
        let (_server, mut keyfold) = serve(&file, option);
        let mut client = log_in(&keyfold, "default", "one");
        assert_eq!(ask(&mut client, "ACL SETUSER app on >pw ~app:* +get"), "+OK");
        assert_eq!(ask(&mut client, "ACL SETUSER default -flushall"), "+OK");
        keyfold.signal(Signal::HUP);
        keyfold.log_until("who may come in is as it was");
        let mut app = log_in(&keyfold, "app", "pw");
        assert!(ask(&mut client, "FLUSHALL").starts_with("-NOPERM "), "{option}");

        if option == "--password-file" {
            std::fs::write(&file, "two\n").unwrap();
            keyfold.signal(Signal::HUP);
            keyfold.log_until("the password is another");
            assert!(ask(&mut keyfold.connect(), "AUTH one").starts_with("-WRONGPASS "));
            assert!(ask(&mut log_in(&keyfold, "default", "two"), "FLUSHALL").starts_with("-NOPERM "));
            assert_eq!(ask(&mut app, "GET app:1"), "$-1");
        } else {
            // What was loaded is gone by, and the text of before a change.
            std::fs::write(&file, format!("{text}user loaded on nopass\n")).unwrap();
            assert_eq!(ask(&mut client, "ACL LOAD"), "+OK");
            keyfold.signal(Signal::HUP);
            keyfold.log_until("who may come in is as it was");
            std::fs::write(&file, text).unwrap();
            keyfold.signal(Signal::HUP);
            keyfold.log_until("read again who may come in");
            assert_eq!(ask(&mut client, "ACL USERS"), "*1");
            // What was saved is no change from outside.
            assert_eq!(ask(&mut client, "ACL SAVE"), "+OK");
            assert_eq!(ask(&mut client, "ACL SETUSER later on >pw +ping"), "+OK");
            keyfold.signal(Signal::HUP);
            keyfold.log_until("who may come in is as it was");
            assert_eq!(ask(&mut log_in(&keyfold, "later", "pw"), "PING"), "+PONG");
        }
    }
}

#[test]
fn patterns_of_any_bytes_are_shown_saved_and_loaded_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.acl");
    std::fs::write(&file, "user default on nopass ~* &* +@all\n").unwrap();
    let (_server, keyfold) = serve(&file, "--users");
    let mut client = keyfold.connect();
    let set: [&[u8]; 8] = [b"ACL", b"SETUSER", b"bin", b"on", b">pw", b"~\xff*", b"&\xfe*", b"+@all"];
    assert_eq!(client.call(&set).unwrap(), b"+OK\r\n");
    let listed = client.call(&[b"ACL", b"LIST"]).unwrap();
    assert!(listed.windows(3).any(|bytes| bytes == b"~\xff*"), "{}", listed.escape_ascii());
    assert_eq!(ask(&mut client, "ACL SAVE"), "+OK");
    assert_eq!(ask(&mut client, "ACL LOAD"), "+OK");
    let mut bin = log_in(&keyfold, "bin", "pw");
    assert_eq!(bin.call(&[b"SET", b"\xffa", b"v"]).unwrap(), b"+OK\r\n");
    assert!(bin.call(&[b"SET", b"\xef\xbf\xbda", b"v"]).unwrap().starts_with(b"-NOPERM "));
}

#[test]
fn acl_load_and_save_read_and_write_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.acl");
    std::fs::write(&file, "# by hand\nuser boss on >secret ~* &* +@all\n").unwrap();
    let (_server, keyfold) = serve(&file, "--users");
    let mut boss = log_in(&keyfold, "boss", "secret");
    assert_eq!(ask(&mut boss, "ACL SETUSER app on >pw ~app:* +get"), "+OK");
    assert_eq!(ask(&mut boss, "ACL SAVE"), "+OK");
    let saved = std::fs::read_to_string(&file).unwrap();
    assert!(
        saved.starts_with("user app on ") && saved.contains("\nuser boss on ") && !saved.contains("secret"),
        "{saved}"
    );

    let mut app = log_in(&keyfold, "app", "pw");
    std::fs::write(&file, format!("{saved}nonsense\n")).unwrap();
    let refused = ask(&mut boss, "ACL LOAD");
    assert!(refused.contains("line 3: 'nonsense' begins no definition"), "{refused}");
    assert_eq!(ask(&mut app, "GET app:1"), "$-1");

    std::fs::write(&file, "user boss on >secret ~* &* +@all\n").unwrap();
    assert_eq!(ask(&mut boss, "ACL LOAD"), "+OK");
    assert!(app.is_closed().unwrap());
    assert_eq!(ask(&mut boss, "ACL USERS"), "*1");

    std::fs::remove_file(&file).unwrap();
    assert!(ask(&mut boss, "ACL LOAD").starts_with("-ERR keyfold: can't read "));
    assert_eq!(ask(&mut boss, "ACL WHOAMI"), "$4");
}
