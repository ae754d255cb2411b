//! How a record lies in a server: what is written for a key, a value and an expiry in a place, and what reads it back.
//!
//! ```text
//! no place        a string under the key itself; the server keeps its expiry
//! zipped, framed  a string under the place's name; a frame where the place is framed; the server keeps its expiry
//! bucket          a field of the hash; the frame before the value keeps its expiry
//!                 ├── value within the namespace's limit: raw, framed or coded
//!                 └── longer: a pointer, and a string under the spill's name, which has no expiry of its own
//! ```
//!
//! Nothing else knows this: commands, tools, the memory model and whatever loads a server all write what
//! [`Layout::physical_writes`] says, each to its own kind of wire.

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};

use crate::codec::{Effort, Stored};
use crate::frame;
use crate::layout::{Layout, Place, spill_name};

/// One string, or one field of a hash, that a server is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalWrite<'r> {
    /// The hash; none for a string.
    pub hash: Option<&'r [u8]>,
    /// The field, or the string's key.
    pub name: Cow<'r, [u8]>,
    /// What it holds.
    pub value: Cow<'r, [u8]>,
    /// When the server removes it, in milliseconds since 1970. Never for a field: its frame says it.
    pub expires_at_ms: Option<i64>,
}

impl<'r> PhysicalWrite<'r> {
    fn string(name: impl Into<Cow<'r, [u8]>>, value: impl Into<Cow<'r, [u8]>>, expires_at_ms: Option<i64>) -> Self {
        Self { hash: None, name: name.into(), value: value.into(), expires_at_ms }
    }

    /// Gives `send` the command that carries it out: HSET, or SET with PXAT (since Redis 6.2), where it expires.
    pub fn command<T>(&self, send: impl FnOnce(&[&[u8]]) -> T) -> T {
        match (self.hash, self.expires_at_ms) {
            (Some(hash), _) => send(&[b"HSET", hash, &self.name, &self.value]),
            (None, None) => send(&[b"SET", &self.name, &self.value]),
            (None, Some(at)) => send(&[b"SET", &self.name, &self.value, b"PXAT", at.to_string().as_bytes()]),
        }
    }
}

/// All that a server is to hold of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalWrites<'r> {
    /// The spilled value, which is there before or together with what points to it.
    pub spill: Option<PhysicalWrite<'r>>,
    /// What lies in the key's place.
    pub main: PhysicalWrite<'r>,
}

impl<'r> PhysicalWrites<'r> {
    /// Both, in the order in which they are to be written.
    pub fn iter(&self) -> impl Iterator<Item = &PhysicalWrite<'r>> {
        self.spill.iter().chain([&self.main])
    }
}

impl Layout {
    /// What a server is to hold for `key` in its place, which [`Self::locate`] gave: none for a key of its own under its
    /// own name. `nonce` is drawn where the value is spilled; one is never used again.
    ///
    /// Values are encoded by the codec that their namespace writes by, which must be open.
    pub fn physical_writes<'r>(
        &self,
        place: Option<&'r Place>,
        key: &'r [u8],
        value: &'r [u8],
        expires_at_ms: Option<i64>,
        nonce: impl FnOnce() -> u64,
    ) -> PhysicalWrites<'r> {
        self.physical_writes_by(Effort::Full, place, key, value, expires_at_ms, nonce)
    }

    /// The same with so much effort.
    pub(crate) fn physical_writes_by<'r>(
        &self,
        effort: Effort<'_>,
        place: Option<&'r Place>,
        key: &'r [u8],
        value: &'r [u8],
        expires_at_ms: Option<i64>,
        nonce: impl FnOnce() -> u64,
    ) -> PhysicalWrites<'r> {
        let own = |name, value: Cow<'r, [u8]>| PhysicalWrites {
            spill: None,
            main: PhysicalWrite::string(name, value, expires_at_ms),
        };
        let Some(place) = place else { return own(key, Cow::Borrowed(value)) };
        debug_assert!(place.kind.packing().is_none(), "the hashes of others are read and cleared, never written");
        let namespace = self.namespace(place.namespace);
        if place.kind.is_raw() {
            return own(&*place.physical, Cow::Borrowed(value));
        }
        if place.kind.is_framed() {
            return own(&*place.physical, Cow::Owned(namespace.encode_own_by(effort, key, value)));
        }
        let (spill, stored) = match namespace.encode_by(effort, key, value, expires_at_ms) {
            Stored::InPlace(stored) => (None, stored),
            Stored::Spilled { content, slot } => {
                let nonce = nonce();
                let mut pointer = Vec::with_capacity(18);
                frame::encode_spill(nonce, slot, expires_at_ms, &mut pointer);
                (Some(PhysicalWrite::string(spill_name(place.origin, nonce, key), content, None)), pointer)
            }
        };
        let (name, value) = (Cow::Borrowed(&*place.field), Cow::Owned(stored));
        PhysicalWrites { spill, main: PhysicalWrite { hash: Some(&place.physical), name, value, expires_at_ms: None } }
    }
}

/// The command that reads what lies in a key's place: GET, or HGET.
pub fn physical_read<'r>(place: Option<&'r Place>, key: &'r [u8]) -> SmallVec<[&'r [u8]; 3]> {
    match place {
        None => smallvec![&b"GET"[..], key],
        Some(place) if place.kind.is_field() => smallvec![&b"HGET"[..], &*place.physical, &*place.field],
        Some(place) => smallvec![&b"GET"[..], &*place.physical],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: &str = "
        [[namespace]]
        keys = 'n:{id:int}'
        bucket = { span = 10 }
        value_limit = 8
        [[namespace]]
        keys = 'z:{id:int}'
        [[namespace]]
        keys = 'f:{id:int}'
        placement = 'framed'
        codec = 'hex'
    ";

    /// The commands for a record, a line each.
    fn written(key: &str, value: &str, expires_at_ms: Option<i64>) -> Vec<String> {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let place = layout.locate(key.as_bytes()).place();
        let writes =
            layout.physical_writes(place.as_ref(), key.as_bytes(), value.as_bytes(), expires_at_ms, || u64::MAX);
        let line = |args: &[&[u8]]| args.join(&b' ').escape_ascii().to_string();
        let read = physical_read(place.as_ref(), key.as_bytes());
        writes.main.command(|args| assert_eq!(args[1..read.len()], read[1..], "it is read where it is written"));
        writes.iter().map(|write| write.command(line)).collect()
    }

    #[test]
    fn a_record_is_written_as_its_place_says() {
        let head = |key: &str| {
            let layout = Layout::parse_file(LAYOUT).unwrap();
            layout.locate(key.as_bytes()).place().unwrap().physical.escape_ascii().to_string()
        };
        assert_eq!(written("other", "v", None), ["SET other v"]);
        assert_eq!(written("other", "v", Some(5)), ["SET other v PXAT 5"]);
        assert_eq!(written("z:7", "v", Some(5)), [format!("SET {} v PXAT 5", head("z:7"))]);
        assert_eq!(written("f:7", "v", None), [format!("SET {} v", head("f:7"))]);
        let bucket = head("n:17");
        assert_eq!(written("n:17", "short", None), [format!("HSET {bucket} 7 short")]);
        assert_eq!(written("n:17", "-3", Some(1_577_836_800_001)).len(), 1);
        let [spill, pointer] = &written("n:17", "longer than that", None)[..] else { panic!("it is spilled") };
        assert!(spill.starts_with("SET ~") && spill.ends_with(":n:17 longer than that"), "{spill}");
        assert!(pointer.starts_with(&format!("HSET {bucket} 7 ")) && !pointer.contains("longer"), "{pointer}");
    }

    #[test]
    fn a_nonce_is_drawn_for_what_is_spilled_alone() {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let place = layout.locate(b"n:17").place();
        let writes = layout.physical_writes(place.as_ref(), b"n:17", b"short", None, || panic!("nothing is spilled"));
        assert_eq!((writes.iter().count(), writes.spill), (1, None));
    }
}
