//! A hash: fields, each with a value and perhaps an expiry of its own, in the order of their coming.

use indexmap::IndexMap;

/// What a field holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// Its value.
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since 1970, or never.
    pub expires_at_ms: Option<i64>,
}

/// A hash. Two are equal where they have the same fields, in whatever order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hash(IndexMap<Vec<u8>, Field>);

impl Hash {
    /// How many fields it has, those included whose time is over.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What this field holds.
    pub fn get(&self, name: &[u8]) -> Option<&Field> {
        self.0.get(name)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut Field> {
        self.0.get_mut(name)
    }

    /// Gives a field what it holds from now on; what it held before.
    pub fn insert(&mut self, name: Vec<u8>, field: Field) -> Option<Field> {
        self.0.insert(name, field)
    }

    /// Removes a field; what it held.
    pub fn remove(&mut self, name: &[u8]) -> Option<Field> {
        self.0.shift_remove(name)
    }

    /// Keeps the fields for which this is so.
    pub fn retain(&mut self, mut keeps: impl FnMut(&[u8], &Field) -> bool) {
        self.0.retain(|name, field| keeps(name, field));
    }

    /// When the last of its fields expires; none where one never does, or there is none.
    pub fn passes_at_ms(&self) -> Option<i64> {
        self.0.values().map(|field| field.expires_at_ms).try_fold(None, |last, at| Some(last.max(Some(at?)))).flatten()
    }

    /// When fields expire, in no order.
    pub fn expiries(&self) -> impl Iterator<Item = i64> {
        self.0.values().filter_map(|field| field.expires_at_ms)
    }

    /// Removes the fields whose time is over; whether there were any. In the very millisecond of its expiry a field is
    /// still there.
    pub fn remove_expired(&mut self, now_ms: i64) -> bool {
        let len = self.len();
        self.retain(|_, field| field.expires_at_ms.is_none_or(|at| at >= now_ms));
        self.len() < len
    }

    /// The field at this place.
    pub fn get_index(&self, index: usize) -> Option<(&[u8], &Field)> {
        self.0.get_index(index).map(|(name, field)| (name.as_slice(), field))
    }

    /// All fields.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Field)> {
        self.0.iter().map(|(name, field)| (name.as_slice(), field))
    }
}

impl FromIterator<(Vec<u8>, Field)> for Hash {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Field)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_there_until_its_millisecond_is_over() {
        let field = |expires_at_ms| Field { value: Vec::new(), expires_at_ms };
        let fields = [("a", Some(9)), ("b", Some(10)), ("c", None)];
        let mut hash: Hash = fields.into_iter().map(|(name, at)| (name.into(), field(at))).collect();
        assert!(hash.remove_expired(10));
        assert!(!hash.remove_expired(10));
        assert_eq!(hash.iter().map(|(name, _)| name).collect::<Vec<_>>(), [b"b", b"c"]);
    }
}
