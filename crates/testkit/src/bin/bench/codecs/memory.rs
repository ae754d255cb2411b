//! Whole `used_memory` a record: plain strings, plain strings with zlib values as client libraries store them, folded,
//! folded with the best codec and a table for the text in fields.
//!
//! Codecs are trained and chosen by every fifth record; only the others are loaded. The dictionary and the layout are
//! loaded too and count. The bucket's size is what the memory model says is best, for each layout by itself.

use keyfold_core::codec::Stored;
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::Layout;
use keyfold_core::memory::{Model, Placed};
use keyfold_core::placement::text_table::{Training, train as train_table};
use keyfold_core::template::Parts;
use keyfold_lab::data_sets::records::deflated;
use keyfold_lab::{Cell, Table};
use keyfold_testkit::Binary;
use keyfold_testkit::coded::{Pair, commands, over, train};
use keyfold_testkit::memory::{Case, Data, Record, model_of, weigh_case};

use super::sets::{SETS, Set};
use crate::options::Options;
use crate::report::Report;

/// Every so many-th record is learnt from, and not loaded.
const LEARN_EACH: usize = 5;
/// Of those, every so many-th chooses between what the others taught.
const JUDGE_EACH: usize = 8;

/// Texts that a table learns from, at the most.
const TEXTS: usize = 10_000;

const COLUMNS: [&str; 11] = [
    "data",
    "records",
    "plain",
    "zlib",
    "raw",
    "coded",
    "zlib ratio",
    "raw ratio",
    "coded ratio",
    "floor",
    "codec, dictionary, bucket",
];

/// Measures every set at hand. Returns the floors that were missed.
pub(super) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    let title = "memory of values that no dictionary has seen, bytes a record, dictionaries included";
    let mut table = Table::titled(title, &COLUMNS);
    let made_up = options.records.min(50_000);
    let mut missed = Vec::new();
    for set in SETS.iter().filter(|set| options.wants_set(set.name)) {
        let Some(records) = set.records(options.data.as_deref(), made_up)? else { continue };
        let measured = Measured::of(binary, set, &records)?;
        let coded_ratio = measured.plain / measured.coded;
        // The floors were measured on Redis 7.0; other servers' plain keys are smaller, and so are all ratios.
        let counts = binary.name().starts_with("redis 7.0");
        let is_met = coded_ratio >= set.floor;
        if counts && !is_met {
            missed.push(format!("{} takes {coded_ratio:.2} times less than plain, not {}", set.name, set.floor));
        }
        let verdict = if is_met { "met" } else { "missed" };
        table.row(vec![
            set.name.into(),
            Cell::Whole(measured.records as u64),
            Cell::Number(measured.plain, 1),
            Cell::Number(measured.zlib, 1),
            Cell::Number(measured.raw, 1),
            Cell::Number(measured.coded, 1),
            Cell::Number(measured.plain / measured.zlib, 2),
            Cell::Number(measured.plain / measured.raw, 2),
            Cell::Number(coded_ratio, 2),
            if counts { format!("{}: {verdict}", set.floor).into() } else { Cell::Nothing },
            measured.choice.into(),
        ]);
    }
    report.add(&binary.name(), &table);
    Ok(missed)
}

/// Bytes a record.
struct Measured {
    records: usize,
    plain: f64,
    zlib: f64,
    raw: f64,
    coded: f64,
    /// What was chosen for the last.
    choice: String,
}

impl Measured {
    fn of(binary: &Binary, set: &Set, records: &[Record]) -> anyhow::Result<Self> {
        let (learnt, held_out): (Vec<_>, Vec<_>) =
            records.iter().enumerate().partition(|(at, _)| at.is_multiple_of(LEARN_EACH));
        let learnt: Vec<&Record> = learnt.into_iter().map(|(_, record)| record).collect();
        let held_out: Vec<Record> = held_out.into_iter().map(|(_, record)| record.clone()).collect();
        let count = held_out.len();
        #[expect(clippy::cast_precision_loss, reason = "bytes of a test's data stay far below 2⁵³")]
        let weigh = |case: &Case, before: &[Vec<Vec<u8>>]| {
            weigh_case(binary, case, before).map(|bytes| bytes as f64 / count as f64)
        };
        let zlib: Vec<Record> =
            held_out.iter().map(|record| Record { value: deflated(&record.value), ..record.clone() }).collect();
        let (uncoded, coded) = (set.layouts(count, "none"), set.layouts(count, "auto"));
        let parse = |text: &str| Layout::parse_file(text).map_err(anyhow::Error::from);
        let (_, raw) = best(binary, &held_out, uncoded.iter().map(|(rule, text)| Ok((rule, parse(text)?))))?;
        let trained = codec_for(&parse(&coded[0].1)?, &learnt, count);
        let coded = match text_table(&parse(&coded[0].1)?, &learnt, count) {
            Some(line) => coded.into_iter().map(|(rule, text)| (format!("{rule}, text table"), text + &line)).collect(),
            None => coded,
        };
        let trials = coded.iter().map(|(rule, text)| Ok((rule, over(&trained, &parse(text)?))));
        let (rule, coded) = best(binary, &held_out, trials)?;
        check(&coded, &held_out)?;
        Ok(Self {
            records: count,
            plain: weigh(&Case::plain(set.name, held_out.clone()), &[])?,
            zlib: weigh(&Case::plain(set.name, zlib), &[])?,
            raw: weigh(&Case::placed(set.name, held_out.clone(), raw), &[])?,
            choice: format!("{}, {rule}", described(&trained)),
            coded: weigh(&Case::placed(set.name, held_out.clone(), coded.clone()), &commands(&coded))?,
        })
    }
}

/// The best codec, by the records that are not loaded.
fn codec_for(layout: &Layout, records: &[&Record], population: usize) -> Layout {
    let pairs = || records.iter().map(|record| (record.key.as_slice(), record.value.as_slice())).enumerate();
    let judges = |at: usize| at.is_multiple_of(JUDGE_EACH);
    let learn: Vec<Pair<'_>> = pairs().filter(|(at, _)| !judges(*at)).map(|(_, pair)| pair).collect();
    let judge: Vec<Pair<'_>> = pairs().filter(|(at, _)| judges(*at)).map(|(_, pair)| pair).collect();
    train(layout, &learn, &judge, population as u64)
}

/// The line of the layout with a table for the text that keys leave in fields; none where they leave none, or too
/// little to learn from.
fn text_table(layout: &Layout, records: &[&Record], population: usize) -> Option<String> {
    let namespace = layout.namespaces().first()?;
    let left = |record: &&Record| {
        let mut parts = Parts::new();
        let is_own = namespace.keys.parse_key(0, &record.key, &mut parts);
        is_own.then(|| namespace.placement.text_left(&parts)).flatten()
    };
    let texts: Vec<Vec<u8>> = records.iter().filter_map(left).take(TEXTS).collect();
    #[expect(clippy::cast_precision_loss, reason = "records of a test")]
    let weight = population as f64 / texts.len().max(1) as f64;
    let table = train_table(&texts, Training { weight })?;
    Some(format!("text_table = \"{}\"\n", table.to_text()))
}

/// The layout of the fewest bytes, by the memory model.
fn best<'t>(
    binary: &Binary,
    records: &[Record],
    layouts: impl Iterator<Item = anyhow::Result<(&'t String, Layout)>>,
) -> anyhow::Result<(&'t String, Layout)> {
    let mut best: Option<(u64, &String, Layout)> = None;
    let mut model = None;
    for layout in layouts {
        let (rule, layout) = layout?;
        let case = Case::placed("", Vec::new(), layout);
        let Data::Placed(_, layout) = &case.data else { unreachable!("it was placed") };
        let model: &Model = match &model {
            Some(model) => model,
            None => model.insert(model_of(binary, &case)?),
        };
        let mut placed = Placed::new(model, layout);
        records.iter().for_each(|record| placed.add(&record.key, &record.value, None));
        let bytes = placed.total_bytes();
        if best.as_ref().is_none_or(|(least, ..)| bytes < *least) {
            best = Some((bytes, rule, layout.as_ref().clone()));
        }
    }
    best.map(|(_, rule, layout)| (rule, layout)).ok_or_else(|| anyhow::anyhow!("no layouts"))
}

/// That every value comes back.
fn check(layout: &Layout, records: &[Record]) -> anyhow::Result<()> {
    for Record { key, value, .. } in records {
        let Some(place) = layout.locate(key).place() else { continue };
        let namespace = layout.namespace(place.namespace);
        let back = match namespace.encode(key, value, None) {
            Stored::InPlace(stored) => {
                namespace.decode(key, &Frame::decode(&stored)?, None)?.map(|back| back.into_owned())
            }
            Stored::Spilled { content, slot } => {
                let frame = Frame { expires_at_ms: None, body: Body::Spill { nonce: 1, slot } };
                namespace.decode(key, &frame, Some(&content))?.map(|back| back.into_owned())
            }
        };
        anyhow::ensure!(back.as_ref() == Some(value), "{} came back otherwise", key.escape_ascii());
    }
    Ok(())
}

/// The codec with its dictionary's size.
fn described(trained: &Layout) -> String {
    let Some(slot) = trained.namespaces()[0].codecs.written() else { return "none".to_owned() };
    let dictionary = slot.dictionary.and_then(|id| trained.open_dictionaries().remove(&id));
    let size = dictionary.map_or(String::new(), |dictionary| match dictionary.len() {
        bytes @ ..4096 => format!(" {bytes} B"),
        bytes => format!(" {} KiB", bytes / 1024),
    });
    format!("{}{size}", slot.rule.name)
}
