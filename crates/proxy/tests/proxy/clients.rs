//! CLIENT and MONITOR among the clients of one proxy, on two threads, compared with those of a plain server.

use keyfold_testkit::Wire;

use crate::stage::{call, commands, eventually};
use crate::talk::{Talk, alike, id, masked};

#[test]
fn lists_and_filters_are_the_servers() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let mut me = talk.connect();
        let mut other = talk.connect();
        call(&mut other, "HELLO 3 SETNAME other");
        call(&mut other, "SELECT 2");
        call(&mut other, "WATCH a b");
        call(&mut other, "MULTI");
        call(&mut other, "SET a b");
        let mut listener = talk.connect();
        call(&mut listener, "SUBSCRIBE news");
        call(&mut listener, "PSUBSCRIBE a*");
        for command in [
            "CLIENT LIST",
            "CLIENT INFO",
            "CLIENT NO-EVICT on",
            "CLIENT NO-TOUCH on",
            "CLIENT SETNAME me",
            "CLIENT INFO",
            "CLIENT SETINFO lib-name mine",
            "CLIENT SETINFO lib-ver 1.2",
            "CLIENT SETINFO foo bar",
            "CLIENT LIST",
            "CLIENT LIST TYPE pubsub",
            "CLIENT LIST TYPE normal",
            "CLIENT LIST TYPE master",
            "CLIENT LIST TYPE primary",
            "CLIENT LIST TYPE foo",
            "CLIENT LIST TYPE",
            "CLIENT LIST TYPE normal x",
            "CLIENT LIST ID",
            "CLIENT LIST ID x",
            "CLIENT LIST ID 0",
            "CLIENT LIST ID 98 99",
            "CLIENT LIST FOO",
            "CLIENT LIST FOO BAR",
            "CLIENT LIST NAME other",
            "CLIENT LIST USER default",
            "CLIENT LIST USER nobody",
            "CLIENT LIST SKIPME yes",
            "CLIENT LIST DB 2",
            "CLIENT LIST NOT-DB 2",
            "CLIENT LIST FLAGS x",
            "CLIENT LIST FLAGS N",
            "CLIENT LIST FLAGS ?",
            "CLIENT LIST IDLE 100000",
            "CLIENT LIST IP 127.0.0.1 SKIPME yes",
            "CLIENT LIST IP 1.2.3.4",
            "CLIENT LIST LIB-NAME mine",
            "CLIENT LIST MAXAGE x",
            "CLIENT KILL",
            "CLIENT KILL foo",
            "CLIENT KILL 1.2.3.4:5",
            "CLIENT KILL ID",
            "CLIENT KILL ID x",
            "CLIENT KILL ID 0",
            "CLIENT KILL ID -1",
            "CLIENT KILL ID 97 98",
            "CLIENT KILL ID 99",
            "CLIENT KILL ID 98 ID 99",
            "CLIENT KILL TYPE foo",
            "CLIENT KILL TYPE master",
            "CLIENT KILL USER nobody",
            "CLIENT KILL USER",
            "CLIENT KILL ADDR 1:2",
            "CLIENT KILL LADDR 1:2",
            "CLIENT KILL SKIPME maybe",
            "CLIENT KILL MAXAGE 10000",
            "CLIENT KILL MAXAGE x",
            "CLIENT KILL MAXAGE -1",
            "CLIENT KILL NAME foo",
            "CLIENT KILL IDLE 100000",
            "CLIENT KILL IDLE x",
            "CLIENT KILL DB 5",
            "CLIENT KILL DB x",
            "CLIENT KILL IP 1.2.3.4",
            "CLIENT KILL FLAGS O",
            "CLIENT KILL FLAGS ?",
            "CLIENT KILL LIB-NAME x",
            "CLIENT KILL LIB-VER x",
            "CLIENT KILL CAPA r",
            "CLIENT KILL CAPA q",
            "CLIENT KILL NOT-TYPE normal NAME x",
            "CLIENT KILL FOO 1",
            "CLIENT KILL ID 99 FOO 1",
            "CLIENT UNBLOCK 99",
            "CLIENT UNBLOCK x",
            "CLIENT UNBLOCK 99 FOO",
            "CLIENT UNBLOCK 99 error",
            "CLIENT UNBLOCK",
            "CLIENT PAUSE",
            "CLIENT PAUSE x",
            "CLIENT PAUSE -1",
            "CLIENT PAUSE 1 FOO",
            "CLIENT PAUSE 1 write",
            "CLIENT UNPAUSE",
            "CLIENT UNPAUSE x",
            "CLIENT NO-EVICT off",
            "CLIENT NO-EVICT foo",
            "CLIENT NO-TOUCH foo",
            "CLIENT NO-TOUCH off",
            "CLIENT REPLY foo",
            "CLIENT REPLY",
            "CLIENT CAPA redirect",
            "CLIENT CAPA foo",
            "CLIENT CAPA",
            "CLIENT INFO",
            "CLIENT GETREDIR",
            "CLIENT TRACKINGINFO",
            "CLIENT FOO",
            "CLIENT",
            "CLIENT ID x",
            "CLIENT SETNAME",
            "CLIENT GETNAME x",
            "CLIENT HELP",
            "HELLO 3 SETNAME three",
            "CLIENT INFO",
            "CLIENT TRACKINGINFO",
            "RESET",
            "CLIENT INFO",
        ] {
            talk.ask(&mut me, command);
        }
        talk.heard.retain(|line| !line.starts_with("HELLO"));
        talk.heard
    });
}

#[test]
fn whoever_is_killed_is_closed_and_nobody_else() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let mut me = talk.connect();
        let mut others: Vec<Wire> = (0..6).map(|_| talk.connect()).collect();
        let ids: Vec<String> = others.iter_mut().map(id).collect();
        call(&mut others[1], "SUBSCRIBE news");
        call(&mut others[2], "CLIENT SETNAME two");
        let info = call(&mut others[3], "CLIENT INFO");
        let address = info.split(' ').find_map(|word| word.strip_prefix("addr=")).unwrap();
        others[4].send(&[b"BLPOP", b"never", b"0"]).unwrap();
        talk.ask_unsaid(&mut me, &format!("CLIENT KILL ID {}", ids[0]));
        talk.note_closed(&mut others[0]);
        talk.ask(&mut me, "CLIENT KILL TYPE pubsub");
        talk.note_closed(&mut others[1]);
        talk.ask(&mut others[2], "PING");
        talk.ask_unsaid(&mut me, &format!("CLIENT KILL {address}"));
        talk.note_closed(&mut others[3]);
        talk.ask_unsaid(&mut me, &format!("CLIENT KILL ID {}", ids[4]));
        talk.note_closed(&mut others[4]);
        talk.ask(&mut others[5], "PING");
        talk.ask(&mut me, "CLIENT KILL SKIPME yes");
        talk.note_closed(&mut others[2]);
        talk.note_closed(&mut others[5]);
        talk.ask(&mut me, "CLIENT LIST");
        let myself = id(&mut me);
        talk.ask_unsaid(&mut me, &format!("CLIENT KILL ID {myself}"));
        talk.ask_unsaid(&mut me, &format!("CLIENT KILL ID {myself} SKIPME no"));
        talk.note_closed(&mut me);
        talk.heard
    });
}

#[test]
fn whoever_waits_is_unblocked() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let (mut me, mut waiting) = (talk.connect(), talk.connect());
        let waiter = id(&mut waiting);
        for command in [&["BLPOP", "never", "0"][..], &["XREAD", "BLOCK", "0", "STREAMS", "never", "$"]] {
            for reason in ["", " TIMEOUT", " ERROR"] {
                waiting.send(&command.iter().map(|word| word.as_bytes()).collect::<Vec<_>>()).unwrap();
                eventually("the client waits", || {
                    let list = call(&mut me, &format!("CLIENT LIST ID {waiter}"));
                    list.contains(" flags=b ") && call(&mut me, &format!("CLIENT UNBLOCK {waiter}{reason}")) == ":1\r\n"
                });
                talk.read(&mut waiting);
                talk.ask_unsaid(&mut me, &format!("CLIENT UNBLOCK {waiter}{reason}"));
            }
        }
        talk.ask(&mut waiting, "PING");
        talk.heard
    });
}

#[test]
fn a_pause_holds_back_what_it_says_until_it_ends() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let (mut me, mut other, mut third) = (talk.connect(), talk.connect(), talk.connect());
        call(&mut third, "MULTI");
        talk.ask(&mut me, "CLIENT PAUSE 60000 WRITE");
        other.send(&[b"SET", b"key", b"value"]).unwrap();
        third.send(&[b"SET", b"key", b"of-the-transaction"]).unwrap();
        for command in ["GET key", "SET key", "PUBSUB NUMPAT", "CLIENT UNPAUSE"] {
            talk.ask(&mut me, command);
        }
        talk.read(&mut other);
        talk.read(&mut third);
        talk.ask(&mut third, "EXEC");
        talk.ask(&mut me, "GET key");
        // A pause of everything ends by itself alone.
        talk.ask(&mut me, "CLIENT PAUSE 200 ALL");
        talk.ask(&mut me, "GET key");
        talk.ask(&mut other, "INCR count");
        talk.heard
    });
}

/// A line of MONITOR without its time and its client.
fn monitored(line: &str) -> String {
    let (head, command) = line.split_once("] ").unwrap();
    let (time, client) = head.split_once(" [").unwrap();
    let digits = time.strip_prefix('+').unwrap().split_once('.').unwrap();
    assert!(digits.0.len() == 10 && digits.1.len() == 6, "{line}");
    format!("{} {}", client.split(' ').next().unwrap(), command.trim_end())
}

#[test]
fn a_monitor_sees_what_clients_ask_and_no_secrets() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let mut monitor = talk.connect();
        talk.ask(&mut monitor, "MONITOR");
        let mut client = talk.connect();
        for command in [
            "GET user:1",
            "SET user:1 a\"b\\c\n",
            "MULTI",
            "INCR user:2",
            "PING",
            "EXEC",
            "AUTH default secret",
            "AUTH secret",
            "HELLO 3 AUTH default secret SETNAME x",
            "HELLO 3",
            "CONFIG GET foo",
            "CLIENT LIST",
            "CLIENT ID",
            "ACL WHOAMI",
            "NOPE",
            "GET",
            "SELECT 3",
            "MULTI",
            "SET user:1 b",
            "DISCARD",
            "WATCH user:1",
            "UNWATCH",
            "DBSIZE",
            "RESET",
            "TIME",
            "SUBSCRIBE news",
        ] {
            call(&mut client, command);
        }
        call(&mut talk.connect(), "GET the-end");
        loop {
            let line = monitored(std::str::from_utf8(&monitor.reply().unwrap()).unwrap());
            let is_last = line.contains("the-end");
            talk.heard.push(line);
            if is_last {
                break;
            }
        }
        for command in ["GET a", "SET a b", "CLIENT INFO", "RESET", "GET a"] {
            monitor.send(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()).unwrap();
            let mut reply = String::from_utf8(monitor.reply().unwrap()).unwrap();
            while reply.contains(" [0 127.0.0.1") {
                reply = String::from_utf8(monitor.reply().unwrap()).unwrap();
            }
            talk.heard.push(format!("{command}: {}", masked(&reply)));
        }
        talk.heard
    });
}

#[test]
fn lines_of_monitor_come_behind_the_answers_to_what_was_asked_before() {
    alike(|address| {
        let mut talk = Talk::with(address);
        let mut monitor = Wire::connect(address).unwrap();
        monitor.send_bytes(&commands(&["BLPOP list 1", "MONITOR"])).unwrap();
        let mut client = talk.connect();
        talk.ask(&mut client, "SET before 1");
        let answers = [(); 2].map(|()| String::from_utf8(monitor.reply().unwrap()).unwrap());
        assert_eq!(answers, ["*-1\r\n", "+OK\r\n"]);
        talk.ask(&mut client, "SET since 1");
        let line = String::from_utf8(monitor.reply().unwrap()).unwrap();
        assert!(line.contains("\"since\""), "{line}");
        talk.heard
    });
}
