//! How a family is folded, in the JSON of `keyfold analyze` and `keyfold plan`.

use keyfold_survey::choose::{Choice, Point};
use serde_json::{Value, json};

/// What both say of a choice, besides what each says in a way of its own.
pub(crate) fn choice_json(choice: &Choice, own: Value) -> Value {
    let point =
        |point: &Point| json!({ "entries": point.entries_per_bucket, "bytes": point.bytes, "read_us": point.read_us });
    let mut said = json!({
        "value_limit": choice.rule.value_limit,
        "field_limit": choice.rule.field_limit,
        "curve": choice.curve.iter().map(point).collect::<Vec<_>>(),
        "chosen": choice.chosen.as_ref().map(point),
        "codec": codec_json(choice),
        "compressible": compressible_json(choice),
        "relies_on": choice.relies_on.iter().map(|setting| json!({
            "name": setting.name, "needs": setting.needs, "has": setting.has, "bytes_without": setting.bytes_without,
        })).collect::<Vec<_>>(),
        "notes": choice.notes,
        "other_ways": choice.other_ways,
    });
    if let (Value::Object(said), Value::Object(own)) = (&mut said, own) {
        // Of a cluster only.
        said.extend(choice.pays_from_keys.map(|keys| ("pays_from_keys".to_owned(), json!(keys))));
        said.extend(own);
    }
    said
}

/// The codec of a choice.
fn codec_json(choice: &Choice) -> Value {
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
fn compressible_json(choice: &Choice) -> Value {
    let best = choice.compressible.as_ref();
    best.map_or(Value::Null, |best| json!({ "codec": best.codec, "ratio": best.ratio }))
}
