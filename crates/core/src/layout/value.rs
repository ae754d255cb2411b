//! Values as a namespace stores them, and back.

use std::borrow::Cow;

use super::{Layout, Namespace, NamespaceIndex};
use crate::codec::{CodecError, Effort, LARGE_SLOT, Owner, Payload, Stored};
use crate::collection::{Collection, CollectionKind, packed, vocabulary};
use crate::frame::{self, Body, Frame};

impl Layout {
    /// When the key is gone that this frame at `field` of the bucket `physical` holds: with the frame, or before with the last field of a
    /// hash, where that is to be seen at a glance. Of a hash that another codec wrote than the one for fields, and of one that is spilled,
    /// the frame's own expiry counts.
    pub fn ends_at_ms(
        &self,
        namespace: NamespaceIndex,
        physical: &[u8],
        field: &[u8],
        frame: &Frame<'_>,
    ) -> Option<i64> {
        let ends_at_ms = frame.expires_at_ms?;
        let rules = self.namespace(namespace);
        let value = match frame.body {
            _ if rules.collection() != Some(CollectionKind::Hash) => None,
            Body::Raw(value) => Some(Cow::Borrowed(value)),
            Body::Coded { payload, .. } if vocabulary::may_have_expiries(payload) => {
                let key = self.key_of(namespace, physical, field);
                key.and_then(|key| rules.decode(&key, frame, None).ok().flatten())
            }
            _ => None,
        };
        let passes_at_ms = value.filter(|value| packed::has_expiries(value)).and_then(|value| {
            match Collection::read_stored(&value, None).ok()?.0 {
                Collection::Hash(hash) => hash.passes_at_ms(),
                Collection::Set(_) => None,
            }
        });
        Some(passes_at_ms.map_or(ends_at_ms, |passes_at_ms| ends_at_ms.min(passes_at_ms)))
    }
}

impl Namespace {
    /// What a value is stored as in a bucket: by the namespace's codec where that makes it shorter, and spilled
    /// where it would be over `value_limit`.
    pub fn encode<'v>(&self, key: &[u8], value: &'v [u8], expires_at_ms: Option<i64>) -> Stored<'v> {
        self.encode_by(Effort::Full, key, value, expires_at_ms)
    }

    /// The same with so much effort.
    pub fn encode_by<'v>(
        &self,
        effort: Effort<'_>,
        key: &[u8],
        value: &'v [u8],
        expires_at_ms: Option<i64>,
    ) -> Stored<'v> {
        let mut stored = Vec::with_capacity(value.len().min(self.value_limit) + 16);
        let coded = self.encode_whole(effort, key, value, expires_at_ms, &mut stored);
        if stored.len() <= self.value_limit {
            return Stored::InPlace(stored);
        }
        match coded {
            Some((slot, head)) => {
                stored.drain(..head);
                Stored::Spilled { content: Cow::Owned(stored), slot: Some(slot) }
            }
            None => Stored::Spilled { content: Cow::Borrowed(value), slot: None },
        }
    }

    /// What a value is stored as in a key of its own that holds frames: the server keeps its expiry.
    pub fn encode_own(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        self.encode_own_by(Effort::Full, key, value)
    }

    /// The same with so much effort.
    pub fn encode_own_by(&self, effort: Effort<'_>, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut stored = Vec::with_capacity(value.len() + 2);
        self.encode_whole(effort, key, value, None, &mut stored);
        stored
    }

    /// Appends the stored value, whatever its length. Where a codec wrote it: the codec's slot, and how many bytes of
    /// the stored value come before the codec's payload.
    fn encode_whole(
        &self,
        effort: Effort<'_>,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<i64>,
        out: &mut Vec<u8>,
    ) -> Option<(u8, usize)> {
        if let Some(slot) = self.codecs.writer(value.len())
            && !frame::is_integer(value)
        {
            frame::write_coded_head(slot, expires_at_ms, out);
            let head = out.len();
            let owner = Owner::new(&self.keys, key);
            if self.codecs.encode(slot, value, &owner, effort, out) && out.len() < frame::raw_len(value, expires_at_ms)
            {
                return Some((slot, head));
            }
            out.clear();
        }
        frame::encode(value, expires_at_ms, out);
        None
    }

    /// What the codec that is written now makes of a value; none where the value is stored as it is.
    pub(crate) fn payload(&self, effort: Effort<'_>, key: &[u8], value: &[u8]) -> Option<Payload> {
        self.codecs.payload(value, &Owner::new(&self.keys, key), effort)
    }

    /// Whether a frame names no codec, or one of this namespace's slots.
    pub fn knows_slot_of(&self, frame: &Frame<'_>) -> bool {
        match frame.body {
            Body::Coded { slot, .. } | Body::Spill { slot: Some(slot), .. } => {
                slot == LARGE_SLOT || self.codecs.iter().any(|known| known.number == slot)
            }
            Body::Raw(_) | Body::Integer(_) | Body::Spill { slot: None, .. } | Body::Parts { .. } => true,
        }
    }

    /// The value of a frame, with what lies in the spill key that it points to; none where that is gone.
    ///
    /// # Errors
    /// A slot that is unknown or can't be used; a payload that its codec never wrote.
    pub fn decode<'s>(
        &self,
        key: &[u8],
        frame: &Frame<'s>,
        spilled: Option<&'s [u8]>,
    ) -> Result<Option<Cow<'s, [u8]>>, CodecError> {
        let (slot, payload) = match frame.body {
            Body::Raw(bytes) => return Ok(Some(Cow::Borrowed(bytes))),
            Body::Integer(number) => return Ok(Some(Cow::Owned(number.to_string().into_bytes()))),
            Body::Coded { slot, payload } => (slot, payload),
            Body::Spill { slot, .. } => match (spilled, slot) {
                (Some(content), Some(slot)) => (slot, content),
                (spilled, _) => return Ok(spilled.map(Cow::Borrowed)),
            },
            // Their members are read by themselves.
            Body::Parts { .. } => return Ok(None),
        };
        let mut value = Vec::new();
        self.codecs.decode(slot, payload, &Owner::new(&self.keys, key), &mut value)?;
        Ok(Some(Cow::Owned(value)))
    }
}
