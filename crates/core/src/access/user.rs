//! One user, and what is answered where a command is refused.

use subtle::{Choice, ConstantTimeEq};

use super::password::Digest;
use super::selector::{Denied, Selector};
use crate::command::{Categories, Command, Keys};
use crate::resp::word::{c_text, is_word};

/// Longer names are cut in errors.
const SHOWN_NAME_BYTES: usize = 128;

/// A user.
#[derive(Clone, Debug)]
pub struct User {
    name: String,
    on: bool,
    nopass: bool,
    digests: Vec<Digest>,
    /// The rules outside parentheses.
    root: Selector,
    /// Those in parentheses, one selector each.
    more: Vec<Selector>,
    /// One of the selectors allows everything: nothing else needs to be looked at.
    unrestricted: bool,
    payload: Payload,
}

/// What is to be checked in RESTORE. It is the server's own user that decides that; here it is kept to be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Payload {
    /// No rule says so.
    #[default]
    Unsaid,
    /// `sanitize-payload`
    Checked,
    /// `skip-sanitize-payload`
    Unchecked,
}

/// What of a request is denied, for ACL LOG and ACL DRYRUN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    /// `command`, `key` or `channel`.
    pub(crate) reason: &'static str,
    /// Its name.
    pub(crate) object: Vec<u8>,
}

impl User {
    /// A user who is off, has no password, and may do nothing.
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            on: false,
            nopass: false,
            digests: Vec::new(),
            root: Selector::none(),
            more: Vec::new(),
            unrestricted: false,
            payload: Payload::Unsaid,
        }
    }

    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the user may do everything: any command, on any key, in any channel.
    pub fn is_unrestricted(&self) -> bool {
        self.unrestricted
    }

    /// The error that a request is answered with where the user may not make it, without its dash and line
    /// break: as Redis 7.0 says it, with the exception of scripts. None where the user may.
    ///
    /// `command` is what [`CommandTable::resolve`](crate::command::CommandTable::resolve) found for `args`,
    /// and `keys` are its [`Command::keys_in`]. Arity, and subcommands that do not exist, come before:
    /// servers complain of them first. Costs nothing for a user who may do everything.
    pub fn refuse(&self, command: &Command, args: &[&[u8]], keys: &Keys) -> Option<String> {
        if self.unrestricted {
            return None;
        }
        match self.check(command, args, keys) {
            // The transaction is over then, as by any refused EXEC.
            Err(Denied::Command) if command.name == "exec" => {
                Some(format!("EXECABORT Transaction discarded because of: {}", refused_command("exec")))
            }
            Err(Denied::Command) => Some(refused_command(command.name)),
            Err(Denied::Key(_)) => Some(refused_arguments("keys")),
            Err(Denied::Channel(_)) => Some(refused_arguments("channels")),
            Ok(()) if runs_scripts(command) => Some(refused_script()),
            Ok(()) => self.refuse_sort(command, args, keys),
        }
    }

    /// What of a request the user may not; none where it is allowed, or refused for another reason.
    pub(crate) fn denial(&self, command: &Command, args: &[&[u8]], keys: &Keys) -> Option<Denial> {
        let named = |index: usize| args.get(index).map_or_else(Vec::new, |arg| arg.to_vec());
        match self.check(command, args, keys) {
            _ if self.unrestricted => None,
            Err(Denied::Command) => Some(Denial { reason: "command", object: command.name.into() }),
            Err(Denied::Key(index)) => Some(Denial { reason: "key", object: named(index) }),
            Err(Denied::Channel(index)) => Some(Denial { reason: "channel", object: named(index) }),
            Ok(()) => None,
        }
    }

    /// Whether the user may listen to all of these channels and patterns.
    pub(crate) fn may_listen<'a>(
        &self,
        mut channels: impl Iterator<Item = &'a [u8]>,
        mut patterns: impl Iterator<Item = &'a [u8]>,
    ) -> bool {
        self.unrestricted
            || (channels.all(|channel| self.selectors().any(|selector| selector.allows_channel(channel)))
                && patterns.all(|pattern| self.selectors().any(|selector| selector.allows_channel_pattern(pattern))))
    }

    /// The error for a command that the command table does not know, by the name that the client sent.
    /// Nothing tells its keys, so only a user who may do everything may send it on.
    pub fn refuse_unknown(&self, name: &[u8]) -> Option<String> {
        let shown = name.get(..SHOWN_NAME_BYTES).unwrap_or(name);
        (!self.unrestricted).then(|| refused_command(&shown.escape_ascii().to_string()))
    }

    pub(super) fn root(&self) -> &Selector {
        &self.root
    }

    pub(super) fn more(&self) -> &[Selector] {
        &self.more
    }

    pub(super) fn payload(&self) -> Payload {
        self.payload
    }

    /// The hashes of the passwords, as ACL LIST shows them.
    pub(super) fn passwords(&self) -> impl Iterator<Item = String> {
        self.digests.iter().map(Digest::to_hex)
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.more)
    }

    fn check(&self, command: &Command, args: &[&[u8]], keys: &Keys) -> Result<(), Denied> {
        let mut denied = Denied::Command;
        for selector in self.selectors() {
            match selector.check(command, args, keys) {
                Ok(()) => return Ok(()),
                Err(other) => denied = denied.max(other),
            }
        }
        Err(denied)
    }

    /// SORT with a pattern after BY or GET reads keys that no argument names, so it takes the right to read
    /// any key.
    fn refuse_sort(&self, command: &Command, args: &[&[u8]], keys: &Keys) -> Option<String> {
        if !matches!(command.name, "sort" | "sort_ro") && !keys.is_open() {
            return None;
        }
        let mut fitting = self.selectors().filter(|selector| selector.check(command, args, keys).is_ok());
        if fitting.any(Selector::reads_any_key) {
            return None;
        }
        match open_sort_option(args) {
            Some(option) => Some(format!("ERR {option} option of SORT denied due to insufficient ACL permissions.")),
            None => keys.is_open().then(|| refused_arguments("keys")),
        }
    }
}

/// Who gets in, and what the rules set.
impl User {
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn is_nopass(&self) -> bool {
        self.nopass
    }

    /// Whether a password of this digest is right. Looks at all of them, in constant time.
    pub(super) fn accepts(&self, digest: &Digest) -> Choice {
        let nopass = Choice::from(u8::from(self.nopass));
        self.digests.iter().fold(nopass, |accepted, own| accepted | own.ct_eq(digest))
    }

    pub(super) fn set_on(&mut self, on: bool) {
        self.on = on;
    }

    /// Takes any password from now on.
    pub(super) fn set_nopass(&mut self) {
        self.nopass = true;
        self.digests.clear();
    }

    /// Takes no password any more.
    pub(super) fn reset_passwords(&mut self) {
        self.nopass = false;
        self.digests.clear();
    }

    pub(super) fn add_password(&mut self, digest: Digest) {
        self.nopass = false;
        if !self.digests.contains(&digest) {
            self.digests.push(digest);
        }
    }

    /// Takes this password no more; false where it never did.
    pub(super) fn remove_password(&mut self, digest: &Digest) -> bool {
        let before = self.digests.len();
        self.digests.retain(|known| known != digest);
        self.digests.len() < before
    }

    pub(super) fn set_payload(&mut self, payload: Payload) {
        self.payload = payload;
    }

    /// As if it was just made.
    pub(super) fn reset(&mut self) {
        *self = Self { payload: Payload::Checked, ..Self::new(&self.name) };
    }

    /// Is on, and may do everything.
    pub(super) fn allow_all(&mut self) {
        self.on = true;
        self.change_root(|root| *root = Selector::all());
    }

    /// Changes the rules outside parentheses.
    pub(super) fn change_root<T>(&mut self, change: impl FnOnce(&mut Selector) -> T) -> T {
        let changed = change(&mut self.root);
        self.unrestricted = self.root.is_all() || self.more.iter().any(Selector::is_all);
        changed
    }

    pub(super) fn add_selector(&mut self, selector: Selector) {
        self.unrestricted |= selector.is_all();
        self.more.push(selector);
    }

    pub(super) fn clear_selectors(&mut self) {
        self.more.clear();
        self.unrestricted = self.root.is_all();
    }
}

fn refused_command(name: &str) -> String {
    format!("NOPERM this user has no permissions to run the '{name}' command")
}

fn refused_arguments(what: &str) -> String {
    format!("NOPERM this user has no permissions to access one of the {what} used as arguments")
}

fn refused_script() -> String {
    "NOPERM scripts run with keyfold's own rights, so only a user with '+@all ~* &*' has permissions to run them"
        .to_owned()
}

/// EVAL, FCALL and their kin, but not what manages scripts.
fn runs_scripts(command: &Command) -> bool {
    command.categories.contains(Categories::SCRIPTING) && command.has_keys()
}

/// The first option of a SORT that takes the right to read any key: BY with a star, or any GET. Reads as the
/// server does; none where it finds a syntax error first.
fn open_sort_option(args: &[&[u8]]) -> Option<&'static str> {
    let mut rest = args.get(2..)?;
    while let [option, after @ ..] = rest {
        let is = |word: &str| is_word(option, word);
        let taken = match after {
            _ if is("asc") || is("desc") || is("alpha") => 0,
            [_, _, ..] if is("limit") => 2,
            [_, ..] if is("store") => 1,
            [pattern, ..] if is("by") && c_text(pattern).contains(&b'*') => return Some("BY"),
            [_, ..] if is("by") => 1,
            [_, ..] if is("get") => return Some("GET"),
            _ => return None,
        };
        rest = &after[taken..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Users;
    use crate::command::table;

    /// What a user of these rules is answered; empty where nothing is refused.
    fn refused(rules: &str, request: &str) -> String {
        let users = Users::parse(format!("user u on >p {rules}").as_bytes()).unwrap();
        let user = users.authenticate(b"u", b"p").unwrap();
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let command = table().resolve(&args).unwrap();
        user.refuse(command, &args, &command.keys_in(&args)).unwrap_or_default()
    }

    #[track_caller]
    fn allows(rules: &str, request: &str) {
        assert_eq!(refused(rules, request), "", "{request} with {rules}");
    }

    #[track_caller]
    fn denies(rules: &str, request: &str, what: &str) {
        let error = match what {
            "keys" | "channels" => refused_arguments(what),
            command => refused_command(command),
        };
        assert_eq!(refused(rules, request), error, "{request} with {rules}");
    }

    #[test]
    fn commands() {
        denies("~*", "GET k", "get");
        denies("~* +@all -get", "GET k", "get");
        allows("~* -@all +get", "GET k");
        denies("~* +@read", "SET k v", "set");
        allows("~* +@read", "Get k");
        denies("+@all -config|set", "CONFIG SET a b", "config|set");
        allows("+@all -config|set", "CONFIG GET a");
        denies("+@all -config", "CONFIG GET a", "config|get");
        allows("+config|get", "CONFIG get a");
        denies("+config|get", "CONFIG SET a b", "config|set");
        assert!(refused("", "EXEC").starts_with("EXECABORT Transaction discarded because of: NOPERM this user"));
    }

    #[test]
    fn whoever_is_nobody_may_still_authenticate() {
        allows("", "AUTH x");
        allows("", "HELLO 3");
        allows("", "QUIT");
        denies("", "PING", "ping");
    }

    #[test]
    fn first_arguments() {
        allows("+@all -select +select|0", "SELECT 0");
        denies("+@all -select +select|0", "SELECT 1", "select");
        allows("+debug|Object", "DEBUG oBJECT k");
        allows("+debug|object", "DEBUG oBJECT\0x k");
        denies("+select|0 -select", "SELECT 0", "select");
        denies("+select|0 -@connection", "SELECT 0", "select");
        denies("+select|0 -@all", "SELECT 0", "select");
    }

    #[test]
    fn keys() {
        allows("+@all ~a:* ~b", "MGET a:1 b");
        denies("+@all ~a:* ~b", "MGET a:1 c", "keys");
        denies("+@all ~a:* resetkeys", "GET a:1", "keys");
        denies("+@all ~*", "SUBSCRIBE c", "channels");
        allows("+@all", "PING");
    }

    #[test]
    fn reading_and_writing_keys() {
        allows("+@all %R~r %W~w", "COPY r w");
        denies("+@all %R~r %W~w", "COPY w r", "keys");
        allows("+@all %W~w", "SET w 1");
        denies("+@all %W~w", "SET w 1 GET", "keys");
        allows("+@all %W~w", "EXISTS w");
        denies("+@all %R~r %W~w", "EXISTS x", "keys");
        allows("+@all %R~k %W~k", "GETDEL k");
        // Each pattern must allow all that is needed.
        denies("+@all %R~k %W~k*", "GETDEL k", "keys");
    }

    #[test]
    fn a_group_may_be_called_like_an_option() {
        denies("+@all ~consumer ~STREAMS", "XREADGROUP COUNT 1 GROUP STREAMS consumer STREAMS other >", "keys");
        allows("+@all ~other", "XREADGROUP COUNT 1 GROUP group consumer STREAMS other >");
    }

    #[test]
    fn channels() {
        allows("+@all &news.*", "SUBSCRIBE news.a news.b");
        denies("+@all &news.*", "SUBSCRIBE news.a other", "channels");
        allows("+@all &news.*", "PSUBSCRIBE news.*");
        denies("+@all &news.*", "PSUBSCRIBE news.a", "channels");
        allows("+@all &news.*", "PUBLISH news.a other");
        denies("+@all &news.*", "SPUBLISH other m", "channels");
        allows("+@all", "UNSUBSCRIBE any");
    }

    #[test]
    fn a_request_fits_one_selector() {
        let rules = "+get ~a (+set ~b) (+del %W~c)";
        allows(rules, "GET a");
        allows(rules, "SET b 1");
        allows(rules, "DEL c");
        denies(rules, "SET a 1", "keys");
        denies(rules, "MGET a", "mget");
        denies("+get ~a (+set ~b) clearselectors", "SET b 1", "set");
        allows("(+@all ~* &*)", "EVAL s 0");
    }

    #[test]
    fn sort_by_other_keys_takes_the_right_to_read_any() {
        let error = |option| format!("ERR {option} option of SORT denied due to insufficient ACL permissions.");
        assert_eq!(refused("+@all ~a", "SORT a LIMIT 0 1 BY w_*"), error("BY"));
        assert_eq!(refused("+@all ~a", "SORT a bY\0 w_*"), error("BY"));
        assert_eq!(refused("+@all ~a", "SORT a ALPHA GET # BY w_*"), error("GET"));
        assert_eq!(refused("+@all ~a %W~*", "SORT_RO a GET v_*"), error("GET"));
        allows("+@all ~a", "SORT a BY nosort");
        allows("+@all ~a %R~*", "SORT a BY w_* GET v_*");
        allows("+@all ~*", "SORT a BY w_*");
        denies("+@all ~a", "SORT a UNKNOWN BY w_*", "keys");
    }

    #[test]
    fn scripts_are_for_whoever_may_do_everything() {
        for script in ["EVAL s 1 a", "EVALSHA s 0", "EVAL_RO s 0", "EVALSHA_RO s 0", "FCALL f 0", "FCALL_RO f 0"] {
            allows("+@all ~* &*", script);
            for rules in ["+@all ~*", "+@all &* ~a", "+@all ~* &* -flushall"] {
                assert_eq!(refused(rules, script), refused_script(), "{script} with {rules}");
            }
        }
        denies("+@all ~a", "EVAL s 1 b", "keys");
        denies("+@all ~* &* -eval", "EVAL s 0", "eval");
        allows("+@all", "SCRIPT LOAD s");
    }

    #[test]
    fn unknown_commands_are_for_whoever_may_do_everything() {
        let unknown = |rules: &str, name: &[u8]| {
            let users = Users::parse(format!("user u on >p {rules}").as_bytes()).unwrap();
            users.authenticate(b"u", b"p").unwrap().refuse_unknown(name)
        };
        assert_eq!(unknown("+@all ~* &*", b"json.get"), None);
        assert_eq!(unknown("+@all ~*", b"a\r\nb"), Some(refused_command("a\\r\\nb")));
        assert!(unknown("+@all ~*", &[b'x'; 5000]).unwrap().len() < 300);
    }

    #[test]
    fn any_request_is_answered() {
        let words: [&[u8]; 8] = [b"", b"1", b"9", b"-1", b"\xff", b"STREAMS", b"store", b"*"];
        let users = Users::parse(b"user u on nopass +@all -get +select|1 %R~a* %W~* &c (+get ~b)").unwrap();
        let user = users.authenticate(b"u", b"").unwrap();
        for command in table() {
            for seed in 0..50_usize {
                let args: Vec<&[u8]> = (0..seed % 7).map(|at| words[(seed / 3 + at * seed) % words.len()]).collect();
                let answer = user.refuse(command, &args, &command.keys_in(&args));
                assert!(
                    answer.is_none_or(|error| ["NOPERM ", "EXECABORT ", "ERR "]
                        .iter()
                        .any(|code| error.starts_with(code)))
                );
            }
        }
    }
}
