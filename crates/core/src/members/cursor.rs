//! What SSCAN and HSCAN are given: a cursor and options. A folded collection is given whole, whatever the cursor, unless it lies in parts;
//! what is none is refused all the same.

use crate::dialect::Dialect;
use crate::glob;
use crate::number::parse_integer;
use crate::resp::word::c_text;

/// How many members a step comes by where its client says nothing.
const USUAL_COUNT: i64 = 10;

/// The options.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanOptions<'a> {
    /// The last MATCH; none for a lone star, which is passed over: as a pattern it wouldn't match what is empty.
    pub(super) pattern: Option<&'a [u8]>,
    /// The last COUNT, which is above zero.
    pub(super) count: i64,
    pub(super) without_values: bool,
}

impl Default for ScanOptions<'_> {
    fn default() -> Self {
        Self { pattern: None, count: USUAL_COUNT, without_values: false }
    }
}

impl<'a> ScanOptions<'a> {
    /// Takes what stands behind MATCH.
    pub(super) fn match_by(&mut self, pattern: &'a [u8]) {
        self.pattern = Some(pattern).filter(|pattern| *pattern != b"*");
    }

    /// Whether a member or a field is answered.
    pub(super) fn let_through(&self, text: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, text))
    }
}

/// Whether a server reads it as a cursor: an unsigned number of 64 bits by C's strtoull. What stands behind a zero byte isn't
/// seen, a sign may stand before the digits, and later servers skip spaces before it. They take nothing for no number, nor one
/// below zero in its one spelling; older ones do.
pub(crate) fn is_cursor(text: &[u8], dialect: Dialect<'_>) -> bool {
    let text = c_text(text);
    if !dialect.reads_cursors_strictly() {
        return text.is_empty() || is_unsigned(text);
    }
    match parse_integer(text) {
        Some(number) => number >= 0,
        None => {
            let spaces = text.iter().take_while(|byte| b" \t\n\x0b\x0c\r".contains(byte)).count();
            is_unsigned(&text[spaces..])
        }
    }
}

fn is_unsigned(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let is_number = digits.iter().all(u8::is_ascii_digit);
    is_number && str::from_utf8(digits).is_ok_and(|digits| digits.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_info::ServerInfo;

    #[test]
    fn cursors_are_read_as_the_server_reads_them() {
        let servers = [("redis", "7.0.15"), ("redis", "8.0.6"), ("valkey", "8.0.1")]
            .map(|(name, version)| ServerInfo { name: name.to_owned(), version: version.to_owned() });
        for (text, old, new) in [
            ("0", true, true),
            ("01", true, true),
            ("+1", true, true),
            ("-0", true, true),
            ("18446744073709551615", true, true),
            ("-18446744073709551615", true, true),
            ("1\0x", true, true),
            ("-1", true, false),
            ("", true, false),
            (" 1", false, true),
            ("18446744073709551616", false, false),
            ("1 ", false, false),
            ("-", false, false),
            ("--1", false, false),
            (" ", false, false),
            ("x", false, false),
        ] {
            let read = servers.each_ref().map(|server| is_cursor(text.as_bytes(), Dialect::new(server, true)));
            assert_eq!(read, [old, new, new], "{text:?}");
        }
    }
}
