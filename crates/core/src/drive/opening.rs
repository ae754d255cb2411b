//! How a connection comes to be one on which folded keys may be written: named, and only then shown the layout in force.
//!
//! Whoever puts another layout in force finds the connection by its name and has the server close it
//! ([`crate::change`]). So a connection that lives is one whose layout is still in force, and who finds it closed opens
//! another and looks again.

use crate::admin::{CHANGE_KEY, COPY_KEY, LAYOUT_KEY, dictionaries};
use crate::change::{Announcement, Register, Standing, WRITER_NAME};
use crate::codec::Kinds;
use crate::exchange::ServerInfo;
use crate::layout::Layout;
use crate::placement::Secrets;
use crate::resp::{Reply, write_command};

/// What is known once a connection is open.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The layout in force, its codecs open; an empty one where the server has none.
    pub layout: Layout,
    /// The server's name and version.
    pub server: ServerInfo,
    /// The server's time when it was asked, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Why a connection can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The server refused one of the commands, or sent something else.
    #[error("the server refuses {command}: {reply}")]
    Refused {
        /// What was asked.
        command: &'static str,
        /// What the server said instead.
        reply: String,
    },
    /// Another layout is about to be in force.
    #[error("the layout is being changed; try again in a second")]
    Changing,
    /// What the server holds is no layout to go by.
    #[error("the server's layout can't be gone by: {0}; `keyfold layout recover` says what is there")]
    InDoubt(String),
}

/// A connection that is being opened. It speaks RESP2, is logged in, and is in the database that it will stay in.
#[derive(Debug)]
pub struct Opening {
    found: Option<Opened>,
}

/// What is asked first, and answered in this order.
const FIRST: [&str; 4] = ["CLIENT SETNAME", "HELLO", "TIME", "MGET"];

impl Opening {
    /// Writes what is to be asked first; with the number of replies.
    pub fn start(wire: &mut Vec<u8>) -> (Self, usize) {
        write_command(wire, &[b"CLIENT", b"SETNAME", WRITER_NAME.as_bytes()]);
        write_command(wire, &[b"HELLO", b"2"]);
        write_command(wire, &[b"TIME"]);
        write_command(wire, &[b"MGET", CHANGE_KEY, LAYOUT_KEY, COPY_KEY]);
        (Self { found: None }, FIRST.len())
    }

    /// Takes the replies to what was written last. None where it has written more; the number of replies to that is 1.
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn handle_replies(
        &mut self,
        replies: &[Vec<u8>],
        secrets: &Secrets,
        kinds: &Kinds,
        wire: &mut Vec<u8>,
    ) -> Result<Option<Opened>, OpenError> {
        let mut found = match self.found.take() {
            None => look(replies, secrets)?,
            Some(mut found) => {
                let reply = replies.first().map_or(&[][..], Vec::as_slice);
                let missing = found.layout.missing_dictionaries();
                let read = dictionaries::read(&missing, reply);
                let read = read.map_err(|reply| OpenError::Refused { command: "HMGET", reply })?;
                found.layout.open(kinds, &read);
                return Ok(Some(found));
            }
        };
        let missing = found.layout.missing_dictionaries();
        if missing.is_empty() {
            found.layout.open(kinds, &[].into());
            return Ok(Some(found));
        }
        dictionaries::ask(&missing, wire);
        self.found = Some(found);
        Ok(None)
    }
}

fn look(replies: &[Vec<u8>], secrets: &Secrets) -> Result<Opened, OpenError> {
    let reply = |at: usize| Reply::parse(replies.get(at).map_or(&[][..], Vec::as_slice)).ok();
    let refused = |at: usize| OpenError::Refused {
        command: FIRST[at],
        reply: String::from_utf8_lossy(replies.get(at).map_or(&[][..], Vec::as_slice)).trim_end().to_owned(),
    };
    if reply(0) != Some(Reply::Simple(b"OK")) {
        return Err(refused(0));
    }
    let server = reply(1).and_then(ServerInfo::from_hello).ok_or_else(|| refused(1))?;
    let now_ms = reply(2).and_then(Reply::time_us).ok_or_else(|| refused(2))? / 1000;
    let Some(Reply::Array(mut keys)) = reply(3) else { return Err(refused(3)) };
    let mut bytes = || keys.next().and_then(Reply::bytes).map(<[u8]>::to_vec);
    if Announcement::holds(bytes().as_deref()) {
        return Err(OpenError::Changing);
    }
    let layout = match (Register { layout: bytes(), copy: bytes() }).standing(secrets) {
        Standing::InForce(layout) | Standing::Half(layout) => layout,
        Standing::Lost(None) => Layout::default(),
        Standing::Parted(_) => return Err(OpenError::InDoubt("its two copies differ".to_owned())),
        Standing::Lost(Some(why)) | Standing::Unclear(why) | Standing::OtherVersion(why) => {
            return Err(OpenError::InDoubt(why));
        }
    };
    Ok(Opened { layout, server, now_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: &str = "[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n";

    /// Opens with this announcement and these halves of the register.
    fn open(announced: Option<&str>, layout: Option<&str>, copy: Option<&str>) -> Result<Option<Opened>, OpenError> {
        let (mut opening, replies) = Opening::start(&mut Vec::new());
        let hello = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n";
        let time = "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n";
        let bulk =
            |held: Option<&str>| held.map_or("$-1\r\n".to_owned(), |held| format!("${}\r\n{held}\r\n", held.len()));
        let keys = format!("*3\r\n{}{}{}", bulk(announced), bulk(layout), bulk(copy));
        let all = ["+OK\r\n", hello, time, &keys].map(|reply| reply.as_bytes().to_vec());
        assert_eq!(all.len(), replies);
        opening.handle_replies(&all, &Secrets::default(), &Kinds::default(), &mut Vec::new())
    }

    #[test]
    fn what_is_in_force_is_gone_by_and_nothing_else() {
        let stored = Layout::parse_file(LAYOUT).unwrap().to_stored();
        let opened = open(None, Some(&stored), Some(&stored)).unwrap().unwrap();
        assert_eq!((opened.layout.namespaces().len(), opened.now_ms), (1, 1_700_000_000_123));
        assert_eq!(opened.server, ServerInfo { name: "redis".into(), version: "7.0.15".into() });
        assert_eq!(open(None, None, Some(&stored)).unwrap().unwrap().layout, opened.layout);
        assert!(open(None, None, None).unwrap().unwrap().layout.is_empty());
        assert!(matches!(open(None, Some("no layout"), None), Err(OpenError::InDoubt(_))));
        let other = stored.replace("epoch = 1", "epoch = 2");
        assert!(matches!(open(None, Some(&stored), Some(&other)), Err(OpenError::InDoubt(_))));
    }

    #[test]
    fn a_change_under_way_is_waited_for() {
        let announcement = |phase: &str| format!("1 0000000000000002 {phase} 7");
        assert!(Announcement::holds(Some(announcement("hold").as_bytes())), "it is read as it is written");
        assert!(matches!(open(Some(&announcement("hold")), None, None), Err(OpenError::Changing)));
        assert!(open(Some(&announcement("prepare")), None, None).is_ok());
    }

    #[test]
    fn who_can_not_be_named_may_not_write() {
        let (mut opening, _) = Opening::start(&mut Vec::new());
        let refused = opening.handle_replies(
            &[b"-NOPERM this user has no permissions\r\n".to_vec()],
            &Secrets::default(),
            &Kinds::default(),
            &mut Vec::new(),
        );
        assert!(matches!(refused, Err(OpenError::Refused { command: "CLIENT SETNAME", .. })));
    }
}
