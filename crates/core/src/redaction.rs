//! What of a request is shown to nobody: passwords, and who users are, by the same rules as servers hide them from MONITOR and
//! SLOWLOG (`redactClientCommandArgument` in Redis 8.0 and Valkey 9.1).

use crate::command::Command;
use crate::resp::word::c_text;

/// What stands in the place of a secret.
pub(crate) const REDACTED: &[u8] = b"(redacted)";

/// The settings of a server whose values are secrets (`SENSITIVE_CONFIG`, config.c).
const SECRET_SETTINGS: [&[u8]; 7] = [
    b"masteruser",
    b"masterauth",
    b"primaryuser",
    b"primaryauth",
    b"requirepass",
    b"tls-key-file-pass",
    b"tls-client-key-file-pass",
];

/// The arguments as they are shown. Of a command that no known server has nothing is shown but its name: whoever mistypes
/// AUTH sends a password all the same.
pub(crate) fn shown_arguments<'a>(command: Option<&Command>, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut shown = args.to_vec();
    let Some(command) = command else {
        hide(&mut shown, 1, args.len());
        return shown;
    };
    match command.name {
        "auth" => hide(&mut shown, 1, args.len()),
        "hello" => hide_behind(&mut shown, args, 2, |word| if word == b"auth" { 2 } else { 0 }),
        "migrate" => hide_behind(&mut shown, args, 6, |word| match word {
            b"auth" => 1,
            b"auth2" => 2,
            _ => 0,
        }),
        "acl|setuser" | "acl|getuser" | "acl|deluser" => hide(&mut shown, 2, args.len()),
        "config|set" => {
            let secret = |at: &usize| SECRET_SETTINGS.iter().any(|name| c_text(args[*at]).eq_ignore_ascii_case(name));
            (2..args.len()).step_by(2).filter(secret).for_each(|at| hide(&mut shown, at + 1, 1));
        }
        _ => {}
    }
    shown
}

fn hide(shown: &mut [&[u8]], from: usize, count: usize) {
    shown.iter_mut().skip(from).take(count).for_each(|arg| *arg = REDACTED);
}

/// Hides as many arguments behind each word as `secrets` says, which is given it in lower case, as far as servers read it.
fn hide_behind(shown: &mut [&[u8]], args: &[&[u8]], from: usize, secrets: impl Fn(&[u8]) -> usize) {
    let mut at = from;
    while let Some(arg) = args.get(at) {
        let count = secrets(&c_text(arg).to_ascii_lowercase());
        hide(shown, at + 1, count);
        at += 1 + count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    fn shown(text: &str) -> String {
        let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let shown = shown_arguments(table().resolve(&args), &args);
        shown.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn secrets_are_hidden_as_servers_hide_them() {
        for (asked, seen) in [
            ("AUTH secret", "AUTH (redacted)"),
            ("AUTH user secret", "AUTH (redacted) (redacted)"),
            ("HELLO 3 SETNAME x Auth user secret", "HELLO 3 SETNAME x Auth (redacted) (redacted)"),
            ("HELLO 3 AUTH user", "HELLO 3 AUTH (redacted)"),
            ("HELLO 3 auth\0x user secret", "HELLO 3 auth\0x (redacted) (redacted)"),
            ("MIGRATE h 1 k 0 1 AUTH\0 p", "MIGRATE h 1 k 0 1 AUTH\0 (redacted)"),
            ("CONFIG SET requirepass\0 secret", "CONFIG SET requirepass\0 (redacted)"),
            ("MIGRATE h 1 k 0 1 AUTH p", "MIGRATE h 1 k 0 1 AUTH (redacted)"),
            ("MIGRATE h 1 k 0 1 AUTH2 u p KEYS", "MIGRATE h 1 k 0 1 AUTH2 (redacted) (redacted) KEYS"),
            ("acl setuser bob on >secret", "acl setuser (redacted) (redacted) (redacted)"),
            ("ACL DELUSER bob", "ACL DELUSER (redacted)"),
            ("ACL CAT read", "ACL CAT read"),
            ("CONFIG SET maxmemory 0 RequirePass secret", "CONFIG SET maxmemory 0 RequirePass (redacted)"),
            ("CONFIG SET requirepass", "CONFIG SET requirepass"),
            ("CONFIG GET requirepass", "CONFIG GET requirepass"),
            ("AUHT secret", "AUHT (redacted)"),
            ("GET auth", "GET auth"),
        ] {
            assert_eq!(shown(asked), seen);
        }
    }
}
