//! Requests in hostile words: what a server would read otherwise than we do, what takes a shared connection out of
//! service, and what reaches keys of keyfold's own. Asked of every server found.

use keyfold_core::admin::LAYOUT_KEY;
use keyfold_core::layout::Layout;
use keyfold_testkit::{Binary, Wire, found};

use crate::stage::{Stage, config_for, connection_that_asked, serve};

const USERS: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n";

/// Runs a test before each server found, with folded users.
fn before_every_server(args: &[&str], test: impl Fn(&Stage)) {
    found().iter().for_each(|binary| before(binary, args, &test));
}

fn before(binary: &Binary, args: &[&str], test: impl Fn(&Stage)) {
    let server = binary.start(args).unwrap();
    let mut config = config_for(&server);
    config.layout = Layout::parse_file(USERS).unwrap().into();
    let proxy = serve(&server, config);
    test(&Stage { proxy, server });
}

fn ask(wire: &mut Wire, args: &[&[u8]]) -> String {
    wire.call(args).unwrap_or_else(|error| panic!("{args:?}: {error}")).escape_ascii().to_string()
}

/// The words of a request, with `\0` for a zero byte.
fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.replace("\\0", "\0").into_bytes()).collect()
}

fn say(wire: &mut Wire, text: &str) -> String {
    let words = words(text);
    ask(wire, &words.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

#[test]
fn a_word_with_a_zero_byte_is_read_as_the_server_reads_it() {
    before_every_server(&[], |stage| {
        let (mut hostile, mut other) = (stage.connect(), stage.connect());
        let mut server = stage.server.connect().unwrap();
        let layout = ask(&mut server, &[b"GET", LAYOUT_KEY]);
        say(&mut hostile, "RPUSH list 1 2");
        say(&mut hostile, "SET user:1 mine");
        for text in [
            "SORT list STORE\\0 keyfold:{home}:layout",
            "SORT list sToRe\\0x ~0:0",
            "SORT list BY\\0 nosort GET\\0 ~*",
            "SORT list GET keyfold:*",
            "XREAD STREAMS\\0 ~0:0 0",
            "XREADGROUP COUNT 1 GROUP STREAMS consumer StreamS\\0 ~0:0 >",
            "GEORADIUS geo 1 2 3 m STORE\\0 keyfold:{home}:layout",
            "GEORADIUSBYMEMBER geo a 3 m storedist\\0y user:1",
            "MIGRATE 127.0.0.1 1 \\0 0 9 KEYS\\0 keyfold:{home}:layout",
            "COPY list user:1 DB\\0 9",
        ] {
            let text = if text.starts_with("MIGRATE") { text.replace(" \\0 ", "  ") } else { text.to_owned() };
            let answer = say(&mut hostile, &text);
            assert!(answer.starts_with("-ERR keyfold: "), "{text} on {}: {answer}", stage.server.name());
        }
        // A shared connection doesn't wait, and the client's own doesn't hold up others.
        hostile.send(&[b"XREAD", b"block\0", b"60000", b"STREAMS\0x", b"stream", b"$"]).unwrap();
        assert_eq!(say(&mut other, "GET user:1"), "$4\\r\\nmine\\r\\n");
        assert_eq!(ask(&mut server, &[b"GET", LAYOUT_KEY]), layout);
        assert_eq!(say(&mut other, "COPY user:1 user:2 DB\\0 0 replace\\0x"), ":1\\r\\n");
        assert_eq!(say(&mut other, "GET user:2"), "$4\\r\\nmine\\r\\n");
        assert_eq!(say(&mut other, "HELLO 2 SETNAME\\0x name").split("\\r").next(), Some("*14"), "HELLO's options");
    });
}

#[test]
fn a_name_with_a_zero_byte_is_no_command() {
    before_every_server(&[], |stage| {
        let (mut hostile, mut other) = (stage.connect(), stage.connect());
        for number in 0..600 {
            for name in ["MULTI", "MONITOR", "SUBSCRIBE", "CLIENT", "SELECT"] {
                let answer = say(&mut hostile, &format!("{name}\\0{number} 1"));
                let expected = format!("-ERR unknown command \\'{name}\\', with args beginning with: \\'1\\' \\r\\n");
                assert_eq!(answer, expected);
            }
            let answer = say(&mut hostile, &format!("SCRIPT DEBUG\\0{number} YES"));
            assert_eq!(answer, "-ERR unknown subcommand \\'DEBUG\\'. Try SCRIPT HELP.\\r\\n");
        }
        assert_eq!(say(&mut other, "SET plain value"), "+OK\\r\\n");
        assert_eq!(say(&mut stage.server.connect().unwrap(), "GET plain"), "$5\\r\\nvalue\\r\\n");
    });
}

#[test]
fn nobody_debugs_scripts_on_a_shared_connection() {
    before_every_server(&[], |stage| {
        let (mut hostile, mut other) = (stage.connect(), stage.connect());
        for text in ["SCRIPT DEBUG YES", "script debug sync", "SCRIPT DEBUG yes\\0"] {
            let answer = say(&mut hostile, text);
            assert!(answer.starts_with("-ERR keyfold: SCRIPT DEBUG is not supported"), "{answer}");
        }
        assert_eq!(say(&mut hostile, "SCRIPT DEBUG NO"), "+OK\\r\\n");
        say(&mut hostile, "MULTI");
        assert!(say(&mut hostile, "SCRIPT DEBUG YES").starts_with("-ERR"));
        assert!(say(&mut hostile, "EXEC").starts_with("-EXECABORT"));
        assert_eq!(say(&mut hostile, "EVAL return{1} 0"), "*1\\r\\n:1\\r\\n");
        for key in ["user:1", "plain"] {
            assert_eq!(say(&mut other, &format!("SET {key} value")), "+OK\\r\\n");
            assert_eq!(say(&mut other, &format!("GET {key}")), "$5\\r\\nvalue\\r\\n");
        }
        assert_eq!(say(&mut stage.server.connect().unwrap(), "GET plain"), "$5\\r\\nvalue\\r\\n");
    });
}

#[test]
fn http_closes_the_connection_and_never_reaches_a_shared_one() {
    before_every_server(&[], |stage| {
        let mut other = stage.connect();
        assert_eq!(say(&mut other, "SET plain value"), "+OK\\r\\n");
        let mut direct = stage.server.connect().unwrap();
        assert_eq!(say(&mut other, "STRLEN plain"), ":5\\r\\n");
        let shared = connection_that_asked(&mut direct, "strlen").expect("the shared connection");
        for line in ["POST / HTTP/1.1\r\n", "Host: localhost\r\n", "post /\r\n"] {
            let mut browser = stage.connect();
            browser.send_bytes(line.as_bytes()).unwrap();
            assert!(browser.is_closed().unwrap(), "{line}");
        }
        for args in [&[&b"POST"[..], b"/"][..], &[b"hOST:"], &[b"post\0x"]] {
            let mut browser = stage.connect();
            browser.send(args).unwrap();
            assert!(browser.is_closed().unwrap(), "{args:?}");
        }
        assert_eq!(say(&mut other, "STRLEN plain"), ":5\\r\\n");
        assert_eq!(connection_that_asked(&mut direct, "strlen"), Some(shared), "{}", stage.server.name());
    });
}

#[test]
fn commands_that_nobody_knows_reach_no_folded_key_and_none_of_keyfolds_own() {
    before_every_server(&["--rename-command", "GETDEL", "TAKE"], |stage| {
        let mut wire = stage.connect();
        let unknown = match stage.server.version().major {
            ..7 => {
                ["-ERR unknown command `NOPE`", "-ERR Unknown subcommand or wrong number of arguments for \\'NOPE\\'"]
            }
            _ => ["-ERR unknown command \\'NOPE\\'", "-ERR unknown subcommand \\'NOPE\\'"],
        };
        say(&mut wire, "SET user:1 value");
        say(&mut wire, "SET plain value");
        for key in ["user:1", "keyfold:{home}:layout", "~0:0", "~anything"] {
            let answer = say(&mut wire, &format!("TAKE {key}"));
            let refusal = format!("-ERR keyfold: \\'TAKE\\' is a command this version doesn\\'t know, and \\'{key}\\'");
            assert!(answer.starts_with(&refusal), "{answer}");
            // The same of a command that the server doesn't know either is its own error.
            let answer = say(&mut wire, &format!("NOPE {key}"));
            assert!(answer.starts_with(unknown[0]), "{answer}");
            let answer = say(&mut wire, &format!("OBJECT NOPE {key}"));
            assert!(answer.starts_with(unknown[1]), "{answer}");
        }
        say(&mut wire, "MULTI");
        assert!(say(&mut wire, "TAKE keyfold:{home}:layout").starts_with("-ERR keyfold: "));
        assert!(say(&mut wire, "EXEC").starts_with("-EXECABORT"));
        assert_eq!(say(&mut wire, "TAKE plain"), "$5\\r\\nvalue\\r\\n");
        assert_eq!(say(&mut wire, "GET user:1"), "$5\\r\\nvalue\\r\\n");
    });
}

#[test]
fn debug_looks_into_no_folded_key_and_writes_none() {
    let debugged = |stage: &Stage| {
        let mut wire = stage.connect();
        say(&mut wire, "SET user:1 value");
        say(&mut wire, "SET plain value");
        let subcommands =
            ["OBJECT", "SDSLEN", "DIGEST-VALUE plain", "LISTPACK", "QUICKLIST", "HTSTATS-KEY", "object\\0x"];
        for subcommand in subcommands.into_iter().chain(["POPULATE 5"]) {
            for key in ["user:1", "~0:0", "keyfold:{home}:layout"] {
                let answer = say(&mut wire, &format!("DEBUG {subcommand} {key}"));
                assert!(answer.starts_with("-ERR keyfold: DEBUG is not supported on"), "{subcommand} {key}: {answer}");
            }
        }
        assert!(say(&mut wire, "DEBUG POPULATE 5 user").starts_with("-ERR keyfold: DEBUG is not supported on"));
        assert_eq!(say(&mut wire, "DEBUG POPULATE 2 other"), "+OK\\r\\n");
        assert_eq!(say(&mut wire, "EXISTS other:0 other:1"), ":2\\r\\n");
        assert!(say(&mut wire, "DEBUG OBJECT plain").starts_with("+Value at"), "a plain key is the server's");
    };
    found().iter().for_each(|binary| before(binary, binary.with_debug(), debugged));
}
