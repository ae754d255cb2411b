//! Random commands on a key that holds a set or a hash.

use super::members::MemberOp;
use super::oracle::Op;
use crate::random::Random;

/// Members and names of fields: integers, what only looks like one, nothing, bytes, and one that is too long for a bucket's
/// value together with some others.
const NAMES: [&[u8]; 10] = [
    b"1",
    b"7",
    b"007",
    b"-300",
    b"9223372036854775808",
    b"",
    b"a",
    b"\x00\xff\r\n",
    b"member",
    b"a member that is longer than most of the others are, and than a bucket's values may be",
];

/// What a key holds that isn't a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Set,
    Hash,
}

impl Kind {
    /// Reads all of it.
    pub(super) fn read(self) -> Op {
        Op::OnMembers(match self {
            Self::Set => MemberOp::Members,
            Self::Hash => MemberOp::Fields,
        })
    }

    /// A command on its members.
    pub(super) fn draw(self, random: &mut Random) -> Op {
        let chosen = random.below(100);
        Op::OnMembers(match self {
            Self::Set => match chosen {
                0..20 => MemberOp::Contains(name(random)),
                20..30 => MemberOp::Count,
                30..45 => MemberOp::Members,
                45..75 => MemberOp::Add(names(random, 60)),
                _ => MemberOp::Remove(names(random, 400)),
            },
            Self::Hash => match chosen {
                0..20 => MemberOp::Value(name(random)),
                20..30 => MemberOp::Len,
                30..45 => MemberOp::Fields,
                45..60 => MemberOp::Put(names(random, 60).into_iter().map(|name| (name, value(random))).collect()),
                60..75 => MemberOp::Increment(name(random)),
                _ => MemberOp::Take(names(random, 400)),
            },
        })
    }
}

fn name(random: &mut Random) -> Vec<u8> {
    random.pick(&NAMES).to_vec()
}

/// One to three of them, some perhaps twice; now and then so `many` others that the collection comes to lie in parts, which are
/// halved and joined, or doesn't any more.
fn names(random: &mut Random, many: u64) -> Vec<Vec<u8>> {
    if random.chance(8) {
        return (0..many).map(|_| format!("one of many {}", random.below(300)).into_bytes()).collect();
    }
    (0..=random.below(3)).map(|_| name(random)).collect()
}

fn value(random: &mut Random) -> Vec<u8> {
    (random.bits() >> random.below(64)).to_string().into_bytes()
}
