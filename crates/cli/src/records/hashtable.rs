//! Why a bucket is a hashtable.

/// Which setting of the server a bucket is over, where that still shows.
pub(crate) fn explain(fields: &[(&[u8], &[u8])], (entries_limit, value_limit): (Option<u64>, Option<u64>)) -> String {
    let entries = fields.len() as u64;
    if let Some(limit) = entries_limit.filter(|limit| entries > *limit) {
        return format!("{entries} entries, over hash-max-listpack-entries {limit}");
    }
    let is_long = |bytes: &&&[u8]| value_limit.is_some_and(|limit| bytes.len() as u64 > limit);
    match (fields.iter().flat_map(|(field, stored)| [field, stored]).find(is_long), value_limit) {
        (Some(bytes), Some(limit)) => {
            let (len, shown) = (bytes.len(), bytes[..bytes.len().min(32)].escape_ascii());
            format!("\"{shown}…\" has {len} bytes, over hash-max-listpack-value {limit}")
        }
        (None, Some(_)) => format!("{entries} entries, nothing in it is over a limit now"),
        _ => format!("{entries} entries"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_is_broken_is_named() {
        let two: [(&[u8], &[u8]); 2] = [(b"a", b"1"), (b"b", b"long")];
        assert_eq!(explain(&two, (Some(1), Some(64))), "2 entries, over hash-max-listpack-entries 1");
        assert_eq!(explain(&two, (Some(512), Some(3))), "\"long…\" has 4 bytes, over hash-max-listpack-value 3");
        assert_eq!(explain(&two, (Some(512), Some(64))), "2 entries, nothing in it is over a limit now");
        assert_eq!(explain(&two, (None, None)), "2 entries");
    }
}
