//! Walks the sets of one database whose names are those of partitions, and looks into some of what may be partitions of one set or
//! hash. Hashes were counted by the walk over them.

use keyfold_core::collection::CollectionKind;
use keyfold_core::memory::Model;
use keyfold_core::placement::name::ADMINISTRATION_PREFIX;
use keyfold_core::walk::KeyWalk;
use keyfold_report::progress::Progress;
use keyfold_server::Commands;
use keyfold_server::reply::read_if;
use keyfold_survey::diagnosis::{LookedAt, PartitionedName, Partitions};

use super::Walked;
use super::patient::Patient;

/// Names that the server looks at for one SCAN, and what that counts as.
const SCAN_COUNT: u64 = 500;
const SCAN_OPS: u64 = SCAN_COUNT / 10;
/// Sets asked about at once.
const SETS_AT_ONCE: usize = 100;
/// Partitions of one key that are looked into.
const LOOKED_INTO: usize = 64;
/// Members asked for of each; a listpack comes whole, whatever one asks for.
const MEMBERS: &[u8] = b"100";

/// Walks one database, which must be selected.
pub(super) fn walk(
    patient: &mut Patient,
    model: &Model,
    database: u32,
    keys: u64,
    partitions: &mut Partitions,
) -> anyhow::Result<Walked> {
    let what = format!("sets of database {database}");
    let mut progress = Progress::new(what, usize::try_from(keys).unwrap_or(usize::MAX));
    let mut walk = KeyWalk::new(SCAN_COUNT).of_type(b"set");
    while let Some(mut names) = patient.server.next_names(&mut walk)? {
        patient.spend(SCAN_OPS);
        names.retain(|name| Partitions::may_be(name) && !name.starts_with(ADMINISTRATION_PREFIX));
        // A step may bring a name twice.
        names.sort_unstable();
        names.dedup();
        for names in names.chunks(SETS_AT_ONCE) {
            count(patient, database, names, partitions)?;
        }
        progress.advance(usize::try_from(SCAN_COUNT)?);
        if !walk.is_over() && patient.is_stopped() {
            return Ok(Walked::Stopped);
        }
    }
    for wanted in partitions.wanted(database) {
        if patient.is_stopped() {
            return Ok(Walked::Stopped);
        }
        let numbers = wanted.partitions.min(LOOKED_INTO);
        let looked = wanted.beginnings.iter().map(|beginning| look(patient, &wanted.name, beginning, numbers));
        partitions.look(&wanted.name, &looked.collect::<anyhow::Result<Vec<_>>>()?, model);
    }
    Ok(Walked::Whole)
}

/// Counts sets; those that went meanwhile, or that the server's user may not look at, are left out.
fn count(patient: &mut Patient, database: u32, names: &[Vec<u8>], partitions: &mut Partitions) -> anyhow::Result<()> {
    let mut commands = Commands::default();
    for name in names {
        commands.push(&[b"SCARD", name]);
        commands.push(&[b"MEMORY", b"USAGE", name]);
    }
    let replies = patient.ask_all(&commands)?;
    for (name, replies) in names.iter().zip(replies.chunks_exact(2)) {
        let (members, bytes) = (read_if::<u64>(&replies[0]), read_if::<u64>(&replies[1]));
        if let Some((members, bytes)) = members.zip(bytes).filter(|(members, _)| *members > 0) {
            partitions.add(database, CollectionKind::Set, name, members, bytes);
        }
    }
    Ok(())
}

/// Looks into the partitions of one beginning, up to this number.
fn look(patient: &mut Patient, name: &PartitionedName, beginning: &[u8], numbers: usize) -> anyhow::Result<LookedAt> {
    let scan: &[u8] = if name.kind() == CollectionKind::Set { b"SSCAN" } else { b"HSCAN" };
    let mut commands = Commands::default();
    commands.push(&[b"EXISTS", beginning]);
    for number in 0..numbers {
        let partition = name.partition(beginning, number);
        commands.push(&[b"PTTL", &partition]);
        commands.push(&[scan, &partition, b"0", b"COUNT", MEMBERS]);
    }
    let replies = patient.ask_all(&commands)?;
    let mut looked = LookedAt { is_used: read_if(&replies[0]) == Some(1_u64), ..LookedAt::default() };
    for replies in replies[1..].chunks_exact(2) {
        looked.expires |= read_if::<i64>(&replies[0]).is_some_and(|left_ms| left_ms >= 0);
        let step = read_if::<(Vec<u8>, Vec<Vec<u8>>)>(&replies[1]);
        let items = step.map(|(_, items)| items).unwrap_or_default();
        looked.partitions.push(match name.kind() {
            CollectionKind::Set => items.into_iter().map(|member| (member, Vec::new())).collect(),
            CollectionKind::Hash => items.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        });
    }
    Ok(looked)
}
