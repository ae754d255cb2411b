//! Makes a table from samples of text.
//!
//! Symbols grow in rounds. Each spells the samples with the symbols so far, counts what stands side by side, and takes
//! the most frequent pairs and triples as new symbols beside the old; then symbols are left out again, step by step,
//! those first without which the samples take the least more. So a symbol that a longer one has replaced goes, and
//! one that was left out too early comes again. The best of all rounds stays.
//!
//! The same samples give the same table, in any order.

use super::matcher::{BLOCK_BYTES, Matcher};
use super::{MOST_SYMBOL_BYTES, MOST_SYMBOLS, TextTable};

/// More rounds find no more.
const ROUNDS: usize = 14;
/// In the first rounds symbols are short, and those that bring the most bytes together are tried first.
const GROWING_ROUNDS: usize = 3;
/// So many symbols are tried in each round.
const TRIED: usize = 250;
/// This share of the symbols stays at each step of leaving out.
const STAYS: f64 = 0.9;
/// Where one sample in so many is a decimal number, all digits are symbols, so that such stay numbers.
const NUMBERS_ONE_IN: usize = 100;
/// What a byte of a symbol takes in the server's layout and in front of it, base64 and copies included.
const TABLE_BYTE_COST: f64 = 4.0;

/// What a table is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// How many texts each sample stands for: symbols that save less than they take are left out.
    pub weight: f64,
}

/// Makes the table that packs texts like these best; none where no table would pack them at all.
pub fn train(samples: &[impl AsRef<[u8]>], training: Training) -> Option<TextTable> {
    let samples: Vec<&[u8]> = samples.iter().flat_map(|sample| sample.as_ref().chunks(BLOCK_BYTES)).collect();
    let mut best: Option<(u64, Vec<Symbol>)> = None;
    let mut symbols = Vec::new();
    for round in 0..ROUNDS {
        let mut tried = candidates(&samples, &symbols, round < GROWING_ROUNDS);
        tried.truncate(TRIED);
        symbols.extend(tried);
        symbols = left(&samples, symbols, MOST_SYMBOLS);
        let bytes = count(&samples, &symbols).bytes;
        if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
            best = Some((bytes, symbols.clone()));
        }
    }
    let mut symbols = worth(&samples, &best?.1, training);
    keep_digits(&samples, &mut symbols);
    TextTable::new(symbols.iter().map(|symbol| symbol.as_ref().to_vec()).collect()).ok()
}

/// The bytes of a symbol. They sort as their bytes do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    bytes: [u8; MOST_SYMBOL_BYTES],
    len: usize,
}

impl Symbol {
    fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; MOST_SYMBOL_BYTES];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { bytes, len: text.len() })
    }
}

impl AsRef<[u8]> for Symbol {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What is not a symbol yet and stands most often where two or three symbols do, the most frequent first.
fn candidates(samples: &[&[u8]], symbols: &[Symbol], is_growing: bool) -> Vec<Symbol> {
    let matcher = Matcher::new(symbols);
    let mut seen = Vec::new();
    for sample in samples {
        let (mut at, mut before) = (0, [None, None]);
        matcher.spell(sample, |_, spelled| {
            let end = at + spelled.len();
            let mut see = |from: usize, to: usize| seen.extend(Symbol::new(&sample[from..to]));
            see(at, at + 1);
            if let Some(from) = before[0] {
                see(from, end);
                // Between two symbols, a part of the one may go better with the other.
                if spelled.len() > 1 {
                    see(from, at + 1);
                }
                if at - from > 1 {
                    see(at - 1, end);
                }
            }
            if let Some(from) = before[1] {
                see(from, end);
            }
            before = [Some(at), before[0]];
            at = end;
        });
    }
    seen.sort_unstable();
    let mut have = symbols.to_vec();
    have.sort_unstable();
    let mut counted: Vec<(usize, Symbol)> = seen
        .chunk_by(|one, other| one == other)
        .filter(|same| have.binary_search(&same[0]).is_err())
        .map(|same| (same.len() * if is_growing { same[0].len } else { 1 }, same[0]))
        .collect();
    counted.sort_unstable_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
    counted.into_iter().map(|(_, symbol)| symbol).collect()
}

/// Leaves symbols out until at most `most` are left.
fn left(samples: &[&[u8]], mut symbols: Vec<Symbol>, most: usize) -> Vec<Symbol> {
    while symbols.len() > most {
        let mut losses = losses(samples, &symbols);
        losses.sort_unstable_by(|one, other| other.cmp(one));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a few hundred")]
        let stay = ((symbols.len() as f64 * STAYS) as usize).max(most);
        losses.truncate(stay);
        symbols = losses.into_iter().map(|(_, symbol)| symbol).collect();
    }
    symbols
}

/// Leaves out what saves less than it takes itself.
fn worth(samples: &[&[u8]], symbols: &[Symbol], training: Training) -> Vec<Symbol> {
    let saves =
        |(loss, symbol): &(u64, Symbol)| *loss as f64 * training.weight > TABLE_BYTE_COST * (symbol.len + 1) as f64;
    let mut losses = losses(samples, symbols);
    losses.sort_unstable_by(|one, other| other.cmp(one));
    losses.into_iter().filter(saves).map(|(_, symbol)| symbol).collect()
}

/// How many bytes more the samples would take without each symbol.
fn losses(samples: &[&[u8]], symbols: &[Symbol]) -> Vec<(u64, Symbol)> {
    let matcher = Matcher::new(symbols);
    let uses = count_with(&matcher, samples, symbols.len()).uses;
    let loss = |((symbol, uses), number): ((&Symbol, u64), u16)| {
        (uses * u64::from(matcher.cost_without(symbol.as_ref(), number).saturating_sub(1)), *symbol)
    };
    symbols.iter().zip(uses).zip(0_u16..).map(loss).collect()
}

/// What the samples take, and how often each symbol spells a part of them.
struct Count {
    bytes: u64,
    uses: Vec<u64>,
}

fn count(samples: &[&[u8]], symbols: &[Symbol]) -> Count {
    count_with(&Matcher::new(symbols), samples, symbols.len())
}

fn count_with(matcher: &Matcher, samples: &[&[u8]], symbols: usize) -> Count {
    let mut count = Count { bytes: 0, uses: vec![0; symbols] };
    for sample in samples {
        matcher.spell(sample, |symbol, _| match symbol {
            Some(symbol) => {
                count.bytes += 1;
                count.uses[usize::from(symbol)] += 1;
            }
            None => count.bytes += 2,
        });
    }
    count
}

/// Makes all digits symbols where enough samples are numbers.
fn keep_digits(samples: &[&[u8]], symbols: &mut Vec<Symbol>) {
    let numbers = samples.iter().filter(|sample| super::pack::canonical_number(sample).is_some()).count();
    if numbers * NUMBERS_ONE_IN < samples.len().max(1) {
        return;
    }
    let digits: Vec<_> = (b'0'..=b'9').filter_map(|digit| Symbol::new(&[digit])).collect();
    symbols.retain(|symbol| !digits.contains(symbol));
    // Those of the least use are the last.
    symbols.truncate(MOST_SYMBOLS - digits.len());
    symbols.extend(digits);
}
