//! What a server takes for a value of a dump.

use std::mem;

use keyfold_core::memory::{
    Allocator, BucketCost, Family, Limits, Model, Server, SetCost, SortedSetCost, Tabled, ValueShape,
};

use crate::value::{Collection, Element, Form, Kind};

/// What the dump has as a table is one, however small.
const UNPACKED: Limits =
    Limits { hash_entries: 0, hash_value_bytes: 0, set_entries: 0, set_value_bytes: 0, intset_entries: 0 };

/// A list of several pieces, and one of them (`quicklist.h`).
const QUICKLIST_BYTES: u64 = 40;
const QUICKLIST_NODE_BYTES: u64 = 32;
/// A stream and its tree of pieces, and what a piece is found by (`stream.h`, `rax.h`), about.
const STREAM_BYTES: u64 = 144;
const STREAM_PIECE_BYTES: u64 = 48;
/// What the last piece of a stream is given beforehand (`stream-node-max-bytes`).
const STREAM_ROOM_BYTES: u64 = 4096;

/// Counts the elements of one value after the other.
pub struct Usage {
    /// Nothing is packed, and nothing shared.
    model: Model,
    allocator: Allocator,
    /// Short lists are one listpack.
    packs_lists: bool,
    hash: BucketCost,
    set: SetCost,
    sorted_set: SortedSetCost,
}

impl Usage {
    /// By the model of the server that wrote the dump.
    pub fn new(server: Server, model: &Model) -> Self {
        let allocator = model.allocator();
        let model = model.clone().with_limits(UNPACKED).with_shared_integers(false);
        let packs_lists = server.family == Family::Valkey || server.version >= Server::redis(7, 2).version;
        Self {
            model,
            allocator,
            packs_lists,
            hash: BucketCost::default(),
            set: SetCost::default(),
            sorted_set: SortedSetCost::default(),
        }
    }

    /// Whether the server has short lists as one listpack, and not as a list of one piece.
    pub fn packs_lists(&self) -> bool {
        self.packs_lists
    }

    /// Counts an element.
    pub fn add(&mut self, element: &Element<'_>) {
        let (name, value) = (element.name.shape(), element.value.map(|value| value.shape()));
        match (element.form, element.kind) {
            (Form::Table, Kind::Hash) => {
                self.hash.add(&self.model, name, value.unwrap_or(ValueShape::Bytes(0)));
            }
            (Form::Table, Kind::Set) => self.set.add(&self.model, name),
            (Form::Table, Kind::SortedSet) => self.sorted_set.add(&self.model, name),
            _ => {}
        }
    }

    /// What the key takes without its share of the tables of keys and expiries, as `MEMORY USAGE` has it; the next one begins.
    ///
    /// Tables are predicted by the memory model, packed values by their own length. Of lists of several pieces and large sorted
    /// sets it is an estimate, and of streams one without their groups.
    pub fn take(&mut self, key_len: u64, value: &Collection, has_expiry: bool) -> u64 {
        let (hash, set) = (mem::take(&mut self.hash), mem::take(&mut self.set));
        let sorted_set = mem::take(&mut self.sorted_set);
        let (model, usable) = (&self.model, |bytes| self.allocator.usable_bytes(bytes));
        // An expiry in the key's own object is part of it; one in a table of its own isn't.
        let has_expiry = has_expiry && !model.keeps_expiry_apart();
        let bare = || model.string_bytes(key_len, ValueShape::Integer(i64::MAX), has_expiry);
        // Pieces are about as long as they may be, which is a size that an allocator has.
        let pieces = |of_one: u64| match value.pieces {
            1 => usable(of_one) + usable(value.packed_bytes),
            many => many * usable(of_one) + value.packed_bytes,
        };
        let as_said = |bytes: u64, of| bytes.saturating_add_signed(-model.unsaid_table_bytes(of, value.elements));
        let bytes = match (value.form, value.kind) {
            (Form::Table, Kind::Hash) => as_said(model.settled_hash_bytes(key_len, &hash, has_expiry), Tabled::Hash),
            (Form::Table, Kind::SortedSet) => {
                as_said(model.sorted_set_bytes(key_len, &sorted_set, has_expiry), Tabled::SortedSet)
            }
            (Form::Table, _) => as_said(model.settled_set_bytes(key_len, &set, has_expiry), Tabled::Set),
            (_, Kind::List) if value.pieces != 1 || !self.packs_lists => {
                bare() + usable(QUICKLIST_BYTES) + pieces(QUICKLIST_NODE_BYTES)
            }
            (_, Kind::Stream) => {
                let room = STREAM_ROOM_BYTES.saturating_sub(value.packed_bytes % STREAM_ROOM_BYTES);
                bare() + usable(STREAM_BYTES) + pieces(STREAM_PIECE_BYTES) + room
            }
            _ => bare() + usable(value.packed_bytes),
        };
        bytes.saturating_sub(model.unsaid_key_bytes(key_len, has_expiry))
    }
}
