//! *hex*: lower-case hexadecimal text as the bytes it stands for, half as long.

use std::sync::Arc;

use super::{Codec, CodecError, CodecKind, Options, Owner};
use crate::template::{hex_bytes, hex_digits, is_hex};

/// The kind.
#[derive(Debug)]
pub struct Hex;

impl CodecKind for Hex {
    fn name(&self) -> &'static str {
        "hex"
    }

    fn open(&self, _options: &Options, _dictionary: Option<&[u8]>) -> Result<Arc<dyn Codec>, CodecError> {
        Ok(Arc::new(Self))
    }
}

impl Codec for Hex {
    fn encode(&self, value: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        let is_text = is_hex(value);
        if is_text {
            out.extend(hex_bytes(value));
        }
        is_text
    }

    fn decode(&self, payload: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend(payload.iter().flat_map(|byte| hex_digits(*byte)));
        Ok(())
    }

    fn max_len(&self) -> usize {
        usize::MAX
    }
}
