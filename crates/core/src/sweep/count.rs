//! Counts what a walk comes by: how many keys each namespace holds, what they take, and what they would take as plain ones.

use std::collections::BTreeMap;

use super::in_parts::{InParts, Look, PartsCount};
use crate::collection::parts::Header;
use crate::collection::{Collection, CollectionKind};
use crate::exchange::ServerInfo;
use crate::frame::{Body, Frame};
use crate::layout::{Layout, Namespace, NamespaceIndex};
use crate::memory::{Allocator, BucketCost, Limits, Model, Server, ValueShape};
use crate::placement::name::PartName;
use crate::resp::Reply;
use crate::stats::Contents;

/// What a key would take as a plain one is worked out for one of so many: that needs its name, which takes a while.
const ONE_OF: u64 = 8;

/// What a walk over all has come by so far.
#[derive(Debug)]
pub struct ContentsCount {
    model: Model,
    counted: BTreeMap<NamespaceIndex, Counted>,
    in_parts: BTreeMap<NamespaceIndex, PartsCount>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    buckets: u64,
    keys: u64,
    /// Keys that expire.
    expiring: u64,
    /// What the buckets take, the table of keys left out.
    stored_bytes: u64,
    /// Keys that were looked at more closely.
    sampled: u64,
    /// What these would take as plain ones, the table of keys left out.
    sampled_bytes: u64,
}

/// A bucket, or a piece of one that is read in pieces.
#[derive(Debug)]
pub(super) struct Piece {
    namespace: NamespaceIndex,
    cost: BucketCost,
}

impl ContentsCount {
    /// Nothing was come by yet. The memory is that of such a server, in cluster mode where `in_cluster`.
    pub fn new(server: &ServerInfo, limits: Limits, allocator: Allocator, in_cluster: bool) -> Self {
        let (major, minor) = server.release();
        let server = if server.is_valkey() { Server::valkey(major, minor) } else { Server::redis(major, minor) };
        let model = Model::for_server(server).with_allocator(allocator).with_limits(limits).in_cluster_mode(in_cluster);
        Self { model, counted: BTreeMap::new(), in_parts: BTreeMap::new() }
    }

    pub(super) fn begin(namespace: NamespaceIndex) -> Piece {
        Piece { namespace, cost: BucketCost::default() }
    }

    /// Counts a field with what is stored there, which has not expired.
    pub(super) fn add(&mut self, piece: &mut Piece, bucket: &[u8], field: &[u8], stored: &[u8], layout: &Layout) {
        piece.cost.add(&self.model, ValueShape::of(field), ValueShape::of(stored));
        let counted = self.counted.entry(piece.namespace).or_default();
        let Ok(frame) = Frame::decode(stored) else { return };
        let expires = frame.expires_at_ms.is_some();
        counted.expiring += u64::from(expires);
        let is_sampled = counted.keys.is_multiple_of(ONE_OF);
        counted.keys += 1;
        let key = is_sampled.then(|| layout.key_of(piece.namespace, bucket, field)).flatten();
        let key_len = key.as_ref().map(|key| key.len() as u64);
        if let Body::Parts { header, .. } = frame.body
            && let Some(header) = Header::decode(header)
        {
            self.in_parts.entry(piece.namespace).or_default().add(&header, expires, key_len);
        } else if let Some(key) = key {
            counted.sampled += 1;
            counted.sampled_bytes += plain_bytes(&self.model, layout.namespace(piece.namespace), &key, stored, &frame);
        }
    }

    /// Counts a name that belongs to a collection in parts; what is to be read of it.
    pub(super) fn meet_part(
        &mut self,
        namespace: NamespaceIndex,
        part: PartName,
        name: &[u8],
        layout: &Layout,
    ) -> Option<Look> {
        let kind = layout.namespace(namespace).collection()?;
        let form = self.model.sets_as().form_of(kind);
        self.in_parts.entry(namespace).or_default().meet(namespace, form, part, name)
    }

    /// Takes what the server answers to that; how many members it was.
    pub(super) fn take_part(&mut self, look: &Look, reply: Reply<'_>) -> u64 {
        let count = self.in_parts.entry(look.namespace()).or_default();
        count.take(look, reply, &self.model)
    }

    /// The bucket, or this piece of it, was read; `is_last` where nothing of it is left.
    pub(super) fn end(&mut self, piece: &Piece, bucket: &[u8], is_last: bool) {
        let counted = self.counted.entry(piece.namespace).or_default();
        counted.buckets += u64::from(is_last);
        if piece.cost.fields() > 0 {
            counted.stored_bytes += self.model.hash_bytes(bucket.len() as u64, &piece.cost, false);
        }
    }

    /// What each namespace with buckets holds, the walk over all having come to its end.
    pub fn finish(&self, layout: &Layout) -> Vec<(NamespaceIndex, Contents)> {
        let with_buckets = layout.iter().filter(|(_, namespace)| namespace.placement.has_buckets());
        let counted = |index| self.counted.get(&index).copied().unwrap_or_default();
        with_buckets
            .map(|(index, namespace)| (index, self.contents(counted(index), index, namespace.collection())))
            .collect()
    }

    fn contents(&self, counted: Counted, index: NamespaceIndex, kind: Option<CollectionKind>) -> Contents {
        let Counted { buckets, keys, expiring, stored_bytes, sampled, sampled_bytes } = counted;
        let model = &self.model;
        let parts = self.in_parts.get(&index);
        let in_parts = parts.map_or(0, PartsCount::collections);
        let weighed = kind.zip(parts).map(|(kind, parts)| parts.weigh(model, kind));
        let InParts { names, stored_bytes: stored_in_parts, plain_bytes: plain_of_parts } =
            weighed.flatten().unwrap_or_default();
        let one_by_one =
            u128::from(sampled_bytes) * u128::from(keys.saturating_sub(in_parts)) / u128::from(sampled.max(1));
        let expiring = if model.keeps_expiry_apart() { expiring } else { 0 };
        let content_bytes = u64::try_from(one_by_one).unwrap_or(u64::MAX).saturating_add(plain_of_parts);
        Contents {
            keys,
            buckets,
            stored_bytes: stored_bytes + stored_in_parts + model.table_bytes(buckets + names, 0),
            plain_bytes: content_bytes.saturating_add(model.table_bytes(keys, expiring)),
        }
    }
}

/// What a key would take as a plain one, the table of keys left out. Of a spilled value only what is in the field is known.
fn plain_bytes(model: &Model, namespace: &Namespace, key: &[u8], stored: &[u8], frame: &Frame<'_>) -> u64 {
    let (key_len, expires) = (key.len() as u64, frame.expires_at_ms.is_some());
    let string = |value| model.string_bytes(key_len, value, expires);
    let of = |value: &[u8]| match namespace.collection().map(|_| Collection::unpack(value)) {
        Some(Ok(collection)) => model.collection_bytes(key_len, &collection, expires),
        _ => string(ValueShape::of(value)),
    };
    match frame.body {
        Body::Raw(value) => of(value),
        Body::Integer(value) => string(ValueShape::Integer(value)),
        Body::Coded { payload, .. } => match namespace.decode(key, frame, None) {
            Ok(Some(value)) => of(&value),
            _ => string(ValueShape::Bytes(payload.len() as u64)),
        },
        Body::Spill { .. } | Body::Parts { .. } => string(ValueShape::Bytes(stored.len() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Located;
    use crate::memory::Keyspace;

    #[test]
    fn what_folding_saves_is_what_the_model_says() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n").unwrap();
        let server = ServerInfo { name: "redis".into(), version: "7.0.15".into() };
        let mut count = ContentsCount::new(&server, Limits::default(), Allocator::BUNDLED, false);
        let (model, namespace) = (Model::for_server(Server::redis(7, 0)), NamespaceIndex(0));
        let (mut plain, mut stored) = (Keyspace::new(&model), 0);
        let place = |id: u64| match layout.locate(format!("user:{id}").as_bytes()) {
            Located::Placed(place) => place,
            other => panic!("{other:?}"),
        };
        // A multiple of 64, so that buckets are full.
        for first in (1_000_000..).step_by(64).take(10) {
            let (mut piece, mut cost) = (ContentsCount::begin(namespace), BucketCost::default());
            let name = place(first).physical;
            for id in first..first + 64 {
                let (place, value) = (place(id), format!("value {id}"));
                count.add(&mut piece, &place.physical, &place.field, value.as_bytes(), &layout);
                cost.add(&model, ValueShape::of(&place.field), ValueShape::of(value.as_bytes()));
                plain.add_string(format!("user:{id}").as_bytes(), ValueShape::of(value.as_bytes()), false);
            }
            count.end(&piece, &name, true);
            stored += model.hash_bytes(name.len() as u64, &cost, false);
        }
        let all = count.finish(&layout);
        let [(index, contents)] = all[..] else { panic!("there is one namespace") };
        assert_eq!((index, contents.keys, contents.buckets), (namespace, 640, 10));
        assert_eq!(contents.stored_bytes, stored + model.table_bytes(10, 0));
        assert_eq!(contents.plain_bytes, plain.total_bytes(), "keys of one length are all alike");
        assert!(contents.saved_bytes() > 0);
    }

    #[test]
    fn namespaces_without_buckets_are_not_counted_and_empty_ones_are() {
        let text = "[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { span = 64 }\n[[namespace]]\nkeys = 'b:{id}'\n";
        let layout = Layout::parse_file(text).unwrap();
        let count = ContentsCount::new(&ServerInfo::default(), Limits::default(), Allocator::BUNDLED, false);
        assert_eq!(count.finish(&layout), [(NamespaceIndex(0), Contents::default())]);
    }
}
