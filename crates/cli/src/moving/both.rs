//! Keys that hold a value in both of their places, before a move turns round.
//!
//! Clients see the value in the new place; the other was written past keyfold. Where the move turns round, the old
//! place becomes the new one, and clients would see another value all at once.

use keyfold_core::layout::{Layout, Located, Namespace, Place};
use keyfold_core::walk::KeyWalk;
use keyfold_server::keyspace;
use keyfold_server::reply::read_if;
use keyfold_server::{Commands, Nodes, Server};

use crate::layout::keys;

/// Keys that are named, of those that were found.
const NAMED: usize = 3;

/// What stands against going from `before` to `planned`.
pub(crate) fn check(nodes: &mut Nodes, before: Option<&Layout>, planned: &Layout) -> anyhow::Result<Option<String>> {
    let Some(before) = before else { return Ok(None) };
    let turning: Vec<Turn> = before.moving().filter_map(|namespace| turn(namespace, planned)).collect();
    if turning.is_empty() {
        return Ok(None);
    }
    let (mut found, mut names) = (0_u64, Vec::new());
    let walk = match turning.contains(&Turn::Unfold) {
        // That pattern is of the places which keys leave.
        true => KeyWalk::new(1000),
        false => KeyWalk::new(1000).matching(&keys::pattern_of_moves(before)),
    };
    for server in nodes.servers() {
        keyspace::each_page(server, &walk, &mut |server, _, page| {
            for key in in_both(server, before, planned, page)? {
                found += 1;
                if names.len() < NAMED {
                    names.push(format!("\"{}\"", key.escape_ascii()));
                }
            }
            Ok(())
        })?;
    }
    let names = names.join(", ");
    let begun = "of the keys to be taken back were written past keyfold while they were";
    Ok((found > 0).then(|| match turning.contains(&Turn::Unfold) {
        false => format!(
            "{found} {begun} folded, and hold two \
             values: {names}. Clients see the one in the bucket, and would see the other. End the fold first: it takes away what \
             is the same in both. DEL the others on the server itself, not through keyfold, to remove that one"
        ),
        true => format!(
            "{found} {begun} moved, and hold two values: {names}. Clients see the one in the new place, and would see the other. SET \
             them through keyfold, which leaves one, or end the move first"
        ),
    }))
}

/// A move that turns round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// From plain to buckets, and back.
    Fold,
    /// From buckets to plain, and back.
    Unfold,
}

/// How a namespace that is moving turns round; none where it doesn't.
fn turn(namespace: &Namespace, planned: &Layout) -> Option<Turn> {
    let was_plain = namespace.former.as_ref()?.placement.is_plain();
    let after = planned.namespaces().iter().find(|after| after.keys.same_shape(&namespace.keys))?;
    match (was_plain, namespace.placement.is_plain(), after.placement.is_plain()) {
        (true, false, true) => Some(Turn::Fold),
        (false, true, false) => Some(Turn::Unfold),
        _ => None,
    }
}

/// Those of some keys that hold a value in their bucket as well. The plain key is asked for behind its bucket: a fold
/// that goes on beside this takes keys from the one to the other, in one step, since they were found as plain ones. An unfold takes
/// them from the bucket before they are found.
fn in_both(
    server: &mut Server,
    before: &Layout,
    planned: &Layout,
    mut keys: Vec<Vec<u8>>,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut commands = Commands::default();
    keys.retain(|key| {
        let Some(bucket) = bucket_of(key, before, planned) else { return false };
        commands.push(&[b"HEXISTS", &bucket.physical, &bucket.field]);
        commands.push(&[b"EXISTS", key]);
        true
    });
    let replies = server.ask_all(&commands)?;
    let are_both = replies.chunks_exact(2).map(|pair| pair.iter().all(|reply| read_if(reply) == Some(true)));
    Ok(keys.into_iter().zip(are_both).filter(|(_, is_both)| *is_both).map(|(key, _)| key).collect())
}

/// The bucket of a plain key whose namespace turns round.
fn bucket_of(key: &[u8], before: &Layout, planned: &Layout) -> Option<Place> {
    let Located::Moving(moving) = before.locate(key) else { return None };
    let (bucket, own) = match turn(before.namespace(moving.namespace), planned)? {
        Turn::Fold => (moving.new, moving.old),
        Turn::Unfold => (moving.old, moving.new),
    };
    bucket.filter(|place| place.kind.is_bucket() && own.is_none())
}
