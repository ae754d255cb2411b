//! What a node says of all nodes that it knows: CLUSTER NODES.
//!
//! ```text
//! 07c37dfe… 127.0.0.1:30004@31004,host,shard-id=… slave,fail e7d1eecc… 0 1426238317239 4 connected
//! e7d1eecc… 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460 7000 [93->-292f8b36…] [77-<-67ed38db…]
//! ```

use std::ops::RangeInclusive;

/// One node, in the eyes of another or in its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its ID.
    pub id: String,
    /// The address that it announces, without ports.
    pub host: String,
    /// The port for clients that it announces.
    pub port: u16,
    /// The port for other nodes that it announces.
    pub bus_port: u16,
    /// The hostname that it announces.
    pub hostname: Option<String>,
    /// `myself`, `master`, `slave`, `fail?`, `fail`, `handshake` and others.
    pub flags: Vec<String>,
    /// The ID of the primary that it replicates.
    pub primary: Option<String>,
    /// Its configuration's epoch; of a replica its primary's.
    pub config_epoch: u64,
    /// Whether it is the one that says all this, or connected to it.
    pub is_connected: bool,
    /// What it owns.
    pub slots: Vec<RangeInclusive<u16>>,
    /// Slots on their way to other nodes. Nodes tell these of themselves only.
    pub migrating: Vec<(u16, String)>,
    /// Slots on their way from other nodes, told likewise.
    pub importing: Vec<(u16, String)>,
}

impl Seen {
    /// Whether a flag is among its flags.
    pub fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Whether it owns a slot.
    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    /// Reads one line.
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let id = words.next()?.to_owned();
        let mut address = words.next()?.split(',');
        let (host, ports) = address.next()?.rsplit_once(':')?;
        let (port, bus_port) = ports.split_once('@')?;
        let hostname = address.next().filter(|name| !name.is_empty() && !name.contains('=')).map(str::to_owned);
        let flags = words.next()?.split(',').map(str::to_owned).collect();
        let primary = Some(words.next()?).filter(|id| *id != "-").map(str::to_owned);
        let config_epoch = words.nth(2)?.parse().ok()?;
        let mut seen = Self {
            id,
            host: host.to_owned(),
            port: port.parse().ok()?,
            bus_port: bus_port.parse().ok()?,
            hostname,
            flags,
            primary,
            config_epoch,
            is_connected: words.next()? == "connected",
            slots: Vec::new(),
            migrating: Vec::new(),
            importing: Vec::new(),
        };
        seen.is_connected |= seen.is("myself");
        words.try_for_each(|word| seen.read_slots(word))?;
        Some(seen)
    }

    fn read_slots(&mut self, word: &str) -> Option<()> {
        if let Some(moving) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            if let Some((slot, to)) = moving.split_once("->-") {
                self.migrating.push((slot.parse().ok()?, to.to_owned()));
            } else {
                let (slot, from) = moving.split_once("-<-")?;
                self.importing.push((slot.parse().ok()?, from.to_owned()));
            }
        } else {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            self.slots.push(first.parse().ok()?..=last.parse().ok()?);
        }
        Some(())
    }
}

/// Reads the whole reply; nothing where it is none.
pub fn read(reply: &str) -> Option<Vec<Seen>> {
    reply.lines().map(Seen::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_versions() {
        let seen = read(
            "07c3 127.0.0.1:30004@31004,,tls-port=0,shard-id=abc slave,fail? e7d1 0 1426238317239 4 disconnected\n\
             e7d1 127.0.0.1:30001@31001,a.example myself,master - 0 0 1 connected 0-5460 7000 [93->-292f] [77-<-67ed]\n\
             67ed ::1:30002@31002 master,noaddr - 0 0 9 connected\n",
        )
        .unwrap();
        assert_eq!(
            (seen[0].primary.as_deref(), seen[0].is("fail?"), seen[0].is_connected),
            (Some("e7d1"), true, false)
        );
        assert_eq!((seen[0].hostname.as_deref(), seen[1].hostname.as_deref()), (None, Some("a.example")));
        assert_eq!((seen[1].port, seen[1].bus_port, seen[1].config_epoch), (30001, 31001, 1));
        assert_eq!(seen[1].slots, [0..=5460, 7000..=7000]);
        assert_eq!(seen[1].migrating, [(93, "292f".to_owned())]);
        assert_eq!(seen[1].importing, [(77, "67ed".to_owned())]);
        assert!(seen[1].owns(7000) && !seen[1].owns(7001));
        assert_eq!(seen[2].host, "::1");
    }

    #[test]
    fn anything_else_is_told() {
        assert_eq!(read("ERR This instance has cluster support disabled"), None);
    }
}
