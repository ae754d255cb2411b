//! What a walk asks the server: each question's commands, and how many replies they have.

use std::collections::BTreeMap;

use keyfold_core::collection::Collection;
use keyfold_core::exchange::read_parts_command;
use keyfold_core::layout::NamespaceIndex;
use keyfold_core::walk::{BucketWalk, KeyWalk};
use keyfold_server::Commands;

use super::content;
use super::in_parts::InParts;
use super::place::Stored;

/// What is of interest beside the records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wants {
    /// What RESTORE takes.
    pub(crate) payloads: Payloads,
    /// Whether each spilled value has a field that points to it.
    pub(crate) owners: bool,
    /// How buckets are encoded.
    pub(crate) encodings: bool,
    /// The values that sets and hashes of their own would be in buckets.
    pub(crate) packed: bool,
}

/// Of which keys what RESTORE takes is of interest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Payloads {
    #[default]
    None,
    /// Of those that may hold something beside their elements: groups of a stream, expiries of a hash's fields.
    Beside {
        /// Whether fields of hashes that aren't folded expire on this server.
        fields_expire: bool,
    },
    /// Of all but strings.
    All,
}

impl Payloads {
    /// Whether that of a key of this type is, which isn't folded.
    fn of(self, kind: &str) -> bool {
        match self {
            Self::None => false,
            Self::Beside { fields_expire } => kind == "stream" || kind == "hash" && fields_expire,
            Self::All => true,
        }
    }

    /// Whether that of a folded set or hash is.
    pub(crate) fn of_folded(self, collection: &Collection) -> bool {
        match (self, collection) {
            (Self::Beside { .. }, Collection::Hash(hash)) => hash.expiries().next().is_some(),
            (Self::None | Self::Beside { .. }, _) => false,
            (Self::All, _) => true,
        }
    }
}

/// A key of its own, plain or zipped.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) physical: Vec<u8>,
    pub(crate) key: Vec<u8>,
    /// None where it is plain.
    pub(crate) namespace: Option<NamespaceIndex>,
}

/// A field of a bucket, and the key that lies there.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) namespace: NamespaceIndex,
    pub(crate) bucket: Vec<u8>,
    pub(crate) field: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Fields of a bucket that doesn't come in one step, each once, with their stored values.
pub(crate) type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was seen of a key in the place that it is moved out of.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The name of a key of its own.
    Name(Own),
    /// A field, with what it holds.
    Field(Field, Vec<u8>),
}

/// A question.
#[derive(Debug)]
pub(crate) enum Inquiry {
    /// The next names of the walk.
    Names(KeyWalk),
    /// Values and expiries of keys that are probably strings, at one moment.
    Strings(Vec<Own>),
    /// The type of a key that is no string.
    Kind(Own),
    /// All of a key of this type, at one moment.
    Other { own: Own, kind: String },
    /// A bucket's fields, from where the walk over them is, and those that came before.
    Bucket { walk: BucketWalk, before: Fields },
    /// The spilled value that a field pointed to, when it held `stored`.
    Spill { field: Field, stored: Vec<u8>, name: Vec<u8>, expires_at_ms: Option<i64> },
    /// The members of a collection in parts, as `field` pointed to them when it held `stored`.
    Parts { field: Field, stored: Vec<u8>, expires_at_ms: Option<i64> },
    /// Some members of one.
    Draw { field: Field, parts: InParts },
    /// The field once more: the spilled value was gone when it held `stored`.
    Again { field: Field, stored: Vec<u8> },
    /// Whether the spilled value `name` has a field that points to it, and whether it is to go anyway.
    Owner { field: Field, nonce: u64, name: Vec<u8>, again: bool },
    /// Whether a name that the layout doesn't write is to go anyway: a value that was spilled before its namespace left the layout.
    Unknown { name: Vec<u8> },
    /// Whether a key's new place holds something beside the one that it is moved out of, where this was just seen.
    Both { new: Stored, old: Stored, seen: Seen },
    /// Whether a plain key's place holds something too.
    Twin { key: Vec<u8>, place: Stored },
}

impl Inquiry {
    /// Whether it goes on with what an answer said, and is not the first about a name.
    pub(crate) fn follows_another(&self) -> bool {
        match self {
            Self::Names(_) | Self::Strings(_) | Self::Unknown { .. } | Self::Twin { .. } => false,
            Self::Bucket { before, .. } => !before.is_empty(),
            Self::Both { seen, .. } => matches!(seen, Seen::Field(..)),
            Self::Owner { again, .. } => *again,
            Self::Kind(_)
            | Self::Other { .. }
            | Self::Spill { .. }
            | Self::Parts { .. }
            | Self::Draw { .. }
            | Self::Again { .. } => true,
        }
    }

    /// Appends the commands; how many replies they have.
    pub(crate) fn write(&self, wants: Wants, how: How, commands: &mut Commands) -> usize {
        let before = commands.len();
        match self {
            Self::Names(walk) => commands.walk(walk),
            Self::Strings(keys) => {
                let names: Vec<&[u8]> = keys.iter().map(|own| own.physical.as_slice()).collect();
                let mget = [&[&b"MGET"[..]], names.as_slice()].concat();
                how.push_atomic(&names, [vec![mget], how.expiries(&names)].concat(), commands);
            }
            Self::Kind(own) => commands.push(&[b"TYPE", &own.physical]),
            Self::Other { own, kind } => {
                let name = &[own.physical.as_slice()];
                let elements = content::read_command(kind, name[0]);
                // Without elements to compare, DUMP's bytes are all there is.
                let has_payload = wants.payloads.of(kind) || elements.is_none();
                let payload: Vec<&[u8]> = if has_payload { vec![b"DUMP", name[0]] } else { vec![b"ECHO", b""] };
                let mut parts = [vec![vec![&b"TYPE"[..], name[0]]], how.expiries(name), vec![payload]].concat();
                parts.extend(elements);
                how.push_atomic(name, parts, commands);
            }
            Self::Bucket { walk, .. } => {
                commands.walk_bucket(walk);
                if wants.encodings {
                    commands.push(&[b"OBJECT", b"ENCODING", walk.name()]);
                }
            }
            Self::Spill { name, .. } => commands.push(&[b"GET", name]),
            Self::Parts { field, .. } => {
                let command = read_parts_command(&field.bucket, &field.field).unwrap_or_default();
                commands.push(&command.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
            Self::Draw { field, parts } => {
                InParts::prepare(commands);
                parts.draw(&field.bucket, &field.field, commands);
            }
            Self::Again { field, .. } => commands.push(&[b"HGET", &field.bucket, &field.field]),
            Self::Owner { field, name, .. } => {
                commands.push(&[b"HGET", &field.bucket, &field.field]);
                commands.push(&[b"PTTL", name]);
            }
            Self::Unknown { name } => commands.push(&[b"PTTL", name]),
            // In this order: one that is moved meanwhile isn't seen twice.
            Self::Both { new, old, .. } => [new, old].into_iter().for_each(|stored| match &stored.field {
                Some(field) => commands.push(&[b"HGET", &stored.physical, field]),
                None => commands.push(&[b"EXISTS", &stored.physical]),
            }),
            Self::Twin { place: Stored { physical, field: Some(field) }, .. } => {
                commands.push(&[b"HEXISTS", physical, field]);
            }
            Self::Twin { place: Stored { physical, field: None }, .. } => commands.push(&[b"EXISTS", physical]),
        }
        commands.len() - before
    }

    /// One of the physical keys that it is about; in a cluster all are of one slot.
    pub(crate) fn physical(&self) -> &[u8] {
        match self {
            Self::Names(_) => b"",
            Self::Strings(keys) => keys.first().map_or(b"", |own| &own.physical),
            Self::Kind(own) | Self::Other { own, .. } => &own.physical,
            Self::Bucket { walk, .. } => walk.name(),
            Self::Spill { name, .. } | Self::Owner { name, .. } | Self::Unknown { name } => name,
            Self::Again { field, .. } | Self::Parts { field, .. } | Self::Draw { field, .. } => &field.bucket,
            Self::Twin { place, .. } | Self::Both { new: place, .. } => &place.physical,
        }
    }

    /// Whether the last reply has those of several commands, as EXEC's has.
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self, Self::Strings(_) | Self::Other { .. })
    }

    /// The command that the server refused, where it refused one.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Names(_) => "SCAN",
            Self::Strings(_) => "MGET with PEXPIRETIME",
            Self::Kind(_) => "TYPE",
            Self::Other { .. } => "DUMP",
            Self::Bucket { .. } => "HSCAN",
            Self::Spill { .. } => "GET",
            Self::Parts { .. } | Self::Draw { .. } => "EVAL",
            Self::Again { .. } | Self::Owner { .. } => "HGET",
            Self::Unknown { .. } => "PTTL",
            Self::Twin { .. } => "HEXISTS",
            Self::Both { .. } => "HGET",
        }
    }
}

/// How commands are carried out at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Before 7.0, whose PTTL says only what is left, that moment's time comes first.
    pub(crate) has_pexpiretime: bool,
    /// By a script: a server over its `maxmemory` queues nothing in a MULTI before Redis 7.2 and Valkey, reads neither.
    pub(crate) by_script: bool,
}

/// Carries out commands, each with the number of its words before them. Has the replies that EXEC has.
const AT_ONCE: &[u8] = b"local replies, at = {}, 1
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, last))
  at = last + 1
end
return replies";

impl How {
    fn expiries<'n>(self, names: &[&'n [u8]]) -> Vec<Vec<&'n [u8]>> {
        let ask: &[u8] = if self.has_pexpiretime { b"PEXPIRETIME" } else { b"PTTL" };
        names.iter().map(|name| vec![ask, *name]).collect()
    }

    fn push_atomic(self, names: &[&[u8]], parts: Vec<Vec<&[u8]>>, commands: &mut Commands) {
        let time = (!self.has_pexpiretime).then(|| vec![&b"TIME"[..]]);
        let parts = time.into_iter().chain(parts);
        if !self.by_script {
            commands.push(&[b"MULTI"]);
            parts.for_each(|part| commands.push(&part));
            commands.push(&[b"EXEC"]);
            return;
        }
        let parts: Vec<_> = parts.map(|part| (part.len().to_string(), part)).collect();
        let count = names.len().to_string();
        let mut eval = vec![&b"EVAL"[..], AT_ONCE, count.as_bytes()];
        eval.extend(names);
        for (words, part) in &parts {
            eval.push(words.as_bytes());
            eval.extend(part);
        }
        commands.push(&eval);
    }
}
