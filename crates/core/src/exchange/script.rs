//! The one script: *if these reads still answer as they did, run these writes*; and the same for many groups
//! of reads and writes at once, for a mover.
//!
//! Everything that reads before it writes is worked out in the core and written by this script, which knows
//! nothing of folding. It is sent by its hash; a server that has forgotten it (a restart, SCRIPT FLUSH)
//! answers NOSCRIPT and gets its text.

use std::collections::BTreeSet;

use crate::exchange::batch::at_once;
use crate::notify::{Event, Notices};
use crate::resp::{Protocol, write_command};
use crate::slot::Slot;

/// A script that servers run.
#[derive(Debug)]
pub(crate) struct Script {
    /// Its text.
    pub(crate) source: &'static str,
    /// SHA-1 of the text in hex, as EVALSHA names it; tests keep the two together.
    pub(crate) sha: &'static [u8],
}

impl Script {
    /// Appends the command that makes the server know it; it has one reply.
    pub(crate) fn send_load(&self, wire: &mut Vec<u8>) {
        write_command(wire, &[b"SCRIPT", b"LOAD", self.source.as_bytes()]);
    }

    #[cfg(test)]
    pub(crate) fn assert_sha(&self) {
        use sha1::Digest;
        let sha = sha1::Sha1::digest(self.source).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(sha.as_bytes(), self.sha, "{}", self.source);
    }
}

/// A script of which several calls on one key may be joined to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedScript {
    /// That on fields of a bucket.
    Fields,
    /// That on members of a collection in parts.
    Parts,
}

/// A call under way to which others on the same key may be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedCall {
    /// On fields of a bucket.
    Fields,
    /// On members in parts, with hints of those of this nonce.
    Parts {
        /// The nonce.
        nonce: u64,
    },
}

const COMPARE_AND_SET: Script =
    Script { source: include_str!("compare_and_set.lua"), sha: b"728250a09f15ccc016754b0a96b2734cb23d8c94" };

/// The same for many groups of checks and writes, each by itself.
const EACH: Script =
    Script { source: include_str!("compare_and_set_each.lua"), sha: b"7b65bfca3557ccb04806365bed35cd6ac419d2c0" };

/// What [`CompareAndSet::send_command`] is answered where a check fails.
pub(crate) const NOT_AS_READ: &[u8] = b"+?\r\n";

/// A command, with the client's protocol and the number of its words behind, that is carried out where the script's checks hold.
const CHECKED_COMMAND: &str = concat!(
    "local count, protocol = tonumber(ARGV[#ARGV]), ARGV[#ARGV - 1]\n",
    "local command = {unpack(ARGV, #ARGV - count - 1, #ARGV - 2)}\n",
    "for _ = 1, count + 2 do ARGV[#ARGV] = nil end\n",
    "local function attempt()\n",
    include_str!("compare_and_set.lua"),
    "\nend\nlocal done = attempt()\n",
    "if done ~= 1 then return done == 0 and {ok = '?'} or done end\n",
    "if protocol == '3' then redis.setresp(3) end\n",
    "return redis.pcall(unpack(command))",
);

/// What the script does to its first key where a check fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// It becomes a list, so that commands for strings that come next are refused.
    MakeList,
    /// It becomes a string, so that commands for other types that come next are refused.
    MakeString,
    /// It is removed.
    Remove,
}

/// Checks and writes for the script, as they are gathered.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompareAndSet {
    keys: Vec<Vec<u8>>,
    checks: usize,
    check_args: Vec<Vec<u8>>,
    writes: Vec<Vec<Vec<u8>>>,
    /// What is published with the writes: channels and messages.
    events: Vec<[Vec<u8>; 2]>,
}

impl CompareAndSet {
    /// The read `command` must answer `expected`: none for absent, else the string, or an integer in decimal.
    pub(crate) fn check(&mut self, command: &[&[u8]], expected: Option<&[u8]>) {
        self.name_key(command[1]);
        self.checks += 1;
        self.check_args.push(command.len().to_string().into_bytes());
        self.check_args.extend(command.iter().map(|arg| arg.to_vec()));
        self.check_args.push(expected.map_or_else(|| b"-".to_vec(), |bytes| [b"+", bytes].concat()));
    }

    /// The server's clock must not be past this: what was read as alive expires then.
    pub(crate) fn check_time(&mut self, until_ms: i64) {
        self.checks += 1;
        let until = format!("+{until_ms}");
        self.check_args.extend(["1", "TIME", &until].map(|arg| arg.as_bytes().to_vec()));
    }

    /// The server's clock must be past this: what was taken for expired is alive until then, whatever our own idea of
    /// the time.
    pub(crate) fn check_time_past(&mut self, since_ms: i64) {
        self.checks += 1;
        let since = format!(">{since_ms}");
        self.check_args.extend(["1", "TIME", &since].map(|arg| arg.as_bytes().to_vec()));
    }

    /// The key must be there with an expiry.
    pub(crate) fn check_expires(&mut self, key: &[u8]) {
        self.name_key(key);
        self.checks += 1;
        self.check_args.extend([b"2", &b"PTTL"[..], key, b">-1"].map(<[u8]>::to_vec));
    }

    /// From here on checks and writes are in this database.
    pub(crate) fn check_select(&mut self, database: u32) {
        self.checks += 1;
        let database = database.to_string();
        self.check_args.extend(["2", "SELECT", &database, "+OK"].map(|arg| arg.as_bytes().to_vec()));
    }

    /// Runs `command`, whose second argument is its key, once all checks hold.
    pub(crate) fn write(&mut self, command: &[&[u8]]) {
        self.name_key(command[1]);
        self.writes.push(command.iter().map(|arg| arg.to_vec()).collect());
    }

    /// Has a server that is out of memory refuse all of it, also where the first write would take none and so have it let all
    /// others through. What no key is called is written to.
    pub(crate) fn take_memory(&mut self, unused: &[u8]) {
        let first = self.writes.first().map(|write| write[0].as_slice());
        if matches!(first, Some(b"UNLINK" | b"HDEL" | b"PEXPIRE" | b"PEXPIREAT" | b"HPEXPIREAT")) {
            self.write_first(&[b"SETRANGE", unused, b"0", b""]);
        }
    }

    /// Has a server that is out of memory carry it out all the same, which refuses nothing behind a write that takes none. False
    /// where a value of its own is written: spilled ones are long, and the ones before stay for a while.
    pub(crate) fn take_no_memory(&mut self, unused: &[u8]) -> bool {
        const SHORT: [&[u8]; 7] = [b"HSET", b"HDEL", b"SADD", b"UNLINK", b"PEXPIRE", b"PEXPIREAT", b"HPEXPIREAT"];
        let is_short = self.writes.iter().all(|write| SHORT.contains(&write[0].as_slice()));
        if is_short {
            self.write_first(&[b"UNLINK", unused]);
        }
        is_short
    }

    fn write_first(&mut self, command: &[&[u8]]) {
        self.write(command);
        self.writes.rotate_right(1);
    }

    /// Publishes that something has happened to a key, once all writes are carried out.
    pub(crate) fn publish(&mut self, notices: Notices, key: &[u8], event: Event) {
        self.events.extend(notices.messages(key, event));
    }

    /// The writes alone, for where WATCH stands in for the checks.
    pub(crate) fn into_writes(self) -> Vec<Vec<Vec<u8>>> {
        let mut writes = self.writes;
        if !self.events.is_empty() {
            // A server where keyfold may not publish would refuse all of a transaction for it.
            let events = self.events.into_iter().map(|[channel, message]| vec![b"PUBLISH".to_vec(), channel, message]);
            writes.push(at_once(events));
        }
        writes
    }

    /// The commands that publish.
    fn publishes(&self) -> impl Iterator<Item = [&[u8]; 3]> {
        self.events.iter().map(|[channel, message]| [b"PUBLISH", channel.as_slice(), message])
    }

    /// How many words all of it has, about.
    pub(crate) fn words(&self) -> usize {
        let writes: usize = self.writes.iter().map(|write| write.len() + 1).sum();
        self.keys.len() + self.check_args.len() + writes
    }

    /// The key of its first check.
    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        self.keys.first().map(Vec::as_slice)
    }

    /// The slot of its keys, which in a cluster all have the same.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.first_key().map(Slot::of)
    }

    /// Whether there is nothing to write or to publish.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.events.is_empty()
    }

    /// Appends the call. It has one reply: 1 when it was carried out, 0 when a check failed.
    pub(crate) fn send(&self, wire: &mut Vec<u8>) {
        self.send_as(b"EVALSHA", COMPARE_AND_SET.sha, wire);
    }

    /// Appends the call with the script's text, for a server that answered NOSCRIPT.
    pub(crate) fn send_with_text(&self, wire: &mut Vec<u8>) {
        self.send_as(b"EVAL", COMPARE_AND_SET.source.as_bytes(), wire);
    }

    /// The call with the script's text, as a command for a MULTI, where NOSCRIPT would come too late. Where a check
    /// fails this becomes of the first key that was named.
    pub(crate) fn with_otherwise(&self, otherwise: Otherwise) -> Vec<u8> {
        let otherwise = match otherwise {
            Otherwise::MakeList => "redis.call('RPUSH', KEYS[1], '')",
            Otherwise::MakeString => "redis.call('SET', KEYS[1], '')",
            Otherwise::Remove => "redis.call('UNLINK', KEYS[1])",
        };
        let attempt = COMPARE_AND_SET.source;
        let source = format!(
            "local function attempt()\n{attempt}\nend\nlocal done = attempt()\nif done ~= 1 then {otherwise} end\nreturn done"
        );
        let mut command = Vec::new();
        self.send_as(b"EVAL", source.as_bytes(), &mut command);
        command
    }

    /// Appends the call by which the server carries out this command if all checks hold, and else answers [`NOT_AS_READ`]; it has one
    /// reply.
    pub(crate) fn send_command(&self, args: &[&[u8]], protocol: Protocol, wire: &mut Vec<u8>) {
        debug_assert!(self.is_empty(), "nothing else is written");
        let protocol: &[u8] = if protocol == Protocol::Resp3 { b"3" } else { b"2" };
        let mut words = self.call(b"EVAL", CHECKED_COMMAND.as_bytes());
        words.extend(args.iter().map(|arg| arg.to_vec()));
        words.extend([protocol.to_vec(), args.len().to_string().into_bytes()]);
        write_command(wire, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    /// The words of a call up to the last check.
    fn call(&self, command: &[u8], script: &[u8]) -> Vec<Vec<u8>> {
        let number = |number: usize| number.to_string().into_bytes();
        let mut words = vec![command.to_vec(), script.to_vec(), number(self.keys.len())];
        words.extend(self.keys.iter().cloned());
        words.push(number(self.checks));
        words.extend(self.check_args.iter().cloned());
        words
    }

    fn send_as(&self, command: &[u8], script: &[u8], wire: &mut Vec<u8>) {
        let number = |number: usize| number.to_string().into_bytes();
        let mut args = self.call(command, script);
        for write in &self.writes {
            args.push(number(write.len()));
            args.extend(write.iter().cloned());
        }
        for publish in self.publishes() {
            args.push(number(publish.len()));
            args.extend(publish.map(<[u8]>::to_vec));
        }
        write_command(wire, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    /// Appends one call for all of `groups`, each of which is carried out or left alone by itself. It has one
    /// reply: the numbers, from 1, of those that were left alone because a check failed.
    pub(crate) fn send_each(groups: &[Self], wire: &mut Vec<u8>) {
        let number = |number: usize| number.to_string().into_bytes();
        let keys = groups.iter().flat_map(|group| &group.keys).collect::<BTreeSet<_>>();
        let mut args = vec![b"EVALSHA".to_vec(), EACH.sha.to_vec(), number(keys.len())];
        args.extend(keys.into_iter().cloned());
        for group in groups {
            args.extend([number(group.checks), number(group.writes.len() + group.events.len())]);
            args.extend(group.check_args.iter().cloned());
            for write in &group.writes {
                args.push(number(write.len()));
                args.extend(write.iter().cloned());
            }
            for publish in group.publishes() {
                args.push(number(publish.len()));
                args.extend(publish.map(<[u8]>::to_vec));
            }
        }
        write_command(wire, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    /// Appends the command that makes the server know the script of [`Self::send_each`]; it has one reply.
    pub(crate) fn send_load_each(wire: &mut Vec<u8>) {
        EACH.send_load(wire);
    }

    /// Declares a key of a check or a write that isn't its second argument.
    pub(crate) fn name_key(&mut self, key: &[u8]) {
        if self.keys.last().is_none_or(|last| last != key) {
            self.keys.push(key.to_vec());
        }
    }
}

/// What one call of a script each takes of `all`: at most so many, and where it goes `by_slot` of a cluster only what lies in
/// one.
pub(crate) fn in_calls<T>(
    mut all: Vec<T>,
    most: usize,
    by_slot: bool,
    slot: impl Fn(&T) -> Option<Slot>,
) -> Vec<Vec<T>> {
    if by_slot {
        all.sort_by_key(&slot);
    }
    let mut calls: Vec<Vec<T>> = Vec::new();
    for one in all {
        let fits = |call: &&mut Vec<T>| call.len() < most && (!by_slot || slot(&call[0]) == slot(&one));
        match calls.last_mut().filter(fits) {
            Some(call) => call.push(one),
            None => calls.push(vec![one]),
        }
    }
    calls
}

/// Whether a script was told that the server has no such command: nothing was done then.
pub(crate) fn is_unknown_in_scripts(reply: &[u8]) -> bool {
    reply.starts_with(b"-") && memchr::memmem::find(reply, b"command called from script").is_some()
}

/// An error reply without what the server adds of the script it happened in; other replies as they are.
pub(crate) fn without_place(reply: &[u8]) -> Vec<u8> {
    let line = reply.trim_ascii_end();
    if !line.starts_with(b"-") {
        return reply.to_vec();
    }
    // Redis 6.2: `-ERR Error running script (call to f_…): @user_script:14: -OOM command not allowed …`
    let line = match memchr::memmem::find(line, b": -").filter(|_| line.starts_with(b"-ERR Error running script")) {
        Some(at) => &line[at + 2..],
        None => line,
    };
    // And where a script itself answers with it: `-@user_script: 14: -OOM command not allowed …`
    let line = match memchr::memmem::find(line, b": -").filter(|_| line.starts_with(b"-@user_script: ")) {
        Some(at) => &line[at + 2..],
        None => line,
    };
    // Since 7.0: `-OOM command not allowed … script: <sha>, on @user_script:14.`
    let end = memchr::memmem::find(line, b" script: ").unwrap_or(line.len());
    [&line[..end], b"\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::{Classes, Notifications};

    #[test]
    fn the_hashes_are_the_texts() {
        [COMPARE_AND_SET, EACH].iter().for_each(Script::assert_sha);
    }

    #[test]
    fn errors_lose_the_place_in_the_script() {
        let plain = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        let newer = b"-OOM command not allowed when used memory > 'maxmemory'. script: ab12, on @user_script:14.\r\n";
        let older = b"-ERR Error running script (call to f_ab12): @user_script:14: -OOM command not allowed when used memory > 'maxmemory'.\r\n";
        assert_eq!(without_place(newer), plain);
        assert_eq!(without_place(older), plain);
        let answered = b"-@user_script: 14: -OOM command not allowed when used memory > 'maxmemory'.\r\n";
        assert_eq!(without_place(answered), plain);
        assert_eq!(without_place(plain), plain);
        assert_eq!(without_place(b":0\r\n"), b":0\r\n");
    }

    #[test]
    fn a_call_names_its_keys_checks_and_writes() {
        let mut writes = CompareAndSet::default();
        writes.write(&[b"HSET", b"b", b"f", b"new"]);
        writes.check(&[b"HGET", b"b", b"f"], Some(b"old"));
        writes.check(&[b"HGET", b"c", b"f"], None);
        writes.check_time(77);
        writes.check_time_past(66);
        let mut wire = Vec::new();
        writes.send(&mut wire);
        let mut expected = Vec::new();
        let words = "2 b c 4 3 HGET b f +old 3 HGET c f - 1 TIME +77 1 TIME >66 4 HSET b f new";
        let args = [&b"EVALSHA"[..], COMPARE_AND_SET.sha]
            .into_iter()
            .chain(words.split(' ').map(str::as_bytes))
            .collect::<Vec<_>>();
        write_command(&mut expected, &args);
        assert_eq!(wire, expected);
    }

    #[test]
    fn what_a_full_server_is_to_carry_out_begins_with_what_takes_no_memory() {
        let of = |command: &[&[u8]]| {
            let mut writes = CompareAndSet::default();
            writes.write(command);
            writes
        };
        let first = |writes: CompareAndSet| writes.into_writes()[0].join(&b' ');
        let mut writes = of(&[b"HSET", b"b", b"f", b"shorter"]);
        assert!(writes.take_no_memory(b"unused"));
        assert_eq!(first(writes), b"UNLINK unused");
        let mut writes = of(&[b"SET", b"spilled", b"long"]);
        assert!(!writes.take_no_memory(b"unused"));
        assert_eq!(first(writes), b"SET spilled long");
        // And what it is to refuse with what it refuses.
        let mut writes = of(&[b"UNLINK", b"plain"]);
        writes.write(&[b"SADD", b"plain", b"a"]);
        writes.take_memory(b"unused");
        assert_eq!(first(writes), b"SETRANGE unused 0 ");
        let mut writes = of(&[b"HSET", b"b", b"f", b"v"]);
        writes.take_memory(b"unused");
        assert_eq!(first(writes), b"HSET b f v");
    }

    #[test]
    fn events_come_behind_the_writes() {
        let notifications = Notifications::default();
        notifications.follow(Classes::parse(b"KEA"));
        let notices = notifications.in_database(7).unwrap();
        let mut writes = CompareAndSet::default();
        writes.publish(notices, b"k", Event::Set);
        writes.check(&[b"HGET", b"b", b"f"], None);
        writes.write(&[b"HSET", b"b", b"f", b"new"]);
        let mut wire = Vec::new();
        writes.send(&mut wire);
        let mut expected = Vec::new();
        let words = "1 b 1 3 HGET b f - 4 HSET b f new 3 PUBLISH __keyspace@7__:k set 3 PUBLISH __keyevent@7__:set k";
        let head = [&b"EVALSHA"[..], COMPARE_AND_SET.sha];
        write_command(&mut expected, &head.into_iter().chain(words.split(' ').map(str::as_bytes)).collect::<Vec<_>>());
        assert_eq!(wire, expected);
        let all = writes.into_writes();
        assert_eq!(all.len(), 2);
        assert_eq!(
            all[1][2..],
            "0 3 PUBLISH __keyspace@7__:k set 3 PUBLISH __keyevent@7__:set k"
                .split(' ')
                .map(str::as_bytes)
                .collect::<Vec<_>>()
        );
    }
}
