//! What a node answers that can't, or can't yet, carry a command out.

use crate::slot::Slot;

/// A node's word that a command was not carried out, and where or when it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect<'r> {
    /// Another node has the slot.
    Moved(Slot, Whereto<'r>),
    /// The key is not here any more, while its slot is on its way there: this one command is to be asked there, with
    /// ASKING before it.
    Ask(Slot, Whereto<'r>),
    /// Of several keys some have gone on their way, and some have not.
    TryAgain,
    /// The cluster, or this slot of it, is served by nobody at present.
    ClusterDown,
    /// It is a replica by now.
    ReadOnly,
    /// It loads its data.
    Loading,
    /// It is a replica that has lost its primary.
    MasterDown,
}

/// Where a redirect leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereto<'r> {
    /// A name or an address; none where the node doesn't know it: it is then the host that was asked.
    pub host: Option<&'r str>,
    /// The port.
    pub port: u16,
}

impl<'r> Redirect<'r> {
    /// Reads a reply; none where it is an answer.
    #[inline]
    pub fn read(reply: &'r [u8]) -> Option<Self> {
        // Nearly every reply ends here.
        let error = reply.strip_prefix(b"-")?;
        let error = std::str::from_utf8(error).ok()?.trim_end();
        let (code, rest) = error.split_once(' ').unwrap_or((error, ""));
        match code {
            "MOVED" => Whereto::read(rest).map(|(slot, whereto)| Self::Moved(slot, whereto)),
            "ASK" => Whereto::read(rest).map(|(slot, whereto)| Self::Ask(slot, whereto)),
            // A script may answer with any code behind what it has written, and isn't to be carried out once more for that.
            "TRYAGAIN" if begins(rest, &["Multiple keys request during rehashing", "Slot is being trimmed"]) => {
                Some(Self::TryAgain)
            }
            "CLUSTERDOWN" if begins(rest, &["The cluster is down", "Hash slot"]) => Some(Self::ClusterDown),
            "READONLY" if begins(rest, &["You can't write against a read only"]) => Some(Self::ReadOnly),
            "LOADING" if rest.contains("is loading the dataset") => Some(Self::Loading),
            "MASTERDOWN" if begins(rest, &["Link with MASTER is down"]) => Some(Self::MasterDown),
            _ => None,
        }
    }
}

/// Whether a server's or keyfold's own words follow a code.
fn begins(rest: &str, words: &[&str]) -> bool {
    rest.starts_with("keyfold:") || words.iter().any(|words| rest.starts_with(words))
}

impl<'r> Whereto<'r> {
    fn read(text: &'r str) -> Option<(Slot, Self)> {
        let (slot, endpoint) = text.split_once(' ')?;
        let (host, port) = endpoint.rsplit_once(':')?;
        let host = Some(host).filter(|host| !matches!(*host, "" | "?"));
        let port = port.parse().ok().filter(|port| *port > 0)?;
        Some((Slot::new(slot.parse().ok()?)?, Self { host, port }))
    }
}

/// How often nodes did not carry out what they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redirects {
    /// As another node has the slot.
    pub moved: u64,
    /// As the key is on another node already, on its way there.
    pub asked: u64,
    /// As some keys of several are on their way.
    pub try_again: u64,
    /// As nobody serves the slot, or the node can't at present.
    pub unserved: u64,
}

impl Redirects {
    /// Counts a node's word.
    pub(super) fn note(&mut self, redirect: &Redirect<'_>) {
        *match redirect {
            Redirect::Moved(..) => &mut self.moved,
            Redirect::Ask(..) => &mut self.asked,
            Redirect::TryAgain => &mut self.try_again,
            Redirect::ClusterDown | Redirect::ReadOnly | Redirect::Loading | Redirect::MasterDown => &mut self.unserved,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_told_from_answers() {
        let to = |host, port| Whereto { host, port };
        let slot = |number| Slot::new(number).unwrap();
        for (reply, redirect) in [
            ("-MOVED 3999 127.0.0.1:6381\r\n", Some(Redirect::Moved(slot(3999), to(Some("127.0.0.1"), 6381)))),
            ("-MOVED 0 a.example:1\r\n", Some(Redirect::Moved(slot(0), to(Some("a.example"), 1)))),
            ("-MOVED 0 ::1:6381\r\n", Some(Redirect::Moved(slot(0), to(Some("::1"), 6381)))),
            ("-MOVED 0 :6381\r\n", Some(Redirect::Moved(slot(0), to(None, 6381)))),
            ("-ASK 16383 ?:6381\r\n", Some(Redirect::Ask(slot(16_383), to(None, 6381)))),
            ("-TRYAGAIN Multiple keys request during rehashing of slot\r\n", Some(Redirect::TryAgain)),
            ("-TRYAGAIN Slot is being trimmed\r\n", Some(Redirect::TryAgain)),
            ("-CLUSTERDOWN Hash slot not served\r\n", Some(Redirect::ClusterDown)),
            ("-READONLY You can't write against a read only replica.\r\n", Some(Redirect::ReadOnly)),
            ("-LOADING Redis is loading the dataset in memory\r\n", Some(Redirect::Loading)),
            ("-MASTERDOWN Link with MASTER is down\r\n", Some(Redirect::MasterDown)),
            ("-MOVED 16384 a:1\r\n", None),
            ("-MOVED 1 a:0\r\n", None),
            ("-MOVED 1\r\n", None),
            ("-MOVEDX 1 a:1\r\n", None),
            ("-ERR MOVED 1 a:1\r\n", None),
            ("$23\r\n-MOVED 1 127.0.0.1:6381\r\n", None),
            ("+OK\r\n", None),
        ] {
            assert_eq!(Redirect::read(reply.as_bytes()), redirect, "{reply}");
        }
        assert_eq!(Redirect::read(b"-MOVED 1 \xff:1\r\n"), None);
    }
}
