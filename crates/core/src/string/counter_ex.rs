//! INCREX: counts within bounds, and says when the key expires. Redis 8.8 `increxCommand`, and NX and XX of Valkey 9.2.
//!
//! ```text
//! INCREX key [BYINT n | BYFLOAT f] [LBOUND n] [UBOUND n] [SATURATE]
//!            [EX s | PX ms | EXAT s | PXAT ms | PERSIST] [ENX]         with NX or XX too before a Valkey
//! ```
//! The answer is the value and by how much it was changed. A result out of bounds changes nothing, the expiry neither, and
//! is answered by the value as it is and 0; with SATURATE it is the bound that was passed. Without a bound the number's type
//! is one. No option may be repeated.

use super::counter_float::{self, FloatBounds};
use super::options::{Unit, expiry};
use super::{Call, Entry, Flow, Halt, SYNTAX_ERROR, Space};
use crate::notify::Event;
use crate::number::{NOT_AN_INTEGER, parse_integer};
use crate::resp::Answer;
use crate::resp::word::is_word;

/// The options as they are written: each the argument where its value is.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    by_integer: Option<usize>,
    by_float: Option<usize>,
    lower: Option<usize>,
    upper: Option<usize>,
    saturate: bool,
    expire: Option<(Unit, usize)>,
    persist: bool,
    /// The expiry is set only where the key has none.
    expire_if_none: bool,
    if_absent: bool,
    if_present: bool,
}

impl Options {
    fn parse(call: &Call<'_>) -> Result<Self, Halt> {
        let mut options = Self::default();
        let mut at = 2;
        while let Some(&word) = call.args.get(at) {
            if options.take_flag(word, call.dialect.is_valkey()) {
                at += 1;
            } else if at + 1 < call.args.len() && options.take_value(word, at + 1) {
                at += 2;
            } else {
                return Err(SYNTAX_ERROR.into());
            }
        }
        if options.expire_if_none && options.expire.is_none() {
            return Err("ERR ENX flag requires an expiration".into());
        }
        Ok(options)
    }

    fn take_flag(&mut self, word: &[u8], takes_conditions: bool) -> bool {
        let expires = self.expire.is_some() || self.expire_if_none;
        let flag = match () {
            () if is_word(word, "SATURATE") => &mut self.saturate,
            () if is_word(word, "PERSIST") && !expires => &mut self.persist,
            () if is_word(word, "ENX") && !self.persist => &mut self.expire_if_none,
            () if takes_conditions && is_word(word, "NX") && !self.if_present => &mut self.if_absent,
            () if takes_conditions && is_word(word, "XX") && !self.if_absent => &mut self.if_present,
            () => return false,
        };
        !std::mem::replace(flag, true)
    }

    /// Takes an option whose value is in argument `at`.
    fn take_value(&mut self, word: &[u8], at: usize) -> bool {
        let has_increment = self.by_integer.is_some() || self.by_float.is_some();
        if let Some(unit) = Unit::parse(word) {
            return !self.persist && self.expire.replace((unit, at)).is_none();
        }
        let value = match () {
            () if is_word(word, "BYINT") && !has_increment => &mut self.by_integer,
            () if is_word(word, "BYFLOAT") && !has_increment => &mut self.by_float,
            () if is_word(word, "LBOUND") => &mut self.lower,
            () if is_word(word, "UBOUND") => &mut self.upper,
            () => return false,
        };
        value.replace(at).is_none()
    }

    /// Whether NX or XX keeps it from a key that is there, or isn't.
    fn holds_back(&self, exists: bool) -> bool {
        if exists { self.if_absent } else { self.if_present }
    }
}

/// INCREX: the value, and by how much it was changed.
pub(super) fn increx(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let options = Options::parse(call)?;
    match options.by_float {
        Some(by) => by_float(&options, call, call.args[by], space, answer),
        None => by_integer(&options, call, space, answer),
    }
}

fn by_integer(options: &Options, call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let number = |at: Option<usize>, what: &str, otherwise: i64| match at {
        Some(at) => parse_integer(call.args[at])
            .ok_or_else(|| Halt::Error(format!("ERR {what} is not an integer or out of range"))),
        None => Ok(otherwise),
    };
    let by = number(options.by_integer, "Increment", 1)?;
    let lower = number(options.lower, "LBOUND", i64::MIN)?;
    let upper = number(options.upper, "UBOUND", i64::MAX)?;
    if lower > upper {
        return Err(counter_float::CROSSED_BOUNDS.into());
    }
    let key = call.args[1];
    let expires_at_ms = expiry_of(options, call, space)?;
    let entry = space.string(key)?;
    let old = entry.map_or(Ok(0), |entry| parse_integer(&entry.value).ok_or(NOT_AN_INTEGER))?;
    let sum = i128::from(old) + i128::from(by);
    let within = sum.clamp(lower.into(), upper.into());
    let is_refused = within != sum && !options.saturate || options.holds_back(entry.is_some());
    // What lies between two bounds of 64 bits has 64 bits.
    let new = if is_refused { old } else { i64::try_from(within).unwrap_or(old) };
    let applied = new.checked_sub(old).ok_or("ERR applied increment would overflow")?;
    if !is_refused {
        write(options, key, new.to_string().into_bytes(), expires_at_ms, space);
    }
    answer.array(2);
    answer.integer(new);
    answer.integer(applied);
    Ok(())
}

fn by_float(options: &Options, call: &Call<'_>, by: &[u8], space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let expires_at_ms = expiry_of(options, call, space)?;
    let entry = space.string(key)?.cloned();
    let arg = |at: Option<usize>| at.map(|at| call.args[at]);
    let bounds = FloatBounds { lower: arg(options.lower), upper: arg(options.upper), saturate: options.saturate };
    let old = entry.as_ref().map_or(&b"0"[..], |entry| &entry.value);
    let Some(replies) = space.help() else { return Err(Halt::Ask(counter_float::ask(old, by, &bounds))) };
    let counted = counter_float::read(by, &bounds, replies)?;
    answer.array(2);
    match counted.new.filter(|_| !options.holds_back(entry.is_some())) {
        Some((new, applied)) => {
            answer.double(&new);
            answer.double(&applied);
            write(options, key, new, expires_at_ms, space);
        }
        None => {
            answer.double(&counted.old);
            answer.double(b"0");
        }
    }
    Ok(())
}

fn expiry_of(options: &Options, call: &Call<'_>, space: &Space) -> Result<Option<i64>, Halt> {
    options.expire.map(|(unit, at)| expiry(call, at, unit, "increx", space.now_ms())).transpose()
}

/// Writes the value, with the expiry that the options say: that of the command, none, or the one that the key has.
fn write(options: &Options, key: &[u8], value: Vec<u8>, expires_at_ms: Option<i64>, space: &mut Space) {
    let earlier = space.expiry(key).flatten();
    let sets_expiry = expires_at_ms.is_some() && !(options.expire_if_none && earlier.is_some());
    if sets_expiry && expires_at_ms.is_some_and(|at| at <= space.now_ms()) {
        // It is over already, and the key is gone with it.
        if space.exists(key) {
            space.remove(key);
            space.note(Event::Del, key);
        }
        return;
    }
    let kept = if options.persist { None } else { earlier };
    space.put(key, Entry { value, expires_at_ms: if sets_expiry { expires_at_ms } else { kept } });
    space.note(if options.by_float.is_some() { Event::IncrByFloat } else { Event::IncrBy }, key);
    if sets_expiry {
        space.note(Event::Expire, key);
    } else if options.persist && earlier.is_some() {
        space.note(Event::Persist, key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::space::Reply;
    use super::super::tests::{Fixture, now_is};

    const SYNTAX: &str = "-ERR syntax error\r\n";

    fn increx(keys: &mut Fixture, options: &str) -> String {
        let line = format!("INCREX k {options}");
        let args: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        keys.run(&args).replace("\r\n", " ").trim_end().to_owned()
    }

    #[test]
    fn options_that_contradict_or_repeat() {
        let mut keys = now_is(1000);
        for options in [
            "NOPE",
            "BYINT",
            "BYINT 1 BYINT 2",
            "BYINT 1 BYFLOAT 1",
            "LBOUND 0 LBOUND 1",
            "UBOUND 9 UBOUND 8",
            "SATURATE SATURATE",
            "ENX ENX EX 10",
            "PERSIST PERSIST",
            "PERSIST ENX",
            "ENX PERSIST",
            "EX 10 PX 10",
            "EX 10 EX 20",
            "EX 10 PERSIST",
            "PERSIST EX 10",
            "EX",
            // These are Valkey's.
            "NX",
            "XX",
        ] {
            assert_eq!(increx(&mut keys, options) + "\r\n", SYNTAX, "{options}");
        }
        assert_eq!(increx(&mut keys, "BYINT 1 ENX"), "-ERR ENX flag requires an expiration");
    }

    #[test]
    fn arguments_that_are_no_numbers() {
        let mut keys = now_is(1000);
        keys.string("k", "x");
        for (options, error) in [
            ("BYINT 1.5", "-ERR Increment is not an integer or out of range"),
            ("LBOUND a", "-ERR LBOUND is not an integer or out of range"),
            ("UBOUND 9223372036854775808", "-ERR UBOUND is not an integer or out of range"),
            ("LBOUND 2 UBOUND 1", "-ERR LBOUND can't be greater than UBOUND"),
            ("EX 0", "-ERR invalid expire time in 'increx' command"),
            ("PXAT x", "-ERR value is not an integer or out of range"),
            ("", "-ERR value is not an integer or out of range"),
        ] {
            assert_eq!(increx(&mut keys, options), error, "{options}");
        }
        keys.other("k", "list");
        assert!(increx(&mut keys, "EXAT 1").starts_with("-WRONGTYPE "));
    }

    #[test]
    fn integers_stay_within_bounds() {
        for (old, options, answer) in [
            ("10", "", "*2 :11 :1"),
            ("10", "BYINT 5 UBOUND 15", "*2 :15 :5"),
            ("10", "BYINT 6 UBOUND 15", "*2 :10 :0"),
            ("10", "BYINT 6 UBOUND 15 saturate", "*2 :15 :5"),
            ("10", "BYINT -10 LBOUND 5 SATURATE", "*2 :5 :-5"),
            ("50", "BYINT 5 UBOUND 30", "*2 :50 :0"),
            ("50", "BYINT 5 UBOUND 30 SATURATE", "*2 :30 :-20"),
            ("50", "BYINT -25 UBOUND 30", "*2 :25 :-25"),
            ("10", "BYINT -5 LBOUND 20 SATURATE", "*2 :20 :10"),
            ("9223372036854775807", "", "*2 :9223372036854775807 :0"),
            ("9223372036854775800", "BYINT 100 SATURATE", "*2 :9223372036854775807 :7"),
            ("-9223372036854775800", "BYINT -100 SATURATE", "*2 :-9223372036854775808 :-8"),
            ("10", "BYINT 9223372036854775807 UBOUND 100 SATURATE", "*2 :100 :90"),
            ("9223372036854775800", "SATURATE UBOUND -9223372036854775808", "-ERR applied increment would overflow"),
        ] {
            let mut keys = now_is(1000);
            keys.string_until("k", old, 3000);
            assert_eq!(increx(&mut keys, options), answer, "{old} {options}");
            let new = answer.strip_prefix("*2 :").and_then(|rest| rest.split(' ').next()).unwrap_or(old);
            assert_eq!(keys.run(&["GET", "k"]), format!("${}\r\n{new}\r\n", new.len()));
            assert_eq!(keys.run(&["PTTL", "k"]), ":2000\r\n");
        }
    }

    #[test]
    fn a_key_that_is_not_there_counts_from_zero_and_comes_where_something_is_written() {
        for (options, answer, exists) in [
            ("BYINT 5 UBOUND 10", "*2 :5 :5", true),
            ("BYINT 15 UBOUND 10", "*2 :0 :0", false),
            ("UBOUND 0 SATURATE", "*2 :0 :0", true),
            ("LBOUND 5 SATURATE", "*2 :5 :5", true),
            ("EXAT 1", "*2 :1 :1", false),
        ] {
            let mut keys = now_is(1000);
            assert_eq!(increx(&mut keys, options), answer, "{options}");
            assert_eq!(keys.run(&["EXISTS", "k"]), format!(":{}\r\n", u8::from(exists)), "{options}");
            assert_eq!(keys.changed().is_empty(), !exists);
        }
    }

    #[test]
    fn expiries_are_set_kept_or_removed() {
        for (before, options, left_ms) in [
            (None, "PX 500", "500"),
            (Some(3000), "PX 500", "500"),
            (None, "PX 500 ENX", "500"),
            (Some(3000), "PX 500 ENX", "2000"),
            (Some(3000), "EXAT 1 ENX", "2000"),
            (Some(3000), "EXAT 1", "-2"),
            (None, "PXAT 1000 ENX", "-2"),
            (Some(3000), "PERSIST", "-1"),
            (Some(3000), "PERSIST UBOUND 5", "2000"),
            (Some(3000), "PX 500 UBOUND 5", "2000"),
            (Some(3000), "PXAT 1 UBOUND 5", "2000"),
        ] {
            let mut keys = now_is(1000);
            match before {
                Some(at) => keys.string_until("k", "10", at),
                None => keys.string("k", "10"),
            }
            assert!(increx(&mut keys, options).starts_with("*2 :1"), "{options}");
            assert_eq!(keys.run(&["PTTL", "k"]), format!(":{left_ms}\r\n"), "{before:?} {options}");
        }
    }

    /// Answers an ask as a server does whose numbers are these, in the order of its INCRBYFLOATs.
    fn sums(keys: &mut Fixture, options: &str, sums: &[&str]) {
        let line = format!("INCREX k {options}");
        let ask = keys.ask(&line.split(' ').collect::<Vec<_>>());
        let mut sums = sums.iter();
        let replies = ask.commands.iter().map(|command| match command[0].as_slice() {
            b"INCRBYFLOAT" => {
                let sum = sums.next().unwrap_or_else(|| panic!("a sum too few: {:?}", ask.commands));
                match sum.strip_prefix('-').filter(|error| error.starts_with("ERR ")) {
                    Some(error) => Reply::Error(error.to_owned()),
                    None => Reply::Bytes(sum.as_bytes().to_vec()),
                }
            }
            _ => Reply::Bytes(b"OK".to_vec()),
        });
        let replies = replies.collect();
        assert!(sums.next().is_none(), "a sum too many: {:?}", ask.commands);
        keys.answers(replies);
    }

    #[test]
    fn floats_are_added_by_the_server_and_bounded_here() {
        const INFINITE: &str = "-ERR increment would produce NaN or Infinity";
        // By, then each bound and what is applied up to it, then the value as it is, the sum, and what is applied.
        for (options, server, answer, value) in [
            ("BYFLOAT 0.1", &["0.1", "10.5", "10.6", "0.1"][..], "*2 $4 10.6 $3 0.1", "10.6"),
            ("BYFLOAT 9 UBOUND 1e1", &["9", "10", "-0.5", "10.5", "19.5", "9"], "*2 $4 10.5 $1 0", "10.50"),
            (
                "BYFLOAT 9 UBOUND 1e1 SATURATE",
                &["9", "-9000", "-9010.5", "10", "-0.5", "10.5", "19.5", "9"],
                "*2 $2 10 $4 -0.5",
                "10",
            ),
            ("BYFLOAT 9 UBOUND inf", &["9", "10.5", "19.5", "9"], "*2 $4 19.5 $1 9", "19.5"),
            ("BYFLOAT inf UBOUND 20", &[INFINITE, "20", "9.5", "10.5", INFINITE, INFINITE], "*2 $4 10.5 $1 0", "10.50"),
        ] {
            let mut keys = now_is(1000);
            keys.string("k", "10.50");
            sums(&mut keys, options, server);
            assert_eq!(increx(&mut keys, options), answer, "{options}");
            assert_eq!(keys.run(&["GET", "k"]), format!("${}\r\n{value}\r\n", value.len()), "{options}");
        }
    }

    #[test]
    fn errors_of_floats_name_what_is_wrong() {
        const BAD: &str = "-ERR value is not a valid float";
        for (options, server, answer) in [
            ("BYFLOAT x", &[BAD, "10.5", BAD, BAD][..], "-ERR Increment is not a valid float"),
            ("BYFLOAT 1 LBOUND x", &["1", BAD, BAD, "10.5", "11.5", "1"], "-ERR LBOUND is not a valid float"),
            ("BYFLOAT 1 UBOUND x", &["1", BAD, BAD, "10.5", "11.5", "1"], "-ERR UBOUND is not a valid float"),
            ("BYFLOAT 1", &["1", BAD, BAD, BAD], BAD),
            (
                "BYFLOAT 1 LBOUND 2 UBOUND 1",
                &["1", "2", "-8.5", "1", "-9.5", "10.5", "11.5", "1"],
                "-ERR LBOUND can't be greater than UBOUND",
            ),
            ("BYFLOAT 1 LBOUND inf", &["1", "10.5", "11.5", "1"], "-ERR LBOUND can't be greater than UBOUND"),
            (
                "BYFLOAT 1 LBOUND inf UBOUND inf SATURATE",
                &["1", "10.5", "11.5", "1"],
                "-ERR applied increment would be Infinity",
            ),
        ] {
            let mut keys = now_is(1000);
            keys.string("k", "10.50");
            sums(&mut keys, options, server);
            assert_eq!(increx(&mut keys, options), answer, "{options}");
            assert_eq!(keys.changed(), Vec::<String>::new());
        }
    }
}
