//! The lines of an ACL file, and what may be wrong with them.
//!
//! Words are separated by spaces only, as in Redis: a password may hold a tab. A selector is the one thing
//! with spaces in it: `(+get ~public:*)`.

use super::rules::{self, RuleError};
use super::selector::Selector;
use super::user::User;

/// Why users do not read. Passwords and their hashes are not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsersError {
    /// No line defines a user.
    #[error(
        "no user is defined, so nobody could do anything; add a line such as 'user default on >password +@all ~* &*'"
    )]
    NoUsers,
    /// A line that is neither a user nor a comment.
    #[error("line {line}: '{word}' begins no definition; begin it with 'user' and a name, or with '#' for a comment")]
    NotAUser {
        /// Counted from 1.
        line: usize,
        /// The first word, escaped.
        word: String,
    },
    /// `user` and no name, or one that cannot be told to a client.
    #[error("line {line}: the name '{name}' of a user is empty or not printable; write 'user', a space, and a name")]
    BadName {
        /// Counted from 1.
        line: usize,
        /// The name, escaped.
        name: String,
    },
    /// The same user twice.
    #[error("line {line}: user '{name}' is defined already; put all its rules in one line")]
    Twice {
        /// Counted from 1.
        line: usize,
        /// The name.
        name: String,
    },
    /// A rule that does not read.
    #[error("line {line}: rule '{rule}' of user '{name}': {reason}")]
    Rule {
        /// Counted from 1.
        line: usize,
        /// The user's name.
        name: String,
        /// The rule, escaped; of a password only its first byte.
        rule: String,
        /// Why, and what to do.
        reason: RuleError,
    },
}

/// Reads all lines.
pub(super) fn parse(text: &[u8]) -> Result<Vec<User>, UsersError> {
    let mut users: Vec<User> = Vec::new();
    for (line, text) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        let user = parse_line(line, text)?;
        if users.iter().any(|known| known.name() == user.name()) {
            return Err(UsersError::Twice { line, name: user.name().to_owned() });
        }
        users.push(user);
    }
    if users.is_empty() { Err(UsersError::NoUsers) } else { Ok(users) }
}

/// Why rules of ACL SETUSER don't read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetUserError {
    /// A parenthesis is opened, by this argument, and not closed.
    Unmatched(Vec<u8>),
    /// A rule.
    Rule {
        /// As it was given; a selector as a whole.
        rule: Vec<u8>,
        /// Why.
        reason: RuleError,
    },
}

/// Applies the rules of ACL SETUSER one after the other. A selector may be one argument or several
/// (`ACLMergeSelectorArguments`, acl.c of Redis 7.0).
pub(super) fn apply_all(user: &mut User, rules: &[&[u8]]) -> Result<(), SetUserError> {
    for rule in merge_selectors(rules)? {
        let applied = match rule.strip_prefix(b"(") {
            Some(inside) => parse_whole_selector(inside).map(|selector| user.add_selector(selector)),
            None => rules::apply(user, &rule),
        };
        applied.map_err(|reason| SetUserError::Rule { rule, reason })?;
    }
    Ok(())
}

/// The rules, each selector as one.
fn merge_selectors(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, SetUserError> {
    let mut merged = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for rule in rules {
        if rule.starts_with(b"(") && !rule.ends_with(b")") {
            open = Some((rule, rule.to_vec()));
            continue;
        }
        match open.take() {
            None => merged.push(rule.to_vec()),
            Some((first, begun)) => {
                let longer = [begun.as_slice(), b" ", rule].concat();
                if rule.ends_with(b")") {
                    merged.push(longer);
                } else {
                    open = Some((first, longer));
                }
            }
        }
    }
    match open {
        Some((first, _)) => Err(SetUserError::Unmatched(first.to_vec())),
        None => Ok(merged),
    }
}

/// The selector of what follows its parenthesis.
fn parse_whole_selector(inside: &[u8]) -> Result<Selector, RuleError> {
    let mut selector = Selector::none();
    let inside = inside.strip_suffix(b")").ok_or(RuleError::Unclosed)?;
    for rule in inside.split(|byte| *byte == b' ').filter(|rule| !rule.is_empty()) {
        rules::apply_in_parentheses(&mut selector, rule)?;
    }
    Ok(selector)
}

fn parse_line(line: usize, text: &[u8]) -> Result<User, UsersError> {
    let mut words = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let word = words.next().unwrap_or_default();
    if !word.eq_ignore_ascii_case(b"user") {
        return Err(UsersError::NotAUser { line, word: shown(word) });
    }
    let name = words.next().unwrap_or_default();
    let printable = str::from_utf8(name).ok().filter(|name| !name.is_empty() && !name.contains(char::is_control));
    let mut user = User::new(printable.ok_or_else(|| UsersError::BadName { line, name: shown(name) })?);
    while let Some(word) = words.next() {
        let applied = match word.strip_prefix(b"(") {
            Some(first) => parse_selector(first, &mut words).map(|selector| user.add_selector(selector)),
            None => rules::apply(&mut user, word).map_err(|reason| (word, reason)),
        };
        applied.map_err(|(rule, reason)| {
            let name = user.name().to_owned();
            UsersError::Rule { line, name, rule: shown(rule), reason }
        })?;
    }
    Ok(user)
}

/// Reads on from the word that the parenthesis opens to the one that closes it. The error names the rule.
fn parse_selector<'a>(
    first: &'a [u8],
    words: &mut impl Iterator<Item = &'a [u8]>,
) -> Result<Selector, (&'a [u8], RuleError)> {
    let mut selector = Selector::none();
    let mut word = first;
    loop {
        let closed = word.strip_suffix(b")");
        let rule = closed.unwrap_or(word);
        if !rule.is_empty() {
            rules::apply_in_parentheses(&mut selector, rule).map_err(|reason| (rule, reason))?;
        }
        if closed.is_some() {
            return Ok(selector);
        }
        word = words.next().ok_or((word, RuleError::Unclosed))?;
    }
}

/// A word for a message. What may be a password, or nearly one, is left out.
fn shown(word: &[u8]) -> String {
    match word {
        [sign @ (b'>' | b'<' | b'#' | b'!'), ..] => format!("{}…", char::from(*sign)),
        _ => word.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    /// The reason that a rule is refused for.
    fn reason(rules: &str) -> RuleError {
        match parse(format!("user u {rules}").as_bytes()) {
            Err(UsersError::Rule { reason, .. }) => reason,
            other => panic!("{rules}: {other:?}"),
        }
    }

    #[test]
    fn a_file_as_acl_save_writes_it() {
        let hash = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
        let text = format!(
            "user default on nopass sanitize-payload ~* &* +@all\n\
             user a on #{hash} %R~a:* ~b resetchannels &c -@all +@read +config|get +select|0  (~x resetchannels -@all +get)\n\
             user b off skip-sanitize-payload ~* resetchannels +@all -debug\n"
        );
        let users = parse(text.as_bytes()).unwrap();
        assert_eq!(users.iter().map(User::name).collect::<Vec<_>>(), ["default", "a", "b"]);
        assert_eq!(users.iter().map(User::is_unrestricted).collect::<Vec<_>>(), [true, false, false]);
    }

    #[test]
    fn comments_empty_lines_and_spaces() {
        let users = parse(b"\n# user x on\n  \t\r\n  user  a   on  +GET ~K  \r\n\t# more\nUSER b ON").unwrap();
        assert_eq!(users.iter().map(User::name).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn every_rule_reads() {
        let rules = "on off nopass >p resetpass reset allcommands +@ALL nocommands -@all +get -GET +config|get \
                     -config|get +select|1 +@read -@Write allkeys resetkeys ~a %R~b %w~c %RW~d %wr~e ~ allchannels \
                     resetchannels &x & () (+get) ( +set ~a &b ) clearselectors resetkeys ~* resetchannels &*";
        assert!(parse(format!("user u {rules}").as_bytes()).is_ok());
    }

    #[test]
    fn errors_say_line_rule_reason_and_remedy() {
        assert_eq!(
            error("user a on\n\nuser b on +gett ~*"),
            "line 3: rule '+gett' of user 'b': no such command; check its spelling, and leave out what modules bring: \
             only '+@all' allows it"
        );
        assert_eq!(
            error("users a on"),
            "line 1: 'users' begins no definition; begin it with 'user' and a name, or with '#' for a comment"
        );
        assert_eq!(error("user a\nuser a"), "line 2: user 'a' is defined already; put all its rules in one line");
        assert_eq!(
            error("user"),
            "line 1: the name '' of a user is empty or not printable; write 'user', a space, and a name"
        );
        assert!(error("# nobody\n").starts_with("no user is defined"));
    }

    #[test]
    fn what_does_not_read() {
        assert_eq!(reason("onn"), RuleError::Unknown);
        assert_eq!(reason("on\toff"), RuleError::Unknown);
        for rule in ["+", "-", "+nosuch", "-nosuch", "+config|nosuch", "-config|nosuch", "+nosuch|x", "+get|a|b"] {
            assert_eq!(reason(rule), RuleError::UnknownCommand, "{rule}");
        }
        assert_eq!(reason("+@nosuch"), RuleError::UnknownCategory);
        assert_eq!(reason("-@"), RuleError::UnknownCategory);
        for rule in ["+get|", "+config|", "-config|", "-get|"] {
            assert_eq!(reason(rule), RuleError::NoSubcommand, "{rule}");
        }
        assert_eq!(reason("+config|set|save"), RuleError::FirstArgOfSubcommand);
        assert_eq!(reason("-select|1"), RuleError::DeniedFirstArg);
        assert_eq!(reason("~* ~a"), RuleError::AfterAllKeys);
        assert_eq!(reason("allkeys %R~a"), RuleError::AfterAllKeys);
        assert_eq!(reason("&* &a"), RuleError::AfterAllChannels);
        assert_eq!(reason("~a\tb"), RuleError::BadPattern);
        assert_eq!(reason("&a\0"), RuleError::BadPattern);
        for rule in ["%", "%R", "%~a", "%RR~a", "%X~a"] {
            assert_eq!(reason(rule), RuleError::BadKeyAccess, "{rule}");
        }
        assert_eq!(reason(">"), RuleError::EmptyPassword);
        assert_eq!(reason("#abc"), RuleError::BadHash);
        assert_eq!(reason("<abc"), RuleError::NoSuchPassword);
        assert_eq!(reason(">x <abc"), RuleError::NoSuchPassword);
        assert_eq!(reason("!abc"), RuleError::BadHash);
        assert_eq!(reason("(+get"), RuleError::Unclosed);
        assert_eq!(reason("("), RuleError::Unclosed);
        assert_eq!(reason("(on)"), RuleError::NotInSelector);
        assert_eq!(reason("(>p)"), RuleError::NotInSelector);
        assert_eq!(reason(")"), RuleError::Unknown);
    }

    #[test]
    fn passwords_are_not_shown_in_errors() {
        for rule in ["#hunter2", "<hunter2", "!hunter2", "(#hunter2)"] {
            let error = error(&format!("user a on {rule}"));
            assert!(!error.contains("hunter"), "{error}");
        }
    }

    #[test]
    fn any_bytes_end_in_users_or_an_error() {
        let alphabet = b"user a+-@~%&()|>#<!\0\n \xff*";
        let mut random = 7_u32;
        for len in 0..3000_usize {
            let rules = (0..len % 40).map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                alphabet[(random >> 16) as usize % alphabet.len()]
            });
            let text: Vec<u8> = b"user u ".iter().copied().chain(rules).collect();
            if let Err(error) = parse(&text) {
                assert!(error.to_string().is_ascii() || error.to_string().contains('…'));
            }
        }
    }
}
