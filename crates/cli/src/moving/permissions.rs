//! Whether the server's user may do what a move does, asked before anything is changed.
//!
//! Each command is queued in a transaction that is then discarded: the server checks the user's rights when it queues
//! a command, and carries none out. It has to be asked beforehand, because what a script may not do is only found in
//! the midst of it, and servers before Redis 7.2 don't say then which command it was.

use keyfold_core::admin::LAYOUT_KEY;
use keyfold_core::layout::Layout;
use keyfold_core::resp::Reply;

use keyfold_report::number::plural;
use keyfold_server::{Commands, Server};

/// Stands for a bucket or another key of keyfold's own making.
const FOLDED: &str = "~0";
/// Stands for a key of keyfold's administration.
const ADMINISTRATION: &str = match str::from_utf8(LAYOUT_KEY) {
    Ok(key) => key,
    Err(_) => panic!("it is text"),
};

/// Every command that a move sends or has a script carry out, with arguments that the server takes.
const COMMANDS: &[&[&str]] = &[
    &["TIME"],
    &["SCAN", "0"],
    &["TYPE", FOLDED],
    &["GET", FOLDED],
    &["PTTL", FOLDED],
    &["HGET", FOLDED, "field"],
    &["HGETALL", FOLDED],
    &["HLEN", FOLDED],
    &["HSCAN", FOLDED, "0"],
    &["SET", FOLDED, "value"],
    &["HSET", FOLDED, "field", "value"],
    &["HDEL", FOLDED, "field"],
    &["DEL", FOLDED],
    &["UNLINK", FOLDED],
    &["PEXPIRE", FOLDED, "1000"],
    &["EVAL", "return 0", "0"],
    &["EVALSHA", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "0"],
    &["SCRIPT", "LOAD", "return 0"],
    &["GET", ADMINISTRATION],
    &["SET", ADMINISTRATION, "value"],
    &["DEL", ADMINISTRATION],
];
/// What is sent besides where sets or hashes are moved.
const ON_COLLECTIONS: &[&[&str]] = &[
    &["DUMP", FOLDED],
    &["SMEMBERS", FOLDED],
    &["SCARD", FOLDED],
    &["SADD", FOLDED, "member"],
    &["SREM", FOLDED, "member"],
    &["SRANDMEMBER", FOLDED, "1"],
    &["HRANDFIELD", FOLDED, "1"],
    &["HKEYS", FOLDED],
    &["RENAME", FOLDED, FOLDED],
    &["PERSIST", FOLDED],
    &["PEXPIREAT", FOLDED, "2000000000000"],
    &["INFO", "keyspace"],
];
/// What servers from Redis 7.0 on are asked in place of PTTL.
const PEXPIRETIME: &[&str] = &["PEXPIRETIME", FOLDED];

/// What the server's user may not do and a move needs: one obstacle for all of it, or none.
///
/// # Errors
/// The connection broke.
pub(super) fn check(server: &mut Server, layout: &Layout) -> anyhow::Result<Option<String>> {
    let mut transaction = Commands::default();
    transaction.push(&[b"MULTI"]);
    // Alone: where it is refused, what follows would be carried out.
    let mut lacking: Vec<String> = server.ask_all(&transaction)?.iter().filter_map(|reply| refusal(reply)).collect();
    if lacking.is_empty() {
        let newer = server.version().has_pexpiretime().then_some(PEXPIRETIME);
        let moves_collections = layout.moving().any(|namespace| namespace.collection().is_some());
        let of_collections = ON_COLLECTIONS.iter().copied().filter(|_| moves_collections);
        let asked: Vec<&[&str]> = COMMANDS.iter().copied().chain(newer).chain(of_collections).collect();
        transaction.clear();
        for words in &asked {
            transaction.push(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        }
        transaction.push(&[b"DISCARD"]);
        let replies = server.ask_all(&transaction)?;
        let refused = asked.iter().zip(&replies).filter_map(|(words, reply)| Some((words, refusal(reply)?)));
        lacking = refused.map(|(words, error)| format!("{} ({error})", words.join(" "))).collect();
    }
    Ok((!lacking.is_empty()).then(|| {
        format!(
            "the server's user lacks {} that a move needs; grant with ACL SETUSER what it takes for: {}",
            plural(lacking.len() as u64, "right"),
            lacking.join("; ")
        )
    }))
}

/// The server's words where it refuses a command for want of a right, and not for its state.
fn refusal(reply: &[u8]) -> Option<String> {
    let Ok(Reply::Error(error)) = Reply::parse(reply) else { return None };
    Some(String::from_utf8_lossy(error).strip_prefix("NOPERM ")?.to_owned())
}
