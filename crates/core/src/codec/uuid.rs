//! *uuid*: a uuid in canonical lower case as its 16 bytes.

use std::sync::Arc;

use super::{Codec, CodecError, CodecKind, Options, Owner};
use crate::template::{parse_uuid, render_uuid};

/// The kind.
#[derive(Debug)]
pub struct Uuid;

impl CodecKind for Uuid {
    fn name(&self) -> &'static str {
        "uuid"
    }

    fn open(&self, _options: &Options, _dictionary: Option<&[u8]>) -> Result<Arc<dyn Codec>, CodecError> {
        Ok(Arc::new(Self))
    }
}

impl Codec for Uuid {
    fn encode(&self, value: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        let bits = parse_uuid(value);
        if let Some(bits) = bits {
            out.extend_from_slice(&bits.to_be_bytes());
        }
        bits.is_some()
    }

    fn decode(&self, payload: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let bytes: [u8; 16] =
            payload.try_into().map_err(|_| CodecError::payload(format!("{} bytes are no uuid", payload.len())))?;
        render_uuid(u128::from_be_bytes(bytes), out);
        Ok(())
    }

    fn max_len(&self) -> usize {
        usize::MAX
    }
}
