//! What each rule does to a user, as `ACLSetUser` and `ACLSetSelector` of Redis 7.0 do it. Words are
//! compared in any case.

use super::commands::Commands;
use super::password::Digest;
use super::selector::{KeyAccess, Selector};
use super::user::{Payload, User};
use crate::command::{Categories, Command, table};

/// Why a rule does not read, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No rule begins so.
    #[error("no such rule; a password follows '>', a key pattern '~', a channel pattern '&', a command '+' or '-'")]
    Unknown,
    /// A selector has no passwords and is not switched on or off.
    #[error("only rules of commands, keys and channels may stand in parentheses; put it before them")]
    NotInSelector,
    /// A parenthesis without its other half.
    #[error("the parenthesis is not closed; end the selector with ')'")]
    Unclosed,
    /// The command or subcommand is in no server's table.
    #[error("no such command; check its spelling, and leave out what modules bring: only '+@all' allows it")]
    UnknownCommand,
    /// The category is none of the servers'.
    #[error("no such category; 'ACL CAT' on a server lists them")]
    UnknownCategory,
    /// `+config|` or `+get|`.
    #[error("nothing follows the '|'; name a subcommand, or leave the '|' out")]
    NoSubcommand,
    /// `+config|set|save`
    #[error("a subcommand cannot be allowed for some first arguments only; end the rule after the subcommand")]
    FirstArgOfSubcommand,
    /// `-select|1`
    #[error("a first argument cannot be denied; deny the command, then allow it with '+command|argument' for others")]
    DeniedFirstArg,
    /// A key pattern after `~*`.
    #[error("all keys are allowed already; put 'resetkeys' before it, or leave it out")]
    AfterAllKeys,
    /// A channel pattern after `&*`.
    #[error("all channels are allowed already; put 'resetchannels' before it, or leave it out")]
    AfterAllChannels,
    /// White space or a zero byte in a pattern.
    #[error("a pattern has no white space and no zero bytes; write '?' for them")]
    BadPattern,
    /// `%` without R or W and `~`.
    #[error("'%' needs R, W or RW, then '~' and a pattern, as in '%R~config:*'")]
    BadKeyAccess,
    /// `>` alone.
    #[error("the password is empty; write 'nopass' where none is wanted")]
    EmptyPassword,
    /// Not 64 digits.
    #[error("a password's hash is its SHA-256 in 64 lower-case hexadecimal digits; a plain password follows '>'")]
    BadHash,
    /// `<password` or `!hash` that isn't one of the user's.
    #[error("the user has no such password; leave the rule out")]
    NoSuchPassword,
}

impl RuleError {
    /// What ACL SETUSER of Redis 7.0 answers in its place (`ACLSetUserStringError`); where that has no such error, what
    /// it says of itself.
    pub(crate) fn of_server(self) -> String {
        match self {
            Self::UnknownCommand | Self::UnknownCategory | Self::DeniedFirstArg => {
                "Unknown command or category name in ACL".to_owned()
            }
            Self::AfterAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not \
                                   have any effect. Try 'resetkeys' to start with an empty list of patterns"
                    .to_owned()
            }
            Self::AfterAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and \
                                       does not have any effect. Try 'resetchannels' to start with an empty list of \
                                       channels"
                    .to_owned()
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist".to_owned(),
            Self::BadHash => "The password hash must be exactly 64 characters and contain only lowercase hexadecimal \
                              characters"
                .to_owned(),
            Self::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported".to_owned(),
            Self::EmptyPassword => self.to_string(),
            Self::Unknown
            | Self::NotInSelector
            | Self::Unclosed
            | Self::NoSubcommand
            | Self::BadPattern
            | Self::BadKeyAccess => "Syntax error".to_owned(),
        }
    }
}

/// Applies one rule outside parentheses.
pub(super) fn apply(user: &mut User, rule: &[u8]) -> Result<(), RuleError> {
    match (rule, rule.to_ascii_lowercase().as_slice()) {
        (_, b"on") => user.set_on(true),
        (_, b"off") => user.set_on(false),
        (_, b"nopass") => user.set_nopass(),
        (_, b"resetpass") => user.reset_passwords(),
        (_, b"reset") => user.reset(),
        (_, b"clearselectors") => user.clear_selectors(),
        // They tell a server what to check in RESTORE, and are kept to be shown.
        (_, b"sanitize-payload") => user.set_payload(Payload::Checked),
        (_, b"skip-sanitize-payload") => user.set_payload(Payload::Unchecked),
        (b">", _) => return Err(RuleError::EmptyPassword),
        ([b'>', password @ ..], _) => user.add_password(Digest::of(password)),
        ([b'#', hex @ ..], _) => user.add_password(Digest::parse(hex).ok_or(RuleError::BadHash)?),
        ([b'<', password @ ..], _) => return remove_password(user, &Digest::of(password)),
        ([b'!', hex @ ..], _) => return remove_password(user, &Digest::parse(hex).ok_or(RuleError::BadHash)?),
        _ => return user.change_root(|root| apply_to_selector(root, rule)),
    }
    Ok(())
}

fn remove_password(user: &mut User, digest: &Digest) -> Result<(), RuleError> {
    if user.remove_password(digest) { Ok(()) } else { Err(RuleError::NoSuchPassword) }
}

/// Applies one rule in parentheses.
pub(super) fn apply_in_parentheses(selector: &mut Selector, rule: &[u8]) -> Result<(), RuleError> {
    const OF_USERS: [&str; 8] =
        ["on", "off", "nopass", "resetpass", "reset", "clearselectors", "sanitize-payload", "skip-sanitize-payload"];
    let of_user = OF_USERS.iter().any(|word| rule.eq_ignore_ascii_case(word.as_bytes()));
    if of_user || matches!(rule, [b'>' | b'#' | b'<' | b'!', ..]) {
        return Err(RuleError::NotInSelector);
    }
    apply_to_selector(selector, rule)
}

fn apply_to_selector(selector: &mut Selector, rule: &[u8]) -> Result<(), RuleError> {
    match (rule, rule.to_ascii_lowercase().as_slice()) {
        (_, b"allcommands" | b"+@all") => selector.commands = Commands::all(),
        (_, b"nocommands" | b"-@all") => selector.commands = Commands::none(),
        (_, b"allkeys" | b"~*") => selector.set_all_keys(true),
        (_, b"resetkeys") => selector.set_all_keys(false),
        (_, b"allchannels" | b"&*") => selector.set_all_channels(true),
        (_, b"resetchannels") => selector.set_all_channels(false),
        ([b'~' | b'%', ..], _) => return add_keys(selector, rule),
        ([b'&', pattern @ ..], _) => return add_channels(selector, pattern),
        ([sign @ (b'+' | b'-'), b'@', name @ ..], _) => {
            selector.commands.set_category(category(name)?, *sign == b'+');
            selector.commands.note_rule(&rule[1..], *sign == b'+');
        }
        ([b'+', name @ ..], _) => {
            allow_command(&mut selector.commands, name)?;
            selector.commands.note_rule(name, true);
        }
        ([b'-', name @ ..], _) => {
            deny_command(&mut selector.commands, name)?;
            selector.commands.note_rule(name, false);
        }
        _ => return Err(RuleError::Unknown),
    }
    Ok(())
}

/// `~pattern`, `%R~pattern`, `%W~pattern`, `%RW~pattern`
fn add_keys(selector: &mut Selector, rule: &[u8]) -> Result<(), RuleError> {
    if selector.has_all_keys() {
        return Err(RuleError::AfterAllKeys);
    }
    let tilde = rule.iter().position(|&byte| byte == b'~').ok_or(RuleError::BadKeyAccess)?;
    let access = match rule[..tilde].to_ascii_uppercase().as_slice() {
        b"" | b"%RW" | b"%WR" => KeyAccess::READ | KeyAccess::WRITE,
        b"%R" => KeyAccess::READ,
        b"%W" => KeyAccess::WRITE,
        _ => return Err(RuleError::BadKeyAccess),
    };
    selector.add_keys(pattern(&rule[tilde + 1..])?, access);
    Ok(())
}

fn add_channels(selector: &mut Selector, channels: &[u8]) -> Result<(), RuleError> {
    if selector.has_all_channels() {
        return Err(RuleError::AfterAllChannels);
    }
    selector.add_channels(pattern(channels)?);
    Ok(())
}

/// A pattern as the rule has it, without what C's `isspace` counts.
fn pattern(pattern: &[u8]) -> Result<&[u8], RuleError> {
    let refused = |byte: &u8| matches!(byte, 0 | b'\t'..=b'\r' | b' ');
    if pattern.iter().any(refused) { Err(RuleError::BadPattern) } else { Ok(pattern) }
}

fn category(name: &[u8]) -> Result<Categories, RuleError> {
    let name = str::from_utf8(name).ok().map(str::to_ascii_uppercase);
    name.and_then(|name| Categories::from_name(&name)).ok_or(RuleError::UnknownCategory)
}

/// `+command`, `+container|subcommand`, `+command|first-argument`
fn allow_command(commands: &mut Commands, name: &[u8]) -> Result<(), RuleError> {
    let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
        commands.set(lookup(name).ok_or(RuleError::UnknownCommand)?, true);
        return Ok(());
    };
    let (command, argument) = (lookup(&name[..bar]).ok_or(RuleError::UnknownCommand)?, &name[bar + 1..]);
    if command.name.contains('|') {
        return Err(RuleError::FirstArgOfSubcommand);
    }
    if argument.is_empty() {
        return Err(RuleError::NoSubcommand);
    }
    if command.is_container {
        commands.set(lookup(name).ok_or(RuleError::UnknownCommand)?, true);
    } else {
        commands.allow_first_arg(command, argument);
    }
    Ok(())
}

/// `-command`, `-container|subcommand`
fn deny_command(commands: &mut Commands, name: &[u8]) -> Result<(), RuleError> {
    match (lookup(name), split_bar(name)) {
        (Some(command), _) => commands.set(command, false),
        (None, Some((_, b""))) => return Err(RuleError::NoSubcommand),
        (None, Some((command, _))) if lookup(command).is_some_and(|command| !command.is_container) => {
            return Err(RuleError::DeniedFirstArg);
        }
        _ => return Err(RuleError::UnknownCommand),
    }
    Ok(())
}

/// The command of a name, or the subcommand of `container|subcommand`.
fn lookup(name: &[u8]) -> Option<&'static Command> {
    match split_bar(name) {
        Some((container, sub)) => table().lookup_sub(table().lookup(container)?, sub),
        None => table().lookup(name),
    }
}

fn split_bar(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let bar = name.iter().position(|&byte| byte == b'|')?;
    Some((&name[..bar], &name[bar + 1..]))
}
