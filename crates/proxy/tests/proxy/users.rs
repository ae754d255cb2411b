//! ACL on the users of a proxy, compared with ACL on those of a plain server.

use keyfold_testkit::Wire;

use crate::stage::{call, commands, stage};
use crate::talk::{Talk, alike};

/// Asks what `command` says, its words split at bars where they hold spaces.
fn ask(talk: &mut Talk, wire: &mut Wire, command: &str) {
    let separator = if command.contains('|') && command.contains('(') { ';' } else { ' ' };
    let words: Vec<&[u8]> = command.split(separator).map(str::as_bytes).collect();
    let reply = String::from_utf8(wire.call(&words).unwrap()).unwrap();
    let without_age: Vec<&str> = reply.lines().filter(|line| !line.contains(" laddr=")).collect();
    talk.heard.push(format!("{command}: {}", without_age.join(" ")));
}

#[test]
fn users_are_made_shown_and_removed_as_by_the_server() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let mut me = talk.connect();
        for command in [
            "ACL LIST",
            "ACL USERS",
            "ACL WHOAMI",
            "ACL GETUSER default",
            "ACL GETUSER nobody",
            "ACL SETUSER u1",
            "ACL LIST",
            "ACL SETUSER u1 on >pw ~a:* %R~b:* &c +@read -get",
            "ACL;SETUSER;u1;(+set ~x);(%W~y +@all -@write &z);(;+del;~a|b;)",
            "ACL GETUSER u1",
            "ACL LIST",
            "ACL SETUSER u1 +foo",
            "ACL SETUSER u1 foo",
            "ACL SETUSER u1 off +foo",
            "ACL SETUSER u1 <nope",
            "ACL SETUSER u1 !abc",
            "ACL SETUSER u1 #abc",
            "ACL SETUSER u1 (+get",
            "ACL SETUSER u1 (+foo)",
            "ACL SETUSER u1 (on)",
            "ACL SETUSER u1 ( +get (",
            "ACL SETUSER u1 ~* ~b",
            "ACL SETUSER u1 allchannels &b",
            "ACL SETUSER u1 +config|set|save",
            "ACL SETUSER u1 -select|1",
            "ACL SETUSER u1 +@foo",
            "ACL SETUSER u1 %X~a",
            "ACL SETUSER u1 +get|",
            "ACL SETUSER a\nb on",
            "ACL SETUSER",
            "ACL GETUSER u1",
            "ACL SETUSER u6 on >a >a >b <a resetkeys ~x ~x %R~x %W~x &q &q",
            "ACL SETUSER u7 clearselectors (~a) (+get) off",
            "ACL SETUSER u8 +@all -@dangerous",
            "ACL SETUSER u9 allcommands allkeys allchannels nopass on",
            "ACL LIST",
            "ACL USERS",
            "ACL DELUSER nobody",
            "ACL DELUSER default",
            "ACL DELUSER u6 nobody u7",
            "ACL DELUSER",
            "ACL DRYRUN nobody get a",
            "ACL SETUSER u2 +get +publish +subscribe ~a",
            "ACL DRYRUN u2 get a",
            "ACL DRYRUN u2 get b",
            "ACL DRYRUN u2 set b 1",
            "ACL DRYRUN u2 foo b 1",
            "ACL DRYRUN u2 get",
            "ACL DRYRUN u2 publish ch x",
            "ACL DRYRUN u2 subscribe ch",
            "ACL FOO",
            "ACL",
            "ACL WHOAMI x",
            "ACL CAT foo",
            "ACL LOG x",
            "ACL LOG 1 2",
            "ACL SAVE",
            "ACL LOAD",
            "ACL DELUSER u2",
            "HELLO 3",
            "ACL GETUSER u1",
            "ACL LIST",
        ] {
            ask(&mut talk, &mut me, command);
        }
        talk.heard.retain(|line| !line.starts_with("HELLO"));
        talk.heard
    });
}

#[test]
fn what_is_denied_is_logged_and_rules_change_under_clients() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let mut admin = talk.connect();
        let (mut client, mut listener, mut stays) = (talk.connect(), talk.connect(), talk.connect());
        call(&mut admin, "ACL SETUSER app on >pw ~a* &news* +get +subscribe +multi +exec +client|info +acl|whoami");
        for wire in [&mut client, &mut listener] {
            talk.ask(wire, "AUTH app wrong");
            talk.ask(wire, "AUTH app pw");
        }
        talk.ask(&mut client, "HELLO 3 AUTH app wrong");
        talk.ask(&mut listener, "SUBSCRIBE news.art");
        for command in ["GET a", "GET b", "SET a 1", "MULTI", "GET b", "EXEC", "SUBSCRIBE other", "ACL WHOAMI"] {
            let reply = call(&mut client, command);
            // Later servers name the user.
            talk.heard.push(format!("{command}: {}", reply.split(' ').next().unwrap_or_default().trim_end()));
        }
        ask(&mut talk, &mut admin, "ACL LOG 0");
        let log = call(&mut admin, "ACL LOG");
        for what in ["auth", "AUTH", "HELLO", "command", "set", "key", "channel", "other", "multi", "toplevel", "app"] {
            talk.heard.push(format!("{what} in the log: {}", log.lines().filter(|line| *line == what).count()));
        }
        talk.ask(&mut admin, "ACL LOG RESET");
        talk.ask(&mut admin, "ACL LOG");
        // Other rules count at once, without another AUTH.
        talk.ask(&mut admin, "ACL SETUSER app +set -get");
        talk.ask(&mut client, "SET a 1");
        talk.heard.push(call(&mut client, "GET a").split(' ').next().unwrap_or_default().to_owned());
        // Whoever listens to what it may no more is closed, and nobody else.
        talk.ask(&mut admin, "ACL SETUSER app resetchannels");
        talk.note_closed(&mut listener);
        talk.ask(&mut client, "SET a 2");
        // So is whoever was a user that is removed, the client that does it too.
        talk.ask(&mut admin, "ACL DELUSER app");
        talk.note_closed(&mut client);
        talk.ask(&mut stays, "PING");
        talk.ask(&mut admin, "ACL SETUSER boss on nopass +@all ~* &*");
        talk.ask(&mut stays, "AUTH boss any");
        talk.ask(&mut stays, "ACL DELUSER boss");
        talk.note_closed(&mut stays);
        // A password for the default user is for those who come.
        talk.ask(&mut admin, "ACL SETUSER default resetpass >secret");
        talk.ask(&mut admin, "PING");
        let mut late = talk.connect();
        talk.ask(&mut late, "PING");
        talk.ask(&mut late, "AUTH secret");
        talk.ask(&mut late, "ACL WHOAMI");
        talk.heard
    });
}

/// As on a server, but that all of a transaction is refused where a command of it is.
#[test]
fn what_was_queued_is_judged_by_the_rules_at_exec() {
    let stage = stage();
    let (mut admin, mut bob) = (stage.connect(), stage.connect());
    assert_eq!(call(&mut admin, "ACL SETUSER bob on >pw ~* +@all"), "+OK\r\n");
    assert_eq!(call(&mut bob, "AUTH bob pw"), "+OK\r\n");
    for change in ["-set", "resetkeys"] {
        assert_eq!(call(&mut bob, "MULTI"), "+OK\r\n");
        assert_eq!(call(&mut bob, "SET secret x"), "+QUEUED\r\n");
        assert_eq!(call(&mut admin, &format!("ACL SETUSER bob {change}")), "+OK\r\n");
        let said = call(&mut bob, "EXEC");
        assert!(said.starts_with("-EXECABORT ") && said.contains("NOPERM"), "{said}");
        let log = call(&mut admin, "ACL LOG 1");
        let object = if change == "-set" { "set" } else { "secret" };
        assert!(log.contains("\r\nmulti\r\n") && log.contains(&format!("\r\n{object}\r\n")), "{log}");
        assert_eq!(call(&mut admin, "EXISTS secret"), ":0\r\n");
        assert_eq!(call(&mut admin, "ACL SETUSER bob +set ~*"), "+OK\r\n");
    }
    assert_eq!(call(&mut bob, "SET secret x"), "+OK\r\n");
}

#[test]
fn who_may_not_exec_is_told_so_once() {
    let stage = stage();
    let (mut admin, mut bob) = (stage.connect(), stage.connect());
    assert_eq!(call(&mut admin, "ACL SETUSER bob on >pw ~* +@all -exec"), "+OK\r\n");
    assert_eq!(call(&mut bob, "AUTH bob pw"), "+OK\r\n");
    assert_eq!(call(&mut bob, "MULTI"), "+OK\r\n");
    let said = call(&mut bob, "EXEC");
    assert!(said.starts_with("-EXECABORT Transaction discarded because of: NOPERM "), "{said}");
}

#[test]
fn another_users_change_closes_nobody() {
    let stage = stage();
    let (mut admin, mut listener) = (stage.connect(), stage.connect());
    for rules in ["b on >pw &* +@all", "l on >pw resetchannels +@all"] {
        assert_eq!(call(&mut admin, &format!("ACL SETUSER {rules}")), "+OK\r\n");
    }
    call(&mut listener, "HELLO 3 AUTH b pw");
    call(&mut listener, "SUBSCRIBE w");
    assert_eq!(call(&mut listener, "AUTH l pw"), "+OK\r\n");
    assert_eq!(call(&mut admin, "ACL SETUSER other on"), "+OK\r\n");
    // As a server has it: judged is who is changed.
    assert_eq!(call(&mut listener, "PING"), "+PONG\r\n");
    assert_eq!(call(&mut admin, "ACL SETUSER l -get"), "+OK\r\n");
    assert!(listener.send(&[b"PING"]).is_err() || listener.is_closed().unwrap(), "it may not listen to w");
}

#[test]
fn who_has_the_name_of_a_removed_user_is_another() {
    let stage = stage();
    let (mut admin, mut bob) = (stage.connect(), stage.connect());
    assert_eq!(call(&mut admin, "ACL SETUSER bob on >pw ~* +get"), "+OK\r\n");
    assert_eq!(call(&mut bob, "AUTH bob pw"), "+OK\r\n");
    admin.send_bytes(&commands(&["ACL DELUSER bob", "ACL SETUSER bob on >new ~* +@all"])).unwrap();
    assert_eq!((admin.reply().unwrap(), admin.reply().unwrap()), (b":1\r\n".to_vec(), b"+OK\r\n".to_vec()));
    assert!(
        bob.send(&[b"SET", b"secret", b"x"]).is_err() || bob.is_closed().unwrap(),
        "the old one's connection is closed"
    );
    assert_eq!(call(&mut admin, "EXISTS secret"), ":0\r\n");
    let mut bob = stage.connect();
    assert_eq!(call(&mut bob, "AUTH bob new"), "+OK\r\n");
    assert_eq!(call(&mut admin, "ACL SETUSER bob -set"), "+OK\r\n");
    assert_eq!(call(&mut bob, "GET secret"), "$-1\r\n", "a user who is changed stays");
}
