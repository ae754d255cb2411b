//! Codecs in the JSON of `keyfold analyze` and `keyfold plan`.

use keyfold_survey::choose::Choice;
use serde_json::{Value, json};

/// The codec of a choice.
pub(crate) fn codec_json(choice: &Choice) -> Value {
    choice.codec.as_ref().map_or(Value::Null, |codec| {
        json!({
            "name": codec.rule.name,
            "value_bytes": codec.value_bytes,
            "stored_bytes": codec.stored_bytes,
            "ratio": codec.ratio,
            "encode_us": codec.encode_us,
            "decode_us": codec.decode_us,
            "dictionary_bytes": codec.dictionary_bytes,
            "dictionary_stored_bytes": codec.packed_bytes,
            "judged_by": codec.judged_by,
            "bytes_without": codec.bytes_without,
        })
    })
}

/// What the best codec makes of the values, taken or not.
pub(crate) fn compressible_json(choice: &Choice) -> Value {
    let best = choice.compressible.as_ref();
    best.map_or(Value::Null, |best| json!({ "codec": best.codec, "ratio": best.ratio }))
}
