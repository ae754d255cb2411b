//! What a reply is taken for.

use keyfold_core::resp::Reply;

use crate::error::LinkError;

/// What a reply of the right kind is taken for.
pub trait FromReply: Sized {
    /// None where the reply is of another kind.
    fn from_reply(reply: Reply<'_>) -> Option<Self>;
}

/// What a whole reply says; an error, where the server gave one, within EXEC too.
pub fn read<T: FromReply>(raw: &[u8]) -> Result<T, LinkError> {
    let reply = Reply::parse(raw)?;
    let refused = match reply {
        Reply::Error(_) => Some(reply),
        Reply::Array(mut elements) => elements.find(|element| matches!(element, Reply::Error(_))),
        _ => None,
    };
    if let Some(Reply::Error(text)) = refused {
        return Err(LinkError::refused(text));
    }
    T::from_reply(reply).ok_or_else(|| {
        let shown = raw[..raw.len().min(64)].escape_ascii();
        LinkError::Unexpected(format!("'{shown}' is no answer to what was asked"))
    })
}

/// What a reply says; none where it is an error, or of another kind.
pub fn read_if<T: FromReply>(raw: &[u8]) -> Option<T> {
    read(raw).ok()
}

/// The code of an error that is a reply.
pub fn code(error: &[u8]) -> &[u8] {
    error.split(|byte| *byte == b' ').next().unwrap_or_default()
}

/// Whatever it is.
impl FromReply for () {
    fn from_reply(_: Reply<'_>) -> Option<Self> {
        Some(())
    }
}

impl FromReply for i64 {
    fn from_reply(reply: Reply<'_>) -> Option<Self> {
        match reply {
            Reply::Integer(number) => Some(number),
            reply => std::str::from_utf8(reply.bytes()?).ok()?.parse().ok(),
        }
    }
}

impl FromReply for u64 {
    fn from_reply(reply: Reply<'_>) -> Option<Self> {
        i64::from_reply(reply)?.try_into().ok()
    }
}

impl FromReply for bool {
    fn from_reply(reply: Reply<'_>) -> Option<Self> {
        i64::from_reply(reply).map(|number| number != 0)
    }
}

impl FromReply for Vec<u8> {
    fn from_reply(reply: Reply<'_>) -> Option<Self> {
        reply.bytes().map(<[u8]>::to_vec)
    }
}

impl FromReply for String {
    fn from_reply(reply: Reply<'_>) -> Option<Self> {
        Self::from_utf8(Vec::from_reply(reply)?).ok()
    }
}

impl<T: FromReply> FromReply for Option<T> {
    fn from_reply(reply: Reply<'_>) -> Option<Self> {
        if reply == Reply::Nil { Some(None) } else { T::from_reply(reply).map(Some) }
    }
}

impl<T: FromReply> FromReply for Vec<T> {
    fn from_reply(reply: Reply<'_>) -> Option<Self> {
        match reply {
            Reply::Array(elements) => elements.map(T::from_reply).collect(),
            _ => None,
        }
    }
}

impl<A: FromReply, B: FromReply> FromReply for (A, B) {
    fn from_reply(reply: Reply<'_>) -> Option<Self> {
        let Reply::Array(mut parts) = reply else { return None };
        let pair = (A::from_reply(parts.next()?)?, B::from_reply(parts.next()?)?);
        parts.is_empty().then_some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_taken_for_what_is_wanted() {
        assert_eq!(read::<(i64, i64)>(b"*2\r\n$3\r\n100\r\n$1\r\n7\r\n").unwrap(), (100, 7));
        assert_eq!(read::<Vec<Option<String>>>(b"*2\r\n$-1\r\n$1\r\na\r\n").unwrap(), [None, Some("a".to_owned())]);
        assert_eq!(read_if::<u64>(b":-1\r\n"), None);
        assert_eq!(read::<String>(b"*0\r\n").unwrap_err().to_string(), "'*0\\r\\n' is no answer to what was asked");
    }

    #[test]
    fn an_error_is_an_error_within_exec_too() {
        assert_eq!(read::<()>(b"-NOPERM no\r\n").unwrap_err().code(), "NOPERM");
        assert_eq!(read::<()>(b"*2\r\n+OK\r\n-OOM full\r\n").unwrap_err().to_string(), "OOM full");
        assert_eq!(code(b"WRONGTYPE Operation"), b"WRONGTYPE");
    }
}
