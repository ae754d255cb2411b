//! Users of keyfold's own beside the servers' ACL: the same rules are taken, allow the same requests, and
//! refuse the others, in the very words of Redis 7.0.

use keyfold_core::access::{User, Users};
use keyfold_core::command::{Categories, Command, table};
use keyfold_testkit::{Flavor, Server, Value, Wire, found};

const USERS: usize = 300;
const REQUESTS_OF_A_USER: usize = 60;

/// What EVAL and its kin are answered in place of the server's leave.
const SCRIPTS_REFUSED: &str = "NOPERM scripts run with keyfold's own rights";

/// A seeded generator; the same requests on every run.
struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

const PATTERNS: [&str; 12] = ["a*", "b", "?", "[ab]*", "k:*", "*:1", "", "**", "a\\*", "[^a]*", "k:?", "*"];
const WORDS: [&str; 22] = [
    "a",
    "b",
    "ab",
    "k:1",
    "k:2",
    "c:1",
    "a*",
    "",
    "1",
    "2",
    "0",
    "*",
    "GET",
    "STORE",
    "BY",
    "gEt\0",
    "Store\0x",
    "bY\0",
    "*\0",
    "a\0*",
    "STREAMS\0",
    "keys\0k:1",
];

/// The option, as the server takes it.
const STREAMS: [&str; 4] = ["STREAMS", "streams", "STREAMS\0", "sTREAMS\0STREAMS"];

/// One rule of commands, keys or channels.
fn random_rule(random: &mut Random, known: &[&'static Command]) -> String {
    let category = |random: &mut Random| {
        let names: Vec<_> = Categories::all().iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names[random.below(names.len())].clone()
    };
    let sign = random.pick(&["+", "-"]);
    match random.below(16) {
        0 => random.pick(&["+@all", "allcommands", "-@all", "nocommands", "+@ALL"]).to_owned(),
        1..=3 => format!("{sign}@{}", category(random)),
        4..=7 => format!("{sign}{}", random.pick(known).name),
        8 => {
            let plain: Vec<_> =
                known.iter().filter(|command| !command.is_container && !command.name.contains('|')).collect();
            format!("+{}|{}", plain[random.below(plain.len())].name, random.pick(&["a", "A*", "k:1", "1"]))
        }
        9 => random.pick(&["allkeys", "~*", "resetkeys", "%R~*", "%W~*"]).to_owned(),
        10..=12 => format!("{}{}", random.pick(&["~", "%R~", "%W~", "%RW~", "%r~"]), random.pick(&PATTERNS)),
        13 => random.pick(&["allchannels", "&*", "resetchannels"]).to_owned(),
        _ => format!("&{}", random.pick(&PATTERNS)),
    }
}

/// Rules for commands, keys and channels; some in a selector of their own.
fn random_rules(random: &mut Random, known: &[&'static Command]) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    if random.below(2) == 0 {
        rules.push("+@all".to_owned());
    }
    for _ in 0..random.below(10) {
        rules.push(random_rule(random, known));
    }
    if random.below(4) == 0 {
        let inner: Vec<_> = (0..=random.below(4)).map(|_| random_rule(random, known)).collect();
        rules.push(format!("({})", inner.join(" ")));
    }
    if random.below(20) == 0 {
        rules.push(random.pick(&["reset", "clearselectors"]).to_owned());
    }
    // So that it can be asked for after a reset, too.
    rules.extend(["on", "nopass"].map(str::to_owned));
    rules
}

fn random_request(random: &mut Random, command: &Command) -> Vec<String> {
    let mut words: Vec<String> = command.name.split('|').map(str::to_ascii_uppercase).collect();
    match command.name {
        "xread" => words.push(random.pick(&STREAMS).to_owned()),
        "xreadgroup" => words.extend(["GROUP", "g", "c", random.pick(&STREAMS)].map(str::to_owned)),
        _ => {}
    }
    let least = command.arity.unsigned_abs() as usize;
    let len = least + if command.arity < 0 { random.below(4) } else { 0 };
    while words.len() < len {
        words.push(random.pick(&WORDS).to_owned());
    }
    words
}

fn call(wire: &mut Wire, words: &[String]) -> Value {
    let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    wire.ask(&args).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

fn words(words: &[&str], more: &[String]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).chain(more.iter().cloned()).collect()
}

/// The commands of the table that a server has.
fn known_to(wire: &mut Wire) -> Vec<&'static Command> {
    let mut has = |command: &Command| {
        let reply = call(wire, &words(&["COMMAND", "INFO", command.name], &[]));
        reply.elements().is_some_and(|found| found.iter().all(|info| info.elements().is_some()))
    };
    table().iter().filter(|command| has(command)).collect()
}

/// Gives a user the same rules here and there, one by one: a rule that one side refuses, the other does, too.
fn set_user(wire: &mut Wire, rules: &[String]) -> (User, String) {
    assert_eq!(call(wire, &words(&["ACL", "SETUSER", "u", "reset", "on", "nopass"], &[])), Value::Simple(b"OK".into()));
    let mut line = "user u on nopass".to_owned();
    let mut users = Users::parse(line.as_bytes()).expect("a user");
    for rule in rules {
        let longer = format!("{line} {rule}");
        let ours = Users::parse(longer.as_bytes());
        let theirs = call(wire, &words(&["ACL", "SETUSER", "u", rule], &[]));
        let is_taken = theirs == Value::Simple(b"OK".into());
        assert_eq!(ours.is_ok(), is_taken, "{longer}: {ours:?}, {theirs:?}");
        if let Ok(accepted) = ours {
            (users, line) = (accepted, longer);
        }
    }
    (users.authenticate(b"u", b"").map(|user| (*user).clone()).expect("a user who is on and nopass"), line)
}

fn refused(user: &User, request: &[String]) -> Option<String> {
    let args: Vec<&[u8]> = request.iter().map(String::as_bytes).collect();
    let command = table().resolve(&args).expect("a command of the table");
    user.refuse(command, &args, &command.keys_in(&args))
}

/// What the server answers to a request that it refuses to this user; none where it lets it through. DRYRUN
/// tells which is which, so that nothing is carried out; what it does not take for a request is skipped.
fn refused_there(admin: &mut Wire, client: &mut Wire, request: &[String]) -> Option<Option<String>> {
    let verdict = call(admin, &words(&["ACL", "DRYRUN", "u"], request));
    let is_sort = request[0].starts_with("SORT");
    match verdict {
        Value::Error(_) => None,
        Value::Simple(_) if !is_sort => Some(None),
        // SORT looks at BY and GET only when it is carried out, which changes nothing but an absent key.
        _ => match call(client, request) {
            Value::Error(error) => Some(Some(String::from_utf8_lossy(&error).into_owned())),
            _ => Some(None),
        },
    }
}

#[test]
fn the_same_is_allowed_and_refused() {
    for binary in found() {
        let with_modules: &[&str] = if binary.has_redis_7() { &["--enable-module-command", "yes"] } else { &[] };
        let server = binary.start(&[binary.with_debug(), with_modules].concat()).unwrap();
        let (mut admin, mut client) = (server.connect().unwrap(), server.connect().unwrap());
        let mut known = known_to(&mut admin);
        // It is in the category of blocking commands in some versions, and not in others.
        known.retain(|command| command.name != "wait");
        let mut random = Random(1);
        let (mut allowed, mut denied) = (0, 0);
        for _ in 0..USERS {
            let rules = random_rules(&mut random, &known);
            let (user, line) = set_user(&mut admin, &rules);
            call(&mut client, &words(&["AUTH", "u", "any"], &[]));
            for _ in 0..REQUESTS_OF_A_USER {
                let command = random.pick(&known);
                let request = random_request(&mut random, command);
                if is_ambiguous(&request) {
                    continue;
                }
                let Some(theirs) = refused_there(&mut admin, &mut client, &request) else { continue };
                let ours = refused(&user, &request);
                let is_same = if has_our_words(&server) { ours == theirs } else { ours.is_some() == theirs.is_some() };
                if !is_same && !is_expected(&mut admin, &request, ours.as_deref(), theirs.as_deref()) {
                    panic!("{request:?} on {}\nfor {line}\nours: {ours:?}\ntheirs: {theirs:?}", server.name());
                }
                *(if theirs.is_some() { &mut denied } else { &mut allowed }) += 1;
            }
        }
        assert!(allowed > 1000 && denied > 1000, "{}: only {allowed} allowed, {denied} denied", server.name());
    }
}

/// GEORADIUS with STORE, where servers differ in what they take for a destination: of two the first or the
/// last, and for some the unit may be one. And a subcommand with a zero byte behind it, which a server finds or not by
/// the hash seed that it drew at its start; keyfold sends it to none.
fn is_ambiguous(request: &[String]) -> bool {
    let is_store = |word: &String| word.to_ascii_lowercase().starts_with("store");
    let is_container = table().lookup(request[0].as_bytes()).is_some_and(|command| command.is_container);
    request[0].starts_with("GEORADIUS") && request.iter().any(is_store)
        || is_container && request.get(1).is_some_and(|sub| sub.contains('\0'))
}

/// Later servers decide alike and say it differently.
fn has_our_words(server: &Server) -> bool {
    server.flavor() == Flavor::Redis && (server.version().major, server.version().minor) == (7, 0)
}

/// The differences that there may be. Scripts are refused here alone. A malformed request, or a SORT that
/// cannot be carried out anyway, gets another error from the server.
fn is_expected(admin: &mut Wire, request: &[String], ours: Option<&str>, theirs: Option<&str>) -> bool {
    match (ours, theirs) {
        (Some(ours), None) => {
            ours.starts_with(SCRIPTS_REFUSED) || call(admin, &words(&["COMMAND", "GETKEYS"], request)).is_error()
        }
        (_, Some(theirs)) => theirs.starts_with("ERR syntax error") || theirs.starts_with("WRONGTYPE"),
        _ => false,
    }
}

#[test]
fn passwords_are_hashed_alike() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let mut wire = server.connect().unwrap();
        let password = "p\u{e9}ssw\u{f6}rd";
        call(&mut wire, &words(&["ACL", "SETUSER", "u", "on", &format!(">{password}")], &[]));
        let listed = call(&mut wire, &words(&["ACL", "LIST"], &[]));
        let lines: Vec<_> = listed.elements().unwrap().iter().filter_map(Value::bytes).collect();
        let users = Users::parse(&lines.join(&b'\n')).unwrap_or_else(|error| panic!("{}: {error}", server.name()));
        let user = users.authenticate(b"u", password.as_bytes()).map(|user| user.name().to_owned());
        assert_eq!(user.as_deref(), Some("u"), "{}", server.name());
        assert!(users.authenticate(b"u", b"other").is_none());
        assert_eq!(users.initial().map(|user| user.is_unrestricted()), Some(true), "{}", server.name());
    }
}
