//! Buckets and their fields: what came of asking for them, and for the spilled values that fields point to.

use anyhow::bail;
use keyfold_core::codec::CodecError;
use keyfold_core::collection::Collection;
use keyfold_core::dialect::Dialect;
use keyfold_core::exchange::{InParts, read_parts};
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Layout, NamespaceIndex, spill_name};
use keyfold_core::resp::Reply;
use keyfold_core::walk::BucketWalk;

use super::{Home, RecordWalk, Sight};
use crate::records::finding::FindingKind;
use crate::records::inquiry::{Field, Fields, Inquiry, Seen};
use crate::records::place::{self, Spot};
use crate::records::{Content, Other, Packed, content, hashtable, in_parts};

/// Seeming orphans that are remembered, to be asked about again; there are few, or something is wrong.
const SUSPECTS: usize = 10_000;

impl RecordWalk<'_> {
    /// A bucket is taken once it is there as a whole, which it mostly is after one step.
    pub(super) fn take_step(
        &mut self,
        mut walk: BucketWalk,
        mut before: Fields,
        step: Reply<'_>,
        encoding: Reply<'_>,
    ) -> anyhow::Result<()> {
        let (namespace, name) = (walk.namespace(), walk.name().to_vec());
        let Ok(fields) = walk.take(step) else {
            return self.find(FindingKind::NotABucket, name, None, None, String::new());
        };
        let fields: Vec<(&[u8], &[u8])> = fields.collect();
        if walk.is_over() && before.is_empty() {
            return self.take_bucket(namespace, &name, &fields, encoding);
        }
        before.extend(fields.into_iter().map(|(field, stored)| (field.to_vec(), stored.to_vec())));
        if !walk.is_over() {
            self.waiting.push_front(Inquiry::Bucket { walk, before });
            return Ok(());
        }
        let fields: Vec<_> = before.iter().map(|(field, stored)| (field.as_slice(), stored.as_slice())).collect();
        self.take_bucket(namespace, &name, &fields, encoding)
    }

    fn take_bucket(
        &mut self,
        namespace: NamespaceIndex,
        name: &[u8],
        fields: &[(&[u8], &[u8])],
        encoding: Reply<'_>,
    ) -> anyhow::Result<()> {
        if fields.is_empty() {
            return Ok(());
        }
        (self.visit)(Sight::Bucket(namespace, fields.len()))?;
        let handmade = self.manner.layout.packing_in(name).is_some();
        if !handmade && encoding == Reply::Bulk(b"hashtable") {
            let detail = hashtable::explain(fields, self.manner.listpack_limits);
            self.find(FindingKind::Hashtable, name.to_vec(), None, None, detail)?;
        }
        let mut bytes = 0;
        for (field, stored) in fields {
            let field = field.to_vec();
            bytes += field.len() + stored.len();
            match place::key_at(self.manner.layout, namespace, name, &field) {
                Some(key) => {
                    let spot = Spot::Field { bucket: name, field: &field };
                    if let Some(new) = place::new_place(self.manner.layout, &key, spot) {
                        let old = spot.stored(&key);
                        let seen = Seen::Field(Field { namespace, bucket: name.to_vec(), field, key }, stored.to_vec());
                        self.waiting.push_back(Inquiry::Both { new, old, seen });
                        continue;
                    }
                    self.take_field(Field { namespace, bucket: name.to_vec(), field, key }, stored)?;
                }
                None => self.find(FindingKind::StrangeField, name.to_vec(), Some(field), None, String::new())?,
            }
        }
        self.weigh(bytes);
        Ok(())
    }

    pub(super) fn take_field(&mut self, field: Field, stored: &[u8]) -> anyhow::Result<()> {
        if let Some(packing) = self.manner.layout.packing_in(&field.bucket) {
            return match packing.unpack(stored) {
                Ok(value) => {
                    let value = value.into_owned();
                    self.show(field.key, Content::String(value), None, Home::Bucket(field.namespace))
                }
                Err(error) => self.find_in(field, FindingKind::DamagedValue, error.to_string()),
            };
        }
        let frame = match Frame::decode(stored) {
            Ok(frame) => frame,
            Err(error) => return self.find_in(field, FindingKind::DamagedValue, error.to_string()),
        };
        if frame.expired(self.time.now_ms()) {
            return (self.visit)(Sight::Expired(field.namespace));
        }
        let expires_at_ms = frame.expires_at_ms;
        let home = Home::Bucket(field.namespace);
        if let Body::Spill { nonce, .. } = frame.body
            && let Some(origin) = Layout::origin_of(&field.bucket)
        {
            let name = spill_name(origin, nonce, &field.key);
            self.waiting.push_back(Inquiry::Spill { field, stored: stored.to_vec(), name, expires_at_ms });
            return Ok(());
        }
        if let Some(draws) = self.manner.draws
            && let Some(parts) = in_parts::InParts::of(stored)
        {
            if draws(field.namespace, parts) {
                self.waiting.push_back(Inquiry::Draw { field, parts });
            }
            return Ok(());
        }
        if let Body::Parts { .. } = frame.body {
            self.waiting.push_back(Inquiry::Parts { field, stored: stored.to_vec(), expires_at_ms });
            return Ok(());
        }
        if keyfold_core::frame::is_raw(stored) {
            return self.show_value(field, stored.to_vec(), expires_at_ms, home);
        }
        self.show_decoded(field, &frame, None, home)
    }

    pub(super) fn take_spill(
        &mut self,
        field: Field,
        stored: Vec<u8>,
        expires_at_ms: Option<i64>,
        spilled: Reply<'_>,
    ) -> anyhow::Result<()> {
        let Reply::Bulk(value) = spilled else {
            self.waiting.push_back(Inquiry::Again { field, stored });
            return Ok(());
        };
        self.weigh(value.len());
        let home = Home::Spilled(field.namespace);
        match Frame::decode(&stored) {
            Ok(frame) => self.show_decoded(field, &Frame { expires_at_ms, ..frame }, Some(value), home),
            Err(error) => self.find_in(field, FindingKind::DamagedValue, error.to_string()),
        }
    }

    /// The members of a collection in parts.
    pub(super) fn take_parts(
        &mut self,
        field: Field,
        stored: Vec<u8>,
        expires_at_ms: Option<i64>,
        reply: Reply<'_>,
    ) -> anyhow::Result<()> {
        let Some(kind) = self.manner.layout.namespace(field.namespace).collection() else {
            let found = "a collection in parts in a namespace of strings".to_owned();
            return self.find_in(field, FindingKind::DamagedValue, found);
        };
        match read_parts(reply, kind) {
            Some(InParts::All { collection, .. }) => {
                let packed = collection.packed();
                self.weigh(packed.len());
                let home = Home::InParts(field.namespace);
                self.show_value(field, packed, expires_at_ms, home)
            }
            Some(InParts::Changed) => {
                self.waiting.push_back(Inquiry::Again { field, stored });
                Ok(())
            }
            Some(InParts::Unreadable { why, .. }) => self.find_in(field, FindingKind::DamagedValue, why),
            None => bail!("the script on parts answered something else"),
        }
    }

    pub(super) fn take_drawn(
        &mut self,
        field: &Field,
        parts: in_parts::InParts,
        reply: Reply<'_>,
    ) -> anyhow::Result<()> {
        match parts.drawn(reply) {
            Some(known) => (self.visit)(Sight::Drawn { namespace: field.namespace, key: &field.key, parts, known }),
            None => Ok(()),
        }
    }

    /// The value may have been replaced, and the old one removed, since the pointer was read.
    pub(super) fn take_again(&mut self, field: Field, stored: &[u8], now: Reply<'_>) -> anyhow::Result<()> {
        match now {
            Reply::Bulk(now) if now == stored => self.find_in(field, FindingKind::MissingSpill, String::new()),
            Reply::Bulk(now) => self.take_field(field, now),
            _ => Ok(()),
        }
    }

    /// Shows the value of a frame, or finds that it can't be decoded.
    pub(super) fn show_decoded(
        &mut self,
        field: Field,
        frame: &Frame<'_>,
        spilled: Option<&[u8]>,
        home: Home,
    ) -> anyhow::Result<()> {
        match self.manner.layout.namespace(field.namespace).decode(&field.key, frame, spilled) {
            Ok(value) => {
                let value = value.unwrap_or_default().into_owned();
                self.show_value(field, value, frame.expires_at_ms, home)
            }
            Err(error @ CodecError::Damaged { .. }) => {
                self.find_in(field, FindingKind::DamagedValue, error.to_string())
            }
            Err(error) => self.find_in(field, FindingKind::UnknownCodec, error.to_string()),
        }
    }

    /// Shows a value as what its namespace holds: a string, or a whole set or hash.
    fn show_value(
        &mut self,
        field: Field,
        value: Vec<u8>,
        expires_at_ms: Option<i64>,
        home: Home,
    ) -> anyhow::Result<()> {
        let Some(kind) = self.manner.layout.namespace(field.namespace).collection() else {
            return self.show(field.key, Content::String(value), expires_at_ms, home);
        };
        let (collection, expires_at_ms) = match Collection::read_stored(&value, expires_at_ms) {
            Ok((collection, at)) if collection.kind() == kind => (collection, at),
            Ok((other, _)) => {
                let found = format!("a packed {} in a namespace of the type {kind}", other.kind());
                return self.find_in(field, FindingKind::DamagedValue, found);
            }
            Err(error) => return self.find_in(field, FindingKind::DamagedValue, error.to_string()),
        };
        let Some(collection) = collection.living(self.time.now_ms()) else {
            return (self.visit)(Sight::Expired(field.namespace));
        };
        let dump = match self.manner.wants.payloads.of_folded(&collection) {
            true => collection.payload(Dialect::new(&self.server_info, false).field_expiry_form()),
            false => Vec::new(),
        };
        let digest = Some(content::digest_of(&collection));
        let other = Other { kind: kind.name().to_owned(), dump, digest };
        self.show(field.key, Content::Packed(Packed { value, other }), expires_at_ms, home)
    }

    pub(super) fn take_owner(
        &mut self,
        field: Field,
        nonce: u64,
        name: Vec<u8>,
        again: bool,
        [stored, left]: [Reply<'_>; 2],
    ) -> anyhow::Result<()> {
        let points_here = match stored {
            Reply::Bulk(stored) => Frame::decode(stored).is_ok_and(|frame| frame.body.points_to(nonce)),
            _ => false,
        };
        // A replaced one stays for some seconds, with a TTL.
        if points_here || left != Reply::Integer(-1) {
            return Ok(());
        }
        if !again && self.suspects.len() < SUSPECTS {
            self.suspects.push((field, nonce, name));
            return Ok(());
        }
        self.find(FindingKind::OrphanedSpill, name, None, Some(field.key), String::new())
    }
}
