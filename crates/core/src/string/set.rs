//! Commands that read or write one whole string: GET, SET and their relatives. Redis 7.0 t_string.c; of SET's conditions
//! Redis 8.4 and Valkey 8.1.
//!
//! The order of the checks is the server's: options, then the expiry's number, then the type.

use super::condition::Condition;
use super::options::{Of, Options, Unit, expiry};
use super::{Call, Entry, Flow, Halt, Space};
use crate::dialect::{Dialect, Since};
use crate::notify::Event;
use crate::resp::Answer;

/// GET key: the value, or nil.
pub(super) fn get(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    match space.string(call.args[1])? {
        Some(entry) => answer.bulk(&entry.value),
        None => answer.nil(),
    }
    Ok(())
}

/// The commands that give a key a whole new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetForm {
    Set,
    Setnx,
    Setex,
    Psetex,
    Getset,
}

/// One of these commands, as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SetCommand<'a> {
    /// The value.
    pub(crate) value: &'a [u8],
    /// When it expires, or never.
    pub(crate) expires_at_ms: Option<i64>,
    form: SetForm,
    options: Options,
}

impl<'a> SetCommand<'a> {
    /// Reads a command that has as many arguments as it should, and no condition on the old value: that is an error here.
    pub(crate) fn read(form: SetForm, args: &[&'a [u8]], now_ms: i64) -> Result<Self, Halt> {
        Self::read_call(form, &Call { args, dialect: Dialect::of_every_server() }, args, now_ms)
    }

    fn read_call(form: SetForm, call: &Call<'_>, args: &[&'a [u8]], now_ms: i64) -> Result<Self, Halt> {
        let plain = Options::default();
        let (options, expires_at_ms, value_at) = match form {
            SetForm::Set => {
                let options = Options::parse(call, Of::Set, 3)?;
                let expires_at_ms = options.expires_at_ms(call, "set", now_ms)?;
                (options, expires_at_ms, 2)
            }
            SetForm::Setnx => (Options { if_absent: true, ..plain }, None, 2),
            SetForm::Setex => (plain, Some(expiry(call, 2, Unit::Ex, "setex", now_ms)?), 3),
            SetForm::Psetex => (plain, Some(expiry(call, 2, Unit::Px, "psetex", now_ms)?), 3),
            SetForm::Getset => (Options { get: true, ..plain }, None, 2),
        };
        Ok(Self { value: args[value_at], expires_at_ms, form, options })
    }

    /// Reads a command that needs nothing of the old value; none where it needs that, leaves nothing behind, or has an
    /// error in it.
    pub(crate) fn read_simple(form: SetForm, args: &[&'a [u8]], now_ms: i64) -> Option<Self> {
        let set = Self::read(form, args, now_ms).ok()?;
        let Options { if_present, get, keep_ttl, .. } = set.options;
        let is_simple = !(if_present || get || keep_ttl);
        (is_simple && set.expires_at_ms.is_none_or(|at| at > now_ms)).then_some(set)
    }

    /// Whether it writes only where the key doesn't exist.
    pub(crate) fn if_absent(&self) -> bool {
        self.options.if_absent
    }

    /// Whether it writes only where the key exists.
    pub(crate) fn if_present(&self) -> bool {
        self.options.if_present
    }

    /// Whether the answer is the old value.
    pub(crate) fn wants_old(&self) -> bool {
        self.options.get
    }

    /// Whether the new value expires when the old one did.
    pub(crate) fn keeps_expiry(&self) -> bool {
        self.options.keep_ttl
    }

    /// The answer where it has written, and isn't asked for the old value.
    pub(crate) fn when_set(&self) -> &'static [u8] {
        if self.form == SetForm::Setnx { b":1\r\n" } else { b"+OK\r\n" }
    }
}

/// SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET]
/// [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]: OK; nil where NX, XX or a condition held it back; with GET the old value
/// instead of either.
pub(super) fn set(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    run(SetForm::Set, call, space, answer)
}

/// The first servers that have the condition of a SET; none where it has no condition.
pub(super) fn since_of_options(args: &[&[u8]]) -> Option<Since> {
    args.iter().skip(3).find_map(|word| Condition::parse(word)).map(Condition::since)
}

/// SETNX key value: 1 where it wrote, 0 where the key was there.
pub(super) fn setnx(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    run(SetForm::Setnx, call, space, answer)
}

/// SETEX key seconds value: OK.
pub(super) fn setex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    run(SetForm::Setex, call, space, answer)
}

/// PSETEX key milliseconds value: OK.
pub(super) fn psetex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    run(SetForm::Psetex, call, space, answer)
}

/// GETSET key value: the old value, or nil. The expiry is gone.
pub(super) fn getset(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    run(SetForm::Getset, call, space, answer)
}

fn run(form: SetForm, call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let SetCommand { value, expires_at_ms, options, .. } =
        SetCommand::read_call(form, call, call.args, space.now_ms())?;
    let held_back = match options.condition {
        Some((condition, other)) => match space.string(key)? {
            Some(entry) => !condition.holds(&entry.value, call.args[other])?,
            None => !condition.holds_of_nothing(),
        },
        None if space.exists(key) => options.if_absent,
        None => options.if_present,
    };
    if options.get {
        get(call, space, answer)?;
    }
    let is_over = call.dialect.is_valkey() && expires_at_ms.is_some_and(|at| at < space.now_ms());
    if !held_back && is_over {
        // Valkey removes what is there, and says no more than that.
        if space.exists(key) {
            space.remove(key);
            space.note(call.dialect.event_of_past_expiry(), key);
        }
    } else if !held_back {
        let kept = if options.keep_ttl { expiry_of(space, key) } else { None };
        space.put(key, Entry { value: value.to_vec(), expires_at_ms: expires_at_ms.or(kept) });
        space.note(Event::Set, key);
        if expires_at_ms.is_some() {
            space.note(Event::Expire, key);
        }
    }
    match form {
        _ if options.get => {}
        SetForm::Setnx => answer.integer(i64::from(!held_back)),
        _ if held_back => answer.nil(),
        _ => answer.ok(),
    }
    Ok(())
}

/// GETDEL key: the value, which is then gone, or nil.
pub(super) fn getdel(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    get(call, space, answer)?;
    if space.exists(call.args[1]) {
        space.remove(call.args[1]);
        space.note(Event::Del, call.args[1]);
    }
    Ok(())
}

/// GETEX, as it was read without looking at the key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GetexCommand {
    /// When the value is to expire, where that is to change to some time.
    pub(crate) expires_at_ms: Option<i64>,
    /// It is not to expire any more.
    pub(crate) persists: bool,
}

impl GetexCommand {
    /// Reads a command; none where it has an error in it.
    pub(crate) fn read(args: &[&[u8]], now_ms: i64) -> Option<Self> {
        let call = &Call { args, dialect: Dialect::of_every_server() };
        let options = Options::parse(call, Of::Getex, 2).ok()?;
        let expires_at_ms = options.expires_at_ms(call, "getex", now_ms).ok()?;
        Some(Self { expires_at_ms, persists: options.persist })
    }
}

/// GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]: the value, or nil; sets or removes the expiry.
///
/// The expiry's number is looked at only where there is a string, after the type; by later servers before either.
pub(super) fn getex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let options = Options::parse(call, Of::Getex, 2)?;
    if call.dialect.reads_getex_number_first() {
        options.expires_at_ms(call, "getex", space.now_ms())?;
    }
    let Some(entry) = space.string(key)? else {
        answer.nil();
        return Ok(());
    };
    let at = options.expires_at_ms(call, "getex", space.now_ms())?;
    answer.bulk(&entry.value);
    let had_expiry = entry.expires_at_ms.is_some();
    let absolute = options.expire.is_some_and(|(unit, _)| unit.is_absolute());
    if absolute && at.is_some_and(|at| at <= space.now_ms()) {
        space.remove(key);
        space.note(call.dialect.event_of_past_expiry(), key);
    } else if at.is_some() || (options.persist && had_expiry) {
        space.set_expiry(key, at);
        space.note(if at.is_some() { Event::Expire } else { Event::Persist }, key);
    }
    Ok(())
}

/// When the string under `key` expires.
pub(super) fn expiry_of(space: &Space, key: &[u8]) -> Option<i64> {
    space.expiry(key).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;
    use super::{SetCommand, SetForm};

    const SYNTAX: &str = "-ERR syntax error\r\n";
    const EXPIRE: &str = "-ERR invalid expire time in 'set' command\r\n";

    #[test]
    fn options_that_contradict() {
        let mut keys = now_is(1000);
        for options in [
            &["NX", "XX"][..],
            &["EX", "1", "PX", "1"],
            &["EX", "1", "KEEPTTL"],
            &["KEEPTTL", "EXAT", "9"],
            &["EX"],
            &["PERSIST"],
            &["nonsense"],
        ] {
            assert_eq!(keys.run(&[&["SET", "k", "v"], options].concat()), SYNTAX, "{options:?}");
        }
        assert_eq!(keys.run(&["SET", "k", "v", "EX", "1", "ex", "2", "get", "GET", "nx", "NX"]), "$-1\r\n");
        assert_eq!(keys.run(&["PTTL", "k"]), ":2000\r\n");
    }

    #[test]
    fn expiries_out_of_range() {
        let mut keys = now_is(1000);
        for (unit, number) in [
            ("EX", "0"),
            ("PX", "-1"),
            ("EX", "9223372036854775807"),
            ("EX", "9223372036854775"),
            ("PX", "9223372036854775807"),
            ("EXAT", "9223372036854776"),
        ] {
            assert_eq!(keys.run(&["SET", "k", "v", unit, number]), EXPIRE, "{unit} {number}");
        }
        assert_eq!(keys.run(&["SET", "k", "v", "PXAT", "9223372036854775807"]), "+OK\r\n");
        assert_eq!(keys.run(&["SETEX", "k", "0", "v"]), "-ERR invalid expire time in 'setex' command\r\n");
        assert_eq!(keys.run(&["PSETEX", "k", "x", "v"]), "-ERR value is not an integer or out of range\r\n");
    }

    #[test]
    fn set_into_the_past_leaves_nothing() {
        let mut keys = now_is(1000);
        assert_eq!(keys.run(&["SET", "k", "v", "PXAT", "999"]), "+OK\r\n");
        assert_eq!(keys.run(&["GET", "k"]), "$-1\r\n");
        assert_eq!(keys.changed(), ["k"]);
        assert_eq!(keys.run(&["SET", "k", "v", "PXAT", "1000"]), "+OK\r\n");
        assert_eq!(keys.run(&["GET", "k"]), "$1\r\nv\r\n");
        assert_eq!(keys.run(&["GETEX", "k", "PXAT", "1000"]), "$1\r\nv\r\n");
        assert_eq!(keys.run(&["GET", "k"]), "$-1\r\n");
    }

    #[test]
    fn get_with_nx_and_with_another_type() {
        let mut keys = now_is(1000);
        keys.string("k", "old");
        keys.other("l", "list");
        assert_eq!(keys.run(&["SET", "k", "new", "GET", "NX"]), "$3\r\nold\r\n");
        assert_eq!(keys.changed(), Vec::<String>::new());
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
        assert_eq!(keys.run(&["SET", "l", "new", "GET"]), wrong);
        assert_eq!(keys.run(&["SET", "l", "new", "XX"]), "+OK\r\n");
        assert_eq!(keys.changed(), ["l"]);
    }

    #[test]
    fn getex_looks_at_the_number_last() {
        let mut keys = now_is(1000);
        assert_eq!(keys.run(&["GETEX", "none", "EX", "x"]), "$-1\r\n");
        keys.string_until("k", "v", 2000);
        assert_eq!(keys.run(&["GETEX", "k", "EX", "0"]), "-ERR invalid expire time in 'getex' command\r\n");
        assert_eq!(keys.run(&["GETEX", "k"]), "$1\r\nv\r\n");
        assert_eq!(keys.changed(), Vec::<String>::new());
        assert_eq!(keys.run(&["GETEX", "k", "persist"]), "$1\r\nv\r\n");
        assert_eq!(keys.run(&["TTL", "k"]), ":-1\r\n");
    }

    #[test]
    fn conditions_hold_it_back_or_not() {
        // The digest of "old".
        let digest = super::super::condition::tests::digest("old");
        let digest = digest.as_str();
        for (condition, other, holds, holds_of_nothing) in [
            ("IFEQ", "old", true, false),
            ("ifeq", "Old", false, false),
            ("IFNE", "old", false, true),
            ("IFNE", "", true, true),
            ("IFDEQ", digest, true, false),
            ("IFDEQ", "0000000000000000", false, false),
            ("IFDNE", digest, false, true),
            ("IfDnE", "0000000000000000", true, true),
        ] {
            for (old, holds) in [(Some("old"), holds), (None, holds_of_nothing)] {
                for get in [&[][..], &["GET"]] {
                    let mut keys = now_is(1000);
                    old.iter().for_each(|old| keys.string_until("k", old, 3000));
                    let set = [&["SET", "k", "new", condition, other, "KEEPTTL"], get].concat();
                    let answer = match (get.is_empty(), old) {
                        (false, Some(_)) => "$3\r\nold\r\n",
                        (true, _) if holds => "+OK\r\n",
                        _ => "$-1\r\n",
                    };
                    assert_eq!(keys.run(&set), answer, "{set:?} of {old:?}");
                    assert_eq!(keys.changed().is_empty(), !holds, "{set:?} of {old:?}");
                    if old.is_some() {
                        assert_eq!(keys.run(&["PTTL", "k"]), ":2000\r\n");
                    }
                }
            }
        }
    }

    #[test]
    fn conditions_are_one_and_look_at_strings() {
        let mut keys = now_is(1000);
        keys.string("k", "old");
        keys.other("l", "list");
        for options in [
            &["IFEQ"][..],
            &["IFEQ", "old", "NX"],
            &["XX", "IFEQ", "old"],
            &["IFEQ", "old", "IFNE", "x"],
            &["IFEQ", "old", "PERSIST"],
        ] {
            assert_eq!(keys.run(&[&["SET", "k", "v"], options].concat()), SYNTAX, "{options:?}");
        }
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
        for get in [&[][..], &["GET"]] {
            assert_eq!(keys.run(&[&["SET", "l", "v", "IFNE", "x"], get].concat()), wrong_type);
            let short = "-ERR must be exactly 16 hexadecimal characters\r\n";
            assert_eq!(keys.run(&[&["SET", "k", "v", "IFDNE", "12"], get].concat()), short);
        }
        assert_eq!(keys.run(&["SET", "k", "v", "IFEQ", "old", "EX", "0"]), EXPIRE);
        assert_eq!(keys.changed(), Vec::<String>::new());
        // Where there is no key nobody looks at the digest.
        assert_eq!(keys.run(&["SET", "none", "v", "IFDNE", "12"]), "+OK\r\n");
        assert_eq!(keys.run(&["SET", "k", "v", "IFEQ", "a", "IFEQ", "old"]), "+OK\r\n");
    }

    #[test]
    fn conditions_are_the_servers_where_the_newest_are_not_known() {
        let set = |condition: &str, name: &str, version: &str, newest: bool| {
            let mut keys = now_is(1000).behind(name, version, newest);
            keys.run(&["SET", "k", "v", condition, "0000000000000000"])
        };
        assert_eq!(set("IFEQ", "redis", "7.0.15", false), SYNTAX);
        assert_eq!(set("IFEQ", "redis", "7.0.15", true), "$-1\r\n");
        assert_eq!(set("IFEQ", "valkey", "8.1.1", false), "$-1\r\n");
        assert_eq!(set("IFNE", "valkey", "9.1.2", false), SYNTAX);
        assert_eq!(set("IFDNE", "redis", "8.4.0", false), "+OK\r\n");
        assert_eq!(set("IFDNE", "valkey", "9.9.0", false), SYNTAX);
        let mut keys = now_is(1000).behind("valkey", "8.1.1", true);
        assert_eq!(keys.run(&["SET", "k", "v", "IFEQ", "a", "IFEQ", "a"]), SYNTAX);
    }

    #[test]
    fn getex_looks_at_the_number_first_where_the_server_does() {
        let mut keys = now_is(1000).behind("valkey", "9.1.2", true);
        keys.other("l", "list");
        assert_eq!(keys.run(&["GETEX", "none", "EX", "x"]), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(keys.run(&["GETEX", "l", "EX", "0"]), "-ERR invalid expire time in 'getex' command\r\n");
        assert_eq!(keys.run(&["GETEX", "none", "EX", "1"]), "$-1\r\n");
    }

    fn read_simple(text: &str) -> Option<SetCommand<'_>> {
        let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let form = match args[0] {
            b"setnx" => SetForm::Setnx,
            b"setex" => SetForm::Setex,
            b"psetex" => SetForm::Psetex,
            b"getset" => SetForm::Getset,
            _ => SetForm::Set,
        };
        SetCommand::read_simple(form, &args, 1_000_000)
    }

    #[test]
    fn simple_ones_are_told_from_those_to_be_worked_out() {
        for (text, expires_at_ms, if_absent, when_set) in [
            ("set k v", None, false, "+OK\r\n"),
            ("set k v nx Px 5", Some(1_000_005), true, "+OK\r\n"),
            ("set k v PXAT 1000001 nx", Some(1_000_001), true, "+OK\r\n"),
            ("set k v ExAt 1001", Some(1_001_000), false, "+OK\r\n"),
            ("setex k 2 v", Some(1_002_000), false, "+OK\r\n"),
            ("psetex k 2 v", Some(1_000_002), false, "+OK\r\n"),
            ("setnx k v", None, true, ":1\r\n"),
        ] {
            let set = read_simple(text).unwrap();
            let read = (set.value, set.expires_at_ms, set.if_absent(), set.when_set());
            assert_eq!(read, (&b"v"[..], expires_at_ms, if_absent, when_set.as_bytes()), "{text}");
        }
        for text in [
            "set k v xx",
            "set k v ifeq v",
            "set k v get",
            "set k v keepttl",
            "set k v ex",
            "set k v ex 0",
            "set k v ex 1 px 1",
            "set k v px 1 pxat 2000000",
            "set k v pxat 1000000",
            "set k v pxat -5",
            "set k v px 9223372036854775807",
            "set k v exat 1000",
            "set k v exat 9223372036854776",
            "setex k -1 v",
            "setex k 1x v",
            "getset k v",
        ] {
            assert_eq!(read_simple(text), None, "{text}");
        }
    }
}
