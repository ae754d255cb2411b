//! `keyfold where`: a key's place, and what is stored there.

mod asker;

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use keyfold_core::codec::LARGE_SLOT;
use keyfold_core::collection::parts::{Class, Directory, Header, Remainder};
use keyfold_core::collection::{Collection, CollectionKind, Field};
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Layout, Located, Moving, Namespace, Place, spill_name};
use keyfold_core::placement::handmade::Packing;
use keyfold_core::placement::name::PartName;
use keyfold_core::record::part_name;
use keyfold_report::number::{count, plural};
use keyfold_report::paper::Paper;
use keyfold_server::Nodes;
use serde_json::{Map, Value, json};

use self::asker::Asker;
use crate::config::where_key::{By, Where};
use crate::layout::evidence::layout_in_force;

/// A spilled set or hash up to this length is read to be shown.
const SHOWN_SPILL_BYTES: u64 = 1 << 20;

/// Members of a set, or fields of a hash, that are shown.
const SHOWN: usize = 10;
/// Bytes that are shown of each.
const SHOWN_BYTES: usize = 80;

/// What is known of a key: names and values, in the order in which they are shown.
#[derive(Default)]
struct Report {
    rows: Vec<(&'static str, String, Value)>,
    /// The key goes with the last of its fields.
    passes: bool,
}

impl Report {
    fn add(&mut self, name: &'static str, shown: impl Into<String>, value: impl Into<Value>) {
        self.rows.push((name, shown.into(), value.into()));
    }

    fn text(&mut self, name: &'static str, text: impl Into<String>) {
        let text = text.into();
        self.add(name, text.clone(), text);
    }

    fn bytes(&mut self, name: &'static str, bytes: &[u8]) {
        let escaped = bytes.escape_ascii().to_string();
        self.add(name, format!("\"{escaped}\""), escaped);
    }

    fn print(self, json: bool, out: &mut Paper) -> anyhow::Result<()> {
        if json {
            let object: Map<_, _> = self.rows.into_iter().map(|(name, _, value)| (name.to_owned(), value)).collect();
            return Ok(out.whole(format_args!("{:#}", Value::Object(object)))?);
        }
        let width = self.rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        for (name, shown, _) in &self.rows {
            writeln!(out, "{name:width$}  {shown}")?;
        }
        Ok(())
    }
}

pub(crate) fn run(config: &Where, out: &mut Paper) -> anyhow::Result<()> {
    let key = config.key.as_bytes();
    let mut report = Report::default();
    report.bytes("key", key);
    let target = match &config.by {
        By::Server(target) => target,
        By::File(layout) => {
            explain_place(layout, key, layout.locate(key), &mut report)?;
            return report.print(config.json, out);
        }
    };
    let mut nodes = Nodes::connect(target)?;
    let layout = layout_in_force(&mut nodes)?.unwrap_or_default();
    let mut server = Asker::new(nodes, key, target.address.database, &mut report)?;
    let place = match layout.locate(key) {
        Located::Moving(moving) => look_for(&mut server, &layout, key, *moving, &mut report)?,
        settled => explain_place(&layout, key, settled, &mut report)?,
    };
    match &place {
        Some(place) if place.kind.is_bucket() => look_in_bucket(&mut server, &layout, key, place, &mut report)?,
        Some(place) if let Some(packing) = place.kind.packing() => {
            look_in_hash(&mut server, place, packing, &mut report)?;
        }
        Some(place) => {
            look_at_key(&mut server, &place.physical, &mut report)?;
            let stored: Option<Vec<u8>> =
                if place.kind.is_framed() { server.ask(&[b"GET", &place.physical])? } else { None };
            if let Some(stored) = stored {
                explain_frame(&mut server, &layout, key, place, &stored, &mut report)?;
            }
        }
        None => look_at_key(&mut server, key, &mut report)?,
    }
    server.name_node(place.as_ref().map_or(key, |place| &place.physical), &mut report)?;
    report.print(config.json, out)
}

/// The place by the layout alone; none where the key stays as it is.
fn explain_place(layout: &Layout, key: &[u8], located: Located, report: &mut Report) -> anyhow::Result<Option<Place>> {
    match located {
        Located::Moving(moving) => Ok(moving.new),
        Located::Reserved if layout.packing_in(key).is_some() => {
            bail!("\"{}\" is a hash that keys are being moved out of; ask for a key that it holds", key.escape_ascii())
        }
        Located::Reserved => {
            bail!("\"{}\" is one of keyfold's own names; clients can't use it", key.escape_ascii())
        }
        Located::Plain => {
            report.text("namespace", "none: the key is plain, and stays as it is");
            Ok(None)
        }
        Located::Placed(place) => {
            let namespace = layout.namespace(place.namespace);
            report.text("namespace", namespace.keys.source());
            report.text("placement", namespace.line());
            report.bytes("physical", &place.physical);
            if place.kind.is_bucket() {
                report.bytes("field", &place.field);
            }
            Ok(Some(place))
        }
    }
}

/// Which of the two places of a key that is being moved it lies in; the new one where it is in neither.
fn look_for(
    server: &mut Asker,
    layout: &Layout,
    key: &[u8],
    moving: Moving,
    report: &mut Report,
) -> anyhow::Result<Option<Place>> {
    let Namespace { keys, placement, former, .. } = layout.namespace(moving.namespace);
    report.text("namespace", keys.source());
    if let Some(former) = former {
        report.text("moving from", former.placement.line(keys.first()));
    }
    report.text("moving to", placement.line(keys.first()));
    let is_there = |server: &mut Asker, place: Option<&Place>| match place {
        Some(place) if place.kind.is_field() => server.ask::<bool>(&[b"HEXISTS", &place.physical, &place.field]),
        Some(place) => server.ask(&[b"EXISTS", &place.physical]),
        None => server.ask(&[b"EXISTS", key]),
    };
    let in_old = !is_there(server, moving.new.as_ref())? && is_there(server, moving.old.as_ref())?;
    report.text("lies in", if in_old { "the old place" } else { "the new place" });
    let place = if in_old { moving.old } else { moving.new };
    if let Some(place) = &place {
        report.bytes("physical", &place.physical);
        if place.kind.is_field() {
            report.bytes("field", &place.field);
        }
    }
    Ok(place)
}

/// A hash that the application made itself.
fn look_in_hash(server: &mut Asker, place: &Place, packing: Packing, report: &mut Report) -> anyhow::Result<()> {
    let (physical, field) = (place.physical.as_slice(), place.field.as_slice());
    let stored: Option<Vec<u8>> = server.ask(&[b"HGET", physical, field])?;
    if let Some(stored) = &stored {
        report.add("stored bytes", count(stored.len() as u64), stored.len());
        report.bytes("stored", stored);
        report.text("packed", packing.name());
        report.bytes("value", &packing.unpack(stored)?);
    }
    let entries: u64 = server.ask(&[b"HLEN", physical])?;
    report.add("hash's entries", count(entries), entries);
    report_encoding("hash's encoding", "hash's bytes", server, physical, report)
}

fn look_in_bucket(
    server: &mut Asker,
    layout: &Layout,
    key: &[u8],
    place: &Place,
    report: &mut Report,
) -> anyhow::Result<()> {
    let physical = place.physical.as_slice();
    let stored: Option<Vec<u8>> = server.ask(&[b"HGET", physical, &place.field])?;
    match &stored {
        None => report.add("stored", "nothing: the key doesn't exist", Value::Null),
        Some(stored) => {
            report.add("stored bytes", count(stored.len() as u64), stored.len());
            report.bytes("stored", stored);
            explain_frame(server, layout, key, place, stored, report)?;
        }
    }
    let entries: u64 = server.ask(&[b"HLEN", physical])?;
    if entries > 0 {
        report.add("bucket's entries", count(entries), entries);
        report_encoding("bucket's encoding", "bucket's bytes", server, physical, report)?;
    }
    Ok(())
}

fn explain_frame(
    server: &mut Asker,
    layout: &Layout,
    key: &[u8],
    place: &Place,
    stored: &[u8],
    report: &mut Report,
) -> anyhow::Result<()> {
    let frame = Frame::decode(stored)?;
    match frame.body {
        Body::Raw(value) if keyfold_core::frame::is_raw(stored) => {
            report.text("frame", "none: the value as it is");
            explain_collection(place, value, report);
        }
        Body::Raw(value) => {
            report.text("frame", "bytes: the value as it is, behind a tag of one byte");
            match place.kind.is_string() {
                true => report.bytes("value", value),
                false => explain_collection(place, value, report),
            }
        }
        Body::Integer(number) => {
            report.text("frame", "integer: the number in binary, behind a tag of one byte");
            report.text("value", number.to_string());
        }
        Body::Spill { nonce, slot } => {
            let name = spill_name(place.origin, nonce, key);
            let bytes: u64 = server.ask(&[b"STRLEN", &name])?;
            report.text("frame", "spilled: the value is over the limit and has a key of its own");
            if let Some(slot) = slot {
                report.add("codec's number", slot.to_string(), slot);
            }
            report.bytes("spilled to", &name);
            report.add("spilled bytes", count(bytes), bytes);
            if place.kind.collection().is_some() && bytes <= SHOWN_SPILL_BYTES {
                let spilled: Vec<u8> = server.ask::<Option<Vec<u8>>>(&[b"GET", &name])?.unwrap_or_default();
                let namespace = layout.namespace(place.namespace);
                if let Ok(Some(value)) = namespace.decode(key, &frame, Some(&spilled)) {
                    explain_collection(place, &value, report);
                }
            }
        }
        Body::Parts { nonce, header } => explain_parts(server, place, nonce, header, report)?,
        Body::Coded { slot, payload } => {
            explain_codec(layout.namespace(place.namespace), place, key, &frame, slot, payload, report);
        }
    }
    if let Some(at) = frame.expires_at_ms {
        let with_fields =
            if report.passes { ", with the last of its fields: the key itself has no expiry" } else { "" };
        report.add("expires", when(at) + with_fields, at);
    }
    Ok(())
}

/// How far away a time is, in milliseconds since 1970.
fn when(at_ms: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let left = at_ms.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX));
    let ms = count(left.unsigned_abs());
    if left >= 0 { format!("in {ms} ms") } else { format!("{ms} ms ago") }
}

/// A collection in parts: how much there is of it.
fn explain_parts(
    server: &mut Asker,
    place: &Place,
    nonce: u64,
    header: &[u8],
    report: &mut Report,
) -> anyhow::Result<()> {
    report.text("frame", "in parts: the members lie in small sets or hashes of their own");
    let Some(header) = Header::decode(header) else {
        report.text("header", "damaged");
        return Ok(());
    };
    report.text("type", header.form.kind().name());
    let mut members = header.len();
    if header.remainder != Remainder::None {
        let counting: &[u8] = if header.form.kind() == CollectionKind::Set { b"SCARD" } else { b"HLEN" };
        let name = part_name(place.origin, nonce, PartName::Remainder);
        let rest: u64 = server.ask(&[counting, &name])?;
        members += rest;
        let course = if header.remainder == Remainder::Drains { "still" } else { "again" };
        report.add(
            "not in parts",
            format!(
                "{} {course}, while it is moved in steps: `keyfold fold` and `keyfold unfold` go on with it",
                count(rest)
            ),
            rest,
        );
    }
    report.add(members_of(header.form.kind()), count(members), members);
    for (class, size) in Class::ALL.into_iter().zip(header.classes).filter(|(_, size)| size.count > 0) {
        let what = match class {
            Class::Integers => "of integers",
            Class::Texts => "of texts",
            Class::Outliers => "of longer ones",
        };
        let most = 1_u64 << size.depth.min(32);
        let parts = format!("{} members in at most {} parts", count(size.count), count(most));
        report.text(what, parts);
    }
    report.bytes("parts begin with", &part_name(place.origin, nonce, PartName::Owner));
    // Of one part of the class that has the most.
    let Some((class, _)) = Class::ALL.into_iter().zip(header.classes).max_by_key(|(_, size)| size.count) else {
        return Ok(());
    };
    let stored: Option<Vec<u8>> = server.ask(&[b"GET", &part_name(place.origin, nonce, PartName::Directory(class))])?;
    let Some(directory) = stored.and_then(|stored| Directory::read(&stored)) else {
        report.text("directory", "damaged");
        return Ok(());
    };
    let command: &[u8] = if header.form.is_in_sets(class) { b"SMEMBERS" } else { b"HGETALL" };
    for part in directory.parts().take(SHOWN) {
        let texts: Vec<Vec<u8>> =
            server.ask(&[command, &part_name(place.origin, nonce, PartName::Part(class, part))])?;
        if !texts.is_empty() {
            let members = match (header.form.kind(), header.form.is_in_sets(class)) {
                // Members of a set that lie in hashes have empty values.
                (CollectionKind::Set, false) => texts.into_iter().step_by(2).collect(),
                _ => texts,
            };
            show_first(&Collection::of_texts(header.form.kind(), members), true, report);
            break;
        }
    }
    Ok(())
}

/// A value that a codec wrote: by which, and what it is, or why it can't be decoded.
fn explain_codec(
    namespace: &Namespace,
    place: &Place,
    key: &[u8],
    frame: &Frame<'_>,
    slot: u8,
    payload: &[u8],
    report: &mut Report,
) {
    let rule = namespace.codecs.iter().find(|known| known.number == slot).map(|known| known.rule.to_string());
    let rule = rule.unwrap_or_else(|| if slot == LARGE_SLOT { "zstd, for large values" } else { "unknown" }.to_owned());
    report.text("frame", format!("coded, by the codec of number {slot}: {rule}"));
    report.add("coded bytes", count(payload.len() as u64), payload.len());
    match namespace.decode(key, frame, None) {
        Ok(value) if place.kind.is_string() => report.bytes("value", &value.unwrap_or_default()),
        Ok(value) => explain_collection(place, &value.unwrap_or_default(), report),
        Err(error) => report.text("value", error.to_string()),
    }
}

/// A whole set or hash that is one value: how many members it has, and the first of them.
fn explain_collection(place: &Place, value: &[u8], report: &mut Report) {
    let Some(kind) = place.kind.collection() else { return };
    report.text("type", kind.name());
    let collection = match Collection::read_stored(value, Some(0)) {
        Ok((collection, expires_at_ms)) => {
            report.passes = expires_at_ms.is_none();
            collection
        }
        Err(error) => return report.text("members", error.to_string()),
    };
    report.add("packed bytes", count(value.len() as u64), value.len());
    report.add(members_of(kind), count(collection.len() as u64), collection.len());
    show_first(&collection, false, report);
}

fn members_of(kind: CollectionKind) -> &'static str {
    match kind {
        CollectionKind::Set => "members",
        CollectionKind::Hash => "fields",
    }
}

/// A text, or how it begins where it is long.
fn beginning(text: &[u8]) -> String {
    match text.split_at_checked(SHOWN_BYTES) {
        Some((first, rest)) if !rest.is_empty() => {
            format!("{}… ({})", first.escape_ascii(), plural(text.len() as u64, "byte"))
        }
        _ => text.escape_ascii().to_string(),
    }
}

/// The first of these, and whether there are more of them or elsewhere.
fn show_first(collection: &Collection, are_more: bool, report: &mut Report) {
    let first: Vec<String> = match collection {
        Collection::Set(set) => set.iter().take(SHOWN).map(beginning).collect(),
        Collection::Hash(hash) => {
            let field = |(name, field): (&[u8], &Field)| {
                let expires = field.expires_at_ms.map(|at| format!(" (expires {})", when(at)));
                format!("{} = {}{}", beginning(name), beginning(&field.value), expires.unwrap_or_default())
            };
            hash.iter().take(SHOWN).map(field).collect()
        }
    };
    let more = if are_more || collection.len() > first.len() { ", …" } else { "" };
    report.text("the first", first.join(", ") + more);
}

/// A key of its own, plain or zipped.
fn look_at_key(server: &mut Asker, key: &[u8], report: &mut Report) -> anyhow::Result<()> {
    let kind: String = server.ask(&[b"TYPE", key])?;
    if kind == "none" {
        report.add("stored", "nothing: the key doesn't exist", Value::Null);
        return Ok(());
    }
    report.text("type", kind);
    let ttl: i64 = server.ask(&[b"PTTL", key])?;
    if ttl >= 0 {
        report.add("expires", format!("in {ttl} ms"), json!({ "in_ms": ttl }));
    }
    report_encoding("encoding", "bytes", server, key, report)
}

fn report_encoding(
    encoding_name: &'static str,
    bytes_name: &'static str,
    server: &mut Asker,
    key: &[u8],
    report: &mut Report,
) -> anyhow::Result<()> {
    let encoding: String = server.ask(&[b"OBJECT", b"ENCODING", key])?;
    // A set that is none is no bucket, and there may be no limit that it is over.
    let is_unpacked = encoding == "hashtable" && server.ask::<String>(&[b"TYPE", key])? == "hash";
    let warning = if is_unpacked { " (it saves nothing: over the server's listpack limits)" } else { "" };
    report.add(encoding_name, format!("{encoding}{warning}"), encoding);
    // Some managed servers block MEMORY; the rest is worth having without it.
    if let Ok(Some(bytes)) = server.ask::<Option<u64>>(&[b"MEMORY", b"USAGE", key]) {
        report.add(bytes_name, plural(bytes, "byte"), bytes);
    }
    Ok(())
}
