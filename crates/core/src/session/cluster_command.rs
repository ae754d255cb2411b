//! CLUSTER and its kin, answered by keyfold itself: to clients the nodes of the cluster are keyfolds, if they are
//! announced; else there is no cluster. What the nodes behind say of themselves reaches nobody: clients that went there
//! would see buckets.
//!
//! | keyfold is before | announced | what clients see |
//! | --- | --- | --- |
//! | a server | no | what the server says |
//! | a cluster | no | a server without cluster support |
//! | either | yes | a cluster of keyfolds, each with all keys, that never redirects |

use crate::cluster::{Front, Position};
use crate::command::{Command, Id};
use crate::exchange::keyspace::Random;
use crate::exchange::listing::List;
use crate::exchange::slot_listing::SlotList;
use crate::exchange::{Env, Exchange, Io, UnderWay};
use crate::number::{NOT_AN_INTEGER, parse_integer};
use crate::resp::Answer;
use crate::session::refusal::subcommand;
use crate::session::route::Route;
use crate::session::{Begun, Hold, Session};
use crate::slot::Slot;

const DISABLED: &str = "ERR This instance has cluster support disabled";
const INVALID_SLOT: &str = "ERR Invalid slot";

impl Session {
    /// Says what keyfold stands before, and what it tells clients of itself. A session begins before a single server, with
    /// nothing announced.
    pub fn set_front(&mut self, front: Front) {
        self.front = front;
    }

    /// Which way CLUSTER, READONLY, READWRITE and ASKING go; none where it is the server's to answer.
    pub(crate) fn route_cluster(&self, command: &'static Command, args: &[&[u8]]) -> Option<Route> {
        if self.front.mode().is_none() || command.id == Id::ClusterHelp && self.front.announced.is_some() {
            return None;
        }
        if self.front.announced.is_none() {
            return Some(Route::error(DISABLED));
        }
        Some(match command.name {
            "cluster|countkeysinslot" => match read_slot(args[2]) {
                Ok(_) => Route::Keyspace(Id::Cluster),
                Err(error) => Route::error(error),
            },
            "cluster|getkeysinslot" => match read_slot_and_count(args[2], args[3]) {
                Ok(_) => Route::Keyspace(Id::Cluster),
                Err(error) => Route::error(error),
            },
            "clusterscan" => Route::error(
                "ERR keyfold: CLUSTERSCAN is not supported through the proxy; SCAN goes through all of the cluster",
            ),
            _ => Route::Local(command),
        })
    }

    /// Answers CLUSTER, READONLY, READWRITE and ASKING where keyfolds are announced.
    pub(crate) fn cluster(
        &self,
        args: &[&[u8]],
        command: &'static Command,
        env: &Env<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<(), String> {
        let announced = self.front.announced.as_ref().ok_or(DISABLED)?;
        if command.id != Id::Cluster {
            answer.ok();
            return Ok(());
        }
        let name = subcommand(command, args, |name| match name {
            "myshardid" => env.server.is_since((7, 2), (7, 2)),
            "getslotmigrations" => env.server.is_valkey_since(9, 0),
            _ => true,
        })?;
        let known = |id: &[u8]| match announced.knows(id) {
            true => Ok(()),
            false => Err(format!("ERR Unknown node {}", id.escape_ascii())),
        };
        match name {
            "slots" => announced.write_slots(answer),
            "shards" => announced.write_shards(env.server.is_valkey_since(9, 0), answer),
            "nodes" => answer.verbatim(announced.nodes().as_bytes()),
            "info" => answer.verbatim(announced.info().as_bytes()),
            "myid" => answer.bulk(announced.id().as_bytes()),
            "myshardid" => answer.bulk(announced.shard_id().as_bytes()),
            "keyslot" => answer.integer(Slot::of(args[2]).number().into()),
            "links" | "getslotmigrations" => answer.array(0),
            "replicas" | "slaves" => {
                known(args[2])?;
                answer.array(0);
            }
            "count-failure-reports" => {
                known(args[2])?;
                answer.integer(0);
            }
            _ => {
                let name = name.to_uppercase();
                return Err(format!(
                    "ERR keyfold: CLUSTER {name} is not supported through the proxy: clients see keyfolds as nodes, which \
                     all have every slot; send it to a node of the cluster itself"
                ));
            }
        }
        Ok(())
    }

    /// Begins a command on the whole keyspace, or on a slot, where that goes by slots; none where it doesn't.
    pub(crate) fn begin_over_slots(
        &self,
        command: Id,
        args: &[&[u8]],
        env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Option<Begun> {
        let protocol = self.protocol;
        let sent = |under_way, replies| Some(Begun::Sent { exchange: Exchange(under_way), replies, hold: Hold::All });
        let listed = |list| sent(UnderWay::SlotList(Box::new(list)), 1);
        if command == Id::Cluster {
            let (slot, count) = match args.get(3) {
                Some(count) => read_slot_and_count(args[2], count).map(|(slot, count)| (slot, Some(count))),
                None => read_slot(args[2]).map(|slot| (slot, None)),
            }
            .ok()?;
            if !self.front.before_cluster {
                let (list, replies) = List::of_slot(env, slot, count, protocol, io.wire);
                return sent(UnderWay::List(Box::new(list)), replies);
            }
            return listed(match count {
                Some(count) => SlotList::keys_of(env, slot, count, protocol, io.wire),
                None => SlotList::number_of(env, slot, protocol, io.wire),
            });
        }
        if !self.front.before_cluster {
            return None;
        }
        match command {
            Id::Keys => listed(SlotList::keys(env, args[1], protocol, io.wire)),
            Id::Dbsize => listed(SlotList::number(env, protocol, io.wire)),
            Id::Randomkey => {
                let slot = Slot::FIRST.after(u16::try_from((env.nonces)() % (1 << 14)).unwrap_or_default());
                sent(UnderWay::Random(Box::new(Random::start_at(slot, protocol, io.wire))), 1)
            }
            Id::Scan => {
                let Some(from) = Position::parse(args[1]) else {
                    Answer::new(io.answer, protocol).error("ERR invalid cursor");
                    return Some(Begun::Answered);
                };
                // What is wrong with the options the server says in its own words.
                SlotList::scan(env, from, args, protocol, io.wire).map_or(None, listed)
            }
            _ => None,
        }
    }
}

fn read_slot(arg: &[u8]) -> Result<Slot, &'static str> {
    let number = parse_integer(arg).ok_or(NOT_AN_INTEGER)?;
    u16::try_from(number).ok().and_then(Slot::new).ok_or(INVALID_SLOT)
}

fn read_slot_and_count(slot: &[u8], count: &[u8]) -> Result<(Slot, usize), &'static str> {
    let (slot, count) = (parse_integer(slot).ok_or(NOT_AN_INTEGER)?, parse_integer(count).ok_or(NOT_AN_INTEGER)?);
    let read = u16::try_from(slot).ok().and_then(Slot::new).zip(usize::try_from(count).ok());
    read.ok_or("ERR Invalid slot or number of keys")
}
