//! The arguments of a request as the log of slow ones keeps them, by the bounds and in the words of `slowlogCreateEntry`
//! (slowlog.c of Redis 7.0 to 8.0, commandlog.c of Valkey 8.1 and 9.1).

/// At most so many arguments are kept; where there are more, the last says how many.
const MOST_ARGUMENTS: usize = 32;

/// Of a longer argument so many bytes are kept, and how many there are more.
pub(super) const MOST_BYTES: usize = 128;

/// The arguments, cut.
pub(super) fn cut(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let whole = if args.len() > MOST_ARGUMENTS { MOST_ARGUMENTS - 1 } else { args.len() };
    let mut kept: Vec<_> = args[..whole].iter().map(|arg| cut_argument(arg)).collect();
    if whole < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - whole).into_bytes());
    }
    kept
}

fn cut_argument(arg: &[u8]) -> Vec<u8> {
    match arg.split_at_checked(MOST_BYTES).filter(|(_, rest)| !rest.is_empty()) {
        Some((head, rest)) => [head, format!("... ({} more bytes)", rest.len()).as_bytes()].concat(),
        None => arg.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arguments_and_many_are_cut_in_the_servers_words() {
        let long = [b'x'; MOST_BYTES + 2];
        let kept = cut(&[b"SET", &long[..MOST_BYTES], &long, b""]);
        assert_eq!(kept[1], &long[..MOST_BYTES]);
        assert_eq!(kept[2], [&long[..MOST_BYTES], b"... (2 more bytes)"].concat());
        assert_eq!(kept[3], b"");
        assert_eq!(cut(&[&b"a"[..]; 32]), vec![b"a".to_vec(); 32]);
        let many = cut(&[&b"a"[..]; 33]);
        assert_eq!((many.len(), many[31].as_slice()), (32, &b"... (2 more arguments)"[..]));
    }
}
