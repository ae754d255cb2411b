//! The keys of one request, found as the servers find them (`getKeysUsingKeySpecs`, db.c of Redis 7.0).
//!
//! A key spec has two steps. *Begin* finds where keys begin: at an index, or after a keyword. *Find* says
//! how many there are from there: a range, or as many as an argument says.
//!
//! ```text
//! i2:n0,1,1            EVAL script 2 key key arg        begin at 2; 0 further is the number, 1 further the first
//! kSTREAMS,1:r-1,1,2   XREAD COUNT 1 STREAMS key key id id   from the keyword to the end, the first half
//! ```

use smallvec::SmallVec;

use crate::resp::word::is_word;

bitflags::bitflags! {
    /// What a command does with a key, in the servers' own words.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Access: u16 {
        /// Read only.
        const RO = 1;
        /// Read and written.
        const RW = 1 << 1;
        /// Overwritten, whatever was there.
        const OW = 1 << 2;
        /// Removed.
        const RM = 1 << 3;
        /// Its content is returned, copied or used; not so with STRLEN or EXISTS.
        const ACCESS = 1 << 4;
        /// Its content is changed.
        const UPDATE = 1 << 5;
        /// Something is added to it, and nothing that was there is changed or removed.
        const INSERT = 1 << 6;
        /// Something is removed from it.
        const DELETE = 1 << 7;
        /// What may bring a key about.
        const CREATES = Self::INSERT.bits() | Self::UPDATE.bits() | Self::OW.bits();
        /// No key; a channel of sharded pub/sub, which belongs to a slot as a key does.
        const NOT_KEY = 1 << 8;
        /// The spec misses keys of some requests.
        const INCOMPLETE = 1 << 9;
        /// The other arguments narrow it down: SET without GET only overwrites.
        const VARIABLE_FLAGS = 1 << 10;
    }
}

/// Where keys begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At an argument; the command's name is 0.
    Index(usize),
    /// At the argument after a keyword.
    Keyword {
        /// Read as [`is_word`] reads options.
        word: &'static str,
        /// The argument to look at first; counted from the end, and looking backwards, where negative.
        from: isize,
    },
    /// Nowhere that a spec could say.
    Unknown,
}

/// How many keys there are from where they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Each `step`th argument from the first up to the last.
    Range {
        /// Counted from the first, or from the end where negative.
        last: isize,
        /// From one key to the next.
        step: usize,
        /// Above 1 and with a negative `last`: only the first nth of the arguments.
        limit: usize,
    },
    /// As many as an argument says.
    Number {
        /// Where the number is, counted from where the keys begin.
        number_at: usize,
        /// Where the first key is, counted likewise.
        first_at: usize,
        /// From one key to the next.
        step: usize,
    },
    /// Not told.
    Unknown,
}

/// Some of the keys of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// What the command does with them.
    pub access: Access,
    /// Where they begin.
    pub begin: Begin,
    /// How many there are.
    pub find: Find,
}

/// One key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Which argument it is; the command's name is 0.
    pub index: usize,
    /// What the command does with it.
    pub access: Access,
}

/// The keys of a request. Up to eight take no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    found: SmallVec<[Key; 8]>,
    open: bool,
}

impl Keys {
    /// The keys, in the order of the command's key specs.
    pub fn iter(&self) -> std::slice::Iter<'_, Key> {
        self.found.iter()
    }

    /// The keys, in the order of the command's key specs.
    pub fn as_slice(&self) -> &[Key] {
        &self.found
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether the command may touch keys that its arguments do not name: SORT with a pattern after BY or
    /// GET, or a spec that does not tell.
    pub fn is_open(&self) -> bool {
        self.open
    }

    pub(super) fn push(&mut self, index: usize, access: Access) {
        self.found.push(Key { index, access });
    }

    /// Says that there are keys that no argument names.
    pub(super) fn set_open(&mut self) {
        self.open = true;
    }

    pub(super) fn add_specs(&mut self, specs: &[KeySpec], args: &[&[u8]]) {
        for spec in specs {
            self.add_spec(spec, args);
        }
    }

    /// Adds the keys of one spec; none where the request does not fit it.
    pub(super) fn add_spec(&mut self, spec: &KeySpec, args: &[&[u8]]) {
        if !spec.access.contains(Access::NOT_KEY) {
            self.add_slotted(spec, args);
        }
    }

    /// The same of channels of sharded pub/sub too, which belong to slots as keys do.
    pub(super) fn add_slotted(&mut self, spec: &KeySpec, args: &[&[u8]]) {
        if spec.begin == Begin::Unknown || spec.find == Find::Unknown {
            self.open = true;
            return;
        }
        let range = spec.begin.locate(args).and_then(|first| spec.find.locate(first, args));
        if let Some((first, last, step)) = range.filter(|&(first, last, _)| first <= last && last < args.len()) {
            self.found.extend((first..=last).step_by(step).map(|index| Key { index, access: spec.access }));
        }
    }
}

impl<'a> IntoIterator for &'a Keys {
    type Item = &'a Key;
    type IntoIter = std::slice::Iter<'a, Key>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Begin {
    /// The index of the argument where keys begin; none where the keyword is missing or has nothing after it.
    fn locate(self, args: &[&[u8]]) -> Option<usize> {
        match self {
            Self::Index(index) => Some(index),
            Self::Keyword { word, from } if from >= 0 => {
                let from = from.unsigned_abs();
                let at = args.get(from..)?.iter().position(|arg| is_word(arg, word))?;
                Some(from + at + 1)
            }
            Self::Keyword { word, from } => {
                let end = (args.len() + 1).checked_sub(from.unsigned_abs())?;
                let at = args.get(1..end)?.iter().rposition(|arg| is_word(arg, word))?;
                Some(at + 2)
            }
            Self::Unknown => None,
        }
    }
}

impl Find {
    /// First and last index, and the step between; none where the request does not fit.
    fn locate(self, first: usize, args: &[&[u8]]) -> Option<(usize, usize, usize)> {
        match self {
            Self::Range { last, step, .. } if last >= 0 => Some((first, first.checked_add_signed(last)?, step)),
            Self::Range { last, step, limit } if limit <= 1 => {
                Some((first, args.len().checked_add_signed(last)?, step))
            }
            Self::Range { last, step, limit } => {
                let part = args.len().checked_sub(first)? / limit;
                Some((first, (first + part).checked_add_signed(last)?, step))
            }
            Self::Number { number_at, first_at, step } => {
                let number = parse_number(args.get(first + number_at)?)?;
                let first = first + first_at;
                let last = number.checked_sub(1)?.checked_mul(step)?.checked_add(first)?;
                Some((first, last, step))
            }
            Self::Unknown => None,
        }
    }
}

/// A number of keys; none where it is not one that a server takes.
fn parse_number(text: &[u8]) -> Option<usize> {
    str::from_utf8(text).ok().filter(|_| text.first().is_some_and(u8::is_ascii_digit))?.parse().ok()
}
