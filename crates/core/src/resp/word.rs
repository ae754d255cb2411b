//! The words of a request, read as servers read them.
//!
//! A server compares an option with C's `strcasecmp`: in any case, and only up to the first zero byte. `STORE\0x` is
//! the option STORE to it. Whoever compares all the bytes takes the same argument for a key or a value, and the server
//! then does what nobody here has looked at. So every word that a server may take for an option is read by
//! [`is_word`], and nothing else compares one.
//!
//! Names of commands and subcommands are different. A server looks them up in a table by the hash of all their bytes
//! and compares what it finds there as C does. Whether `GET\0x` is GET thus depends on the server's seed and table:
//! [`is_ambiguous`] says so, and no such name is ever sent to a server.

/// Whether an argument is the option `word`.
pub fn is_word(argument: &[u8], word: &str) -> bool {
    let Some((start, rest)) = argument.split_at_checked(word.len()) else { return false };
    matches!(rest.first(), None | Some(0)) && start.eq_ignore_ascii_case(word.as_bytes())
}

/// What C sees of an argument: the bytes before the first zero byte.
pub fn c_text(argument: &[u8]) -> &[u8] {
    memchr::memchr(0, argument).map_or(argument, |end| &argument[..end])
}

/// Whether it is left to chance which command a server finds by this name, and whether it finds one.
pub fn is_ambiguous(name: &[u8]) -> bool {
    memchr::memchr(0, name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_a_zero_byte() {
        assert!(is_word(b"kEepTtl", "KEEPTTL"));
        assert!(is_word(b"nx\0junk", "nx"));
        assert!(!is_word(b"nxx", "nx"));
        assert!(!is_word(b"\0nx", "nx"));
    }
}
