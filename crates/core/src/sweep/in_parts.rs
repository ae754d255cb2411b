//! What sets and hashes in parts take, and would take as plain ones. How many members each has is said in its bucket; how long they
//! are, and what their parts take, is found from some parts that are read.
//!
//! Outliers are left out on either side, as spilled values are: they take about as much in a part as they do in a plain set or hash.

use std::collections::BTreeMap;

use crate::collection::CollectionKind;
use crate::collection::parts::{Class, Form, Header};
use crate::layout::NamespaceIndex;
use crate::memory::{BucketCost, Model, SetCost, ValueShape};
use crate::placement::name::PartName;
use crate::resp::{Reply, write_command};

/// So many names of one kind are read in any case.
const FIRST: u64 = 64;
/// And of the others one of so many.
const ONE_OF: u64 = 32;
/// Members of one part whose lengths are kept, and of one class.
const SHAPES_OF_PART: usize = 4;
const SHAPES: usize = 256;
/// Collections are told apart by how many members they have, so finely for each doubling.
const STEPS: f64 = 8.0;

/// A member with an empty value, or a field with its value.
type Shape = (ValueShape, ValueShape);

/// What is asked of a name that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Directory,
    Set,
    Hash,
}

/// A name that is to be read.
#[derive(Clone, Debug)]
pub(super) struct Look {
    namespace: NamespaceIndex,
    name: Vec<u8>,
    class: Class,
    ask: Ask,
    is_second: bool,
}

impl Look {
    /// The same of the other type, once the name holds another than it was asked as: a server since upgraded packs sets, and has what
    /// was written before as hashes.
    pub(super) fn otherwise(&self) -> Option<Self> {
        let ask = match self.ask {
            Ask::Set => Ask::Hash,
            Ask::Hash => Ask::Set,
            Ask::Directory => return None,
        };
        (!self.is_second).then(|| Self { ask, is_second: true, name: self.name.clone(), ..*self })
    }

    pub(super) fn send(&self, wire: &mut Vec<u8>) {
        let command: &[u8] = match self.ask {
            Ask::Directory => b"STRLEN",
            Ask::Set => b"SMEMBERS",
            Ask::Hash => b"HGETALL",
        };
        write_command(wire, &[command, &self.name]);
    }

    pub(super) fn namespace(&self) -> NamespaceIndex {
        self.namespace
    }
}

/// What a walk over all has come by of a namespace's collections in parts.
#[derive(Debug, Default)]
pub(super) struct PartsCount {
    /// Names that say whose parts are, and their bytes.
    owners: u64,
    owner_name_bytes: u64,
    classes: [ClassCount; 3],
    by_size: BTreeMap<u32, Alike>,
    /// Collections whose keys' lengths are known, and these.
    keys: u64,
    key_bytes: u64,
}

/// What a class has of it all.
#[derive(Debug, Default)]
struct ClassCount {
    directories: Names,
    parts: Names,
    shapes: Vec<Shape>,
}

/// Names of one kind.
#[derive(Debug, Default)]
struct Names {
    met: u64,
    read: u64,
    /// What those that were read take, the table of keys left out.
    read_bytes: u64,
}

/// Collections of about as many members.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    collections: u64,
    expiring: u64,
    /// Integers and texts of all of them.
    members: [u64; 2],
}

/// What all of a namespace's collections in parts come to, the table of keys left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InParts {
    /// Physical keys beside buckets.
    pub(super) names: u64,
    /// What these take.
    pub(super) stored_bytes: u64,
    /// What the collections would take as plain ones.
    pub(super) plain_bytes: u64,
}

impl PartsCount {
    /// Counts a name of theirs; what is to be read of it.
    pub(super) fn meet(&mut self, namespace: NamespaceIndex, form: Form, part: PartName, name: &[u8]) -> Option<Look> {
        let (class, ask) = match part {
            PartName::Owner => {
                self.owners += 1;
                self.owner_name_bytes += name.len() as u64;
                return None;
            }
            PartName::Remainder | PartName::Directory(Class::Outliers) | PartName::Part(Class::Outliers, _) => {
                return None;
            }
            PartName::Directory(class) => (class, Ask::Directory),
            PartName::Part(class, _) if form.is_in_sets(class) => (class, Ask::Set),
            PartName::Part(class, _) => (class, Ask::Hash),
        };
        let names = self.classes[class as usize].names(ask);
        names.met += 1;
        let is_read = names.met <= FIRST || names.met.is_multiple_of(ONE_OF);
        is_read.then(|| Look { namespace, name: name.to_vec(), class, ask, is_second: false })
    }

    /// Takes what the server answers to that; how many members it was.
    pub(super) fn take(&mut self, look: &Look, reply: Reply<'_>, model: &Model) -> u64 {
        let name_len = look.name.len() as u64;
        let class = &mut self.classes[look.class as usize];
        let (bytes, members) = match (look.ask, reply) {
            (Ask::Directory, Reply::Integer(len)) => {
                let len = u64::try_from(len).unwrap_or(0);
                (model.string_bytes(name_len, ValueShape::Bytes(len), false), 1)
            }
            (Ask::Set, Reply::Array(members)) => {
                let mut cost = SetCost::default();
                for (at, member) in members.filter_map(Reply::bytes).enumerate() {
                    let shape = ValueShape::of(member);
                    cost.add(model, shape);
                    class.keep(at, (shape, ValueShape::Bytes(0)));
                }
                (model.set_bytes(name_len, &cost, false), cost.members())
            }
            (Ask::Hash, Reply::Array(mut texts)) => {
                let mut cost = BucketCost::default();
                while let (Some(name), Some(value)) =
                    (texts.next().and_then(Reply::bytes), texts.next().and_then(Reply::bytes))
                {
                    let (name, value) = (ValueShape::of(name), ValueShape::of(value));
                    #[expect(clippy::cast_possible_truncation, reason = "some hundred")]
                    class.keep(cost.fields() as usize, (name, value));
                    cost.add(model, name, value);
                }
                (model.hash_bytes(name_len, &cost, false), cost.fields())
            }
            _ => return 1,
        };
        // What went meanwhile, or is being halved, has nothing.
        if members > 0 {
            let names = class.names(look.ask);
            names.read += 1;
            names.read_bytes += bytes;
        }
        members.max(1)
    }

    /// Counts a collection by its header, and the length of its key where it is known.
    pub(super) fn add(&mut self, header: &Header, expires: bool, key_len: Option<u64>) {
        let members = [Class::Integers, Class::Texts].map(|class| header.classes[class as usize].count);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred")]
        let size = ((members.iter().sum::<u64>().max(1) as f64).log2() * STEPS) as u32;
        let alike = self.by_size.entry(size).or_default();
        alike.collections += 1;
        alike.expiring += u64::from(expires);
        alike.members.iter_mut().zip(members).for_each(|(sum, more)| *sum += more);
        self.keys += u64::from(key_len.is_some());
        self.key_bytes += key_len.unwrap_or(0);
    }

    /// How many collections there are.
    pub(super) fn collections(&self) -> u64 {
        self.by_size.values().map(|alike| alike.collections).sum()
    }

    /// What all of them come to; none where too little was read to tell.
    pub(super) fn weigh(&self, model: &Model, kind: CollectionKind) -> Option<InParts> {
        let key_len = self.key_bytes / self.keys.max(1);
        let owner_name_len = self.owner_name_bytes / self.owners.max(1);
        let mut sum = InParts {
            names: self.owners,
            stored_bytes: self.owners * model.string_bytes(owner_name_len, ValueShape::Bytes(key_len), false),
            plain_bytes: 0,
        };
        for names in self.classes.iter().flat_map(|class| [&class.directories, &class.parts]) {
            sum.names += names.met;
            sum.stored_bytes += names.bytes()?;
        }
        for alike in self.by_size.values() {
            sum.plain_bytes += alike.collections * self.plain_bytes(alike, model, kind, key_len)?;
        }
        Some(sum)
    }

    /// What one of these would take as a plain one.
    fn plain_bytes(&self, alike: &Alike, model: &Model, kind: CollectionKind, key_len: u64) -> Option<u64> {
        let expires = alike.expiring * 2 > alike.collections;
        let (mut set, mut hash) = (SetCost::default(), BucketCost::default());
        for (class, members) in self.classes.iter().zip(alike.members) {
            let each = members / alike.collections;
            let shapes = class.shapes.len() as u64;
            if each > 0 && shapes == 0 {
                return None;
            }
            for (at, (name, value)) in (0..).zip(&class.shapes) {
                let times = each / shapes + u64::from(at < each % shapes);
                match kind {
                    CollectionKind::Set => set.add_alike(model, *name, times),
                    CollectionKind::Hash => hash.add_alike(model, *name, *value, times),
                }
            }
        }
        Some(match kind {
            CollectionKind::Set => model.settled_set_bytes(key_len, &set, expires),
            CollectionKind::Hash => model.settled_hash_bytes(key_len, &hash, expires),
        })
    }
}

impl ClassCount {
    fn names(&mut self, ask: Ask) -> &mut Names {
        if ask == Ask::Directory { &mut self.directories } else { &mut self.parts }
    }

    fn keep(&mut self, at: usize, shape: Shape) {
        if at < SHAPES_OF_PART && self.shapes.len() < SHAPES {
            self.shapes.push(shape);
        }
    }
}

impl Names {
    /// What all take that were met; none where none of them was read.
    fn bytes(&self) -> Option<u64> {
        match (self.met, self.read) {
            (0, _) => Some(0),
            (_, 0) => None,
            (met, read) => u64::try_from(u128::from(self.read_bytes) * u128::from(met) / u128::from(read)).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Server;

    #[test]
    fn those_that_are_alike_take_what_they_do_one_by_one() {
        for server in [Server::redis(6, 2), Server::redis(7, 0), Server::redis(8, 0), Server::valkey(9, 1)] {
            let model = Model::for_server(server);
            for (first, then) in [(3, 120), (120, 9), (128, 1), (1, 511), (512, 1), (513, 4000)] {
                for [one, other] in [[7, 400_000], [1_000_000_000_000, 3]].map(|ints| ints.map(ValueShape::Integer)) {
                    for text in [ValueShape::Bytes(24), ValueShape::Bytes(90), ValueShape::Bytes(300)] {
                        let members = [(one, first), (other, then), (text, then)];
                        let (mut each, mut alike) = (SetCost::default(), SetCost::default());
                        let (mut each_field, mut alike_fields) = (BucketCost::default(), BucketCost::default());
                        for (shape, times) in members {
                            (0..times).for_each(|_| each.add(&model, shape));
                            (0..times).for_each(|_| each_field.add(&model, shape, text));
                            alike.add_alike(&model, shape, times);
                            alike_fields.add_alike(&model, shape, text, times);
                            assert_eq!((each, each_field), (alike, alike_fields), "{server} {first} {then} {text:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_was_not_read_is_not_told() {
        let model = Model::for_server(Server::redis(7, 0));
        let of = NamespaceIndex(0);
        let mut header = Header::new(Form::Hashes, 7);
        header.classes[Class::Texts as usize].count = 1000;
        let mut count = PartsCount::default();
        count.add(&header, false, Some(9));
        assert_eq!(count.weigh(&model, CollectionKind::Set), None);
        let part = PartName::Part(Class::Texts, 1);
        let look = count.meet(of, Form::Hashes, part, b"~0|00000000000000070t1").unwrap();
        assert_eq!(count.take(&look, Reply::parse(b"*0\r\n").unwrap(), &model), 1);
        assert_eq!(count.weigh(&model, CollectionKind::Set), None);
        let answer = b"*4\r\n$3\r\nfoo\r\n$0\r\n\r\n$3\r\nbar\r\n$0\r\n\r\n";
        assert_eq!(count.take(&look, Reply::parse(answer).unwrap(), &model), 2);
        let InParts { names, stored_bytes, plain_bytes } = count.weigh(&model, CollectionKind::Set).unwrap();
        assert!(names == 1 && stored_bytes > 0 && plain_bytes > 30_000, "{names} {stored_bytes} {plain_bytes}");
        // Beyond the first ones, one of some is read.
        let looks =
            (0..1000).filter(|_| count.meet(of, Form::Hashes, part, b"~0|00000000000000070t2").is_some()).count();
        assert!((80..120).contains(&looks), "{looks}");
    }
}
