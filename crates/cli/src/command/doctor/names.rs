//! Walks keyfold's own names in one database: spilled values, and names that no layout knows.

use keyfold_core::exchange::goes_at_once;
use keyfold_core::frame::Frame;
use keyfold_core::layout::{Layout, Physical};
use keyfold_core::placement::name::Head;
use keyfold_core::walk::KeyWalk;
use keyfold_report::progress::Progress;
use keyfold_server::Commands;
use keyfold_server::reply::read_if;
use keyfold_survey::diagnosis::{Example, Leftovers};

use super::Walked;
use super::patient::Patient;

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
    let mut walk = KeyWalk::new(SCAN_COUNT).matching(b"~*");
    while let Some(names) = patient.server.next_names(&mut walk)? {
        patient.spend(SCAN_OPS);
        let suspects: Vec<_> = names.into_iter().filter_map(|name| suspect(layout, name)).collect();
        ask(patient, database, &suspects, leftovers)?;
        progress.advance(usize::try_from(SCAN_COUNT)?);
        if !walk.is_over() && patient.is_stopped() {
            return Ok(Walked::Stopped);
        }
    }
    Ok(Walked::Whole)
}

fn suspect(layout: Option<&Layout>, name: Vec<u8>) -> Option<Suspect> {
    let Some(layout) = layout else {
        // Anybody may begin names with ~; only those that keyfold writes are its.
        return Head::decode(&name).is_some().then_some(Suspect::Unknown { name });
    };
    let (nonce, place) = match layout.read_physical(&name) {
        Physical::Unknown => return Some(Suspect::Unknown { name }),
        Physical::Spill { nonce, key, .. } => {
            let Some(place) = layout.place_beside(&name, key) else { return Some(Suspect::Unknown { name }) };
            (nonce, place)
        }
        _ => return None,
    };
    Some(Suspect::Spill { nonce, bucket: place.physical.to_vec(), field: place.field.to_vec(), name })
}

/// The place is asked before the value's expiry: a value that was replaced in between has one by then.
fn ask(patient: &mut Patient, database: u32, suspects: &[Suspect], leftovers: &mut Leftovers) -> anyhow::Result<()> {
    let mut commands = Commands::default();
    for suspect in suspects {
        let name = match suspect {
            Suspect::Spill { name, bucket, field, .. } => {
                commands.push(&[b"HGET", bucket, field]);
                name
            }
            Suspect::Unknown { name } => {
                commands.push(&[b"TYPE", name]);
                name
            }
        };
        commands.push(&[b"PTTL", name]);
        commands.push(&[b"MEMORY", b"USAGE", name]);
    }
    let replies = patient.ask_all(&commands)?;
    for (suspect, replies) in suspects.iter().zip(replies.chunks_exact(3)) {
        let (ttl_ms, taken) = (read_if::<i64>(&replies[1]), read_if(&replies[2]).unwrap_or(0));
        match suspect {
            Suspect::Spill { name, nonce, .. } => {
                let goes_by_itself = ttl_ms != Some(-1);
                // The place may have gone to another node, with its slot on its way.
                let is_elsewhere = replies[0].starts_with(b"-");
                if !goes_by_itself && !is_elsewhere && !points_to(&replies[0], *nonce) {
                    leftovers.orphans.add(Example::new(database, name, taken));
                }
            }
            Suspect::Unknown { name } => {
                if !ttl_ms.is_some_and(goes_at_once) {
                    leftovers.unknown_names.add(Example::new(database, name, taken));
                }
            }
        }
    }
    Ok(())
}

fn points_to(reply: &[u8], nonce: u64) -> bool {
    let stored = read_if::<Vec<u8>>(reply);
    stored.is_some_and(|stored| Frame::decode(&stored).is_ok_and(|frame| frame.body.points_to(nonce)))
}
