//! Who may use the proxy, and for what: users of its own, in the words of Redis's ACL file.
//!
//! ```text
//! # as ACL SAVE writes it, or by hand
//! user default off
//! user app on >secret ~session:* %R~config:* +@all -@dangerous
//! user ops on #5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 ~* &* +@all
//! ```
//! | module | what it holds |
//! | --- | --- |
//! | `parse` | the lines of the file, and what may be wrong with them |
//! | `rules` | what each rule does to a user |
//! | `user` | one user, and what is answered where a command is refused |
//! | `selector` | what a user may do: commands, keys, channels |
//! | `commands` | the commands among that |
//! | `password` | digests |
//!
//! Rules mean what they mean to Redis 7.0, with three differences, each on the safe side:
//! - A file without `user default` has no default user: whoever connects must authenticate.
//! - Scripts run on the server with the proxy's rights there, and keyfold does not see what they do. So
//!   only a user who may do everything may run them ([`User::refuse`]).
//! - What keyfold's command table does not know, such as a module's commands, is open only to a user who
//!   may do everything ([`User::refuse_unknown`]).
//!
//! Patterns are matched with the keys that clients name, wherever these are kept.

mod commands;
mod parse;
mod password;
mod rules;
mod selector;
mod user;

pub use parse::UsersError;
pub use rules::RuleError;
pub use user::User;

use std::sync::Arc;

use password::Digest;
use subtle::{Choice, ConstantTimeEq};

/// The user of a connection that has not said who it is.
const DEFAULT: &str = "default";

/// The users of a proxy.
#[derive(Clone, Debug)]
pub struct Users {
    users: Vec<Arc<User>>,
}

impl Users {
    /// Whoever connects is the user `default` and may do everything.
    pub fn open() -> Self {
        let mut user = User::new(DEFAULT);
        user.allow_all();
        user.set_nopass();
        Self::of([user])
    }

    /// Whoever knows the password is the user `default` and may do everything.
    pub fn with_password(password: &[u8]) -> Self {
        let mut user = User::new(DEFAULT);
        user.allow_all();
        user.add_password(Digest::of(password));
        Self::of([user])
    }

    /// Reads the lines of an ACL file: `user name rule rule …`, empty lines, and comments after a `#` at
    /// the start.
    ///
    /// # Errors
    /// Where a line does not read, a name comes twice, or there is no user at all.
    pub fn parse(text: &[u8]) -> Result<Self, UsersError> {
        parse::parse(text).map(Self::of)
    }

    fn of(users: impl IntoIterator<Item = User>) -> Self {
        Self { users: users.into_iter().map(Arc::new).collect() }
    }

    /// Whom a client is before it authenticates: the default user, where it is on and takes no password.
    /// None where clients must authenticate first.
    pub fn initial(&self) -> Option<Arc<User>> {
        self.users.iter().find(|user| user.name() == DEFAULT && user.is_on() && user.is_nopass()).cloned()
    }

    /// Whether clients must authenticate before they can do anything.
    pub fn has_password(&self) -> bool {
        self.initial().is_none()
    }

    /// The user of this name, where the password is one of theirs and they are on.
    ///
    /// Every digest of every user is compared, whoever is asked for: how long it takes does not tell which
    /// users there are. Costs a SHA-256 of the password and a few nanoseconds a digest.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let digest = Digest::of(password);
        let mut found = None;
        for user in &self.users {
            let named = user.name().as_bytes().ct_eq(name);
            let accepted = Choice::from(u8::from(user.is_on())) & user.accepts(&digest);
            if bool::from(named & accepted) {
                found = Some(user);
            }
        }
        found.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `echo -n password | sha256sum`
    const SHA256_OF_PASSWORD: &str = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";

    fn users(text: &str) -> Users {
        Users::parse(text.as_bytes()).unwrap()
    }

    fn name(user: Option<Arc<User>>) -> Option<String> {
        user.map(|user| user.name().to_owned())
    }

    #[test]
    fn open_to_all() {
        let users = Users::open();
        assert!(!users.has_password());
        assert_eq!(name(users.initial()).as_deref(), Some("default"));
        assert_eq!(name(users.authenticate(b"default", b"whatever")).as_deref(), Some("default"));
        assert_eq!(name(users.authenticate(b"other", b"whatever")), None);
    }

    #[test]
    fn one_password() {
        let users = Users::with_password(b"secret");
        assert!(users.has_password());
        assert_eq!(name(users.initial()), None);
        assert_eq!(name(users.authenticate(b"default", b"secret")).as_deref(), Some("default"));
        for wrong in [b"".as_slice(), b"Secret", b"secret ", b"secret\0"] {
            assert_eq!(name(users.authenticate(b"default", wrong)), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn passwords_by_text_and_by_hash() {
        let users = users(&format!("user a on >one >two\nuser b on #{SHA256_OF_PASSWORD}"));
        assert_eq!(name(users.authenticate(b"a", b"one")).as_deref(), Some("a"));
        assert_eq!(name(users.authenticate(b"a", b"two")).as_deref(), Some("a"));
        assert_eq!(name(users.authenticate(b"a", b"password")), None);
        assert_eq!(name(users.authenticate(b"b", b"password")).as_deref(), Some("b"));
        assert_eq!(name(users.authenticate(b"b", SHA256_OF_PASSWORD.as_bytes())), None);
        assert_eq!(name(users.authenticate(b"c", b"one")), None);
    }

    #[test]
    fn who_is_off_or_has_no_password_does_not_get_in() {
        let users = users("user a off >one\nuser b on\nuser c on nopass resetpass\nuser d on >x reset\nuser e nopass");
        for user in ["a", "b", "c", "d", "e"] {
            for password in ["", "one", "x"] {
                assert_eq!(name(users.authenticate(user.as_bytes(), password.as_bytes())), None, "{user}");
            }
        }
    }

    #[test]
    fn nopass_and_passwords_replace_each_other() {
        let users = users("user a on >one nopass\nuser b on nopass >one");
        assert_eq!(name(users.authenticate(b"a", b"any")).as_deref(), Some("a"));
        assert_eq!(name(users.authenticate(b"b", b"any")), None);
        assert_eq!(name(users.authenticate(b"b", b"one")).as_deref(), Some("b"));
    }

    #[test]
    fn clients_start_as_default_only_where_it_is_on_and_nopass() {
        assert_eq!(name(users("user default on nopass").initial()).as_deref(), Some("default"));
        for text in ["user default off nopass", "user default on >x", "user default on", "user a on nopass +@all"] {
            assert_eq!(name(users(text).initial()), None, "{text}");
            assert!(users(text).has_password(), "{text}");
        }
    }

    #[test]
    fn no_password_is_printed() {
        let printed = format!("{:?}", users(&format!("user a on >swordfish #{SHA256_OF_PASSWORD}")));
        assert!(!printed.contains("swordfish") && !printed.contains("5e88"), "{printed}");
        assert!(printed.contains("\"a\""));
    }
}
