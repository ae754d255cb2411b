//! Microseconds to encode and to decode values of about 256 bytes, by codec and level: means over few values at a time,
//! and of those the median, so that what else the machine does meanwhile falls out of them.

use std::hint::black_box;
use std::time::Instant;

use keyfold_core::codec::{CodecRule, Stored};
use keyfold_core::frame::Frame;
use keyfold_core::layout::{Layout, Namespace};
use keyfold_lab::{Cell, Table};
use keyfold_testkit::coded::{Pair, train};

use super::sets;
use crate::options::Options;
use crate::redis_benchmark::median;
use crate::report::Report;

const KEYS: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 100 }\nvalue_limit = 4096\n";
/// The codecs, and what each is meant to keep at most, in µs.
const CODECS: [(&str, Option<[f64; 2]>); 10] = [
    ("{ name = \"zstd\", level = 1 }", None),
    ("{ name = \"zstd\", level = 3 }", None),
    ("{ name = \"zstd\", level = 9 }", None),
    ("\"zstd\"", Some([12.0, 1.5])),
    ("{ name = \"zstd\", dictionary = 65536 }", None),
    ("{ name = \"zstd\", level = 15 }", None),
    ("{ name = \"zstd\", level = 19 }", None),
    ("\"fsst\"", None),
    ("\"hex\"", None),
    ("\"uuid\"", None),
];
const VALUES: usize = 2_000;
const LEARNT: usize = 10_000;
/// Values whose time is taken together.
const TOGETHER: usize = 50;

/// Measures each. Returns the goals that were missed.
pub(super) fn measure(options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    let rounds = if options.quick { 3 } else { 31 };
    let title = format!("time a value, µs, median of {rounds} rounds of {VALUES} values");
    let columns = ["codec", "value, bytes", "stored, bytes", "encode", "decode", "goal"];
    let mut table = Table::titled(title, &columns);
    let mut missed = Vec::new();
    for (codec, goal) in CODECS {
        let records = records(codec);
        let namespace = namespace(codec, &records)?;
        let values: Vec<Pair<'_>> = pairs(&records[LEARNT..]);
        let timed = Timed::of(&namespace, &values, rounds)?;
        let is_met = goal.is_none_or(|[encode, decode]| timed.encode_us <= encode && timed.decode_us <= decode);
        if let Some([encode, decode]) = goal.filter(|_| !is_met) {
            missed.push(format!(
                "{codec} takes {:.2} and {:.2} µs, not {encode} and {decode}",
                timed.encode_us, timed.decode_us
            ));
        }
        let verdict = if is_met { "met" } else { "missed" };
        let goal = goal.map_or("".to_owned(), |[encode, decode]| format!("≤ {encode} and {decode}: {verdict}"));
        table.row(vec![
            namespace.codec.to_string().replace('"', "").into(),
            Cell::Number(timed.value_bytes, 1),
            Cell::Number(timed.stored_bytes, 1),
            Cell::Number(timed.encode_us, 2),
            Cell::Number(timed.decode_us, 2),
            goal.into(),
        ]);
    }
    report.add("this machine", &table);
    Ok(missed)
}

/// Profiles as JSON, or text that the codec is for.
fn records(codec: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of = |number: usize| {
        let (key, value) = sets::profile(number as u64);
        let hex = |len: usize| value.iter().map(|byte| format!("{byte:02x}")).collect::<String>()[..len].to_owned();
        let value = match codec {
            "\"hex\"" => hex(256).into_bytes(),
            "\"uuid\"" => {
                let hex = format!("{number:032x}");
                format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]).into_bytes()
            }
            _ => value,
        };
        (key.into_bytes(), value)
    };
    (0..LEARNT + VALUES).map(of).collect()
}

fn pairs(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<Pair<'_>> {
    records.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect()
}

fn namespace(codec: &str, records: &[(Vec<u8>, Vec<u8>)]) -> anyhow::Result<Namespace> {
    let layout = Layout::parse_file(&format!("{KEYS}codec = {codec}\n"))?;
    let learnt = pairs(&records[..LEARNT]);
    let (learn, judge) = learnt.split_at(learnt.len() * 7 / 8);
    let layout = train(&layout, learn, judge, 1_000_000);
    let namespace = layout.namespaces()[0].clone();
    let rule: &CodecRule = &namespace.codec;
    anyhow::ensure!(namespace.codecs.written().is_some_and(|slot| slot.rule == *rule), "{rule} was not trained");
    Ok(namespace)
}

struct Timed {
    value_bytes: f64,
    stored_bytes: f64,
    encode_us: f64,
    decode_us: f64,
}

impl Timed {
    #[expect(clippy::cast_precision_loss, reason = "counts of a test stay far below 2⁵³")]
    fn of(namespace: &Namespace, values: &[Pair<'_>], rounds: usize) -> anyhow::Result<Self> {
        let count = values.len() as f64;
        let (mut encode, mut decode) = (Vec::new(), Vec::new());
        let mut stored_bytes = 0;
        for _ in 0..rounds {
            stored_bytes = 0;
            for values in values.chunks(TOGETHER) {
                let each_us = |started: Instant| started.elapsed().as_secs_f64() * 1e6 / values.len() as f64;
                let started = Instant::now();
                let stored: Vec<Stored<'_>> =
                    values.iter().map(|(key, value)| namespace.encode(key, black_box(value), None)).collect();
                encode.push(each_us(started));
                let stored: Vec<Vec<u8>> = stored.into_iter().map(in_place).collect::<anyhow::Result<_>>()?;
                let started = Instant::now();
                for ((key, value), stored) in values.iter().zip(&stored) {
                    let back = namespace.decode(key, &Frame::decode(black_box(stored))?, None)?;
                    anyhow::ensure!(back.as_deref() == Some(*value), "{} came back otherwise", key.escape_ascii());
                }
                decode.push(each_us(started));
                stored_bytes += stored.iter().map(Vec::len).sum::<usize>();
            }
        }
        Ok(Self {
            value_bytes: values.iter().map(|(_, value)| value.len()).sum::<usize>() as f64 / count,
            stored_bytes: stored_bytes as f64 / count,
            encode_us: median(encode).unwrap_or(f64::NAN),
            decode_us: median(decode).unwrap_or(f64::NAN),
        })
    }
}

fn in_place(stored: Stored<'_>) -> anyhow::Result<Vec<u8>> {
    match stored {
        Stored::InPlace(bytes) => Ok(bytes),
        Stored::Spilled { .. } => anyhow::bail!("nothing is spilled here"),
    }
}
