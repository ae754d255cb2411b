//! The forms of a counter.

use anyhow::Context;
use keyfold_core::layout::Layout;

use crate::physical::Physical;

/// Ids to a bucket by hand; the last is servers' default limit of entries.
pub(super) const SIZES: [u64; 4] = [64, 128, 256, 512];
/// Ids to a bucket of keyfold's where they are dense.
const SPAN: u64 = 126;
/// Counters to a bucket of keyfold's on the mean, where ids have holes.
const PER_BUCKET: u64 = 100;

/// A way to keep counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Strings,
    /// So many ids to a hash.
    ByHand(u64),
    /// As keyfold's placement `span` does.
    Span,
    /// As its placement `count` does.
    Count,
}

impl Form {
    pub(super) fn all() -> Vec<Self> {
        let by_hand = SIZES.map(Self::ByHand);
        std::iter::once(Self::Strings).chain(by_hand).chain([Self::Span, Self::Count]).collect()
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Strings => "strings".to_owned(),
            Self::ByHand(size) => format!("by {size}"),
            Self::Span => "keyfold, span".to_owned(),
            Self::Count => "keyfold, count".to_owned(),
        }
    }

    pub(super) fn physical(self, records: &[(u64, u64)]) -> anyhow::Result<Physical> {
        let layout = self.layout(records.len() as u64)?;
        let mut physical = Physical::default();
        for (id, counted) in records {
            let value = counted.to_string();
            match self {
                Self::ByHand(size) => {
                    let (hash, field) = (format!("counter:{}", id / size), (id % size).to_string());
                    physical.field(hash.as_bytes(), field.as_bytes(), value.as_bytes());
                }
                Self::Strings | Self::Span | Self::Count => physical.place(&layout, &key(*id), value.as_bytes()),
            }
        }
        Ok(physical)
    }

    /// The layout; one without namespaces where keyfold has no part.
    fn layout(self, counters: u64) -> anyhow::Result<Layout> {
        let bucket = match self {
            Self::Strings | Self::ByHand(_) => return Ok(Layout::default()),
            Self::Span => format!("span = {SPAN}"),
            Self::Count => format!("count = {}", (counters / PER_BUCKET).max(2)),
        };
        let text = format!("[[namespace]]\nkeys = \"counter:{{id:int}}\"\nbucket = {{ {bucket} }}\n");
        Layout::parse_file(&text).context("the study's layout")
    }
}

/// The name of a counter that has a key of its own.
pub(super) fn key(id: u64) -> Vec<u8> {
    format!("counter:{id}").into_bytes()
}

#[cfg(test)]
mod tests {
    use keyfold_core::memory::{Allocator, Model, Server};

    use super::*;

    #[test]
    fn counters_fill_as_many_buckets_as_their_ids_ask_for() {
        let model = Model::for_server(Server::redis(7, 0)).with_allocator(Allocator::SYSTEM);
        let dense: Vec<_> = (0..1000).map(|id| (id, 7)).collect();
        let far: Vec<_> = (0..1000).map(|id| (id * 512, 7)).collect();
        let keys = |form: Form, records: &[(u64, u64)]| form.physical(records).unwrap().predict(&model, 0).keys();
        assert_eq!((keys(Form::Strings, &dense), keys(Form::ByHand(512), &dense)), (1000, 2));
        assert_eq!((keys(Form::Span, &dense), keys(Form::Count, &dense)), (8, 10));
        assert_eq!((keys(Form::ByHand(512), &far), keys(Form::Count, &far)), (1000, 10));
    }
}
