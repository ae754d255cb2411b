//! What hashes, sets and lists hold, and whether a hash is somebody's own folding.
//!
//! A hash that is one object has the same few fields in every key: `name`, `email`. A bucket that somebody made by
//! hand has ids for fields: numbers, uuids, or names that are in one bucket only.

use super::Sizes;
use crate::family::column::Column;
use crate::observation::{Content, Encoding, Observation, Sampled};

/// With fewer fields looked at, nothing is said.
const ENOUGH_FIELDS: u64 = 20;
/// A hash with fewer fields is rather an object.
const BUCKET_FIELDS: f64 = 4.0;

/// What the keys of a family hold, where they are no strings.
#[derive(Clone, Debug, Default)]
pub struct Elements {
    /// How many elements each key has.
    pub counts: Sizes,
    /// How many keys are hashtables: over the limits up to which they are packed.
    pub tables: u64,
    /// The lengths of fields, of those looked at.
    pub fields: Sizes,
    /// The lengths of values and members, of those looked at.
    pub values: Sizes,
    names: Column,
    numbers: u64,
    /// Keys whose fields were looked at.
    looked_at: u64,
}

/// A family of hashes that somebody made to fold something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandMade {
    /// Whether the fields are numbers.
    pub numbers: bool,
    /// Fields in a hash: the median.
    pub fields: f64,
}

impl HandMade {
    /// What they are, and how they become keys of their own.
    pub fn describe(self) -> String {
        let what = if self.numbers { "numbers" } else { "ids of their own" };
        format!(
            "buckets made by hand: hashes of about {:.0} fields, which are {what}; `keyfold fold --from buckets` makes a key \
             of each field (docs/sources.md)",
            self.fields
        )
    }
}

impl Elements {
    pub(super) fn add(&mut self, observation: &Observation) {
        if let Content::Elements(count) = observation.content {
            self.counts.add(count);
        }
        self.tables += u64::from(observation.encoding == Encoding::Hashtable);
        match &observation.sample {
            Some(Sampled::Fields(fields)) => {
                self.looked_at += 1;
                for (field, value) in fields {
                    self.fields.add(field.len() as u64);
                    self.values.add(value.len() as u64);
                    self.names.add(field);
                    self.numbers += u64::from(!field.is_empty() && field.iter().all(u8::is_ascii_digit));
                }
            }
            Some(Sampled::Members(members)) => {
                for member in members {
                    self.values.add(member.len() as u64);
                }
            }
            Some(Sampled::Value(_)) | None => {}
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.counts.merge(other.counts);
        self.tables += other.tables;
        self.fields.merge(other.fields);
        self.values.merge(other.values);
        self.names.merge(other.names);
        self.numbers += other.numbers;
        self.looked_at += other.looked_at;
    }

    /// Whether these hashes are buckets.
    pub fn hand_made(&self) -> Option<HandMade> {
        let (looked_at, fields) = (self.fields.count(), self.counts.quantile(0.5)?);
        if looked_at < ENOUGH_FIELDS || fields < BUCKET_FIELDS {
            return None;
        }
        let numbers = self.numbers * 10 >= looked_at * 9;
        let are_own = self.looked_at > 1 && self.names.distinct() * 2 > looked_at;
        (numbers || are_own).then_some(HandMade { numbers, fields })
    }
}
