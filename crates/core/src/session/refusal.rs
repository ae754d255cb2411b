//! Requests that are never let through, whatever layout is in force, and those that nobody here understands well
//! enough to let them reach keys of keyfold's own.

use crate::command::{Command, Id, Keys, table};
use crate::layout::{Layout, Located, NamespaceIndex, RESERVED_PREFIXES};
use crate::resp::word::{c_text, is_word};
use crate::server_info::ServerInfo;

/// How many bytes of a name, or of all arguments, the error of an unknown command shows.
const SHOWN_BYTES: usize = 128;

/// Whether this is the first line of an HTTP request rather than a command. A server closes the connection: a web page
/// had a browser send it.
pub(super) fn is_http(name: &[u8]) -> bool {
    is_word(name, "post") || is_word(name, "host:")
}

/// Why a command can't be let through whatever it names.
pub(super) fn refused_always(command: &Command, args: &[&[u8]]) -> Option<String> {
    let why = match command.id {
        Id::Sync | Id::Psync | Id::Replconf => "replicate from the server itself",
        Id::ClusterSyncslots => "servers speak it among themselves",
        Id::Swapdb if args[1..].contains(&&b"0"[..]) => "the layout lives in database 0",
        // The connection would debug every script that anybody runs on it.
        Id::ScriptDebug if !args.get(2).is_some_and(|mode| is_word(mode, "no")) => {
            "debug scripts on a connection to the server itself"
        }
        _ => return None,
    };
    let name = command.name.replace('|', " ").to_uppercase();
    Some(format!("ERR keyfold: {name} is not supported through the proxy: {why}"))
}

/// The error of a DEBUG that may look into a folded key or one of keyfold's own, or write one. No table says which of
/// its arguments are keys, so each might be.
pub(super) fn refused_debug(args: &[&[u8]], layout: &Layout) -> Option<String> {
    let folded = args.get(2..)?.iter().find(|arg| reach_of(arg, layout) != Reach::Nothing).copied();
    // `DEBUG POPULATE count prefix` writes keys that are called after the prefix, up to its first NUL, or else after this word.
    let prefix = args.get(3).map_or(&b"key"[..], |prefix| c_text(prefix));
    let populated = is_word(args[1], "populate").then(|| [prefix, b":"].concat());
    let hidden = populated.filter(|prefix| layout.may_hold_prefix(prefix) || is_reserved_prefix(prefix));
    let name = folded.or(hidden.as_deref())?;
    Some(format!(
        "ERR keyfold: DEBUG is not supported on '{}', which is folded or keyfold's own; send it to the server directly",
        printable(name)
    ))
}

/// The error where SORT's patterns may reach folded keys or keyfold's own.
pub(super) fn refused_patterns(command: &Command, keys: &Keys, args: &[&[u8]], layout: &Layout) -> Option<String> {
    if !keys.is_open() || !matches!(command.id, Id::Sort | Id::SortRo) {
        return None;
    }
    let pattern = args.windows(2).find_map(|pair| {
        let names_keys = is_word(pair[0], "by") || is_word(pair[0], "get");
        let pattern = c_text(pair[1]);
        let prefix = pattern.split(|byte| *byte == b'*').next().unwrap_or_default();
        let is_open = names_keys && pattern.contains(&b'*');
        (is_open && (layout.may_hold_prefix(prefix) || is_reserved_prefix(prefix))).then_some(pair[1])
    })?;
    Some(format!(
        "ERR keyfold: SORT with the pattern '{}' may read folded keys, which the server can't find; read them with MGET",
        printable(pattern)
    ))
}

/// The error of a command that this version doesn't know where one of its arguments may be a folded key, or one of
/// keyfold's own. Which of them are keys isn't known, so each might be.
pub(super) fn refused_unknown(args: &[&[u8]], layout: &Layout) -> Option<String> {
    let name = printable(args[0]);
    let what = format!("ERR keyfold: '{name}' is a command this version doesn't know, and");
    args[1..].iter().find_map(|arg| {
        let shown = printable(arg);
        match reach_of(arg, layout) {
            Reach::Nothing => None,
            Reach::Folded(namespace) => Some(format!(
                "{what} '{shown}' may be a folded key of {}; send it to the server directly, or with keys that are not folded",
                layout.namespace(namespace).keys
            )),
            Reach::Reserved => {
                Some(format!("{what} '{shown}' may be a key that keyfold keeps for itself; use another name"))
            }
        }
    })
}

/// What an argument would reach if it were a key.
#[derive(PartialEq, Eq)]
enum Reach {
    Nothing,
    Folded(NamespaceIndex),
    Reserved,
}

fn reach_of(arg: &[u8], layout: &Layout) -> Reach {
    match layout.locate(arg) {
        Located::Plain => Reach::Nothing,
        Located::Placed(place) => Reach::Folded(place.namespace),
        Located::Moving(moving) => Reach::Folded(moving.namespace),
        Located::Reserved => Reach::Reserved,
    }
}

/// Whether names that begin so may be keyfold's own. The empty prefix is that of every name, and asked of the layout.
fn is_reserved_prefix(prefix: &[u8]) -> bool {
    let overlaps = |reserved: &&[u8]| prefix.starts_with(reserved) || reserved.starts_with(prefix);
    !prefix.is_empty() && RESERVED_PREFIXES.iter().any(overlaps)
}

/// The server's own error for a command, or the subcommand of a known one, that it doesn't have
/// (`commandCheckExistence`, server.c of Redis 7.0). It shows arguments up to their first zero byte.
pub(super) fn unknown_command(args: &[&[u8]]) -> Vec<u8> {
    let shown = |arg: &[u8], limit: usize| {
        let text = c_text(arg);
        text[..text.len().min(limit)].to_vec()
    };
    let container = table().lookup(args[0]).filter(|command| command.is_container);
    let mut error = match (container, args.get(1)) {
        (Some(container), Some(sub)) => {
            let help = format!("'. Try {} HELP.", container.name.to_ascii_uppercase());
            [b"-ERR unknown subcommand '", shown(sub, SHOWN_BYTES).as_slice(), help.as_bytes()].concat()
        }
        _ => {
            let mut list = Vec::new();
            for arg in &args[1..] {
                if list.len() >= SHOWN_BYTES {
                    break;
                }
                let text = shown(arg, SHOWN_BYTES - list.len());
                list.extend([b"'", text.as_slice(), b"' "].concat());
            }
            let name = shown(args[0], SHOWN_BYTES);
            [b"-ERR unknown command '", name.as_slice(), b"', with args beginning with: ", &list].concat()
        }
    };
    error.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
    error.extend_from_slice(b"\r\n");
    error
}

/// The error of a command that may not stand in a transaction, as the server behind says it.
pub(super) fn not_in_transaction(name: &str, server: &ServerInfo) -> String {
    if server.is_valkey() && server.major() >= 9 {
        format!("ERR Command '{name}' not allowed inside a transaction")
    } else {
        "ERR Command not allowed inside a transaction".to_owned()
    }
}

/// The server's error for another number of arguments than a command takes.
pub(super) fn wrong_arity(command: &Command) -> String {
    format!("ERR wrong number of arguments for '{}' command", command.name)
}

/// The name of the subcommand that a request is.
///
/// # Errors
/// The server's, where it doesn't have it, or another number of arguments.
pub(super) fn subcommand(
    command: &'static Command,
    args: &[&[u8]],
    has: impl Fn(&str) -> bool,
) -> Result<&'static str, String> {
    let (container, name) = command.name.split_once('|').unwrap_or((command.name, ""));
    if name.is_empty() || !has(name) {
        let (shown, container) = (printable(args[1]), container.to_uppercase());
        return Err(format!("ERR unknown subcommand '{shown}'. Try {container} HELP."));
    }
    if command.arity_ok(args.len()) { Ok(name) } else { Err(wrong_arity(command)) }
}

/// Bytes as an error shows them.
pub(super) fn printable(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string()
}
