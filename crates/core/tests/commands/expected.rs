//! No exchange takes a reply of a kind that it doesn't expect for success: where a server answers everything as it does
//! in somebody's MULTI, or in its debugger of scripts, no command is answered but with an error or not at all.

use keyfold_core::access::Users;
use keyfold_core::exchange::{Env, Io, ServerInfo, Step};
use keyfold_core::layout::Layout;
use keyfold_core::session::{Begun, Peer, Session};
use keyfold_core::stats::Stats;

const LAYOUT: &str = r#"
[[namespace]]
keys = "user:{id:int}"
bucket = { span = 128 }

[[namespace]]
keys = "page:{id:int}"
codec = "zstd"
"#;

const COMMANDS: &[&str] = &[
    "GET user:1",
    "SET user:1 v",
    "SET user:1 v EX 100",
    "SET user:1 v NX",
    "SET user:1 v GET",
    "SET page:1 v",
    "GET page:1",
    "SETNX user:1 v",
    "INCR user:1",
    "INCRBYFLOAT user:1 1.5",
    "APPEND user:1 v",
    "MSET user:1 a user:2 b plain c",
    "MSETNX user:1 a plain b",
    "MGET user:1 plain",
    "DEL user:1 plain",
    "UNLINK user:1",
    "EXISTS user:1 plain",
    "EXPIRE user:1 100",
    "PERSIST user:1",
    "RENAME user:1 plain",
    "COPY user:1 user:2",
    "COPY user:1 user:2 DB 3",
    "DUMP user:1",
    "STRLEN user:1",
    "LPUSH user:1 a",
    "LRANGE user:1 0 -1",
    "SELECT 3",
    "WAIT 1 100",
    "WATCH user:1",
    "DBSIZE",
    "RANDOMKEY",
    "SCAN 0",
    "KEYS *",
    "FLUSHALL",
    "HELLO 3",
];

/// What an exchange comes to where every reply is this one: the answer, or none where the connection is given up.
fn answer_of(commands: &[&str], reply: &[u8]) -> Option<Vec<u8>> {
    let layout = Layout::parse_file(LAYOUT).unwrap();
    let (stats, users) = (Stats::new(layout.namespaces().len()), Users::open());
    let info = ServerInfo { name: "redis".to_owned(), version: "7.0.15".to_owned() };
    let mut env = Env {
        now_ms: 1,
        nonces: &mut || 1,
        server: &info,
        layout: &layout,
        stats: &stats,
        users: &users,
        tracking: None,
        cache: None,
        cluster: None,
        newest_commands: true,
        encoded: None,
        is_followed: false,
        is_read: false,
    };
    let mut session = Session::new(Peer::default(), &std::sync::Arc::default(), &env);
    let (mut wire, mut answer) = (Vec::new(), Vec::new());
    for command in commands {
        answer.clear();
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let plan = session.plan(&args, &env);
        let begun = session.begin(&plan, &args, None, &mut env, &mut Io { wire: &mut wire, answer: &mut answer });
        let Begun::Sent { mut exchange, mut replies, .. } = begun else { continue };
        for _ in 0..100 {
            replies -= 1;
            match exchange.handle_reply(reply, &mut env, &mut Io { wire: &mut wire, answer: &mut answer }) {
                Step::Wait => assert!(replies > 0, "{command} waits for what won't come"),
                Step::More(more) => replies = more,
                Step::Unexpected => return None,
                Step::Done(_) => return Some(answer),
            }
        }
        panic!("{command} goes on for ever");
    }
    panic!("{commands:?} sends nothing");
}

#[test]
fn a_reply_of_another_kind_is_never_success() {
    let replies: [&[u8]; 4] =
        [b"+QUEUED\r\n", b"*2\r\n+* Stopped at 1\r\n+-> 1 return\r\n", b">1\r\n+x\r\n", b"+PONG\r\n"];
    for reply in replies {
        for command in COMMANDS {
            // RANDOMKEY, SCAN and HELLO have arrays of their own, of which less can be told.
            let answer = answer_of(&[command], reply);
            let is_error = answer.as_ref().is_none_or(|answer| answer.starts_with(b"-"));
            let shown = answer.unwrap_or_default().escape_ascii().to_string();
            let has_arrays = reply.starts_with(b"*") && matches!(*command, "HELLO 3");
            assert!(is_error || has_arrays, "{command} on {}: {shown}", reply.escape_ascii());
        }
        for queue in
            [["SET user:1 v", "GET plain"], ["SET plain v", "GET plain"], ["LPUSH user:1 v", "INCRBYFLOAT user:2 1"]]
        {
            let answer = answer_of(&["MULTI", queue[0], queue[1], "EXEC"], reply);
            let shown = answer.as_deref().unwrap_or_default().escape_ascii().to_string();
            assert!(answer.is_none_or(|answer| answer.starts_with(b"-")), "EXEC of {queue:?}: {shown}");
        }
        assert_eq!(answer_of(&["WATCH user:1", "MULTI", "DISCARD"], reply), None);
    }
}

#[test]
fn an_error_is_the_answer() {
    for command in COMMANDS {
        let answer = answer_of(&[command], b"-LOADING any error\r\n");
        assert!(
            answer.is_none_or(|answer| answer.starts_with(b"-LOADING") || answer.starts_with(b"-ERR")),
            "{command}"
        );
    }
}
