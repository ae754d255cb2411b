//! What is not to be written in the file, and never shown: passwords.

use keyfold_proxy::address::{Route, ServerAddress};

use super::options::ServeOption;
use crate::flags::upstream::parse_server;

const IN_URL: &str = "upstream has a password in it, and secrets are not written here: put the password on the first line of a \
                      file and write upstream-password-file, or put the whole URL into the environment's KEYFOLD_UPSTREAM";

const OF_SENTINELS: &str = "upstream has the Sentinels' password in it, and secrets are not written here: put the whole URL \
                            into the environment's KEYFOLD_UPSTREAM";

/// What to write instead of a secret by this name; none where the name is of something else.
pub(super) fn remedy(name: &str) -> Option<&'static str> {
    let name = name.replace('_', "-").to_ascii_lowercase();
    Some(match name.as_str() {
        "password" | "requirepass" => {
            "passwords are not written here: put it on the first line of a file and write password-file, or put it into \
             the environment's KEYFOLD_PASSWORD"
        }
        "upstream-password" | "server-password" => {
            "passwords are not written here: put it on the first line of a file and write upstream-password-file"
        }
        "admin-token" | "token" => {
            "tokens are not written here: put it on the first line of a file and write admin-token-file"
        }
        "secret" => "secrets are not written here: put it into a file and write secret-file",
        _ => return None,
    })
}

/// Refuses a password in a value.
pub(super) fn refuse(option: &ServeOption, value: &str) -> Result<(), String> {
    if option.id != "upstream" {
        return Ok(());
    }
    let Ok(address) = parse_server(value) else { return Ok(()) };
    match () {
        () if address.password.is_some() => Err(IN_URL.to_owned()),
        () if sentinels_have_one(&address) => Err(OF_SENTINELS.to_owned()),
        () => Ok(()),
    }
}

fn sentinels_have_one(address: &ServerAddress) -> bool {
    matches!(&address.route, Route::Sentinel { sentinels, .. } if sentinels.password.is_some())
}

/// Whether a value may hold a secret, so that a mistake in it is told without it.
pub(super) fn may_be_in(value: &str) -> bool {
    value.contains('@') || value.contains("password")
}

/// A server's URL without its passwords, and whether it had any.
pub(super) fn shown(url: &str) -> (String, bool) {
    let Ok(address) = parse_server(url) else { return (String::new(), true) };
    let has_secret = address.password.is_some() || sentinels_have_one(&address);
    if !has_secret {
        return (url.to_owned(), false);
    }
    // How an address shows itself has no user, password or database.
    let shown = address.to_string();
    let (scheme, rest) = shown.split_once("://").unwrap_or(("redis", &shown));
    let user = address.user.as_deref().map(encoded).map(|user| user + "@").unwrap_or_default();
    let database = match (&address.route, address.database) {
        (_, 0) => String::new(),
        (Route::Unix(_), database) => format!("?db={database}"),
        (_, database) => format!("/{database}"),
    };
    // A user stands before a host, which a socket has none of.
    let rest = if matches!(address.route, Route::Unix(_)) { format!("localhost{rest}") } else { rest.to_owned() };
    let (rest, query) =
        rest.split_once('?').map_or((rest.as_str(), String::new()), |(rest, query)| (rest, format!("?{query}")));
    (format!("{scheme}://{user}{rest}{database}{query}"), true)
}

/// A user's name as it stands in a URL.
fn encoded(user: &str) -> String {
    user.bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_passwords() {
        for (url, expected) in [
            ("redis://cache:6379/3", ("redis://cache:6379/3", false)),
            ("redis://app:se%40cret@cache:6379/3", ("redis://app@cache:6379/3", true)),
            ("app:secret@cache", ("redis://app@cache:6379", true)),
            ("redis://:secret@[::1]", ("redis://[::1]:6379", true)),
            ("rediss://a%2Fb:secret@cache", ("rediss://a%2Fb@cache:6379", true)),
            ("unix://app:secret@localhost/run/redis.sock?db=2", ("unix://app@localhost/run/redis.sock?db=2", true)),
            ("cluster://app:secret@a:1,b:2", ("cluster://app@a:1,b:2", true)),
        ] {
            let (shown, has_secret) = shown(url);
            assert_eq!((shown.as_str(), has_secret), expected, "{url}");
            let (again, before) = (parse_server(&shown).unwrap(), parse_server(url).unwrap());
            assert!(again == ServerAddress { password: None, ..before }, "{shown}");
        }
        let (shown, has_secret) = shown("sentinel://u:p1@a:1/main/2?sentinel_password=p2");
        assert!(has_secret && !shown.contains("p1") && !shown.contains("p2"), "{shown}");
        assert_eq!(parse_server(&shown).unwrap().database, 2, "{shown}");
    }
}
