//! The keys of four namespaces, their values, and the layouts that fold them.

use std::ops::Range;

use anyhow::ensure;
use keyfold_testkit::Wire;
use keyfold_testkit::random::Random;

/// Namespaces; the id of a record, modulo this, says which one it is in.
const NAMESPACES: u64 = 4;
/// Keys in a bucket of uuids, about.
const FILL: u64 = 100;
/// Commands that go at once.
const BATCH: u64 = 500;
/// Ten days: no counter expires before a run is over.
const TTL_MS: &[u8] = b"864000000";

const TOPICS: [&str; 8] = ["storage", "networks", "compilers", "graphics", "databases", "security", "music", "maps"];
const CITIES: [&str; 8] = ["Berlin", "Lisbon", "Nairobi", "Osaka", "Quito", "Oslo", "Perth", "Toronto"];

/// The layout that a run folds by first, and, with `otherwise`, another one with other buckets.
pub(crate) fn layout(keys: u64, otherwise: bool) -> String {
    let uuids = (keys / NAMESPACES / FILL).max(1);
    let [users, uuids, documents, rates] = if otherwise { [64, 2 * uuids, 32, 50] } else { [128, uuids, 64, 100] };
    format!(
        "[[namespace]]\nkeys = 'user:{{id:int}}'\nbucket = {{ span = {users} }}\n\
         [[namespace]]\nkeys = 'sess:{{id:uuid}}'\nbucket = {{ count = {uuids} }}\n\
         [[namespace]]\nkeys = 'doc:{{id:int}}'\nbucket = {{ span = {documents} }}\nvalue_limit = 256\ncodec = 'zstd'\n\
         [[namespace]]\nkeys = 'rate:{{id:int}}'\nbucket = {{ span = {rates} }}\n"
    )
}

/// A record's key, and the arguments of the SET that writes it.
pub(crate) fn set(id: u64) -> Vec<Vec<u8>> {
    let (number, mixed) = (id / NAMESPACES, Random::spread(id));
    let [key, value] = match id % NAMESPACES {
        0 => [format!("user:{number}"), (mixed % 2_147_483_647).to_string()],
        1 => [uuid(mixed), format!("{:024x}", u128::from(mixed) << 32 | u128::from(Random::spread(mixed) >> 32))],
        2 => [format!("doc:{number}"), document(number, mixed)],
        _ => [format!("rate:{number}"), (mixed % 1000).to_string()],
    };
    let mut set = vec![b"SET".to_vec(), key.into_bytes(), value.into_bytes()];
    if id % NAMESPACES == 3 {
        set.extend([b"PX".to_vec(), TTL_MS.to_vec()]);
    }
    set
}

fn uuid(mixed: u64) -> String {
    let (high, low) = (mixed, Random::spread(mixed ^ 1));
    let [a, b, c] = [high >> 32, (high >> 16) & 0xffff, high & 0xfff];
    format!("sess:{a:08x}-{b:04x}-4{c:03x}-{:04x}-{:012x}", 0x8000 | low >> 50, low & 0xffff_ffff_ffff)
}

fn document(number: u64, mixed: u64) -> String {
    let pick = |from: &[&'static str; 8], shift: u32| from[usize::try_from(mixed >> shift & 7).unwrap_or(0)];
    let (topic, other, city) = (pick(&TOPICS, 0), pick(&TOPICS, 3), pick(&CITIES, 6));
    format!(
        "{{\"id\":{number},\"title\":\"Notes on {topic} and {other}\",\"author\":{{\"id\":{},\"city\":\"{city}\"}},\
         \"tags\":[\"{topic}\",\"{other}\"],\"views\":{},\"published\":\"20{:02}-{:02}-{:02}\",\"draft\":false}}",
        mixed >> 20 & 0xffff,
        mixed >> 36 & 0xffff,
        mixed >> 9 & 15,
        1 + (mixed >> 13) % 12,
        1 + (mixed >> 17) % 28,
    )
}

/// Writes these records.
pub(crate) fn fill(wire: &mut Wire, ids: Range<u64>) -> anyhow::Result<()> {
    write(wire, ids, set)
}

/// Writes what `command` says for each of these ids.
pub(crate) fn write(wire: &mut Wire, ids: Range<u64>, command: impl Fn(u64) -> Vec<Vec<u8>>) -> anyhow::Result<()> {
    let mut start = ids.start;
    while start < ids.end {
        let batch = start..ids.end.min(start + BATCH);
        start = batch.end;
        let mut requests = Vec::new();
        for id in batch.clone() {
            let args = command(id);
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            keyfold_core::resp::write_command(&mut requests, &args);
        }
        wire.send_bytes(&requests)?;
        for _ in batch {
            let reply = wire.reply()?;
            ensure!(!reply.starts_with(b"-"), "a write is refused: {}", reply.escape_ascii());
        }
    }
    Ok(())
}
