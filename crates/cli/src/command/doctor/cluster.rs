//! The doctor of a cluster: each primary by itself, those without slots included, and what only shows beside others.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use keyfold_core::slot::Slot;
use keyfold_report::number::count;
use keyfold_report::paper::Paper;
use keyfold_server::nodes::SlotStates;
use keyfold_server::replicas::{self, Replica};
use keyfold_server::{Commands, Nodes, Server, reply};
use keyfold_survey::diagnosis::{LayoutState, Limit};
use serde_json::json;

use super::{Report, examine, json, print, settings};
use crate::config::doctor::Doctor;

/// A slot of fewer physical keys is no burden for a node.
const LEAST_KEYS: u64 = 1000;
/// So many times as many keys as slots have on average are far more.
const FAR_MORE: u64 = 10;
/// Names of a slot that its hash tag is told by.
const TAG_SAMPLE: &[u8] = b"100";

pub(super) fn run(config: &Doctor, mut nodes: Nodes, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let layout = settings::layout(nodes.home())?;
    let states = nodes.slot_states()?;
    let mut notes: Vec<String> = nodes.other_releases().into_iter().collect();
    notes.extend(on_their_way(&states));
    notes.extend(hot_slots(&mut nodes)?);
    let (idle, replicas) = (nodes.idle()?, replicas::connect(&mut nodes)?);
    let servers: Vec<Server> = nodes.into_servers().into_iter().chain(idle).collect();
    let reports = reports(config, servers, replicas, &layout)?;
    notes.extend(other_limits(&reports));
    if config.flags.json {
        let all = reports.iter().map(json::value).collect::<Vec<_>>();
        out.whole(format_args!("{:#}", json!({ "nodes": all, "notes": notes })))?;
    } else {
        for report in &reports {
            print::print(report, out)?;
            writeln!(out)?;
        }
        for note in &notes {
            writeln!(out, "note on the cluster: {note}")?;
        }
    }
    let worst = reports.iter().map(Report::code).max_by_key(|code| match code {
        1 => 2,
        0 => 0,
        _ => 1,
    });
    Ok(ExitCode::from(worst.unwrap_or(0)))
}

fn reports(
    config: &Doctor,
    servers: Vec<Server>,
    mut replicas: Vec<Replica>,
    layout: &LayoutState,
) -> anyhow::Result<Vec<Report>> {
    let mut reports = Vec::new();
    for server in servers {
        let started = Instant::now();
        let address = server.address().to_string();
        let own = replicas.extract_if(.., |replica| replica.of == address).collect();
        let (report, error) = examine(config, server, own, Some(layout.clone()), started)?;
        let is_stopped = report.broken_off.as_deref() == Some("stopped");
        reports.push(report);
        match error {
            Some(error) => return Err(error.context("not all nodes were looked at")),
            None if is_stopped => break,
            None => {}
        }
    }
    Ok(reports)
}

/// Where one node has lower limits, buckets that come to it become hashtables.
fn other_limits(reports: &[Report]) -> Vec<String> {
    let mut notes = Vec::new();
    for limit in [Limit::Entries, Limit::ValueBytes] {
        let mut by_value: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for report in reports {
            let setting = report.seen.settings.limit(limit).value;
            by_value.entry(setting).or_default().push(&report.seen.names.url);
        }
        let (Some((least, of)), Some((most, _))) = (by_value.first_key_value(), by_value.last_key_value()) else {
            continue;
        };
        if least < most {
            let name = limit.name();
            notes.push(format!(
                "{name} is {least} at {}, and {most} elsewhere: buckets over it that come there become hashtables. There: \
                 CONFIG SET {name} {most}",
                of.join(", ")
            ));
        }
    }
    notes
}

fn on_their_way(states: &SlotStates) -> Option<String> {
    let all: Vec<Slot> = Slot::all().filter(|slot| states.of(*slot).is_on_its_way()).collect();
    let first = all.first()?;
    let state = states.of(*first);
    let address = |id: Option<&String>| id.map_or_else(|| "nobody".to_owned(), |id| states.address(id));
    let (from, to) = (address(state.owner.as_ref()), address(state.to.as_ref().or(state.importers.first())));
    Some(format!(
        "{} of the slots are on their way, such as {first} from {from} to {to}; keys that came already are looked at once \
         it has ended, or been put right with `redis-cli --cluster fix`",
        count(all.len() as u64)
    ))
}

/// Slots with far more physical keys than others, with the hash tag that most of them have.
fn hot_slots(nodes: &mut Nodes) -> anyhow::Result<Vec<String>> {
    let mut keys: Vec<(u64, Slot, usize)> = Vec::new();
    let slots: Vec<(Slot, usize)> = Slot::all().map(|slot| (slot, nodes.owner_of_slot(slot))).collect();
    for (at, server) in nodes.servers().iter_mut().enumerate() {
        let own: Vec<Slot> = slots.iter().filter(|(_, node)| *node == at).map(|(slot, _)| *slot).collect();
        let mut commands = Commands::default();
        for slot in &own {
            commands.push(&[b"CLUSTER", b"COUNTKEYSINSLOT", slot.to_string().as_bytes()]);
        }
        let counts = server.ask_all(&commands)?;
        keys.extend(own.into_iter().zip(counts).map(|(slot, raw)| (reply::read_if(&raw).unwrap_or(0), slot, at)));
    }
    let total: u64 = keys.iter().map(|(keys, ..)| keys).sum();
    let mean = (total / keys.len().max(1) as u64).max(1);
    let mut notes = Vec::new();
    keys.retain(|(keys, ..)| *keys >= LEAST_KEYS.max(FAR_MORE * mean));
    keys.sort_unstable_by_key(|(keys, slot, _)| (std::cmp::Reverse(*keys), *slot));
    for (keys, slot, at) in keys.into_iter().take(5) {
        let server = &mut nodes.servers()[at];
        let names: Vec<Vec<u8>> =
            server.ask(&[b"CLUSTER", b"GETKEYSINSLOT", slot.to_string().as_bytes(), TAG_SAMPLE])?;
        let tag = common_tag(&names).map_or_else(String::new, |tag| format!(", most with the hash tag {{{tag}}}"));
        notes.push(format!(
            "slot {slot} at {} has {} keys{tag}, slots have {mean} on average: resharding can't share it out",
            server.address(),
            count(keys)
        ));
    }
    Ok(notes)
}

/// The hash tag of more than half of the names.
fn common_tag(names: &[Vec<u8>]) -> Option<String> {
    let mut tags: BTreeMap<&[u8], usize> = BTreeMap::new();
    for tag in names.iter().filter_map(|name| keyfold_core::slot::tag_of(name)) {
        *tags.entry(tag).or_default() += 1;
    }
    let (tag, times) = tags.into_iter().max_by_key(|(_, times)| *times)?;
    (times > names.len() / 2).then(|| tag.escape_ascii().to_string())
}
