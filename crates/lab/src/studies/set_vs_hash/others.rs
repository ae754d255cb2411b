//! Whether a hash over its limit affects others.

use keyfold_core::memory::{Keyspace, Model};

use super::curve::index;
use super::form::{Collection, Cost, ENTRIES, LIMITS};
use crate::bench::{Bench, Start};
use crate::ground::Setting;
use crate::outcome::{Outcome, Table};

/// Whether a hash over its limit affects two others: 900 and 700 fields under limit 1028, beside one that goes over.
pub(super) fn stay(bench: &mut Bench<'_>, members: &[Vec<u8>], outcome: &mut Outcome) -> anyhow::Result<()> {
    const LIMIT: u64 = LIMITS[1];
    const FIELDS: [(&[u8], u64); 3] = [(b"nine", 900), (b"seven", 700), (b"over", LIMIT)];
    if bench.set(ENTRIES, LIMIT)? == Setting::Forbidden {
        outcome.left_out.push(format!("whether a hash over limit {LIMIT} affects others: the server forbids CONFIG"));
        return Ok(());
    }
    if (members.len() as u64) <= LIMIT {
        return Ok(());
    }
    let model = bench.model()?;
    let start = bench.start()?;
    for (name, fields) in FIELDS {
        fill(bench, name, &members[..index(fields)])?;
    }
    let before = encodings(bench, &FIELDS)?;
    hold_hashes(bench, &start, &model, members, [900, 700, LIMIT], outcome)?;
    fill(bench, FIELDS[2].0, &members[..=index(LIMIT)])?;
    let after = encodings(bench, &FIELDS)?;
    hold_hashes(bench, &start, &model, members, [900, 700, LIMIT + 1], outcome)?;
    outcome.tables.push(Table::of(
        "others",
        format!("Three hashes under limit {LIMIT}, before and after the last one got one field more"),
        FIELDS.iter().zip(&before).zip(&after),
        &[
            ("fields", &|(((_, fields), _), _)| (*fields).into()),
            ("encoding_before", &|((_, before), _)| before.as_str().into()),
            ("encoding_after", &|(_, after)| after.as_str().into()),
        ],
    ));
    let stayed = before[..2] == after[..2];
    outcome.notes.push(format!(
        "One hash over its limit {} the two others under it: each hash is converted by itself.",
        if stayed { "does not affect" } else { "affects" }
    ));
    Ok(())
}

fn fill(bench: &mut Bench<'_>, name: &[u8], members: &[Vec<u8>]) -> anyhow::Result<()> {
    let mut writer = bench.writer("", 0)?;
    for member in members {
        writer.hset(name, member, b"1")?;
    }
    for _ in 0..members.len() + 8 {
        writer.read(b"HGET", name, &[b"nobody"])?;
    }
    writer.flush()
}

fn encodings(bench: &Bench<'_>, hashes: &[(&[u8], u64)]) -> anyhow::Result<Vec<String>> {
    let mut server = bench.connect()?;
    let encoding = |(name, _): &(&[u8], u64)| server.ask(&[b"OBJECT", b"ENCODING", &bench.key(name)]);
    hashes.iter().map(encoding).collect()
}

/// Holds the model against hashes of so many fields.
fn hold_hashes(
    bench: &mut Bench<'_>,
    start: &Start,
    model: &Model,
    members: &[Vec<u8>],
    fields: [u64; 3],
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut keyspace = Keyspace::new(model);
    for (name_len, fields) in [4, 5, 4].into_iter().zip(fields) {
        let mut cost = Cost::new(Collection::Hash(0));
        members[..index(fields)].iter().for_each(|member| cost.add(model, member));
        keyspace.add(cost.bytes(model, bench.prefix_len() + name_len), false);
    }
    let weight = bench.since(start)?;
    outcome.hold(weight.bytes, weight.predicted(&keyspace));
    Ok(())
}
