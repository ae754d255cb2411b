//! Walks keyfold's own names in one database: spilled values, and names that no layout knows.

use keyfold_core::frame::Frame;
use keyfold_core::layout::{Layout, Physical, Place, PlaceKind};
use keyfold_core::placement::name::Head;
use keyfold_survey::diagnosis::{Example, Leftovers};
use redis::Value;

use super::Walked;
use super::patient::{Patient, bytes, integer};
use crate::print::progress::Progress;

/// Names that the server looks at for one SCAN, and what that counts as.
const SCAN_COUNT: u64 = 1000;
const SCAN_OPS: u64 = SCAN_COUNT / 10;

/// A name to ask about.
enum Suspect {
    /// A spilled value, and the place that should point to it.
    Spill { name: Vec<u8>, nonce: u64, bucket: Vec<u8>, field: Vec<u8> },
    /// No name of this layout.
    Unknown { name: Vec<u8> },
}

/// Walks one database, which must be selected.
pub(super) fn walk(
    patient: &mut Patient,
    layout: Option<&Layout>,
    database: u32,
    keys: u64,
    leftovers: &mut Leftovers,
) -> anyhow::Result<Walked> {
    let what = format!("names in database {database}");
    let mut progress = Progress::new(what, usize::try_from(keys).unwrap_or(usize::MAX));
    let mut cursor = 0;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg("~*").arg("COUNT").arg(SCAN_COUNT);
        let (next, names): (u64, Vec<Vec<u8>>) = patient.server.ask(&scan)?;
        patient.spend(SCAN_OPS);
        let suspects: Vec<_> = names.into_iter().filter_map(|name| suspect(layout, name)).collect();
        ask(patient, database, &suspects, leftovers)?;
        progress.advance(usize::try_from(SCAN_COUNT)?);
        cursor = next;
        if cursor == 0 {
            return Ok(Walked::Whole);
        }
        if patient.is_stopped() {
            return Ok(Walked::Stopped);
        }
    }
}

fn suspect(layout: Option<&Layout>, name: Vec<u8>) -> Option<Suspect> {
    let Some(layout) = layout else {
        // Anybody may begin names with ~; only those that keyfold writes are its.
        return Head::decode(&name).is_some().then_some(Suspect::Unknown { name });
    };
    let (nonce, place) = match layout.read_physical(&name) {
        Physical::Unknown => return Some(Suspect::Unknown { name }),
        Physical::Spill { nonce, key, .. } => {
            let beside = |place: &Place| Some(place.stem) == Layout::stem_in(&name) && place.kind == PlaceKind::Bucket;
            match layout.places(key).find(beside) {
                Some(place) => (nonce, place),
                None => return Some(Suspect::Unknown { name }),
            }
        }
        _ => return None,
    };
    Some(Suspect::Spill { nonce, bucket: place.physical.to_vec(), field: place.field.to_vec(), name })
}

/// The place is asked before the value's expiry: a value that was replaced in between has one by then.
fn ask(patient: &mut Patient, database: u32, suspects: &[Suspect], leftovers: &mut Leftovers) -> anyhow::Result<()> {
    let mut commands = redis::pipe();
    for suspect in suspects {
        let name = match suspect {
            Suspect::Spill { name, bucket, field, .. } => {
                commands.cmd("HGET").arg(bucket).arg(field);
                name
            }
            Suspect::Unknown { name } => {
                commands.cmd("TYPE").arg(name);
                name
            }
        };
        commands.cmd("PTTL").arg(name);
        commands.cmd("MEMORY").arg("USAGE").arg(name);
    }
    let mut replies = patient.ask_all(&commands)?.into_iter();
    for suspect in suspects {
        let (Some(first), Some(ttl_ms), Some(memory)) = (replies.next(), replies.next(), replies.next()) else { break };
        let taken = integer(&memory).and_then(|taken| u64::try_from(taken).ok()).unwrap_or(0);
        match suspect {
            Suspect::Spill { name, nonce, .. } => {
                let goes_by_itself = integer(&ttl_ms) != Some(-1);
                if !goes_by_itself && !points_to(first, *nonce) {
                    leftovers.orphans.add(Example::new(database, name, taken));
                }
            }
            Suspect::Unknown { name } => {
                if integer(&ttl_ms) != Some(-2) {
                    leftovers.unknown_names.add(Example::new(database, name, taken));
                }
            }
        }
    }
    Ok(())
}

fn points_to(stored: Value, nonce: u64) -> bool {
    bytes(stored).is_some_and(|stored| Frame::decode(&stored).is_ok_and(|frame| frame.body.points_to(nonce)))
}
