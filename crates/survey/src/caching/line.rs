//! Requests as files and MONITOR have them, a line each.
//!
//! ```text
//! user:1                                              a read
//! user:1<tab>120                                      the same of a value of so many bytes; a space does as well
//! user:1<tab>120<tab>set                              get, set or delete; r, w or d
//! 1339518083.107412 [0 127.0.0.1:60866] "get" "user:1"   a command, as MONITOR shows it
//! 0,user:1,6,120,7,get,0                              as Twitter published its caches' requests (Yang and others, 2020):
//!                                                     time, key, key's and value's length, client, what for, TTL
//! ```

use keyfold_core::command::{Access, Categories, table};

use super::recorder::Recorder;
use super::requests::Action;

/// Words for what a request does.
const READS: [&str; 4] = ["get", "gets", "read", "r"];
const WRITES: [&str; 9] = ["set", "add", "replace", "cas", "append", "prepend", "incr", "write", "w"];
const DELETES: [&str; 4] = ["delete", "del", "remove", "d"];

impl Recorder {
    /// Takes in what a line says, without its end. Whether it says anything: what is asked of no key does not, nor do empty
    /// lines.
    pub fn add_line(&mut self, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return false;
        }
        if let Some((seconds, args)) = monitored(line) {
            self.at(seconds);
            return self.add_command(&args);
        }
        if let Some((seconds, key, value_bytes, action, expires)) = published(line) {
            self.at(seconds);
            self.add(key, action, value_bytes, Some(expires));
            return true;
        }
        let (key, value_bytes, action) = listed(line);
        self.add(key, action, value_bytes, None);
        !key.is_empty()
    }

    /// Takes in a command. Of one with several keys each is a request; those that concern no value (EXPIRE, TTL) don't
    /// count.
    fn add_command(&mut self, args: &[Vec<u8>]) -> bool {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let Some(command) = table().resolve(&args) else { return false };
        let keys = command.keys_in(&args);
        let is_set = |name: &str| command.name == name;
        let mut says = false;
        for key in keys.iter() {
            let is_of_value =
                |action: &Action| *action == Action::Delete || !command.categories.contains(Categories::KEYSPACE);
            let Some(action) = action(key.access).filter(is_of_value) else { continue };
            // Where the value is, of the commands that write most of what caches hold.
            let value = match action {
                Action::Write if is_set("set") || is_set("mset") || is_set("setnx") || is_set("getset") => {
                    args.get(key.index + 1)
                }
                Action::Write if is_set("setex") || is_set("psetex") => args.get(key.index + 2),
                _ => None,
            };
            let value_bytes = value.map(|value| u32::try_from(value.len()).unwrap_or(u32::MAX));
            self.add(args[key.index], action, value_bytes, value.map(|_| expires(command.name, &args)));
            says = true;
        }
        says
    }
}

/// What a command does with a key, as far as caches are concerned.
fn action(access: Access) -> Option<Action> {
    if access.contains(Access::NOT_KEY) {
        None
    } else if access.contains(Access::RM) {
        Some(Action::Delete)
    } else if access.contains(Access::OW) {
        Some(Action::Write)
    } else if access.contains(Access::ACCESS) {
        Some(Action::Read)
    } else if access.intersects(Access::UPDATE | Access::INSERT) && access.contains(Access::RW) {
        Some(Action::Write)
    } else {
        None
    }
}

/// Whether what a command writes expires.
fn expires(name: &str, args: &[&[u8]]) -> bool {
    let has_option =
        |arg: &&[u8]| ["ex", "px", "exat", "pxat"].iter().any(|option| arg.eq_ignore_ascii_case(option.as_bytes()));
    matches!(name, "setex" | "psetex") || name == "set" && args.iter().skip(3).any(has_option)
}

/// When the command of a line of MONITOR's came, and its arguments; none of another line.
fn monitored(line: &[u8]) -> Option<(f64, Vec<Vec<u8>>)> {
    let line = line.strip_prefix(b"+").unwrap_or(line);
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let rest = line[digits..].strip_prefix(b" [").filter(|_| digits > 0)?;
    let end = rest.windows(3).position(|three| three == b"] \"")?;
    let mut rest = &rest[end + 2..];
    let mut args = Vec::new();
    while let Some(quoted) = rest.strip_prefix(b"\"") {
        let (arg, after) = unquote(quoted)?;
        args.push(arg);
        rest = after.strip_prefix(b" ").unwrap_or(after);
    }
    let seconds = std::str::from_utf8(&line[..digits]).ok()?.parse().ok()?;
    Some((seconds, args))
}

/// What stands before the next quote, as `sdscatrepr` of Redis writes it, and what stands behind that.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut arg = Vec::with_capacity(32);
    let mut at = 0;
    loop {
        match *text.get(at)? {
            b'"' => return Some((arg, &text[at + 1..])),
            b'\\' => {
                let (byte, len) = match *text.get(at + 1)? {
                    b'n' => (b'\n', 2),
                    b'r' => (b'\r', 2),
                    b't' => (b'\t', 2),
                    b'a' => (7, 2),
                    b'b' => (8, 2),
                    b'x' => {
                        let hex = std::str::from_utf8(text.get(at + 2..at + 4)?).ok()?;
                        (u8::from_str_radix(hex, 16).ok()?, 4)
                    }
                    other => (other, 2),
                };
                arg.push(byte);
                at += len;
            }
            byte => {
                arg.push(byte);
                at += 1;
            }
        }
    }
}

/// When a request came, its key, how long the value is, what it is for, and whether the value expires.
type Published<'l> = (f64, &'l [u8], Option<u32>, Action, bool);

/// A line of Twitter's: when it came, the key, how long its value is, what it is asked for, and whether it expires.
fn published(line: &[u8]) -> Option<Published<'_>> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b',').collect();
    // Keys may have commas.
    let last = fields.len().checked_sub(5).filter(|last| *last >= 2)?;
    let is_number = |field: &[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    let [_, value_bytes, _, word, ttl] = fields[last..] else { return None };
    if ![fields[0], fields[last], value_bytes, ttl].into_iter().all(is_number) {
        return None;
    }
    let key = &line[fields[0].len() + 1..][..fields[1..last].iter().map(|field| field.len() + 1).sum::<usize>() - 1];
    let seconds = f64::from(number(fields[0])?);
    Some((seconds, key, number(value_bytes).filter(|bytes| *bytes > 0), word_action(word)?, ttl != b"0"))
}

/// A line of a list: a key, and what stands behind it. One that has more than these is a key with spaces.
fn listed(line: &[u8]) -> (&[u8], Option<u32>, Action) {
    let separator = if line.contains(&b'\t') { b'\t' } else { b' ' };
    let mut fields = line.split(|byte| *byte == separator);
    let (key, value_bytes, word, more) = (fields.next(), fields.next(), fields.next(), fields.next());
    let action = word.map_or(Some(Action::Read), word_action);
    match (key, value_bytes.map(number), action, more) {
        (Some(key), Some(value_bytes @ Some(_)), Some(action), None) => (key, value_bytes, action),
        _ => (line, None, Action::Read),
    }
}

fn word_action(word: &[u8]) -> Option<Action> {
    let is_one_of = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    if is_one_of(&READS) {
        Some(Action::Read)
    } else if is_one_of(&WRITES) {
        Some(Action::Write)
    } else {
        is_one_of(&DELETES).then_some(Action::Delete)
    }
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caching::Bounds;

    /// What lines say: keys, lengths of values, and what is asked for, of each request.
    fn said(lines: &[&str]) -> Vec<(String, Option<u32>, Action)> {
        let mut recorder = Recorder::new(Bounds::default());
        for line in lines {
            recorder.add_line(line.as_bytes());
        }
        let requests = recorder.finish();
        let each = requests.steps.iter().map(|step| {
            let asked = &requests.keys[step.key() as usize];
            (asked.key.escape_ascii().to_string(), asked.value_bytes, step.action())
        });
        each.collect()
    }

    fn one(line: &str) -> (String, Option<u32>, Action) {
        let mut said = said(&[line]);
        assert_eq!(said.len(), 1, "{line}");
        said.remove(0)
    }

    #[test]
    fn lists_of_keys() {
        let read = |key: &str, bytes| (key.to_owned(), bytes, Action::Read);
        assert_eq!(one("user:1"), read("user:1", None));
        assert_eq!(one("user:1\r"), read("user:1", None));
        assert_eq!(one("user:1 120"), read("user:1", Some(120)));
        assert_eq!(one("user:1\t120"), read("user:1", Some(120)));
        assert_eq!(one("user:1\t120\tSET"), ("user:1".to_owned(), Some(120), Action::Write));
        assert_eq!(one("user:1 0 d"), ("user:1".to_owned(), Some(0), Action::Delete));
        assert_eq!(one("a key with spaces"), read("a key with spaces", None));
        assert_eq!(one("a 12 b"), read("a 12 b", None));
        assert_eq!(one("one two\t7\tget"), read("one two", Some(7)));
        assert_eq!(said(&["", "\r"]), []);
    }

    #[test]
    fn what_twitter_published() {
        assert_eq!(
            one("0,q:q:1:8WTfjZU14ee,17,213,4,get,0"),
            ("q:q:1:8WTfjZU14ee".to_owned(), Some(213), Action::Read)
        );
        assert_eq!(one("12,a,b,3,0,4,set,3600"), ("a,b".to_owned(), None, Action::Write));
        assert_eq!(one("12,a,1,5,4,delete,0"), ("a".to_owned(), Some(5), Action::Delete));
        assert_eq!(one("1,2,3,4,5,6,7").0, "1,2,3,4,5,6,7");
    }

    #[test]
    fn lines_of_monitor() {
        let line = |command: &str| format!("1339518083.107412 [0 127.0.0.1:60866] {command}");
        let of = |command: &str| said(&[&line(command)]);
        let key = |key: &str, bytes, action| (key.to_owned(), bytes, action);
        assert_eq!(of("\"GET\" \"user:1\""), [key("user:1", None, Action::Read)]);
        assert_eq!(
            of("\"set\" \"a \\\"b\\x00\" \"1234\" \"EX\" \"10\""),
            [key("a \\\"b\\x00", Some(4), Action::Write)]
        );
        assert_eq!(of("\"mget\" \"a\" \"b\""), [key("a", None, Action::Read), key("b", None, Action::Read)]);
        assert_eq!(
            of("\"MSET\" \"a\" \"1\" \"b\" \"22\""),
            [key("a", Some(1), Action::Write), key("b", Some(2), Action::Write)]
        );
        assert_eq!(of("\"setex\" \"a\" \"10\" \"123\""), [key("a", Some(3), Action::Write)]);
        assert_eq!(of("\"del\" \"a\""), [key("a", None, Action::Delete)]);
        assert_eq!(of("\"incr\" \"a\""), [key("a", None, Action::Read)]);
        assert_eq!(of("\"hget\" \"h\" \"f\""), [key("h", None, Action::Read)]);
        for silent in ["\"ping\"", "\"expire\" \"a\" \"10\"", "\"ttl\" \"a\"", "\"nonesuch\" \"a\"", "\"get\"", ""] {
            assert_eq!(said(&["OK"]).len(), 1);
            if !silent.is_empty() {
                assert_eq!(of(silent), [], "{silent}");
            }
        }
        assert_eq!(said(&["+1.5 [0 unix:/run/a b.sock] \"get\" \"k\""]), [key("k", None, Action::Read)]);
        assert_eq!(said(&["1.5 [0 lua] \"get\" \"k\""]), [key("k", None, Action::Read)]);
    }

    #[test]
    fn times_say_how_many_come_in_a_minute() {
        let mut recorder = Recorder::new(Bounds::default());
        for second in 0..=30 {
            recorder.add_line(format!("{}.000000 [0 a:1] \"get\" \"k\"", 100 + second).as_bytes());
        }
        assert_eq!(recorder.finish().per_minute, Some(62.0));
        let mut recorder = Recorder::new(Bounds::default());
        recorder.add_line(b"k");
        assert_eq!(recorder.finish().per_minute, None);
    }

    #[test]
    fn a_line_that_is_cut_off_is_a_key_or_nothing() {
        let line = b"1339518083.107412 [0 127.0.0.1:60866] \"set\" \"a\\x00\" \"1\\\"2\"";
        for end in 0..line.len() {
            let mut recorder = Recorder::new(Bounds::default());
            recorder.add_line(&line[..end]);
            assert!(recorder.seen() <= 1);
        }
    }

    #[test]
    fn what_expires_is_told() {
        let expires = |command: &str| {
            let mut recorder = Recorder::new(Bounds::default());
            recorder.add_line(format!("1.5 [0 a:1] {command}").as_bytes());
            recorder.finish().keys[0].has_expiry
        };
        assert!(expires("\"SET\" \"a\" \"1\" \"px\" \"10\"") && expires("\"setex\" \"a\" \"10\" \"1\""));
        assert!(!expires("\"SET\" \"a\" \"1\" \"nx\"") && !expires("\"SET\" \"a\" \"ex\""));
    }
}
