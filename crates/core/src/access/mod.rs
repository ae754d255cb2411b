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
//! | `users` | all of them, as they stand now |
//! | `describe` | users in the words of ACL LIST and ACL GETUSER |
//! | `log` | what was denied |
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
mod describe;
mod log;
mod parse;
mod password;
mod rules;
mod selector;
mod user;
mod users;

pub(crate) use log::Denied;
pub(crate) use parse::SetUserError;
pub use parse::UsersError;
pub use rules::RuleError;
pub use user::User;
pub use users::{OpenToAll, Users, UsersFile};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
    fn who_is_to_stay_guarded_is() {
        let users = |text: &str| Users::parse(text.as_bytes()).unwrap();
        let closed = users("user default on >secret ~* +@all");
        assert_eq!(closed.replace_by(&users("user default on nopass ~* +@all")), Ok(()), "nobody has said so");
        let closed = users("user default on >secret ~* +@all");
        closed.stay_guarded();
        let before = closed.version();
        assert_eq!(closed.replace_by(&users("user default on nopass ~* +@all")), Err(OpenToAll));
        assert_eq!(closed.version(), before);
        assert!(closed.has_password());
        for other in ["user default on >other ~* +@all", "user default off nopass", "user a on >one +@all"] {
            assert_eq!(closed.replace_by(&users(other)), Ok(()), "{other}");
        }
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
