//! By whose rules commands are read.
//!
//! Servers differ in which commands and options they have, in which order they check arguments, and in the words of their
//! errors. On folded keys keyfold answers as the server behind does, and knows besides what any later server has: a
//! program that is written for the newest one runs before an older one. `--newest-commands off` leaves it at what the
//! server has.
//!
//! What several servers have in different forms goes by the vendor of the one behind: MSETEX before a Valkey is Valkey's.

use crate::collection::FieldExpiryForm;
use crate::notify::Event;
use crate::server_info::ServerInfo;

/// A release: its first two numbers.
type Release = (u32, u32);

/// A release that there isn't.
const NEVER: Release = (u32::MAX, 0);

/// The first releases that have a command, an option or a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    redis: Release,
    valkey: Release,
}

impl Since {
    /// SET with IFEQ.
    pub(crate) const SET_IFEQ: Self = Self { redis: (8, 4), valkey: (8, 1) };
    /// SET with IFNE.
    pub(crate) const SET_IFNE: Self = Self { redis: (8, 4), valkey: (9, 2) };
    /// DIGEST, and the conditions IFDEQ and IFDNE of SET.
    pub(crate) const DIGEST: Self = Self { redis: (8, 4), valkey: NEVER };
    /// DELEX. Valkey's knows two of Redis's four conditions, and can't do without one.
    pub(crate) const DELEX: Self = Self { redis: (8, 4), valkey: NEVER };
    /// DELIFEQ.
    pub(crate) const DELIFEQ: Self = Self { redis: NEVER, valkey: (9, 0) };
    /// MSETEX.
    pub(crate) const MSETEX: Self = Self { redis: (8, 4), valkey: (9, 1) };
    /// INCREX.
    pub(crate) const INCREX: Self = Self { redis: (8, 8), valkey: (9, 2) };
    /// BITOP with DIFF, DIFF1, ANDOR and ONE.
    pub(crate) const BITOP_DIFF: Self = Self { redis: (8, 2), valkey: NEVER };
    /// Small sets of whatever members are listpacks.
    const LISTPACK_SETS: Self = Self { redis: (7, 2), valkey: (7, 2) };
    /// HEXPIRE and all others that set, show or remove when a field expires.
    pub(crate) const HASH_FIELD_EXPIRY: Self = Self { redis: (7, 4), valkey: (9, 0) };
    /// HGETEX and HSETEX.
    pub(crate) const HGETEX: Self = Self { redis: (8, 0), valkey: (9, 0) };
    /// HGETDEL.
    pub(crate) const HGETDEL: Self = Self { redis: (8, 0), valkey: (9, 1) };
    /// HSCAN with NOVALUES.
    pub(crate) const HSCAN_NOVALUES: Self = Self { redis: (7, 4), valkey: (8, 0) };
    /// Cursors have digits and no minus sign.
    const STRICT_CURSORS: Self = Self { redis: (7, 4), valkey: (8, 0) };
    /// BITCOUNT and BITPOS read all their arguments before they look at the key.
    const BIT_RANGE_FIRST: Self = Self { redis: (7, 2), valkey: (7, 2) };
    /// BITCOUNT takes a start alone.
    const BIT_START_ALONE: Self = Self { redis: NEVER, valkey: (8, 0) };
    /// While memory is full MULTI takes commands that take none.
    const QUEUES_READS_WHEN_FULL: Self = Self { redis: (7, 2), valkey: (7, 2) };
    /// GETEX reads its number before it looks at the key.
    const GETEX_NUMBER_FIRST: Self = Self { redis: NEVER, valkey: (9, 1) };
    /// A key that is given a time in the past has expired, and wasn't removed as by DEL.
    const PAST_EXPIRES: Self = Self { redis: NEVER, valkey: (8, 1) };
}

/// By whose rules a command is read.
#[derive(Clone, Copy, Debug)]
pub struct Dialect<'s> {
    server: &'s ServerInfo,
    newest_commands: bool,
}

/// A server that has said nothing of itself is taken for a Redis 7.0.
static UNKNOWN: ServerInfo = ServerInfo { name: String::new(), version: String::new() };

impl<'s> Dialect<'s> {
    /// The server's own, with what later servers have where `newest_commands`.
    pub fn new(server: &'s ServerInfo, newest_commands: bool) -> Self {
        Self { server, newest_commands }
    }

    /// The same without what the server hasn't.
    pub(crate) fn of_the_server(self) -> Self {
        Self { newest_commands: false, ..self }
    }

    /// What every server understands.
    pub(crate) fn of_every_server() -> Dialect<'static> {
        Dialect::new(&UNKNOWN, false)
    }

    /// Whether folded keys take it.
    pub(crate) fn knows(self, what: Since) -> bool {
        self.newest_commands || self.server_has(what)
    }

    /// Whether the server behind has it.
    pub(crate) fn server_has(self, what: Since) -> bool {
        self.server.is_since(what.redis, what.valkey)
    }

    /// Whether the server behind has hashes whose fields expire.
    pub fn has_field_expiry(self) -> bool {
        self.server_has(Since::HASH_FIELD_EXPIRY)
    }

    /// The last time that a field of a hash may expire at, in milliseconds since 1970.
    pub(crate) fn last_field_expiry_ms(self) -> i64 {
        if self.is_valkey() { i64::MAX } else { (1 << 46) - 1 }
    }

    /// Whose form payloads have of hashes whose fields expire. A server without such fields refuses it; keyfold takes it there.
    pub fn field_expiry_form(self) -> FieldExpiryForm {
        if self.is_valkey() { FieldExpiryForm::Valkey } else { FieldExpiryForm::Redis }
    }

    /// Whether what both vendors have goes by Valkey's form of it.
    pub(crate) fn is_valkey(self) -> bool {
        self.server.is_valkey()
    }

    /// Whether BITCOUNT and BITPOS read all their arguments before they look at the key.
    pub(crate) fn reads_bit_range_first(self) -> bool {
        self.server_has(Since::BIT_RANGE_FIRST)
    }

    /// Whether BITCOUNT takes a start alone.
    pub(crate) fn counts_bits_from(self) -> bool {
        self.server_has(Since::BIT_START_ALONE)
    }

    /// Whether MULTI takes, while memory is full, commands that take none; others take none but those that end it.
    pub(crate) fn queues_reads_when_full(self) -> bool {
        self.server_has(Since::QUEUES_READS_WHEN_FULL)
    }

    /// Whether GETEX reads its number before it looks at the key.
    pub(crate) fn reads_getex_number_first(self) -> bool {
        self.server_has(Since::GETEX_NUMBER_FIRST)
    }

    /// Whether a small set of whatever members is a listpack.
    pub(crate) fn has_listpack_sets(self) -> bool {
        self.server_has(Since::LISTPACK_SETS)
    }

    /// Whether a cursor must have digits and no minus sign, with nothing before them.
    pub(crate) fn reads_cursors_strictly(self) -> bool {
        self.server_has(Since::STRICT_CURSORS)
    }

    /// What is told of a key that a command gives a time in the past.
    pub(crate) fn event_of_past_expiry(self) -> Event {
        if self.server_has(Since::PAST_EXPIRES) { Event::Expired } else { Event::Del }
    }
}

impl Default for Dialect<'static> {
    /// A Redis 7.0's, with what later servers have.
    fn default() -> Self {
        Dialect::new(&UNKNOWN, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, version: &str) -> ServerInfo {
        ServerInfo { name: name.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn what_a_server_lacks_is_known_where_the_newest_commands_are() {
        for (name, version, has_ifeq, has_delifeq) in [
            ("redis", "7.0.15", false, false),
            ("redis", "8.4.0", true, false),
            ("redis", "10.0.0", true, false),
            ("valkey", "8.0.1", false, false),
            ("valkey", "8.1.1", true, false),
            ("valkey", "9.0.0", true, true),
        ] {
            let server = server(name, version);
            let (own, newest) = (Dialect::new(&server, false), Dialect::new(&server, true));
            assert_eq!(own.knows(Since::SET_IFEQ), has_ifeq, "{name} {version}");
            assert_eq!(newest.server_has(Since::DELIFEQ), has_delifeq, "{name} {version}");
            assert!(newest.knows(Since::DELIFEQ));
        }
    }

    #[test]
    fn how_a_command_is_read_is_the_servers_whatever_is_known_besides() {
        let [redis, valkey] = [server("redis", "7.0.15"), server("valkey", "9.1.2")];
        assert!(!Dialect::new(&redis, true).reads_bit_range_first());
        assert!(!Dialect::default().counts_bits_from());
        assert!(Dialect::new(&valkey, false).counts_bits_from() && Dialect::new(&valkey, false).is_valkey());
    }
}
