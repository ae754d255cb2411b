//! Which requests may be answered by a replica.
//!
//! Only plain reads of which an answer tells whether its keys were there, because a replica's *no* isn't believed
//! ([`crate::drive`]): the replica of a node that a slot is leaving key by key knows nothing of keys that have gone, and says
//! that they don't exist. Of two keys in one answer that could not be told, so such commands stay with primaries, but for
//! MGET and EXISTS; nor could it of members that are told one by one (HMGET), or of a folded set or hash, which are worked on here.
//! So does what goes by other state than keys': between WATCH and EXEC a client must read what EXEC will compare; cursors of HSCAN
//! and its kin are a node's own; TOUCH is for the node that evicts; scripts may do anything. And whoever caches what it reads is told
//! of changes when primaries make them: what a replica still had then would be cached for good.

use crate::cluster::Target;
use crate::command::{Access, Categories, Command, Flags, Id};
use crate::exchange::Env;
use crate::session::route::Route;
use crate::session::{Lane, Session};

impl Session {
    pub(super) fn may_ask_replica(
        &self,
        command: Option<&Command>,
        route: &Route,
        target: &Target,
        lane: Lane,
        args: &[&[u8]],
        env: &Env<'_>,
    ) -> bool {
        let Some(command) = command.filter(|_| env.cluster.is_some_and(|rules| rules.read_replicas)) else {
            return false;
        };
        let is_keyed = matches!(target, Target::Slot(_) | Target::Parts(_)) && matches!(lane, Lane::Shared { .. });
        is_keyed
            && !self.has_own_state()
            && !self.reads_for_cache()
            && is_plain_read(command)
            && tells_of_each_key(command, args)
            && goes_plainly(route)
    }
}

fn is_plain_read(command: &Command) -> bool {
    command.flags.contains(Flags::READONLY)
        && !command.flags.intersects(Flags::MAY_REPLICATE | Flags::BLOCKING | Flags::MOVABLEKEYS)
        && !command.categories.intersects(Categories::SCRIPTING | Categories::HYPERLOGLOG)
        && !command.name.contains('|')
        && !matches!(command.id, Id::Touch | Id::Hscan | Id::Sscan | Id::Zscan)
        && !tells_of_each_member(command.name)
}

/// Whether the answer has an element for each member asked for, also where the key isn't there: nobody could tell that from it.
fn tells_of_each_member(name: &str) -> bool {
    const NAMES: [&str; 9] =
        ["geohash", "geopos", "hexpiretime", "hmget", "hpexpiretime", "hpttl", "httl", "smismember", "zmscore"];
    NAMES.contains(&name)
}

fn tells_of_each_key(command: &Command, args: &[&[u8]]) -> bool {
    let keys = command.keys_in(args);
    let are_read = keys.iter().all(|key| key.access.contains(Access::RO));
    are_read && !keys.is_open() && (keys.len() == 1 || matches!(command.id, Id::Mget | Id::Exists))
}

/// Whether it is asked of one place. A key that is being moved lies in one of two.
fn goes_plainly(route: &Route) -> bool {
    match route {
        Route::PassOn | Route::Rewrite(_) => true,
        Route::One { command, .. } => !command.on_collections,
        Route::Many { command, places } => !places.are_moving() && !command.on_collections,
        _ => false,
    }
}
