//! What can happen to a key, in the server's words.

use super::Classes;

crate::named! {
    /// What has happened to a key.
    pub enum Event {
        /// It has another value: SET and its like, MSET, BITOP.
        Set = "set",
        /// Bytes were added at its end.
        Append = "append",
        /// Bytes of it were written.
        SetRange = "setrange",
        /// Bits of it were written: SETBIT, BITFIELD.
        SetBit = "setbit",
        /// It was counted up or down.
        IncrBy = "incrby",
        /// The same by a number that is no integer.
        IncrByFloat = "incrbyfloat",
        /// Members came to a set: SADD, SMOVE.
        SAdd = "sadd",
        /// Members of a set were removed: SREM, SMOVE.
        SRem = "srem",
        /// Members of a set were drawn and removed.
        SPop = "spop",
        /// It is what several sets have in common.
        SInterStore = "sinterstore",
        /// It is what several sets have together.
        SUnionStore = "sunionstore",
        /// It is what one set has and others have not.
        SDiffStore = "sdiffstore",
        /// It was removed by a command.
        Del = "del",
        /// It expires at another time.
        Expire = "expire",
        /// It doesn't expire any more.
        Persist = "persist",
        /// It has another name now.
        RenameFrom = "rename_from",
        /// It has come by this name.
        RenameTo = "rename_to",
        /// Another key was copied here.
        CopyTo = "copy_to",
        /// It was made from a payload.
        Restore = "restore",
        /// It had expired, and was removed.
        Expired = "expired",
        /// It was removed, as memory was short.
        Evicted = "evicted",
        /// It wasn't there before.
        New = "new",
        /// Fields of a hash were given values.
        HSet = "hset",
        /// Fields of a hash were removed by a command.
        HDel = "hdel",
        /// A field of a hash was counted up or down.
        HIncrBy = "hincrby",
        /// The same by a number that is no integer.
        HIncrByFloat = "hincrbyfloat",
        /// Fields of a hash expire at another time.
        HExpire = "hexpire",
        /// Fields of a hash don't expire any more.
        HPersist = "hpersist",
        /// Fields of a hash had expired, and were removed.
        HExpired = "hexpired",
    }
}

impl Event {
    /// The class that it is of.
    pub(crate) fn class(self) -> Classes {
        match self {
            Self::Set | Self::Append | Self::SetRange | Self::SetBit | Self::IncrBy | Self::IncrByFloat => {
                Classes::STRING
            }
            Self::SAdd | Self::SRem | Self::SPop | Self::SInterStore | Self::SUnionStore | Self::SDiffStore => {
                Classes::SET
            }
            Self::Del
            | Self::Expire
            | Self::Persist
            | Self::RenameFrom
            | Self::RenameTo
            | Self::CopyTo
            | Self::Restore => Classes::GENERIC,
            Self::Expired => Classes::EXPIRED,
            Self::Evicted => Classes::EVICTED,
            Self::New => Classes::NEW,
            Self::HSet
            | Self::HDel
            | Self::HIncrBy
            | Self::HIncrByFloat
            | Self::HExpire
            | Self::HPersist
            | Self::HExpired => Classes::HASH,
        }
    }
}
