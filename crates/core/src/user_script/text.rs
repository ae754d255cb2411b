//! What is put before a user's script whose keys are folded.
//!
//! ```text
//! #!lua flags=no-writes                        as the user wrote it
//! local redis=(function()…end)() return (redis.call('GET',KEYS[1]))
//! └──── the same before all scripts ────┘└──── the user's ────────┘
//! ```
//! All of it stands on the first line, so that the user's lines keep their numbers, which errors name. A call that is what
//! the script returns is put in brackets: without them it would take the place of the line that it stands on.
//!
//! A library of functions becomes a script too, which loads it and calls one function:
//!
//! ```text
//! #!lua flags=no-writes                        the function's flags
//! if…stale…end local redis=(function()…end)() return (function(library)…end)(function(...)the library
//!  end)
//! ```

use std::borrow::Cow;
use std::sync::LazyLock;

use super::lexer::{Kind, Word, read, words};
use crate::collection::parts::{HEADER_BYTES, Limits, WHY_DAMAGED};
use crate::command::{Find, keys::Begin, table};
use crate::notify::Notices;
use crate::record::FEWEST_IN_PARTS;

/// Which lines stand before a script: a server keeps them for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prelude {
    /// Sets or hashes are among its keys.
    pub(super) has_collections: bool,
    /// What is published of what it does.
    pub(super) notices: Option<Notices>,
}

/// What stands between `local redis=` and the user's script, by whether it has collections, and whether what it does is published.
static PRELUDES: LazyLock<[[Vec<u8>; 2]; 2]> = LazyLock::new(|| {
    let events = ["", include_str!("events.lua")];
    [false, true].map(|has_collections| events.map(|events| prelude(events, has_collections)))
});

/// Of the pieces those that are about sets and hashes alone.
const OF_COLLECTIONS: [&str; 5] = ["unpacked", "packed", "in_parts", "parts", "members"];

/// Stands there in the place of what is published.
const NOTICES: &[u8] = b"'notices'";

fn prelude(events: &str, has_collections: bool) -> Vec<u8> {
    let left_out: &[&str] = if has_collections { &[] } else { &OF_COLLECTIONS };
    let program = expanded(&include_str!("prelude.lua").replace("--@events", events), left_out);
    let behind = b" end)() if rawget(redis,'again')then return rawget(redis,'again')end";
    [b"local redis=(function()", squeezed(program.as_bytes()).as_slice(), behind].concat()
}

impl Prelude {
    fn text(self) -> Cow<'static, [u8]> {
        let [silent, publishing] = &PRELUDES[usize::from(self.has_collections)];
        let Some(notices) = self.notices else { return Cow::Borrowed(silent) };
        let at = memchr::memmem::find(publishing, NOTICES).unwrap_or(publishing.len());
        let (before, behind) = publishing.split_at(at);
        Cow::Owned([before, notices.in_lua().as_bytes(), &behind[NOTICES.len().min(behind.len())..]].concat())
    }
}

/// What stands before a library of functions in front of [`PRELUDES`]: whether the library is still the server's.
static STALE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let check = squeezed(expanded(include_str!("stale.lua"), &[]).as_bytes());
    let behind = b" end)()then return{ok='stale '..ARGV[ARGV[#ARGV-1]-1]}end ";
    [b"if(function()", check.as_slice(), behind].concat()
});

/// A script that answers in which state the server's functions are.
pub(super) static STATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let state = squeezed(expanded(include_str!("state.lua"), &[]).as_bytes());
    [b"#!lua flags=no-writes,allow-oom,allow-stale\n", state.as_slice(), b" return state"].concat()
});

/// A program, without these pieces.
fn expanded(text: &str, left_out: &[&str]) -> String {
    let mut program = String::new();
    expand(text, left_out, &mut program);
    program
}

/// Appends a program, with the files that it names where it names them, but for those that are left out.
fn expand(text: &str, left_out: &[&str], program: &mut String) {
    let named = |name: &str| match name {
        _ if left_out.contains(&name) => String::new(),
        "frame" => include_str!("../exchange/field/frame.lua").to_owned(),
        "number_of" => include_str!("../exchange/field/number_of.lua").to_owned(),
        "framed" => include_str!("../exchange/field/framed.lua").to_owned(),
        "store" => include_str!("../exchange/field/store.lua").to_owned(),
        "counter" => include_str!("../exchange/field/counter.lua").to_owned(),
        "replace" => include_str!("../exchange/field/replace.lua").to_owned(),
        "expire" => include_str!("../exchange/field/expire.lua").to_owned(),
        "take" => include_str!("../exchange/field/take.lua").to_owned(),
        "splice" => include_str!("../exchange/field/splice.lua").to_owned(),
        "integers" => include_str!("integers.lua").to_owned(),
        "packed" => include_str!("packed.lua").to_owned(),
        "unpacked" => include_str!("unpacked.lua").to_owned(),
        "in_parts" => in_parts(),
        // A script's clock stands still.
        "parts" => include_str!("../exchange/parts/parts.lua").replace("call('TIME')", "field_call('TIME')"),
        "members" => include_str!("members.lua").to_owned(),
        "elsewhere" => include_str!("elsewhere.lua").to_owned(),
        "pointed" => include_str!("pointed.lua").to_owned(),
        "out_of_reach" => include_str!("out_of_reach.lua").to_owned(),
        "numerals" => include_str!("numerals.lua").to_owned(),
        "ordinary" => include_str!("ordinary.lua").to_owned(),
        "state" => include_str!("state.lua").to_owned(),
        "rest" => with_pointer(&include_str!("rest.lua").replace("@one_key", &one_key_commands())),
        _ => String::new(),
    };
    for line in text.lines() {
        match line.trim_start().strip_prefix("--@") {
            Some(name) => expand(&named(name), left_out, program),
            None => program.push_str(line),
        }
        program.push('\n');
    }
}

/// The text with how long what points to parts is: a nonce and a header.
fn with_pointer(text: &str) -> String {
    text.replace("@pointer", &(size_of::<u64>() + HEADER_BYTES).to_string())
}

/// What is asked of the script on parts, with its limits.
fn in_parts() -> String {
    let Limits { longest, integers, texts } = Limits::DEFAULT;
    let limits = [("@longest", longest), ("@integers", integers), ("@texts", texts), ("@fewest", FEWEST_IN_PARTS)];
    let text = with_pointer(&include_str!("in_parts.lua").replace("@damaged", WHY_DAMAGED));
    limits.into_iter().fold(text, |text, (name, limit)| text.replace(name, &limit.to_string()))
}

/// The names of all commands that have one key and have it as their first argument, each with a space before and behind.
fn one_key_commands() -> String {
    let has_one = |command: &&crate::command::Command| match &command.keys[..] {
        [spec] => {
            let is_first = spec.begin == Begin::Index(1) && matches!(spec.find, Find::Range { last: 0, .. });
            is_first && !command.flags.contains(crate::command::Flags::MOVABLEKEYS)
        }
        _ => false,
    };
    let names = table().iter().filter(has_one).map(|command| command.name.to_ascii_uppercase());
    names.fold(" ".to_owned(), |all, name| all + &name + " ")
}

/// The same program in one line and without comments.
fn squeezed(program: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(program.len());
    let mut before: Option<Word> = None;
    for word in words(program) {
        let text = word.text(program);
        let touches = before.as_ref().is_some_and(|before| before.at.end == word.at.start);
        let would_join = match (&before, out.last(), text.first()) {
            (Some(before), Some(last), Some(first)) => {
                let is_name = |kind| matches!(kind, Kind::Name | Kind::Number);
                let joins_point = |kind, point: u8| kind == Kind::Number && point == b'.';
                is_name(before.kind) && is_name(word.kind)
                    || joins_point(before.kind, *first)
                    || joins_point(word.kind, *last)
                    || last == first && matches!(first, b'-' | b'[' | b'.')
            }
            _ => false,
        };
        if would_join && !touches {
            out.push(b' ');
        }
        out.extend_from_slice(text);
        before = Some(word);
    }
    out
}

/// The text that is sent for a user's script. Where it names `server`, as Valkey calls what Redis calls `redis`, it gets that
/// too if the server has it.
pub(super) fn wrapped(body: &[u8], has_server: bool, prelude: Prelude) -> Vec<u8> {
    let first_line =
        if body.starts_with(b"#!") { memchr::memchr(b'\n', body).map_or(body.len(), |at| at + 1) } else { 0 };
    let (first_line, rest) = body.split_at(first_line);
    let words = words(rest);
    let names_server = has_server && words.iter().any(|word| is_name(word, rest, b"server"));
    let also: &[u8] = if names_server { b" local server=redis" } else { b"" };
    [first_line, &prelude.text(), also, b" ", &bracketed(rest, &words)].concat()
}

/// The text that is sent for a call of one of a library's functions that has these flags.
pub(super) fn wrapped_library(code: &[u8], flags: &[Vec<u8>], has_server: bool, prelude: Prelude) -> Vec<u8> {
    let library = code.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default();
    let words = words(library);
    let names = |name: &[u8]| words.iter().any(|word| is_name(word, library, name));
    let names_server = has_server && names(b"server");
    let first_line: &[u8] = if flags.is_empty() { b"#!lua" } else { b"#!lua flags=" };
    let also: &[u8] = if names_server { b" local server=redis" } else { b"" };
    let caught = if names(b"pcall") { squeezed(include_bytes!("caught.lua")) } else { Vec::new() };
    // A random number's next ones are the same in each script that says no seed, but not in each call of a function.
    let seed = if names(b"random") { "math.randomseed(tonumber(string.sub(number, -7), 16))" } else { "" };
    let before = include_str!("library.lua").replace("--@seed", seed);
    let before = before.replace("--@server", if names_server { "server = redis" } else { "" });
    [
        first_line,
        &flags.join(&b','),
        b"\n",
        &STALE,
        &prelude.text(),
        also,
        b" ",
        &caught,
        b" ",
        &squeezed(before.as_bytes()),
        b"(function(...) ",
        &bracketed(library, &words),
        b"\n end)",
    ]
    .concat()
}

fn is_name(word: &Word, program: &[u8], name: &[u8]) -> bool {
    word.kind == Kind::Name && word.text(program) == name
}

/// The program with brackets around each `redis.call(…)` that is all of what is returned. Lua would carry it out in place of
/// the function that returns it, and no one could say any more on which line it stood.
fn bracketed(program: &[u8], words: &[Word]) -> Vec<u8> {
    let symbol = |at: usize, byte: u8| words.get(at).is_some_and(|word| word.text(program) == [byte]);
    let named = |at: usize, names: &[&[u8]]| {
        words.get(at).is_some_and(|word| word.kind == Kind::Name && names.contains(&word.text(program)))
    };
    let calls =
        |at: usize| named(at, &[b"redis", b"server"]) && symbol(at + 1, b'.') && named(at + 2, &[b"call", b"pcall"]);
    // `local call = redis.call`
    let other_names: Vec<&[u8]> = (0..words.len())
        .filter(|at| symbol(at + 1, b'=') && calls(at + 2) && !symbol(at + 5, b'(') && !is_field(program, words, *at))
        .map(|at| words[at].text(program))
        .collect();
    let mut insertions = Vec::new();
    for at in (0..words.len()).filter(|at| named(*at, &[b"return"])) {
        let opens = if calls(at + 1) { at + 4 } else { at + 2 };
        let is_call = (opens == at + 4 || named(at + 1, &other_names)) && symbol(opens, b'(');
        if let Some(closes) = is_call.then(|| closing(program, words, opens)).flatten() {
            insertions.extend([(words[at + 1].at.start, b'('), (words[closes].at.end, b')')]);
        }
    }
    insertions.sort_unstable();
    let mut out = Vec::with_capacity(program.len() + insertions.len());
    let mut from = 0;
    for (at, byte) in insertions {
        out.extend_from_slice(&program[from..at]);
        out.push(byte);
        from = at;
    }
    out.extend_from_slice(&program[from..]);
    out
}

/// Whether a name is that of a field: it stands behind a point that isn't one of two.
fn is_field(program: &[u8], words: &[Word], at: usize) -> bool {
    let is_point = |before: usize| at.checked_sub(before).is_some_and(|at| words[at].text(program) == b".");
    let joins = is_point(1) && is_point(2) && words[at - 2].at.end == words[at - 1].at.start;
    let is_method = at > 0 && words[at - 1].text(program) == b":";
    is_method || is_point(1) && !joins
}

/// The bracket that closes the one at `opens`.
fn closing(program: &[u8], words: &[Word], opens: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, word) in words.iter().enumerate().skip(opens) {
        match word.text(program) {
            b"(" => depth += 1,
            b")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// What of a script can't be given keyfold's `redis`, because it goes past the names that a script has; none where nothing
/// does.
pub(super) fn obstacle(body: &[u8]) -> Option<&'static str> {
    let (words, end) = read(body);
    let past = ["_G", "loadstring", "getfenv", "setfenv", "load"];
    past.into_iter().find(|name| {
        let is_it = |at: usize| is_name(&words[at], body, name.as_bytes()) && !is_field(body, &words, at);
        // A name that is given a value is the script's own from then on.
        let is_set = |at: usize| {
            let symbol = |at: usize| words.get(at).map(|word| word.text(body));
            symbol(at + 1) == Some(b"=") && symbol(at + 2) != Some(b"=")
        };
        // Where it is no program for keyfold it may be one for a server.
        let is_behind = || memchr::memmem::find(&body[end..], name.as_bytes()).is_some();
        (0..words.len()).any(|at| is_it(at) && (*name != "load" || !is_set(at))) || is_behind()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::{Classes, Notifications};

    const OF_STRINGS: Prelude = Prelude { has_collections: false, notices: None };

    fn after_prelude(body: &str, has_server: bool) -> String {
        let text = String::from_utf8(wrapped(body.as_bytes(), has_server, OF_STRINGS)).unwrap();
        text.replacen(str::from_utf8(&OF_STRINGS.text()).unwrap(), "…", 1)
    }

    #[test]
    fn what_is_put_before_is_one_line_without_comments() {
        for has_collections in [false, true] {
            let prelude = Prelude { has_collections, ..OF_STRINGS }.text();
            let prelude = str::from_utf8(&prelude).unwrap();
            assert!(!prelude.contains("--") && !prelude.contains('\n'), "{prelude}");
            let left = ["@pointer", "@one_key", "@longest", "@integers", "@texts", "@fewest", "@damaged"];
            assert!(!left.iter().any(|name| prelude.contains(name)), "{prelude}");
            assert!(prelude.contains(" HSET ") && prelude.contains(" INCR ") && !prelude.contains(" ZUNION "));
            assert_eq!(prelude.contains("'SISMEMBER'"), has_collections, "{prelude}");
        }
    }

    #[test]
    fn what_is_published_is_said_where_anything_is() {
        let notifications = Notifications::default();
        notifications.follow(Classes::parse(b"Eg$"));
        let published = Prelude { notices: notifications.in_database(3), ..OF_STRINGS }.text();
        let published = str::from_utf8(&published).unwrap();
        assert!(published.contains("=unpack{false,'__keyevent@3__:','g$'}"), "{published}");
        assert!(!published.contains("'notices'") && !published.contains("--") && !published.contains('\n'));
        assert!(!str::from_utf8(&OF_STRINGS.text()).unwrap().contains("PUBLISH'"));
    }

    #[test]
    fn the_first_line_stays_first_and_lines_keep_their_numbers() {
        assert_eq!(after_prelude("return 1", false), "… return 1");
        assert_eq!(
            after_prelude("#!lua flags=no-writes\nlocal a\nreturn a", false),
            "#!lua flags=no-writes\n… local a\nreturn a"
        );
        assert_eq!(after_prelude("return server", true), "… local server=redis return server");
        assert_eq!(after_prelude("return server", false), "… return server");
    }

    #[test]
    fn a_library_is_a_function_of_a_script() {
        let text = |code: &str, flags: &[&str], has_server| {
            let flags: Vec<Vec<u8>> = flags.iter().map(|flag| flag.as_bytes().to_vec()).collect();
            let text = String::from_utf8(wrapped_library(code.as_bytes(), &flags, has_server, OF_STRINGS)).unwrap();
            let text = text.replacen(str::from_utf8(&STALE).unwrap(), "?", 1);
            text.replacen(str::from_utf8(&OF_STRINGS.text()).unwrap(), "…", 1)
        };
        let plain = text("#!lua name=l\nlocal a\nreturn -- b", &[], true);
        assert!(plain.starts_with("#!lua\n?…  return(function(library)"), "{plain}");
        assert!(plain.ends_with("end)(function(...) local a\nreturn -- b\n end)"), "{plain}");
        assert!(
            !plain.contains("local server") && !plain.contains("randomseed") && !plain.contains("caught"),
            "{plain}"
        );
        let flagged = text("#!lua name=l\nserver.f(pcall, math.random)", &["allow-oom", "no-writes"], true);
        assert!(
            flagged.starts_with("#!lua flags=allow-oom,no-writes\n?… local server=redis local pcall="),
            "{flagged}"
        );
        assert_eq!(flagged.matches("server=redis").count(), 3, "{flagged}");
        assert!(flagged.contains("math.randomseed("), "{flagged}");
        assert_eq!(flagged.lines().count(), 3, "lines keep their numbers");
    }

    #[test]
    fn a_call_that_is_returned_keeps_its_line() {
        assert_eq!(
            after_prelude("return redis.call('GET', (KEYS[1]))", false),
            "… return (redis.call('GET', (KEYS[1])))"
        );
        assert_eq!(
            after_prelude("local call = redis.call\nif call() then return call(')') end", false),
            "… local call = redis.call\nif call() then return (call(')')) end"
        );
        for other in ["return redis.call(", "return redis.log(1)", "return f(redis.call(1))", "local a = redis.call(1)"]
        {
            assert_eq!(after_prelude(other, false), format!("… {other}"));
        }
    }

    #[test]
    fn what_goes_past_a_scripts_names_is_seen() {
        for (body, found) in [
            ("return _G.redis", Some("_G")),
            ("loadstring('x')()", Some("loadstring")),
            ("load(f)", Some("load")),
            ("local load = 1", None),
            ("local l = load return l(f)()", Some("load")),
            ("return load == x", Some("load")),
            ("return 'a'.._G.x", Some("_G")),
            ("return t. _G", None),
            ("return 1 .. _G.x", Some("_G")),
            ("local a = 'x\\\r\ny' return _G.redis", Some("_G")),
            ("-- x\rreturn _G.redis", Some("_G")),
            ("return 'x\n' .. _G", Some("_G")),
            ("-- _G\nreturn '_G'", None),
            ("return t._G, t.load(1)", None),
        ] {
            assert_eq!(obstacle(body.as_bytes()), found, "{body}");
        }
    }

    #[test]
    fn squeezing_joins_nothing() {
        assert_eq!(squeezed(b"a = b - -1 .. c\nlocal  d = e [ [[f]] ]"), b"a=b- -1 ..c local d=e[ [[f]]]");
    }
}
