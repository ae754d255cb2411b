//! Keys that hold a value in both of their places, before the place changes that clients look at first.
//!
//! Clients see the value in the new place, and of settled ones the folded one; the other was written past keyfold. Where a
//! move turns round, or an unfold begins, the old place becomes the new one, and clients would see another value all at once.

use anyhow::bail;
use keyfold_core::layout::{Layout, Located, Namespace, Place};
use keyfold_core::walk::KeyWalk;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::keyspace;
use keyfold_server::pace::Pace;
use keyfold_server::reply::read_if;
use keyfold_server::{Commands, Nodes, Server};

use crate::layout::keys;

/// Keys that are named, of those that were found.
const NAMED: usize = 3;

/// What stands against going from `before` to `planned`.
pub(crate) fn check(
    nodes: &mut Nodes,
    before: Option<&Layout>,
    planned: &Layout,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<String>> {
    let Some(before) = before else { return Ok(None) };
    let turning: Vec<(&Namespace, Turn)> =
        before.namespaces().iter().filter_map(|namespace| Some((namespace, turn(namespace, planned)?))).collect();
    if turning.is_empty() {
        return Ok(None);
    }
    let (mut found, mut names) = (0_u64, Vec::new());
    let walk = KeyWalk::new(1000).matching(&keys::pattern_of(turning.iter().map(|(namespace, _)| *namespace)));
    for server in nodes.servers() {
        keyspace::each_page(server, &walk, &mut |server, _, page| {
            if interrupt.wanted() {
                bail!("interrupted; nothing was changed");
            }
            for key in in_both(server, before, planned, page)? {
                found += 1;
                if names.len() < NAMED {
                    names.push(format!("\"{}\"", key.escape_ascii()));
                }
            }
            pace.spend(1);
            Ok(())
        })?;
    }
    if found == 0 {
        return Ok(None);
    }
    let names = names.join(", ");
    let begun = "of the keys to be taken back were written past keyfold while they were";
    let turns = |wanted: Turn| turning.iter().any(|(_, turn)| *turn == wanted);
    Ok(Some(match (turns(Turn::Out), turns(Turn::Unfold)) {
        (true, _) => format!(
            "{found} of the keys to be unfolded were written past keyfold, and hold two values: {names}. Clients see the folded \
             one, and would see the other. `keyfold fold` first takes away what is the same in both; DEL the others on \
             the server itself, not through keyfold, to remove the one that they don't see"
        ),
        (false, false) => format!(
            "{found} {begun} folded, and hold two \
             values: {names}. Clients see the one in the bucket, and would see the other. End the fold first: it takes away what \
             is the same in both. DEL the others on the server itself, not through keyfold, to remove that one"
        ),
        (false, true) => format!(
            "{found} {begun} moved, and hold two values: {names}. Clients see the one in the new place, and would see the other. SET \
             them through keyfold, which leaves one, or end the move first"
        ),
    }))
}

/// What becomes of the places of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// From plain to buckets, and back.
    Fold,
    /// From buckets to plain, and back.
    Unfold,
    /// From buckets, in which all was settled, to plain.
    Out,
}

/// How clients come to look at another place of a namespace first; none where they don't.
fn turn(namespace: &Namespace, planned: &Layout) -> Option<Turn> {
    let was_plain = namespace.former.as_ref().map(|former| former.placement.is_plain());
    let after = planned.namespaces().iter().find(|after| after.keys.same_shape(&namespace.keys))?;
    match (was_plain, namespace.placement.is_plain(), after.placement.is_plain()) {
        (Some(true), false, true) => Some(Turn::Fold),
        (Some(false), true, false) => Some(Turn::Unfold),
        (None, false, true) => Some(Turn::Out),
        _ => None,
    }
}

/// Those of some keys that hold a value in their folded place as well. The plain key is asked for behind its bucket: a fold
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
        let Some(place) = other_place_of(key, before, planned) else { return false };
        match place.kind.is_field() {
            true => commands.push(&[b"HEXISTS", &place.physical, &place.field]),
            false => commands.push(&[b"EXISTS", &place.physical]),
        }
        commands.push(&[b"EXISTS", key]);
        true
    });
    let replies = server.ask_all(&commands)?;
    let are_both = replies.chunks_exact(2).map(|pair| pair.iter().all(|reply| read_if(reply) == Some(true)));
    Ok(keys.into_iter().zip(are_both).filter(|(_, is_both)| *is_both).map(|(key, _)| key).collect())
}

/// The folded place of a plain key at which clients are to look first from now on, or were until now.
fn other_place_of(key: &[u8], before: &Layout, planned: &Layout) -> Option<Place> {
    let turn = turn(before.namespace(before.namespace_of(key)?), planned)?;
    let (place, own) = match (turn, before.locate(key)) {
        (Turn::Fold, Located::Moving(moving)) => (moving.new, moving.old),
        (Turn::Unfold, Located::Moving(moving)) => (moving.old, moving.new),
        (Turn::Out, Located::Placed(place)) => (Some(place), None),
        _ => return None,
    };
    place.filter(|place| place.kind.packing().is_none() && own.is_none() && place.physical.as_slice() != key)
}
