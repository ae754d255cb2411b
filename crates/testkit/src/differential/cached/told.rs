//! What a client with a cache is told to forget.

use crate::reply::Value;

/// What a client is told to forget.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// All.
    Everything,
    /// These keys.
    Keys(Vec<String>),
}

impl Told {
    /// What a push names, or a message in its place.
    pub(super) fn of(push: &Value) -> Self {
        let name = |key: &Value| String::from_utf8_lossy(key.bytes().unwrap_or_default()).into_owned();
        match push.elements().and_then(<[Value]>::last).and_then(Value::elements) {
            Some(keys) => Self::Keys(keys.iter().map(name).collect()),
            None => Self::Everything,
        }
    }

    /// Whether it names this key.
    pub(super) fn names(&self, key: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Keys(keys) => keys.iter().any(|named| named == key),
        }
    }
}
