//! The family that a key's name belongs to: its name with whatever looks like an id replaced by `*`.

/// A canonical uuid has so many characters.
pub(super) const UUID_LEN: usize = 36;
/// More of a name adds nothing to its family.
const PATTERN_LEN: usize = 80;

/// The pattern of `name`: a uuid, and each word with a digit or an unprintable byte in it, becomes `*`.
pub(super) fn pattern_of(name: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(name.len().min(PATTERN_LEN));
    let mut rest = name;
    while !rest.is_empty() && pattern.len() < PATTERN_LEN {
        if is_uuid(rest) {
            put_star(&mut pattern);
            rest = &rest[UUID_LEN..];
            continue;
        }
        let word_len = rest.iter().take_while(|byte| is_word(**byte)).count();
        let (word, after) = rest.split_at(word_len);
        if word.is_empty() {
            pattern.push(after[0]);
            rest = &after[1..];
        } else {
            let is_id = word.iter().any(|byte| byte.is_ascii_digit() || !byte.is_ascii_graphic());
            if is_id {
                put_star(&mut pattern);
            } else {
                pattern.extend_from_slice(word);
            }
            rest = after;
        }
    }
    pattern
}

/// The pattern of all that differ from `pattern` in their last word only; none where that says nothing.
pub(super) fn coarser(pattern: &[u8]) -> Option<Vec<u8>> {
    let end = pattern.iter().rposition(|byte| is_word(*byte) || *byte == b'*')?;
    let start = pattern[..end].iter().rposition(|byte| !is_word(*byte)).map_or(0, |before| before + 1);
    let mut coarse = pattern[..start].to_vec();
    put_star(&mut coarse);
    coarse.extend_from_slice(&pattern[end + 1..]);
    (coarse != pattern).then_some(coarse)
}

fn put_star(pattern: &mut Vec<u8>) {
    if pattern.last() != Some(&b'*') {
        pattern.push(b'*');
    }
}

/// Bytes that make up words; all others part them.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !(byte.is_ascii_graphic() || byte == b' ')
}

pub(super) fn is_uuid(text: &[u8]) -> bool {
    text.get(..UUID_LEN).is_some_and(|text| {
        text.iter().enumerate().all(|(i, byte)| match i {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(name: &str) -> String {
        String::from_utf8(pattern_of(name.as_bytes())).unwrap()
    }

    #[test]
    fn ids_become_stars() {
        assert_eq!(pattern("media:1155"), "media:*");
        assert_eq!(pattern("mediabucket:1155:likes"), "mediabucket:*:likes");
        assert_eq!(pattern("u:abcdefab-cdef-abcd-efab-cdefabcdefab"), "u:*");
        assert_eq!(pattern("sess:9f1c77"), "sess:*");
        assert_eq!(pattern("plain"), "plain");
        assert_eq!(pattern_of(b"k:\x00\xff"), b"k:*");
        assert_eq!(pattern_of(b""), b"");
    }

    #[test]
    fn the_last_word_makes_way_first() {
        let coarse = |name: &str| coarser(name.as_bytes()).map(|coarse| String::from_utf8(coarse).unwrap());
        assert_eq!(coarse("profile:alice"), Some("profile:*".into()));
        assert_eq!(coarse("profile:alice}"), Some("profile:*}".into()));
        assert_eq!(coarse("alice"), Some("*".into()));
        assert_eq!(coarse("media:*"), None);
        assert_eq!(coarse("::"), None);
    }
}
