//! Counts what a walk comes by: how many keys each namespace holds, what they take, and what they would take as plain ones.

use std::collections::BTreeMap;

use crate::exchange::ServerInfo;
use crate::frame::{Body, Frame};
use crate::layout::{Layout, NamespaceIndex};
use crate::memory::{BucketCost, Limits, Model, Server, ValueShape};
use crate::stats::Contents;

/// What a key would take as a plain one is worked out for one of so many: that needs its name, which takes a while.
const ONE_OF: u64 = 8;

/// What a walk over all has come by so far.
#[derive(Debug)]
pub struct ContentsCount {
    model: Model,
    counted: BTreeMap<NamespaceIndex, Counted>,
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
    /// Nothing was come by yet. The memory is that of such a server with the allocator of official builds, in cluster mode
    /// where `in_cluster`.
    pub fn new(server: &ServerInfo, limits: Limits, in_cluster: bool) -> Self {
        let (major, minor) = server.release();
        let server = if server.is_valkey() { Server::valkey(major, minor) } else { Server::redis(major, minor) };
        let model = Model::for_server(server).with_limits(limits).in_cluster_mode(in_cluster);
        Self { model, counted: BTreeMap::new() }
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
        if counted.keys.is_multiple_of(ONE_OF)
            && let Some(key) = layout.key_of(piece.namespace, bucket, field)
        {
            let value = match frame.body {
                Body::Raw(value) => ValueShape::of(value),
                Body::Integer(value) => ValueShape::Integer(value),
                Body::Coded { payload, .. } => match layout.namespace(piece.namespace).decode(&key, &frame, None) {
                    Ok(Some(value)) => ValueShape::of(&value),
                    _ => ValueShape::Bytes(payload.len() as u64),
                },
                Body::Spill { .. } | Body::Parts { .. } => ValueShape::Bytes(stored.len() as u64),
            };
            counted.sampled += 1;
            counted.sampled_bytes += self.model.string_bytes(key.len() as u64, value, expires);
        }
        counted.keys += 1;
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
        with_buckets.map(|(index, _)| (index, counted(index).contents(&self.model))).collect()
    }
}

impl Counted {
    fn contents(&self, model: &Model) -> Contents {
        let Self { buckets, keys, expiring, stored_bytes, sampled, sampled_bytes } = *self;
        let all = u128::from(sampled_bytes) * u128::from(keys) / u128::from(sampled.max(1));
        let expiring = if model.keeps_expiry_apart() { expiring } else { 0 };
        let plain_bytes = u64::try_from(all).unwrap_or(u64::MAX).saturating_add(model.table_bytes(keys, expiring));
        Contents { keys, buckets, stored_bytes: stored_bytes + model.table_bytes(buckets, 0), plain_bytes }
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
        let mut count = ContentsCount::new(&server, Limits::default(), false);
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
        let count = ContentsCount::new(&ServerInfo::default(), Limits::default(), false);
        assert_eq!(count.finish(&layout), [(NamespaceIndex(0), Contents::default())]);
    }
}
