//! Records written over a connection, and read back.

use std::time::Instant;

use anyhow::{Context, bail};
use keyfold_report::progress::Progress;
use keyfold_server::{Commands, Server};

use crate::data_sets::records::Record;

/// Commands sent at a time.
pub(crate) const PIPELINE: usize = 500;

/// Writes all records, and shows how far it is.
///
/// # Errors
/// The server refused one.
pub fn write(client: &mut Server, name: &str, records: &[Record], what: &str) -> anyhow::Result<()> {
    let mut progress = Progress::new(format!("{name}: writing {what}"), records.len());
    for chunk in records.chunks(PIPELINE) {
        let mut commands = Commands::default();
        for Record { key, value, expires_in_ms } in chunk {
            match expires_in_ms {
                Some(ms) => commands.push(&[b"SET", key, value, b"PX", ms.to_string().as_bytes()]),
                None => commands.push(&[b"SET", key, value]),
            }
        }
        client.query_all::<()>(&commands).with_context(|| format!("can't write {what} records of {name}"))?;
        progress.advance(chunk.len());
    }
    Ok(())
}

/// Reads every value and every expiry, and compares.
///
/// It has a second use: each look into a table that grows moves it on by a step, so that after as many looks
/// as there are records no table is kept twice, and `used_memory` is what it stays.
///
/// # Errors
/// One came back otherwise.
pub fn read_back(client: &mut Server, name: &str, records: &[Record], written: Instant) -> anyhow::Result<()> {
    let mut progress = Progress::new(format!("{name}: reading back"), records.len());
    for chunk in records.chunks(PIPELINE) {
        let mut commands = Commands::default();
        chunk.iter().for_each(|record| commands.push(&[b"GET", &record.key]));
        let values: Vec<Option<Vec<u8>>> = client.query_all(&commands).context("can't read values back")?;
        let differs = |(record, value): &(&Record, &Option<Vec<u8>>)| value.as_ref() != Some(&record.value);
        if let Some((record, value)) = chunk.iter().zip(&values).find(differs) {
            bail!("\"{}\" came back as {value:?}", record.key.escape_ascii());
        }
        check_expiries(client, chunk, written)?;
        progress.advance(chunk.len());
    }
    Ok(())
}

fn check_expiries(client: &mut Server, chunk: &[Record], written: Instant) -> anyhow::Result<()> {
    if chunk.iter().all(|record| record.expires_in_ms.is_none()) {
        return Ok(());
    }
    let mut commands = Commands::default();
    chunk.iter().for_each(|record| commands.push(&[b"PTTL", &record.key]));
    let left: Vec<i64> = client.query_all(&commands).context("can't read expiries back")?;
    let passed = u64::try_from(written.elapsed().as_millis())?;
    for (record, left) in chunk.iter().zip(left) {
        let right = match record.expires_in_ms {
            None => left == -1,
            // A second for the clocks of the server and of this process.
            Some(ms) => u64::try_from(left).is_ok_and(|left| left <= ms + 1000 && left + passed + 1000 >= ms),
        };
        if !right {
            bail!("the expiry of \"{}\" came back as {left} ms", record.key.escape_ascii());
        }
    }
    Ok(())
}
