//! How a text is spelled in symbols: the shortest way, by dynamic programming from the text's end.
//!
//! This runs for every key of every command. All lies in fixed arrays, and which symbols may begin at a byte is told
//! by that byte and the next one.

use super::MOST_SYMBOL_BYTES;

/// Texts are spelled so many bytes at a time.
pub(super) const BLOCK_BYTES: usize = 128;
/// No symbol.
const NONE: u16 = u16::MAX;
/// Symbols of two bytes and more are found by so many heads.
const HEADS: usize = 1024;

/// Finds symbols in text.
#[derive(Clone)]
pub(super) struct Matcher {
    /// The symbol of each single byte.
    ones: Box<[u16; 256]>,
    /// Where the symbols with each head begin in `longer`; one more at the end.
    heads: Box<[u16; HEADS + 1]>,
    longer: Vec<Longer>,
}

/// A symbol of two bytes or more.
#[derive(Clone, Copy)]
struct Longer {
    /// Its bytes, the first the lowest.
    bytes: u128,
    /// As many bytes of ones.
    mask: u128,
    len: u8,
    symbol: u16,
}

/// One step of a spelling: what it costs from here to the end, and how it begins.
#[derive(Clone, Copy, Default)]
struct Step {
    cost: u16,
    symbol: u16,
    len: u8,
}

impl Matcher {
    /// Of symbols of 1 to 16 bytes, each once; fewer than 65,535.
    pub(super) fn new(symbols: &[impl AsRef<[u8]>]) -> Self {
        let mut ones = Box::new([NONE; 256]);
        let mut longer = Vec::with_capacity(symbols.len());
        for (symbol, number) in symbols.iter().zip(0..NONE) {
            match symbol.as_ref() {
                [byte] => ones[usize::from(*byte)] = number,
                bytes => longer.push(Longer::new(bytes, number)),
            }
        }
        longer.sort_by_key(Longer::head);
        let mut heads = Box::new([0; HEADS + 1]);
        for symbol in &longer {
            heads[symbol.head() + 1] += 1;
        }
        for at in 0..HEADS {
            heads[at + 1] += heads[at];
        }
        Self { ones, heads, longer }
    }

    /// Spells at most [`BLOCK_BYTES`] of text: calls `emit` with each symbol, or none, and the bytes that it spells.
    #[inline]
    pub(super) fn spell<'t>(&self, text: &'t [u8], mut emit: impl FnMut(Option<u16>, &'t [u8])) {
        let mut steps = [Step::default(); BLOCK_BYTES + 1];
        self.find_steps(text, NONE, &mut steps);
        let mut at = 0;
        while let Some(spelled) = text.get(at..at + usize::from(steps[at].len)).filter(|spelled| !spelled.is_empty()) {
            emit(Some(steps[at].symbol).filter(|symbol| *symbol != NONE), spelled);
            at += spelled.len();
        }
    }

    /// How many bytes such a text takes, spelled without the symbol `but`.
    pub(super) fn cost_without(&self, text: &[u8], but: u16) -> u16 {
        let mut steps = [Step::default(); BLOCK_BYTES + 1];
        self.find_steps(text, but, &mut steps);
        steps[0].cost
    }

    /// The best step at each byte, from the last to the first. Past the end there is a step of no bytes.
    #[inline]
    fn find_steps(&self, text: &[u8], but: u16, steps: &mut [Step; BLOCK_BYTES + 1]) {
        let text = &text[..text.len().min(BLOCK_BYTES)];
        let mut padded = [0; BLOCK_BYTES + MOST_SYMBOL_BYTES];
        padded[..text.len()].copy_from_slice(text);
        for at in (0..text.len()).rev() {
            let mut window = [0; MOST_SYMBOL_BYTES];
            window.copy_from_slice(&padded[at..at + MOST_SYMBOL_BYTES]);
            let one = self.ones[usize::from(window[0])];
            let (one, cost) = if one == NONE || one == but { (NONE, 2) } else { (one, 1) };
            let mut best = Step { cost: steps[at + 1].cost + cost, symbol: one, len: 1 };
            let head = head(window[0], window[1]);
            let window = u128::from_le_bytes(window);
            for longer in &self.longer[usize::from(self.heads[head])..usize::from(self.heads[head + 1])] {
                let end = at + usize::from(longer.len);
                if window & longer.mask != longer.bytes || end > text.len() || longer.symbol == but {
                    continue;
                }
                let cost = steps[end].cost + 1;
                // Of two steps of one length at a byte there is never but one that matches.
                if cost < best.cost || (cost == best.cost && longer.len > best.len) {
                    best = Step { cost, symbol: longer.symbol, len: longer.len };
                }
            }
            steps[at] = best;
        }
        steps[text.len()] = Step { cost: 0, symbol: NONE, len: 0 };
    }
}

impl Longer {
    fn new(bytes: &[u8], symbol: u16) -> Self {
        let mut low = [0; MOST_SYMBOL_BYTES];
        low[..bytes.len()].copy_from_slice(bytes);
        let mask = u128::MAX >> (8 * (MOST_SYMBOL_BYTES - bytes.len()));
        Self { bytes: u128::from_le_bytes(low), mask, len: u8::try_from(bytes.len()).unwrap_or(u8::MAX), symbol }
    }

    fn head(&self) -> usize {
        let [first, second, ..] = self.bytes.to_le_bytes();
        head(first, second)
    }
}

/// Where symbols that begin with these two bytes are looked for.
fn head(first: u8, second: u8) -> usize {
    usize::from(u16::from_le_bytes([first, second]).wrapping_mul(40_503) >> 6)
}
