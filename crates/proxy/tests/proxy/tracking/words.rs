//! What CLIENT TRACKING and its kin answer, and what comes of it for plain keys, compared with a plain server.

use keyfold_testkit::Wire;

use crate::stage::call;
use crate::talk::{Talk, alike, id};

#[test]
fn options_and_errors_are_the_servers() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let mut me = talk.connect();
        for protocol in ["HELLO 2", "HELLO 3"] {
            call(&mut me, protocol);
            for command in [
                "CLIENT TRACKING",
                "CLIENT TRACKING foo",
                "CLIENT TRACKING foo OPTIN",
                "CLIENT TRACKING on foo",
                "CLIENT TRACKING off foo",
                "CLIENT TRACKING on PREFIX",
                "CLIENT TRACKING on REDIRECT",
                "CLIENT TRACKING on REDIRECT x",
                "CLIENT TRACKING on REDIRECT 0",
                "CLIENT TRACKING on REDIRECT -1",
                "CLIENT TRACKING on REDIRECT 123456",
                "CLIENT TRACKING on PREFIX a",
                "CLIENT TRACKING on BCAST OPTIN",
                "CLIENT TRACKING on BCAST OPTOUT PREFIX a",
                "CLIENT TRACKING on OPTIN OPTOUT",
                "CLIENT TRACKING on BCAST PREFIX ab PREFIX b PREFIX a",
                "CLIENT TRACKING on BCAST PREFIX a PREFIX a",
                "CLIENT CACHING yes",
                "CLIENT CACHING foo",
                "CLIENT CACHING",
                "CLIENT GETREDIR",
                "CLIENT GETREDIR x",
                "CLIENT TRACKINGINFO x",
                "CLIENT TRACKINGINFO",
                "CLIENT TRACKING off",
                "CLIENT TRACKING on",
                "CLIENT TRACKINGINFO",
                "CLIENT GETREDIR",
                "CLIENT INFO",
                "CLIENT CACHING yes",
                "CLIENT CACHING no",
                "CLIENT CACHING foo",
                "CLIENT TRACKING on BCAST",
                "CLIENT TRACKING on OPTIN NOLOOP",
                "CLIENT TRACKINGINFO",
                "CLIENT CACHING no",
                "CLIENT CACHING YES",
                "CLIENT TRACKINGINFO",
                "CLIENT TRACKINGINFO",
                "GET k",
                "CLIENT TRACKINGINFO",
                "CLIENT TRACKING on OPTOUT",
                "CLIENT TRACKING off OPTOUT",
                "CLIENT TRACKINGINFO",
                "CLIENT TRACKING on OPTOUT",
                "CLIENT TRACKING on",
                "CLIENT TRACKINGINFO",
                "CLIENT TRACKING off",
                "CLIENT TRACKING on OPTOUT",
                "CLIENT CACHING no",
                "CLIENT TRACKINGINFO",
                "CLIENT TRACKING off",
                "CLIENT TRACKING on BCAST PREFIX b PREFIX a",
                "CLIENT TRACKING on BCAST PREFIX ab",
                "CLIENT TRACKING on",
                "CLIENT TRACKING on BCAST PREFIX c NOLOOP",
                "CLIENT TRACKINGINFO",
                "CLIENT INFO",
                "RESET",
                "CLIENT TRACKINGINFO",
                "CLIENT TRACKING on bCAsT",
                "CLIENT TRACKINGINFO",
                "CLIENT TRACKING off",
                "CLIENT INFO",
            ] {
                talk.ask(&mut me, command);
                if command == "RESET" {
                    call(&mut me, protocol);
                }
            }
        }
        talk.heard
    });
}

/// Waits for the push that names `key`, after those that may come before it.
fn read_until(talk: &mut Talk, wire: &mut Wire, key: &str) {
    let names_it = |heard: &String| heard.starts_with('>') && heard.lines().any(|line| line == key);
    let mut seen = talk.heard.len().saturating_sub(1);
    while !talk.heard[seen..].iter().any(names_it) {
        seen = talk.heard.len();
        talk.read(wire);
    }
}

#[test]
fn who_has_read_is_told_once() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let (mut me, mut other) = (talk.connect(), talk.connect());
        call(&mut me, "HELLO 3");
        talk.ask(&mut me, "CLIENT TRACKING on");
        for (read, write, key) in [
            ("GET k", "SET k v", "k"),
            ("MGET a b", "MSET c 1 b 2", "b"),
            ("EXISTS a", "DEL b k", ""),
            ("STRLEN k", "APPEND k x", "k"),
            ("LRANGE list 0 -1", "RPUSH list x", "list"),
            ("TTL k", "PEXPIRE k 100000", "k"),
            ("EVAL_RO return{redis.call('get',KEYS[1])} 1 r", "SET r v", "r"),
            ("EVAL return{redis.call('get',KEYS[1])} 1 s", "SET s v", "s"),
        ] {
            talk.ask(&mut me, read);
            talk.ask(&mut other, write);
            if !key.is_empty() {
                read_until(&mut talk, &mut me, key);
            }
        }
        for command in ["MULTI", "GET k", "GET m", "EXEC"] {
            talk.ask(&mut me, command);
        }
        talk.ask(&mut other, "SET m v");
        read_until(&mut talk, &mut me, "m");
        // What only writes is not read, what is told once is forgotten.
        for command in ["SET w 1", "GETEX g", "GETDEL g", "GET m"] {
            talk.ask(&mut me, command);
        }
        for command in ["SET w 2", "SET g 2", "SET m 2"] {
            talk.ask(&mut other, command);
        }
        read_until(&mut talk, &mut me, "m");
        talk.ask(&mut other, "FLUSHALL");
        talk.read(&mut me);
        talk.ask(&mut me, "PING");
        talk.ask(&mut me, "CLIENT TRACKING off");
        talk.ask(&mut other, "SET m 3");
        talk.ask(&mut me, "PING");
        talk.heard
    });
}

#[test]
fn opted_in_and_out_reads_are_told_apart() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let (mut me, mut other) = (talk.connect(), talk.connect());
        call(&mut me, "HELLO 3");
        for (mode, caching) in [("OPTIN", "yes"), ("OPTOUT", "no")] {
            talk.ask(&mut me, &format!("CLIENT TRACKING on {mode}"));
            for command in ["GET a", &format!("CLIENT CACHING {caching}"), "CLIENT GETREDIR", "GET b", "GET c"] {
                talk.ask(&mut me, command);
            }
            talk.ask(&mut me, &format!("CLIENT CACHING {caching}"));
            for command in ["MULTI", "GET d", "EXEC", "GET e"] {
                talk.ask(&mut me, command);
            }
            for key in ["a", "b", "c", "d", "e"] {
                talk.ask(&mut other, &format!("SET {key} v"));
            }
            read_until(&mut talk, &mut me, if mode == "OPTIN" { "d" } else { "e" });
            talk.ask(&mut me, "CLIENT TRACKING off");
        }
        talk.heard
    });
}

#[test]
fn broadcasts_go_by_prefix() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let (mut me, mut other) = (talk.connect(), talk.connect());
        call(&mut me, "HELLO 3");
        talk.ask(&mut me, "CLIENT TRACKING on BCAST PREFIX user: PREFIX cart:");
        for command in ["SET user:1 v", "SET other v", "DEL user:1", "SET cart:9 v", "SET users v", "SET cart:10 v"] {
            talk.ask(&mut other, command);
            if let Some(key) = command.split(' ').nth(1).filter(|key| key.contains(':')) {
                read_until(&mut talk, &mut me, key);
            }
        }
        talk.ask(&mut other, "FLUSHALL");
        talk.read(&mut me);
        talk.heard
    });
}

#[test]
fn another_client_may_be_told_instead() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let (mut me, mut other) = (talk.connect(), talk.connect());
        let (mut listener, mut third) = (talk.connect(), talk.connect());
        let (old, new) = (id(&mut listener), id(&mut third));
        talk.ask(&mut listener, "SUBSCRIBE __redis__:invalidate");
        call(&mut third, "HELLO 3");
        talk.ask_unsaid(&mut me, &format!("CLIENT TRACKING on REDIRECT {old}"));
        assert_eq!(call(&mut me, "CLIENT GETREDIR"), format!(":{old}\r\n"));
        assert!(call(&mut me, "CLIENT INFO").contains(&format!(" redir={old} ")));
        for key in ["a", "b"] {
            talk.ask(&mut me, &format!("GET {key}"));
            talk.ask(&mut other, &format!("SET {key} v"));
            talk.read(&mut listener);
        }
        talk.ask(&mut other, "FLUSHALL");
        talk.read(&mut listener);
        talk.ask_unsaid(&mut me, &format!("CLIENT TRACKING on REDIRECT {new}"));
        talk.ask(&mut me, "GET a");
        talk.ask(&mut other, "SET a v");
        read_until(&mut talk, &mut third, "a");
        talk.ask(&mut me, "GET a");
        talk.ask(&mut third, "QUIT");
        talk.note_closed(&mut third);
        call(&mut me, "HELLO 3");
        // The one that is gone may be gone only a little later.
        talk.ask(&mut other, "GET a");
        while call(&mut other, "CLIENT LIST").contains(&format!("id={new} ")) {}
        talk.ask(&mut other, "SET a w");
        let broken = String::from_utf8(me.reply().unwrap()).unwrap();
        assert_eq!(broken, format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{new}\r\n"));
        let info = call(&mut me, "CLIENT TRACKINGINFO");
        assert!(info.contains("broken_redirect"), "{info}");
        let info = call(&mut me, "CLIENT INFO");
        assert!(info.contains(" flags=tR "), "{info}");
        talk.heard
    });
}
