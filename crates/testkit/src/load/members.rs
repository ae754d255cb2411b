//! Commands on a set or a hash, and what is to come of them.

use std::collections::BTreeMap;

use super::answer::{bulk, integer};
use crate::reply::Value;

/// What a set or a hash holds: its members, each with nothing, or its fields, each with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Members(BTreeMap<Vec<u8>, Vec<u8>>);

impl Members {
    /// A set.
    pub fn set(members: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(members.into_iter().map(|member| (member, Vec::new())).collect())
    }

    /// A hash.
    pub fn hash(fields: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Self {
        Self(fields.into_iter().collect())
    }

    /// Whether nothing is left, so that there is no key.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A command on members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOp {
    /// SADD
    Add(Vec<Vec<u8>>),
    /// SREM
    Remove(Vec<Vec<u8>>),
    /// SISMEMBER
    Contains(Vec<u8>),
    /// SCARD
    Count,
    /// SMEMBERS
    Members,
    /// HSET
    Put(Vec<(Vec<u8>, Vec<u8>)>),
    /// HDEL
    Take(Vec<Vec<u8>>),
    /// HINCRBY
    Increment(Vec<u8>),
    /// HGET
    Value(Vec<u8>),
    /// HLEN
    Len,
    /// HGETALL
    Fields,
}

impl MemberOp {
    /// The command.
    pub fn args(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let (name, more): (&[u8], Vec<Vec<u8>>) = match self {
            Self::Add(members) => (b"SADD", members.clone()),
            Self::Remove(members) => (b"SREM", members.clone()),
            Self::Contains(member) => (b"SISMEMBER", vec![member.clone()]),
            Self::Count => (b"SCARD", vec![]),
            Self::Members => (b"SMEMBERS", vec![]),
            Self::Put(fields) => {
                (b"HSET", fields.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect())
            }
            Self::Take(names) => (b"HDEL", names.clone()),
            Self::Increment(name) => (b"HINCRBY", vec![name.clone(), b"1".to_vec()]),
            Self::Value(name) => (b"HGET", vec![name.clone()]),
            Self::Len => (b"HLEN", vec![]),
            Self::Fields => (b"HGETALL", vec![]),
        };
        [vec![name.to_vec(), key.to_vec()], more].concat()
    }

    /// What there is after it, and the answer in RESP2; members come in their order.
    pub(super) fn apply(&self, members: &Members) -> (Members, Vec<u8>) {
        let Members(mut held) = members.clone();
        let before = held.len();
        let answer = match self {
            Self::Add(members) => {
                held.extend(members.iter().map(|member| (member.clone(), Vec::new())));
                count(held.len() - before)
            }
            Self::Put(fields) => {
                held.extend(fields.iter().cloned());
                count(held.len() - before)
            }
            Self::Remove(names) | Self::Take(names) => {
                names.iter().for_each(|name| drop(held.remove(name)));
                count(before - held.len())
            }
            Self::Contains(member) => integer(i64::from(held.contains_key(member))),
            Self::Count | Self::Len => count(before),
            Self::Members => array(held.keys()),
            Self::Fields => array(held.iter().flat_map(|(name, value)| [name, value])),
            Self::Value(name) => bulk(held.get(name).map(Vec::as_slice)),
            Self::Increment(name) => {
                let old = held.get(name).map_or(Some(0), |value| str::from_utf8(value).ok()?.parse::<i64>().ok());
                match old {
                    Some(old) => {
                        held.insert(name.clone(), (old + 1).to_string().into_bytes());
                        integer(old + 1)
                    }
                    None => b"-ERR hash value is not an integer\r\n".to_vec(),
                }
            }
        };
        (Members(held), answer)
    }

    /// The answer that came, its members in their order; a member that comes twice is there twice.
    pub(super) fn in_order(&self, answer: &[u8]) -> Vec<u8> {
        let width = match self {
            Self::Members => 1,
            Self::Fields => 2,
            _ => return answer.to_vec(),
        };
        let Ok(Value::Array(values)) = Value::parse(answer) else { return answer.to_vec() };
        let texts: Vec<&[u8]> = values.iter().filter_map(Value::bytes).collect();
        let mut members: Vec<&[&[u8]]> = texts.chunks(width).collect();
        members.sort_unstable();
        array(members.concat())
    }
}

fn count(count: usize) -> Vec<u8> {
    integer(i64::try_from(count).unwrap_or(i64::MAX))
}

fn array(texts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let texts: Vec<Vec<u8>> = texts.into_iter().map(|text| bulk(Some(text.as_ref()))).collect();
    [format!("*{}\r\n", texts.len()).into_bytes(), texts.concat()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_compared_in_any_order_and_counted() {
        let set = Members::set([b"b".to_vec(), b"a".to_vec()]);
        let (same, all) = MemberOp::Members.apply(&set);
        assert_eq!(same, set);
        assert_eq!(MemberOp::Members.in_order(b"*2\r\n$1\r\nb\r\n$1\r\na\r\n"), all);
        assert_ne!(MemberOp::Members.in_order(b"*3\r\n$1\r\nb\r\n$1\r\na\r\n$1\r\na\r\n"), all);
        let (more, answer) = MemberOp::Add(vec![b"a".to_vec(), b"c".to_vec(), b"c".to_vec()]).apply(&set);
        assert_eq!(answer, b":1\r\n");
        let (none, answer) = MemberOp::Remove([b"a", b"b", b"c", b"d"].map(|name| name.to_vec()).into()).apply(&more);
        assert!(none.is_empty() && answer == b":3\r\n");
    }

    #[test]
    fn a_field_goes_with_its_value() {
        let hash = Members::hash([(b"f".to_vec(), b"9".to_vec()), (b"a".to_vec(), b"x".to_vec())]);
        let (hash, answer) = MemberOp::Increment(b"f".to_vec()).apply(&hash);
        assert_eq!(answer, b":10\r\n");
        let all = b"*4\r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nf\r\n$2\r\n10\r\n";
        assert_eq!(MemberOp::Fields.apply(&hash).1, all);
        assert_eq!(MemberOp::Fields.in_order(b"*4\r\n$1\r\nf\r\n$2\r\n10\r\n$1\r\na\r\n$1\r\nx\r\n"), all);
        assert!(MemberOp::Increment(b"a".to_vec()).apply(&hash).1.starts_with(b"-ERR hash value"));
    }
}
