//! Whether two replies say the same where they may differ: in the order of members, in what is drawn by chance, in what a page of
//! SSCAN holds, and in payloads.

use std::collections::BTreeSet;

use super::exchange::{Model, Outcome, without};
use crate::server::Connection;
use keyfold_core::resp::Reply;

/// How the replies to a command are compared.
enum By {
    Bytes,
    /// The head, and the members in whatever order.
    Members,
    /// The head, and what must be so of members that were drawn; whether each comes once.
    Chance {
        once: bool,
    },
    Page,
    Payload,
    Object,
}

impl By {
    fn of(command: &[Vec<u8>]) -> Self {
        match command[0].to_ascii_lowercase().as_slice() {
            b"smembers" | b"sunion" | b"sinter" | b"sdiff" => Self::Members,
            b"spop" => Self::Chance { once: true },
            b"srandmember" => Self::Chance { once: !command.get(2).is_some_and(|count| count.starts_with(b"-")) },
            b"sscan" => Self::Page,
            b"dump" => Self::Payload,
            b"object" => Self::Object,
            _ => Self::Bytes,
        }
    }
}

/// Why the replies of the server and of keyfold differ.
pub(super) fn compare(
    command: &[Vec<u8>],
    servers: &[u8],
    ours: &[u8],
    before: &Model,
    now_ms: i64,
    asks: &mut Connection,
) -> Result<(), &'static str> {
    if servers == ours {
        return Ok(());
    }
    if servers.starts_with(b"-") || ours.starts_with(b"-") {
        return Err("an error");
    }
    let same = match By::of(command) {
        By::Bytes => false,
        By::Members => head(servers) == head(ours) && sorted(servers) == sorted(ours),
        By::Chance { once } => {
            let set: BTreeSet<Vec<u8>> = before.members(&command[1], now_ms).into_iter().collect();
            let is_drawn = |reply: &[u8]| {
                let members = bulks(reply);
                let distinct: BTreeSet<&Vec<u8>> = members.iter().collect();
                members.iter().all(|member| set.contains(member)) && (!once || distinct.len() == members.len())
            };
            let one =
                servers.starts_with(b"$") && ours.starts_with(b"$") && servers != b"$-1\r\n" && ours != b"$-1\r\n";
            (one || head(servers) == head(ours)) && is_drawn(servers) && is_drawn(ours)
        }
        By::Page => is_page_of(command, servers, ours),
        By::Payload => is_payload_of(&before.members(&command[1], now_ms), ours, asks),
        By::Object => is_further_encoded(command, servers, ours),
    };
    if same { Ok(()) } else { Err("the replies differ") }
}

/// What the keys hold after a command; of one that has drawn members, after what the server has drawn.
pub(super) fn after(
    command: &[Vec<u8>],
    servers: &[u8],
    ours: &Outcome,
    before: &Model,
    now_ms: i64,
) -> Result<Model, String> {
    if !command[0].eq_ignore_ascii_case(b"spop") || servers.starts_with(b"-") {
        return Ok(ours.after.clone());
    }
    let left = without(before, &command[1], &bulks(&ours.reply), now_ms);
    if left.held != ours.after.held {
        return Err(format!("  keyfold says {:?}, and keeps {:?}", bulks(&ours.reply), ours.after.held));
    }
    Ok(without(before, &command[1], &bulks(servers), now_ms))
}

fn head(reply: &[u8]) -> &[u8] {
    &reply[..reply.iter().position(|byte| *byte == b'\n').unwrap()]
}

/// The strings of a reply, or the one that it is.
fn bulks(reply: &[u8]) -> Vec<Vec<u8>> {
    match Reply::parse(reply).unwrap() {
        Reply::Array(parts) => parts.map(|part| part.bytes().unwrap().to_vec()).collect(),
        reply => reply.bytes().into_iter().map(<[u8]>::to_vec).collect(),
    }
}

fn sorted(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut members = bulks(reply);
    members.sort();
    members
}

/// The cursor and the members of a page.
fn page(reply: &[u8]) -> Option<(Vec<u8>, BTreeSet<Vec<u8>>)> {
    let Reply::Array(mut parts) = Reply::parse(reply).ok()? else { return None };
    let cursor = parts.next()?.bytes()?.to_vec();
    let members = bulks(parts.next_raw()?).into_iter().collect();
    Some((cursor, members))
}

/// Keyfold's page is the whole. A server's is, where it begins and ends with 0, and of a large set any part is right.
fn is_page_of(command: &[Vec<u8>], servers: &[u8], ours: &[u8]) -> bool {
    let (Some((cursor, servers)), Some((end, ours))) = (page(servers), page(ours)) else { return false };
    let is_whole = command[2] == b"0" && cursor == b"0";
    end == b"0" && servers.is_subset(&ours) && (!is_whole || servers == ours)
}

/// Whether a server makes these members of keyfold's payload.
fn is_payload_of(members: &[Vec<u8>], ours: &[u8], asks: &mut Connection) -> bool {
    let Ok(Reply::Bulk(payload)) = Reply::parse(ours) else { return false };
    let restored = asks.run(&[
        vec![&b"restore"[..], b"(copy)", b"0", payload, b"replace"],
        vec![b"smembers", b"(copy)"],
        vec![b"del", b"(copy)"],
    ]);
    let mut members = members.to_vec();
    members.sort();
    // What isn't a set was compared with the strings and the hashes.
    restored[0] == b"+OK\r\n" && (restored[1].starts_with(b"-") || sorted(&restored[1]) == members)
}

/// OBJECT says of the server's what was once there too: a set is never turned back into a smaller form.
fn is_further_encoded(command: &[Vec<u8>], servers: &[u8], ours: &[u8]) -> bool {
    match command[1].to_ascii_lowercase().as_slice() {
        b"encoding" => {
            let rank = |reply: &[u8]| {
                [&b"intset"[..], b"listpack", b"hashtable"].iter().position(|name| bulks(reply)[0] == *name)
            };
            rank(servers).zip(rank(ours)).is_some_and(|(servers, ours)| servers > ours)
        }
        b"idletime" => servers.starts_with(b":") && ours == b":0\r\n",
        _ => false,
    }
}
