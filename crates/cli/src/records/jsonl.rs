//! One record as one line of JSON.
//!
//! ```text
//! {"key":"user:1","value":"41"}
//! {"key":"user:2","value":{"base64":"AP8="},"expires_at_ms":1893456000000}
//! {"db":3,"key":{"base64":"/w=="},"type":"hash","dump_base64":"…","digest":"00c5…"}
//! {"end":{"keys":3}}
//! ```
//! Bytes are a string where they are UTF-8, else an object with their base64: no string is ever mistaken for
//! the other. `db` is left out for database 0, `expires_at_ms` where the key never expires. Fields may come in
//! any order; a field that isn't known here is an error, so that nothing is lost without a word.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Content, Other, Packed, Record};

/// Appends a record and the line's end.
pub(crate) fn encode(record: &Record, out: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *out, record)?;
    out.push(b'\n');
    Ok(())
}

/// Appends the last line of a dump of so many records.
pub(crate) fn encode_end(keys: u64, out: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *out, &EndLine { end: End { keys } })?;
    out.push(b'\n');
    Ok(())
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Record(Record),
    /// The dump is whole, if so many records came.
    End(u64),
}

/// Reads a line, with or without its end.
///
/// # Errors
/// What is wrong with it, for a person.
pub(crate) fn parse(line: &[u8]) -> Result<Entry, String> {
    let is_end =
        line.trim_ascii_start().strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"end\""));
    if is_end {
        return read(line).map(|EndLine { end }| Entry::End(end.keys));
    }
    read(line).and_then(Line::into_record).map(Entry::Record)
}

fn read<'l, T: Deserialize<'l>>(line: &'l [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| {
        // There is one line only, and the file's own number is said by the caller.
        let text = error.to_string();
        match text.rsplit_once(" at line 1 column ") {
            Some((what, column)) => format!("column {column}: {what}"),
            None => text,
        }
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    end: End,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    keys: u64,
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.database != 0 {
            map.serialize_entry("db", &self.database)?;
        }
        map.serialize_entry("key", &Shown(&self.key))?;
        match &self.content {
            Content::String(value) => map.serialize_entry("value", &Shown(value))?,
            Content::Other(Other { kind, dump, digest })
            | Content::Packed(Packed { other: Other { kind, dump, digest }, .. }) => {
                map.serialize_entry("type", kind)?;
                map.serialize_entry("dump_base64", &STANDARD.encode(dump))?;
                if let Some(digest) = digest {
                    map.serialize_entry("digest", &format!("{digest:032x}"))?;
                }
            }
        }
        if let Some(at) = self.expires_at_ms {
            map.serialize_entry("expires_at_ms", &at)?;
        }
        map.end()
    }
}

/// Bytes as a string, or as `{"base64": …}`.
struct Shown<'a>(&'a [u8]);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &STANDARD.encode(self.0))?;
        map.end()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    db: u32,
    key: Bytes,
    value: Option<Bytes>,
    #[serde(rename = "type")]
    kind: Option<String>,
    dump_base64: Option<String>,
    digest: Option<String>,
    expires_at_ms: Option<i64>,
}

impl Line {
    fn into_record(self) -> Result<Record, String> {
        let content = match (self.value, self.kind.as_deref(), self.dump_base64) {
            (Some(Bytes(value)), None | Some("string"), None) => Content::String(value),
            (None, Some(kind), Some(dump)) => {
                let digest = self.digest.as_deref().map(|text| {
                    let hex = (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok()).flatten();
                    hex.ok_or_else(|| format!("digest {text:?} is not 32 hex digits"))
                });
                let dump = STANDARD.decode(&dump).map_err(|error| format!("dump_base64: {error}"))?;
                Content::Other(Other { kind: kind.to_owned(), dump, digest: digest.transpose()? })
            }
            (Some(_), _, _) => return Err("a record has \"value\", or else \"type\" and \"dump_base64\"".to_owned()),
            (None, _, _) => return Err("neither \"value\", nor \"type\" with \"dump_base64\"".to_owned()),
        };
        if self.expires_at_ms.is_some_and(|at| at <= 0) {
            return Err("\"expires_at_ms\" is not above 0; leave it out for a key that never expires".to_owned());
        }
        Ok(Record { database: self.db, key: self.key.0, content, expires_at_ms: self.expires_at_ms })
    }
}

/// Bytes, read from either of their forms.
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or {\"base64\": …}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        Ok(Bytes(text.as_bytes().to_vec()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Bytes, E> {
        Ok(Bytes(text.into_bytes()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bytes, A::Error> {
        let Some((name, text)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::missing_field("base64"));
        };
        if name != "base64" {
            return Err(de::Error::unknown_field(&name, &["base64"]));
        }
        let bytes = STANDARD.decode(&text).map_err(|error| de::Error::custom(format!("base64: {error}")))?;
        match map.next_key::<String>()? {
            None => Ok(Bytes(bytes)),
            Some(more) => Err(de::Error::unknown_field(&more, &["base64"])),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(record: &Record) -> String {
        let mut out = Vec::new();
        encode(record, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn string(key: &[u8], value: &[u8], expires_at_ms: Option<i64>) -> Record {
        Record { database: 0, key: key.to_vec(), content: Content::String(value.to_vec()), expires_at_ms }
    }

    #[test]
    fn by_example() {
        assert_eq!(line(&string(b"user:1", b"", None)), "{\"key\":\"user:1\",\"value\":\"\"}\n");
        let bytes = string(b"\xff", b"\0a\"\n", Some(5));
        assert_eq!(line(&bytes), "{\"key\":{\"base64\":\"/w==\"},\"value\":\"\\u0000a\\\"\\n\",\"expires_at_ms\":5}\n");
        let other = Other { kind: "hash".to_owned(), dump: vec![1, 2], digest: Some(10) };
        let hash = Record { database: 3, key: b"h".to_vec(), content: Content::Other(other), expires_at_ms: None };
        let text = "{\"db\":3,\"key\":\"h\",\"type\":\"hash\",\"dump_base64\":\"AQI=\",\
                    \"digest\":\"0000000000000000000000000000000a\"}\n";
        assert_eq!(line(&hash), text);
        assert_eq!(parse(text.as_bytes()), Ok(Entry::Record(hash)));
        let mut end = Vec::new();
        encode_end(3, &mut end).unwrap();
        assert_eq!(end, b"{\"end\":{\"keys\":3}}\n");
        assert_eq!(parse(&end), Ok(Entry::End(3)));
        assert_eq!(parse(b" { \"end\" : {\"keys\": 0} }"), Ok(Entry::End(0)));
    }

    #[test]
    fn a_text_that_looks_like_the_other_form_stays_text() {
        let record = string(b"{\"base64\":\"AQI=\"}", b"{\"base64\":\"AQI=\"}", None);
        assert_eq!(parse(line(&record).as_bytes()), Ok(Entry::Record(record)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |text: &str| parse(text.as_bytes()).unwrap_err();
        for (text, part) in [
            ("", "EOF"),
            ("{\"key\":\"a\"", "EOF"),
            ("{\"value\":\"a\"}", "missing field `key`"),
            ("{\"key\":\"a\"}", "neither \"value\""),
            ("{\"key\":\"a\",\"value\":1}", "a string or {\"base64\": …}"),
            ("{\"key\":\"a\",\"value\":\"b\",\"type\":\"hash\"}", "or else"),
            ("{\"key\":{\"base64\":\"!\"},\"value\":\"b\"}", "base64"),
            ("{\"key\":{\"hex\":\"00\"},\"value\":\"b\"}", "unknown field `hex`"),
            ("{\"key\":\"a\",\"value\":\"b\",\"ttl\":5}", "unknown field `ttl`"),
            ("{\"key\":\"a\",\"value\":\"b\",\"key\":\"c\"}", "duplicate field"),
            ("{\"key\":\"a\",\"value\":\"b\",\"expires_at_ms\":0}", "not above 0"),
            ("{\"key\":\"a\",\"value\":\"b\"} x", "trailing"),
            ("{\"end\":{\"keys\":-1}}", "invalid value"),
            ("{\"end\":{\"keys\":1},\"key\":\"a\"}", "unknown field `key`"),
            ("{\"key\":\"a\",\"type\":\"set\",\"dump_base64\":\"AA==\",\"digest\":\"1\"}", "32 hex digits"),
        ] {
            assert!(wrong(text).contains(part), "{text}: {}", wrong(text));
        }
    }

    fn content() -> impl Strategy<Value = Content> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..60);
        let other = ("[a-z]{1,9}", bytes(), prop::option::of(any::<u128>()))
            .prop_map(|(kind, dump, digest)| Content::Other(Other { kind, dump, digest }));
        prop_oneof![bytes().prop_map(Content::String), ".{0,20}".prop_map(|text| Content::String(text.into())), other]
    }

    proptest! {
        #[test]
        fn any_record_comes_back(
            database: u32,
            key in prop_oneof![prop::collection::vec(any::<u8>(), 0..40), ".{0,20}".prop_map(String::into_bytes)],
            content in content(),
            expires_at_ms in prop::option::of(1..i64::MAX),
        ) {
            let record = Record { database, key, content, expires_at_ms };
            let line = line(&record);
            prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
            prop_assert_eq!(parse(line.as_bytes()), Ok(Entry::Record(record)));
        }

        #[test]
        fn hostile_lines_never_panic(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&line);
        }
    }
}
