//! Patterns as KEYS, SCAN and PSUBSCRIBE read them: `*`, `?`, `[a-z]`, `[^a]` and `\` before a byte.
//!
//! The result is the one of `stringmatchlen` (util.c, Redis 7.0.15) without folding case, its corners
//! included:
//! - an empty text matches the empty pattern only, so `*` does not match it (KEYS and SCAN let a pattern
//!   that is exactly `*` through before they ask);
//! - a class without its `]` ends where the pattern ends, so `[^` matches any one byte;
//! - the bounds of a range may stand in either order, and are compared as signed bytes, as on servers
//!   built for x86.
//!
//! Where the text after a `*` goes wrong, only the last `*` is tried further on: what an earlier one
//! could still take is covered by the last. So the time is at most pattern times text.

/// Stars that a pattern may open (runs count once, a last one not at all); servers give up beyond, and
/// answer that there is no match.
const MAX_STARS: usize = 1000;

/// The pattern of all text that begins with `prefix`.
pub fn starting_with(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(prefix.len() + 1);
    for byte in prefix {
        if b"*?[]\\^-".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}

/// Whether the whole of `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut stars = 0;
    // Where to go on after a mismatch: the pattern behind the last star, and the text it starts from.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if at < pattern.len() && read < text.len() {
            if pattern[at] == b'*' {
                at += pattern[at..].iter().take_while(|&&byte| byte == b'*').count();
                if at == pattern.len() {
                    return true;
                }
                stars += 1;
                if stars > MAX_STARS {
                    return false;
                }
                retry = Some((at, read));
                continue;
            }
            let (end, accepted) = step(&pattern[at..], text[read]);
            if accepted {
                at += end;
                read += 1;
                continue;
            }
        } else if read == text.len() {
            // Stars at the end take nothing, but not from a text that was empty from the start.
            return at == pattern.len() || (read > 0 && pattern[at..].iter().all(|&byte| byte == b'*'));
        }
        match &mut retry {
            Some((behind, from)) => {
                *from += 1;
                (at, read) = (*behind, *from);
            }
            None => return false,
        }
    }
}

/// Reads one element that stands for one byte: its length in the pattern, and whether `byte` is it.
fn step(pattern: &[u8], byte: u8) -> (usize, bool) {
    match pattern {
        [b'?', ..] => (1, true),
        [b'[', class @ ..] => {
            let (len, accepted) = class_accepts(class, byte);
            (1 + len, accepted)
        }
        [b'\\', escaped, ..] => (2, *escaped == byte),
        [literal, ..] => (1, *literal == byte),
        [] => (0, false),
    }
}

/// Reads a class behind its `[`, up to and with its `]` or the pattern's end.
fn class_accepts(class: &[u8], byte: u8) -> (usize, bool) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        at += match &class[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                2
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [first, b'-', last, ..] => {
                let [first, last, byte] = [*first, *last, byte].map(u8::cast_signed);
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                3
            }
            [literal, ..] => {
                found |= *literal == byte;
                1
            }
        };
    }
    (at, found != negated)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn literals_and_wildcards() {
        assert!(matches(b"user:?:*", b"user:7:name"));
        assert!(!matches(b"user:?:*", b"user:77:name"));
        assert!(matches(b"a**", b"a"));
        assert!(matches(b"*ab*ab", b"aabxab"));
        assert!(!matches(b"a", b"ab"));
        assert!(!matches(b"ab", b"a"));
    }

    #[test]
    fn an_empty_text_matches_the_empty_pattern_only() {
        assert!(matches(b"", b""));
        assert!(!matches(b"*", b""));
        assert!(!matches(b"", b"a"));
    }

    #[test]
    fn escapes_stand_for_themselves() {
        assert!(matches(b"\\*", b"*"));
        assert!(!matches(b"\\*", b"a"));
        assert!(matches(b"a\\", b"a\\"));
        assert!(matches(b"[\\]]", b"]"));
        assert!(matches(b"[\\", b"\\"));
    }

    #[test]
    fn classes_and_ranges() {
        assert!(matches(b"[a-c]", b"b"));
        assert!(matches(b"[c-a]", b"b"));
        assert!(!matches(b"[^a-c]", b"b"));
        // The `]` is the range's bound here, and the class is left open.
        assert!(matches(b"[a-]", b"_"));
        assert!(!matches(b"[a-]", b"-"));
        assert!(!matches(b"[]", b"x"));
        assert!(matches(b"[^]", b"x"));
    }

    #[test]
    fn bounds_are_signed_bytes() {
        assert!(matches(b"[\x7f-\x80]", b"a"));
        assert!(!matches(b"[\x01-\xff]", b"a"));
    }

    #[test]
    fn a_class_left_open_ends_with_the_pattern() {
        assert!(matches(b"[ab", b"b"));
        assert!(!matches(b"[", b"["));
        assert!(matches(b"[^", b"x"));
        assert!(matches(b"[a-", b"-"));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = [b"a*".repeat(500), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &b"a".repeat(20_000)));
    }
}
