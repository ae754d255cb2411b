//! *fsst*: short text by a table of up to 255 symbols of 1 to 8 bytes, each one byte.
//!
//! A payload is a sequence of codes; 255 stands before a byte that no symbol has. A table as it is stored: for each
//! symbol its length and its bytes.

use std::fmt;
use std::panic;
use std::sync::Arc;

use fsst::{Compressor, Symbol};

use super::{Codec, CodecError, CodecKind, Options, Owner, Sample};

/// The longest value, in bytes.
const MAX_LEN: usize = 64 * 1024;

/// Stands before a byte of its own.
const ESCAPE: u8 = 255;

/// The kind.
#[derive(Debug)]
pub struct Fsst;

impl CodecKind for Fsst {
    fn name(&self) -> &'static str {
        "fsst"
    }

    fn needs_training(&self) -> bool {
        true
    }

    fn open(&self, _options: &Options, dictionary: Option<&[u8]>) -> Result<Arc<dyn Codec>, CodecError> {
        let table = dictionary.ok_or_else(|| CodecError::payload("it has no table; train one with `keyfold train`"))?;
        Ok(Arc::new(FsstCodec::open(table)?))
    }

    fn train(&self, samples: &[Sample<'_>], _options: &Options) -> Vec<Vec<u8>> {
        let values: Vec<&[u8]> = samples
            .iter()
            .map(|sample| sample.value)
            .filter(|value| !value.is_empty() && value.len() <= MAX_LEN)
            .collect();
        if values.is_empty() {
            return Vec::new();
        }
        let trained = Compressor::train(&values);
        let symbols = trained.symbol_table().iter().zip(trained.symbol_lengths());
        let table: Vec<u8> = symbols
            .flat_map(|(symbol, len)| {
                let bytes = symbol.to_u64().to_le_bytes();
                std::iter::once(*len).chain(bytes.into_iter().take(usize::from(*len)))
            })
            .collect();
        if table.is_empty() { Vec::new() } else { vec![table] }
    }
}

struct FsstCodec {
    compressor: Compressor,
    symbols: Vec<Box<[u8]>>,
}

impl fmt::Debug for FsstCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fsst with {} symbols", self.symbols.len())
    }
}

impl FsstCodec {
    fn open(table: &[u8]) -> Result<Self, CodecError> {
        let bad = || CodecError::payload("the table of symbols is damaged");
        let mut symbols: Vec<Box<[u8]>> = Vec::new();
        let mut rest = table;
        while let Some((&len, after)) = rest.split_first() {
            let len = usize::from(len);
            let (symbol, after) = after.split_at_checked(len).filter(|_| (1..=8).contains(&len)).ok_or_else(bad)?;
            symbols.push(symbol.into());
            rest = after;
        }
        if symbols.is_empty() || symbols.len() > usize::from(ESCAPE) {
            return Err(bad());
        }
        let words: Vec<Symbol> = symbols.iter().map(|symbol| to_symbol(symbol)).collect();
        let lens: Vec<u8> = symbols.iter().map(|symbol| u8::try_from(symbol.len()).unwrap_or(8)).collect();
        // The crate panics on tables that its training never gives.
        let compressor = panic::catch_unwind(|| Compressor::rebuild_from(words, lens)).map_err(|_| bad())?;
        Ok(Self { compressor, symbols })
    }
}

fn to_symbol(bytes: &[u8]) -> Symbol {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    Symbol::from_slice(&word)
}

impl Codec for FsstCodec {
    fn encode(&self, value: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&self.compressor.compress(value));
        true
    }

    fn decode(&self, payload: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let mut codes = payload.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                out.push(*codes.next().ok_or_else(|| CodecError::payload("an escape of nothing"))?);
            } else {
                let symbol = self.symbols.get(usize::from(code));
                out.extend_from_slice(symbol.ok_or_else(|| CodecError::payload(format!("no symbol has code {code}")))?);
            }
        }
        Ok(())
    }

    fn max_len(&self) -> usize {
        MAX_LEN
    }
}
