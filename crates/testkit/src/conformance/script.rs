//! Scripts: one step a line, as a person would type it to redis-cli.
//!
//! ```text
//! SET <0> one                a command; its replies are compared as `compare.rs` knows
//! b: GET <0>                 the same on the case's second connection
//! ?skip CLIENT LIST          compared in another way: skip, kind, unordered, exact
//! x2 SUBSCRIBE <0> <1>       as many replies as said; x0 has none
//! +INCR <0>                  pipelined: sent, and read with the first step that has no plus
//! ?until=:0 EXISTS <0>       asked again until the plain server answers so, then the subject the same
//! ?needs DELIFEQ <0> x       asked of the plain server alone: where it knows no such command or option, the case ends
//! raw "*1\r\n$4\r\nPI"       bytes as they are, without a reply; `x1 raw …` with one
//! read                       one reply more; `b: read` for the other connection
//! closed                     both sides have closed the connection, or neither has
//! ```
//! `"…"` takes the escapes of redis-cli. Outside of it `<7>` is the pool's key 7, `<all>` and `<some>` its
//! patterns, `<last>` the last bulk string that the side itself answered, `<a*65>` 65 letters a.

use super::pool::Pool;
use crate::compare::Compare;

/// A step of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step<'a> {
    /// The script's line, as it stands.
    pub(super) line: &'a str,
    /// Whether it runs on the second connection.
    pub(super) second: bool,
    /// How the reply is compared, where the line says.
    pub(super) compare: Option<Compare>,
    /// The reply that ends the waiting, where the step is asked again and again.
    pub(super) until: Option<Vec<u8>>,
    /// Only the plain server is asked, and the case ends where it doesn't know such a command.
    pub(super) needs: bool,
    /// How many replies there are.
    pub(super) replies: usize,
    /// Its replies are read with a later step's.
    pub(super) pipelined: bool,
    /// What is done.
    pub(super) action: Action<'a>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action<'a> {
    /// Sends a command.
    Command(Vec<Word<'a>>),
    /// Sends bytes.
    Raw(Vec<u8>),
    /// Only reads.
    Read,
    /// Sees whether the connection has ended.
    Closed,
}

/// An argument, in parts.
pub(super) type Word<'a> = Vec<Part<'a>>;

/// A part of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Bytes that the script says.
    Bytes(Vec<u8>),
    /// What stands between `<` and `>`.
    Blank(&'a str),
}

/// A mistake in a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in the script's line `{line}`")]
pub(super) struct ScriptError {
    what: String,
    line: String,
}

/// Reads a script.
///
/// # Errors
/// The first line that is none of the forms above.
pub(super) fn parse(script: &str) -> Result<Vec<Step<'_>>, ScriptError> {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| step(line).map_err(|what| ScriptError { what, line: line.to_owned() })).collect()
}

fn step(line: &str) -> Result<Step<'_>, String> {
    let mut step = Step {
        line,
        second: false,
        compare: None,
        until: None,
        needs: false,
        replies: 1,
        pipelined: false,
        action: Action::Read,
    };
    let mut replies = None;
    let mut rest = line;
    loop {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        if word == "b:" {
            step.second = true;
        } else if let Some(until) = word.strip_prefix("?until=") {
            step.until = Some([until.as_bytes(), b"\r\n"].concat());
        } else if word == "?needs" {
            step.needs = true;
        } else if let Some(mode) = word.strip_prefix('?') {
            step.compare = Some(compare(mode)?);
        } else if let Some(count) = word.strip_prefix('x').and_then(|count| count.parse().ok()) {
            replies = Some(count);
        } else {
            break;
        }
        rest = after.trim_start();
    }
    if let Some(after) = rest.strip_prefix('+') {
        step.pipelined = true;
        rest = after;
    }
    let (verb, after) = rest.split_once(' ').unwrap_or((rest, ""));
    let (action, usual_replies) = match verb {
        "" => return Err("nothing to do".to_owned()),
        "raw" => (Action::Raw(quoted(after)?), 0),
        "read" => (Action::Read, 1),
        "closed" => (Action::Closed, 0),
        _ => (Action::Command(words(rest)?), 1),
    };
    step.action = action;
    step.replies = replies.unwrap_or(usual_replies);
    Ok(step)
}

fn compare(mode: &str) -> Result<Compare, String> {
    match mode {
        "skip" => Ok(Compare::Skip),
        "kind" => Ok(Compare::Kind),
        "unordered" => Ok(Compare::Unordered),
        "exact" => Ok(Compare::Exact),
        _ => Err(format!("no comparison `{mode}`")),
    }
}

fn quoted(text: &str) -> Result<Vec<u8>, String> {
    match words(text)?.as_slice() {
        [word] => match word.as_slice() {
            [Part::Bytes(bytes)] => Ok(bytes.clone()),
            _ => Err("blanks in raw bytes".to_owned()),
        },
        _ => Err("raw takes one quoted string".to_owned()),
    }
}

fn words(text: &str) -> Result<Vec<Word<'_>>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Reads one word, up to a space outside of quotes.
fn word(text: &str) -> Result<(Word<'_>, &str), String> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let part = match rest.as_bytes().first() {
            None | Some(b' ') => break,
            Some(b'"') => {
                let (bytes, len) = unescape(&rest[1..])?;
                rest = &rest[1 + len..];
                Part::Bytes(bytes)
            }
            Some(b'<') => {
                let (blank, after) = rest[1..].split_once('>').ok_or("a blank without its end")?;
                rest = after;
                Part::Blank(blank)
            }
            Some(_) => {
                let len = rest.find([' ', '"', '<']).unwrap_or(rest.len());
                let (bytes, after) = rest.split_at(len);
                rest = after;
                Part::Bytes(bytes.as_bytes().to_vec())
            }
        };
        parts.push(part);
    }
    Ok((parts, rest))
}

/// The bytes up to the closing quote, and how much text they took, the quote included.
fn unescape(text: &str) -> Result<(Vec<u8>, usize), String> {
    let mut bytes = Vec::new();
    let mut at = 0;
    let source = text.as_bytes();
    loop {
        match (source.get(at), source.get(at + 1)) {
            (None, _) | (Some(b'\\'), None) => return Err("a quote without its end".to_owned()),
            (Some(b'"'), _) => return Ok((bytes, at + 1)),
            (Some(b'\\'), Some(b'x')) => {
                let digits = text.get(at + 2..at + 4).ok_or("\\x without two digits")?;
                bytes.push(u8::from_str_radix(digits, 16).map_err(|_| "\\x without two digits")?);
                at += 4;
            }
            (Some(b'\\'), Some(escaped)) => {
                bytes.push(match escaped {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b't' => b'\t',
                    other => *other,
                });
                at += 2;
            }
            (Some(byte), _) => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
}

/// Fills a word's blanks in.
///
/// # Errors
/// Where a blank means nothing.
pub(super) fn expand(word: &Word<'_>, pool: &Pool, last: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for part in word {
        match part {
            Part::Bytes(said) => bytes.extend_from_slice(said),
            Part::Blank("all") => bytes.extend_from_slice(pool.all.as_bytes()),
            Part::Blank("some") => bytes.extend_from_slice(pool.some.as_bytes()),
            Part::Blank("last") => bytes.extend_from_slice(last),
            Part::Blank(blank) => bytes.extend(number_or_repeated(blank, pool)?),
        }
    }
    Ok(bytes)
}

fn number_or_repeated(blank: &str, pool: &Pool) -> Result<Vec<u8>, String> {
    if let Ok(number) = blank.parse() {
        return Ok((pool.key)(number));
    }
    let (text, times) = blank.split_once('*').ok_or_else(|| format!("no such blank: <{blank}>"))?;
    let times: usize = times.parse().map_err(|_| format!("no such blank: <{blank}>"))?;
    Ok(text.repeat(times).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::POOLS;

    fn filled(line: &str) -> Vec<String> {
        let steps = parse(line).unwrap();
        let Action::Command(words) = &steps[0].action else { panic!("{line} is no command") };
        let fill = |word| expand(word, &POOLS[0], b"\x01").unwrap().escape_ascii().to_string();
        words.iter().map(fill).collect()
    }

    #[test]
    fn words_fill_in() {
        assert_eq!(filled(r#"SET <3> "a \"b\"\x00\r\n""#), ["SET", "plain:3", r#"a \"b\"\x00\r\n"#]);
        assert_eq!(filled("GET <3>x<ab*2> <last>"), ["GET", "plain:3xabab", "\\x01"]);
        assert_eq!(filled(r#"SET "" "" "#), ["SET", "", ""]);
    }

    #[test]
    fn prefixes_stand_in_any_number() {
        let steps = parse("# heading\n\n b: ?skip x2 +PING\nread\nx1 raw \"PING\\r\\n\"").unwrap();
        assert_eq!(steps.len(), 3);
        let ping = &steps[0];
        assert_eq!((ping.second, ping.compare, ping.replies, ping.pipelined), (true, Some(Compare::Skip), 2, true));
        assert_eq!(steps[1].action, Action::Read);
        assert_eq!((&steps[2].action, steps[2].replies), (&Action::Raw(b"PING\r\n".to_vec()), 1));
    }

    #[test]
    fn mistakes_are_told() {
        for line in ["?sometimes GET a", "GET \"a", "GET <0", "raw <0>", "b:"] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(expand(&vec![Part::Blank("zero")], &POOLS[0], b"").is_err());
    }
}
