//! Values too large for a codec of their namespace: whole zstd frames, with nothing to know beforehand.

use super::zstd::{Contexts, with_contexts};
use super::{CodecError, Effort};

/// The slot that every namespace with a codec has without naming it.
pub const LARGE_SLOT: u8 = u8::MAX;

/// Dearer levels gain little without a dictionary.
const LEVEL: i32 = 6;

/// The level for values that clients wait for: a third of the time, and a tenth more bytes.
const QUICK_LEVEL: i32 = 1;

/// The longest string that a server takes by default (`proto-max-bulk-len`).
const MAX_VALUE: u64 = 512 << 20;

/// Bytes of value for each byte of payload, at the most: a few damaged or hostile bytes must not claim much memory.
const MAX_RATIO: u64 = 4096;

/// What any payload may come to.
const ALWAYS_ALLOWED: u64 = 1 << 20;

pub(super) fn encode(value: &[u8], effort: Effort<'_>, out: &mut Vec<u8>) -> bool {
    let level = match effort {
        Effort::Full => LEVEL,
        Effort::Quick | Effort::Spent(_) => QUICK_LEVEL,
    };
    with_contexts(|Contexts { compress, scratch, .. }| {
        scratch.clear();
        scratch.reserve(zstd_safe::compress_bound(value.len()));
        let written = compress.compress(scratch, value, level).is_ok();
        let fits = written && is_plausible(value.len() as u64, scratch.len());
        if fits {
            out.extend_from_slice(scratch);
        }
        scratch.shrink_to(super::zstd::MAX_LEN);
        fits
    })
}

pub(super) fn decode(payload: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let len = match zstd_safe::get_frame_content_size(payload) {
        Ok(Some(len)) if is_plausible(len, payload.len()) => usize::try_from(len).unwrap_or(usize::MAX),
        Ok(Some(len)) => {
            return Err(CodecError::payload(format!("{} bytes claim to be {len}", payload.len())));
        }
        _ => return Err(CodecError::payload("it has no zstd header")),
    };
    let mut value = Vec::with_capacity(len);
    with_contexts(|contexts| contexts.decompress.decompress(&mut value, payload))
        .map_err(|code| CodecError::payload(zstd_safe::get_error_name(code)))?;
    if out.is_empty() {
        *out = value;
    } else {
        out.append(&mut value);
    }
    Ok(())
}

fn is_plausible(value: u64, payload: usize) -> bool {
    value <= MAX_VALUE && value <= (payload as u64).saturating_mul(MAX_RATIO).max(ALWAYS_ALLOWED)
}
