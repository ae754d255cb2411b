//! Commands that a script carries out in their place: what it answers is what the command answers.

use keyfold_core::command::table;
use keyfold_core::number::parse_integer;

use super::slots::is;

/// The script, with the command as its arguments.
const SCRIPT: &[u8] = b"return redis.pcall(unpack(ARGV))";

/// Commands that docs/differences.md names: a script can't have them on folded sets and hashes.
const NEVER: [&str; 3] = ["OBJECT", "ZUNION", "EXEC"];

/// So many milliseconds or seconds, or more, may come to a time that a script doesn't have exactly.
const FAR: u64 = 1 << 43;

/// The command in a script, its keys declared; as it is where it has none, or where a script can't have it.
pub(super) fn wrapped(args: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let Some(command) = table().resolve(&words) else { return args };
    let keys: Vec<Vec<u8>> = command.keys_in(&words).iter().map(|key| args[key.index].clone()).collect();
    if keys.is_empty() || NEVER.iter().any(|name| is(&args, name)) {
        return args;
    }
    let head = [b"EVAL".to_vec(), SCRIPT.to_vec(), keys.len().to_string().into_bytes()];
    head.into_iter().chain(keys).chain(args).collect()
}

/// Whether a command gives a key such a time.
pub(super) fn goes_far(args: &[Vec<u8>]) -> bool {
    let is_far = |arg: &Vec<u8>| parse_integer(arg).is_some_and(|number| number.unsigned_abs() > FAR);
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let expires = |name: &str| name.contains("expire") || name == "restore";
    table().resolve(&words).is_some_and(|command| expires(command.name)) && args.iter().skip(2).any(is_far)
}

/// The command that an operation carries out, in a script or not.
pub(super) fn carried_out(args: &[Vec<u8>]) -> &[Vec<u8>] {
    let keys = || str::from_utf8(args.get(2)?).ok()?.parse::<usize>().ok();
    match keys() {
        Some(keys) if args[1] == SCRIPT => &args[3 + keys..],
        _ => args,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn what_is_wrapped_is_carried_out() {
        for line in ["SMOVE a b m", "SINTERCARD 2 a b", "HGET h f"] {
            let wrapped = wrapped(words(line));
            assert_eq!(wrapped[0], b"EVAL");
            assert_eq!(carried_out(&wrapped), words(line));
        }
        for line in ["PING", "OBJECT ENCODING a", "NO SUCH", "SADD"] {
            assert_eq!(wrapped(words(line)), words(line));
            assert_eq!(carried_out(&words(line)), words(line));
        }
    }
}
