//! Where a key may lie, and which key lies somewhere: all that the walk knows of placements.

use keyfold_core::layout::{Layout, Located, NamespaceIndex, Place};

/// Somewhere a value lies on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot<'a> {
    /// A key of its own under the logical key's name.
    Plain,
    /// A key of its own under a short name.
    Zipped { physical: &'a [u8] },
    /// A field of a bucket.
    Field { bucket: &'a [u8], field: &'a [u8] },
}

/// Whether clients look for `key` there. A key has exactly one such spot; two while its namespace is moved.
pub(crate) fn is_allowed(layout: &Layout, key: &[u8], spot: Spot<'_>) -> bool {
    match layout.locate(key) {
        Located::Reserved => false,
        Located::Plain => is_there(None, spot),
        Located::Placed(place) => is_there(Some(&place), spot),
        Located::Moving(moving) => is_there(moving.new.as_ref(), spot) || is_there(moving.old.as_ref(), spot),
    }
}

/// Where `key` is being moved to, if `spot` is the place that it is moved out of: there may be another value.
pub(crate) fn new_place(layout: &Layout, key: &[u8], spot: Spot<'_>) -> Option<Stored> {
    match layout.locate(key) {
        Located::Moving(moving) if is_there(moving.old.as_ref(), spot) => Some(Stored::of(moving.new.as_ref(), key)),
        _ => None,
    }
}

/// What to ask the server for, to know whether something lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) physical: Vec<u8>,
    /// None of a key of its own.
    pub(crate) field: Option<Vec<u8>>,
}

impl Stored {
    /// `key` at this place; none for its own name.
    pub(crate) fn of(place: Option<&Place>, key: &[u8]) -> Self {
        match place {
            Some(place) if place.kind.is_field() => {
                Self { physical: place.physical.to_vec(), field: Some(place.field.to_vec()) }
            }
            Some(place) => Self { physical: place.physical.to_vec(), field: None },
            None => Self { physical: key.to_vec(), field: None },
        }
    }

    /// The command by which it is removed, for a person.
    pub(crate) fn removal(&self) -> String {
        let quoted = |text: &[u8]| format!("\"{}\"", text.escape_ascii());
        match &self.field {
            Some(field) => format!("HDEL {} {}", quoted(&self.physical), quoted(field)),
            None => format!("DEL {}", quoted(&self.physical)),
        }
    }
}

impl Spot<'_> {
    /// The same, of this key.
    pub(crate) fn stored(self, key: &[u8]) -> Stored {
        let (physical, field) = match self {
            Self::Plain => (key, None),
            Self::Zipped { physical } => (physical, None),
            Self::Field { bucket, field } => (bucket, Some(field.to_vec())),
        };
        Stored { physical: physical.to_vec(), field }
    }
}

fn is_there(place: Option<&Place>, spot: Spot<'_>) -> bool {
    match (place, spot) {
        (None, Spot::Plain) => true,
        (Some(place), Spot::Zipped { physical }) => !place.kind.is_field() && place.physical.as_slice() == physical,
        (Some(place), Spot::Field { bucket, field }) => {
            place.kind.is_field() && place.physical.as_slice() == bucket && place.field.as_slice() == field
        }
        _ => false,
    }
}

/// The place where `key` is written; none where that is its own name.
pub(crate) fn place_of(layout: &Layout, key: &[u8]) -> Option<Place> {
    layout.locate(key).place()
}

/// The key whose value lies at a bucket's field; none where no key belongs there.
pub(crate) fn key_at(layout: &Layout, namespace: NamespaceIndex, bucket: &[u8], field: &[u8]) -> Option<Vec<u8>> {
    let key = layout.key_of(namespace, bucket, field)?;
    is_allowed(layout, &key, Spot::Field { bucket, field }).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_spot() {
        let layout = Layout::parse_file(
            "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n[[namespace]]\nkeys = 'page:{path}'\n",
        );
        let layout = layout.unwrap();
        let zipped = place_of(&layout, b"page:a").unwrap().physical;
        assert!(is_allowed(&layout, b"page:a", Spot::Zipped { physical: &zipped }));
        assert!(!is_allowed(&layout, b"page:a", Spot::Plain));
        assert!(is_allowed(&layout, b"user:129", Spot::Field { bucket: b"~tnrO:1", field: b"1" }));
        assert!(!is_allowed(&layout, b"user:129", Spot::Field { bucket: b"~tnrO:0", field: b"1" }));
        assert!(is_allowed(&layout, b"user:x", Spot::Plain));
        assert_eq!(key_at(&layout, NamespaceIndex(0), b"~tnrO:1", b"1"), Some(b"user:129".to_vec()));
        assert_eq!(key_at(&layout, NamespaceIndex(0), b"~tnrO:1", b"128"), None);
    }
}
