//! The way to the primary: Sentinels are asked, and then the server that they name.
//!
//! Where a primary is known already, they are asked in turn, who named it first, and the first who isn't behind is
//! believed. Where none is, all are asked, and who knows of the latest failover is believed, of several the most. Behind
//! is who knows of fewer failovers (`config-epoch`) than the one who was believed last; it is heard where nobody else
//! answers. Whoever is named has to say itself that it is the primary; if not, the next is heard.
//!
//! Whoever is believed says too which other Sentinels there are. These are asked like those that were named at first.
//!
//! Several may be asked at a time: who is slow to answer needn't hold up the others.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::answer::{Answer, config_epoch, names, others};
use super::{NoPrimary, Role, Sentinels, Trouble};
use crate::cluster::{AddressMap, Endpoint};
use crate::resp::write_command;

/// A server that is the primary, as far as was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Where it is.
    pub endpoint: Endpoint,
    /// How many failovers the Sentinel knows of that named it.
    pub epoch: u64,
    /// Which Sentinel that was.
    pub named_by: Endpoint,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// Ask this Sentinel on a new connection ([`Search::ask`]), and hand in what it says ([`Search::handle_answers`]) or
    /// that it says nothing ([`Search::handle_silence`]). Others may be asked meanwhile.
    Ask(Endpoint),
    /// All have been asked, and some are yet to answer.
    Wait,
    /// Ask this server for its role, on a connection on which it lets clients in ([`Search::handle_role`],
    /// [`Search::handle_failure`]).
    Check(Endpoint),
    /// It is over.
    Over(Result<Primary, NoPrimary>),
}

/// What stands for the replies of one that has sent too few.
static NO_REPLIES: [Vec<u8>; 3] = [const { Vec::new() }; 3];

/// A search for the primary.
#[derive(Clone, Debug)]
pub struct Search {
    sentinels: Arc<Sentinels>,
    addresses: Arc<AddressMap>,
    /// What is to be asked, and of whom; whose turn it is comes first.
    left: VecDeque<Asking>,
    /// What was asked and isn't answered yet.
    asked: Vec<Asking>,
    /// Who was named and is yet to be asked itself.
    named: Vec<Primary>,
    /// The server whose turn it is.
    checked: Option<Primary>,
    /// From this epoch on a Sentinel is believed before the others are asked.
    believed_from: Option<u64>,
    /// The server that needn't be asked for its role again.
    trusted: Option<Endpoint>,
    /// Servers that were asked, and what stands against them.
    unfit: Vec<(Endpoint, Trouble)>,
    troubles: Vec<(Endpoint, Trouble)>,
    /// Which others Sentinels have told of, and who.
    told: Vec<(Endpoint, Vec<Endpoint>)>,
    found: Option<Primary>,
}

/// A question to a Sentinel.
#[derive(Clone, Debug)]
struct Asking {
    sentinel: Endpoint,
    /// It has said that it doesn't know the name: what does it know?
    is_for_names: bool,
}

impl Search {
    /// A search that begins with the Sentinel that named `known`. `others` are Sentinels that an earlier one came to know
    /// ([`Self::others`]). Servers and Sentinels that are told of are sought where `addresses` says.
    pub fn new(
        sentinels: Arc<Sentinels>,
        others: &[Endpoint],
        addresses: Arc<AddressMap>,
        known: Option<&Primary>,
    ) -> Self {
        let all = sentinels.endpoints.iter().chain(others);
        let left = all.map(|sentinel| Asking { sentinel: sentinel.clone(), is_for_names: false }).collect();
        let search = Self {
            sentinels,
            addresses,
            left,
            asked: Vec::new(),
            named: Vec::new(),
            checked: None,
            believed_from: known.map(|known| known.epoch),
            trusted: None,
            unfit: Vec::new(),
            troubles: Vec::new(),
            told: Vec::new(),
            found: None,
        };
        match known {
            Some(known) => search.beginning_with(&known.named_by),
            None => search,
        }
    }

    /// Begins with this Sentinel: it may know something new.
    #[must_use]
    pub fn beginning_with(mut self, sentinel: &Endpoint) -> Self {
        if let Some(at) = self.left.iter().position(|left| left.sentinel == *sentinel) {
            self.left.rotate_left(at);
        }
        self
    }

    /// Doesn't ask this server again for its role, where it is named.
    #[must_use]
    pub fn trusting(mut self, server: Endpoint) -> Self {
        self.trusted = Some(server);
        self
    }

    /// The Sentinels beside those that were named at first, by the word of the one that was believed, in the order of
    /// their addresses; none where the search found nothing, or that one doesn't tell.
    pub fn others(&self) -> Option<Vec<Endpoint>> {
        let believed = &self.found.as_ref()?.named_by;
        let (_, told) = self.told.iter().find(|(sentinel, _)| sentinel == believed)?;
        let all = told.iter().chain([believed]).filter(|one| !self.sentinels.endpoints.contains(one));
        Some(all.cloned().collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// What is to be done next.
    pub fn course(&self) -> Course {
        if let Some(found) = &self.found {
            return Course::Over(Ok(found.clone()));
        }
        if let Some(checked) = &self.checked {
            return Course::Check(checked.endpoint.clone());
        }
        match self.left.front() {
            Some(asking) => Course::Ask(asking.sentinel.clone()),
            None if !self.asked.is_empty() => Course::Wait,
            None => {
                let (name, troubles) = (self.sentinels.name.clone(), self.troubles.clone());
                Course::Over(Err(NoPrimary { name, troubles }))
            }
        }
    }

    /// Writes the questions for the Sentinel whose turn it is; how many replies they have. The turn is the next one's
    /// from then on.
    pub fn ask(&mut self, wire: &mut Vec<u8>) -> usize {
        let Some(asking) = self.left.pop_front() else { return 0 };
        let replies = self.sentinels.authenticate(wire);
        let is_for_names = asking.is_for_names;
        self.asked.push(asking);
        if is_for_names {
            write_command(wire, &[b"SENTINEL", b"MASTERS"]);
            return replies + 1;
        }
        let name = self.sentinels.name.as_bytes();
        write_command(wire, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name]);
        write_command(wire, &[b"SENTINEL", b"MASTER", name]);
        write_command(wire, &[b"SENTINEL", b"SENTINELS", name]);
        replies + 3
    }

    /// Takes the replies of a Sentinel that was asked.
    pub fn handle_answers(&mut self, sentinel: &Endpoint, replies: &[Vec<u8>]) {
        let Some(Asking { sentinel, is_for_names }) = self.take_asked(sentinel) else { return };
        if is_for_names {
            let known = replies.last().and_then(|last| names(last));
            return self.pass(sentinel, Trouble::Unknown(known));
        }
        let (login, [address, master, sentinels]) = replies.split_last_chunk().unwrap_or((&[], &NO_REPLIES));
        // What it says to AUTH is the reason for whatever comes after it.
        if let Some(error) = login.iter().find_map(|reply| refusal(reply)) {
            return self.pass(sentinel, Trouble::Refused(error));
        }
        match Answer::read(address) {
            Answer::Unknown => self.left.push_front(Asking { sentinel, is_for_names: true }),
            Answer::Refused(error) => self.pass(sentinel, Trouble::Refused(error)),
            Answer::Named(endpoint) => {
                let endpoint = self.addresses.find(endpoint);
                if let Some(others) = others(sentinels) {
                    let others = others.into_iter().map(|other| self.addresses.find(other)).collect();
                    self.told.push((sentinel.clone(), others));
                }
                self.named.push(Primary { endpoint, epoch: config_epoch(master), named_by: sentinel });
                self.choose();
            }
        }
    }

    /// A Sentinel that was asked doesn't answer, for this reason.
    pub fn handle_silence(&mut self, sentinel: &Endpoint, why: &str) {
        let Some(Asking { sentinel, is_for_names }) = self.take_asked(sentinel) else { return };
        let trouble = if is_for_names { Trouble::Unknown(None) } else { Trouble::Silent(why.to_owned()) };
        self.pass(sentinel, trouble);
    }

    /// Takes the reply of the server whose turn it is to ROLE.
    pub fn handle_role(&mut self, reply: &[u8]) {
        let Some(checked) = &self.checked else { return };
        let server = checked.endpoint.clone();
        match Role::read(reply) {
            Ok(Role::Primary) => self.found = self.checked.take(),
            // It runs a script, and is none the less who it is.
            Err(error) if error.starts_with("BUSY") => self.found = self.checked.take(),
            Ok(Role::Replica(of)) => self.deny(Trouble::Replica(server, of)),
            Ok(Role::Sentinel) => self.deny(Trouble::Unfit(server, "it is a Sentinel itself".to_owned())),
            Err(error) => self.deny(Trouble::Unfit(server, error)),
        }
    }

    /// The server whose turn it is can't be asked, for this reason.
    pub fn handle_failure(&mut self, why: &str) {
        if let Some(checked) = &self.checked {
            self.deny(Trouble::Unfit(checked.endpoint.clone(), why.to_owned()));
        }
    }

    fn take_asked(&mut self, sentinel: &Endpoint) -> Option<Asking> {
        let at = self.asked.iter().position(|asking| asking.sentinel == *sentinel)?;
        Some(self.asked.remove(at))
    }

    /// A Sentinel says nothing of use.
    fn pass(&mut self, sentinel: Endpoint, trouble: Trouble) {
        self.troubles.push((sentinel, trouble));
        self.choose();
    }

    /// The server whose turn it is is not the primary.
    fn deny(&mut self, trouble: Trouble) {
        if let Some(checked) = self.checked.take() {
            self.unfit.push((checked.endpoint.clone(), trouble.clone()));
            self.troubles.push((checked.named_by, trouble));
        }
        self.choose();
    }

    /// Picks who is asked for its role next, where one has been named that is to be believed now.
    fn choose(&mut self) {
        if self.checked.is_some() || self.found.is_some() {
            return;
        }
        while let Some(at) = self.best() {
            let named = self.named.remove(at);
            if self.trusted.as_ref() == Some(&named.endpoint) {
                self.found = Some(named);
                return;
            }
            match self.unfit.iter().find(|(server, _)| *server == named.endpoint) {
                Some((_, trouble)) => {
                    self.troubles.push((named.named_by, trouble.clone()));
                }
                None => {
                    self.checked = Some(named);
                    return;
                }
            }
        }
    }

    fn best(&self) -> Option<usize> {
        let all = self.named.iter().enumerate();
        if !(self.left.is_empty() && self.asked.is_empty()) {
            return all
                .into_iter()
                .find(|(_, one)| self.believed_from.is_some_and(|from| one.epoch >= from))
                .map(|(at, _)| at);
        }
        let votes = |named: &Primary| self.named.iter().filter(|one| one.endpoint == named.endpoint).count();
        all.rev().max_by_key(|(_, one)| (one.epoch, votes(one))).map(|(at, _)| at)
    }
}

impl Sentinels {
    /// Writes what makes a connection one that may ask; how many replies that has.
    pub(super) fn authenticate(&self, wire: &mut Vec<u8>) -> usize {
        let Some(password) = &self.password else { return 0 };
        match &self.user {
            Some(user) => write_command(wire, &[b"AUTH", user.as_bytes(), password.as_bytes()]),
            None => write_command(wire, &[b"AUTH", password.as_bytes()]),
        }
        1
    }
}

fn refusal(reply: &[u8]) -> Option<String> {
    let error = reply.strip_prefix(b"-")?;
    Some(String::from_utf8_lossy(error).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &[u8] = b"*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n";
    const REPLICA: &[u8] = b"*5\r\n$5\r\nslave\r\n$1\r\np\r\n:7\r\n$9\r\nconnected\r\n:1\r\n";

    fn at(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    fn sentinels(password: Option<&str>) -> Arc<Sentinels> {
        let endpoints = ["a:1", "b:2", "c:3"].map(at).to_vec();
        let password = password.map(str::to_owned);
        Arc::new(Sentinels { endpoints, name: "main".to_owned(), user: None, password })
    }

    fn search(known: Option<&Primary>) -> Search {
        Search::new(sentinels(None), &[], Arc::default(), known)
    }

    fn known(server: &str, epoch: u64, named_by: &str) -> Option<Primary> {
        Some(Primary { endpoint: at(server), epoch, named_by: at(named_by) })
    }

    /// Asks the Sentinel whose turn it is, which answers so.
    fn answer(search: &mut Search, replies: &[Vec<u8>]) {
        let Course::Ask(sentinel) = search.course() else { panic!("{:?}", search.course()) };
        search.ask(&mut Vec::new());
        search.handle_answers(&sentinel, replies);
    }

    /// The same of one that doesn't.
    fn silence(search: &mut Search, why: &str) {
        let Course::Ask(sentinel) = search.course() else { panic!("{:?}", search.course()) };
        search.ask(&mut Vec::new());
        search.handle_silence(&sentinel, why);
    }

    /// A Sentinel's replies that name this server.
    fn naming(server: &str, epoch: u64) -> Vec<Vec<u8>> {
        let Endpoint { host, port } = at(server);
        let (port, epoch) = (port.to_string(), epoch.to_string());
        let address = format!("*2\r\n${}\r\n{host}\r\n${}\r\n{port}\r\n", host.len(), port.len());
        let master = format!("*2\r\n$12\r\nconfig-epoch\r\n${}\r\n{epoch}\r\n", epoch.len());
        vec![address.into_bytes(), master.into_bytes(), b"*0\r\n".to_vec()]
    }

    fn unknown() -> Vec<Vec<u8>> {
        let error = b"-ERR No such master with that name\r\n";
        vec![b"*-1\r\n".to_vec(), error.to_vec(), error.to_vec()]
    }

    fn found(search: &Search) -> Endpoint {
        match search.course() {
            Course::Over(Ok(primary)) => primary.endpoint,
            course => panic!("{course:?}"),
        }
    }

    fn failed(search: &Search) -> Vec<(Endpoint, Trouble)> {
        match search.course() {
            Course::Over(Err(error)) => error.troubles,
            course => panic!("{course:?}"),
        }
    }

    #[test]
    fn the_first_who_is_not_behind_is_believed() {
        let mut search = search(known("p:7", 3, "b:2").as_ref());
        assert_eq!(search.course(), Course::Ask(at("b:2")), "who named it last is asked first");
        answer(&mut search, &naming("old:7", 2));
        assert_eq!(search.course(), Course::Ask(at("c:3")));
        answer(&mut search, &naming("new:7", 4));
        assert_eq!(search.course(), Course::Check(at("new:7")));
        search.handle_role(PRIMARY);
        assert_eq!(search.course(), Course::Over(Ok(known("new:7", 4, "c:3").unwrap())));
    }

    #[test]
    fn who_is_behind_is_heard_where_nobody_else_answers() {
        let mut search = search(known("p:7", 3, "a:1").as_ref()).beginning_with(&at("c:3"));
        assert_eq!(search.course(), Course::Ask(at("c:3")));
        answer(&mut search, &naming("old:7", 2));
        silence(&mut search, "connection refused");
        answer(&mut search, &unknown());
        answer(&mut search, &[b"*0\r\n".to_vec()]);
        assert_eq!(search.course(), Course::Check(at("old:7")));
        search.handle_role(b"-BUSY a script\r\n");
        assert_eq!(found(&search), at("old:7"));
    }

    #[test]
    fn at_first_all_are_asked_and_the_latest_is_believed() {
        let mut first = search(None);
        answer(&mut first, &naming("old:7", 1));
        answer(&mut first, &naming("new:7", 2));
        assert_eq!(first.course(), Course::Ask(at("c:3")));
        answer(&mut first, &naming("old:7", 1));
        assert_eq!(first.course(), Course::Check(at("new:7")));
        first.handle_role(REPLICA);
        assert_eq!(first.course(), Course::Check(at("old:7")));

        let mut tied = search(None);
        answer(&mut tied, &naming("one:7", 1));
        answer(&mut tied, &naming("two:7", 1));
        answer(&mut tied, &naming("two:7", 1));
        assert_eq!(tied.course(), Course::Check(at("two:7")), "of those that know as much the most are believed");
    }

    #[test]
    fn a_server_is_asked_once_and_all_troubles_are_told() {
        let mut search = search(None);
        answer(&mut search, &naming("r:7", 1));
        silence(&mut search, "connection refused");
        answer(&mut search, &naming("r:7", 1));
        assert_eq!(search.course(), Course::Check(at("r:7")));
        search.handle_role(REPLICA);
        let replica = || Trouble::Replica(at("r:7"), Some(at("p:7")));
        let silent = Trouble::Silent("connection refused".to_owned());
        assert_eq!(failed(&search), [(at("b:2"), silent), (at("a:1"), replica()), (at("c:3"), replica())]);
        let error = NoPrimary { name: "main".to_owned(), troubles: failed(&search) };
        assert!(error.denies(&at("r:7")) && !error.denies(&at("p:7")));
    }

    #[test]
    fn a_sentinel_that_does_not_know_the_name_is_asked_what_it_knows() {
        let mut search = search(None);
        for (names, known) in [
            (Some(&b"*1\r\n*2\r\n$4\r\nname\r\n$5\r\ncache\r\n"[..]), Some(vec!["cache".to_owned()])),
            (Some(b"-NOPERM no\r\n"), None),
            (None, None),
        ] {
            let Course::Ask(asked) = search.course() else { panic!("over") };
            answer(&mut search, &unknown());
            assert_eq!(search.course(), Course::Ask(asked.clone()));
            let mut wire = Vec::new();
            assert_eq!(search.ask(&mut wire), 1);
            assert_eq!(wire, b"*2\r\n$8\r\nSENTINEL\r\n$7\r\nMASTERS\r\n");
            match names {
                Some(names) => search.handle_answers(&asked, &[names.to_vec()]),
                None => search.handle_silence(&asked, "it closed the connection"),
            }
            assert_eq!(search.troubles.last(), Some(&(asked, Trouble::Unknown(known))));
        }
        assert_eq!(failed(&search).len(), 3);
    }

    #[test]
    fn a_wrong_password_is_told_before_what_follows_from_it() {
        let mut search = Search::new(sentinels(Some("watch")), &[], Arc::default(), None);
        let mut wire = Vec::new();
        assert_eq!(search.ask(&mut wire), 4);
        assert!(wire.starts_with(b"*2\r\n$4\r\nAUTH\r\n$5\r\nwatch\r\n"));
        let noauth = b"-NOAUTH Authentication required.\r\n".to_vec();
        search
            .handle_answers(&at("a:1"), &[b"-WRONGPASS invalid\r\n".to_vec(), noauth.clone(), noauth.clone(), noauth]);
        assert_eq!(search.troubles, [(at("a:1"), Trouble::Refused("WRONGPASS invalid".to_owned()))]);
    }

    #[test]
    fn a_trusted_server_is_not_asked_again() {
        let mut search = search(known("p:7", 3, "a:1").as_ref()).trusting(at("p:7"));
        answer(&mut search, &naming("p:7", 3));
        assert_eq!(found(&search), at("p:7"));
    }

    #[test]
    fn servers_are_sought_where_they_can_be_reached() {
        let mut addresses = AddressMap::default();
        addresses.add("p:7=gateway:8").unwrap();
        let known = known("gateway:8", 0, "a:1");
        let mut search = Search::new(sentinels(None), &[], Arc::new(addresses), known.as_ref());
        answer(&mut search, &naming("p:7", 0));
        assert_eq!(search.course(), Course::Check(at("gateway:8")));
    }

    #[test]
    fn other_sentinels_are_asked_like_those_that_were_named() {
        let telling = |others: &[u8]| {
            let mut replies = naming("p:7", 3);
            replies[2] = [b"*2\r\n", others, b"*4\r\n$2\r\nip\r\n$1\r\nb\r\n$4\r\nport\r\n$1\r\n2\r\n"].concat();
            replies
        };
        let inside = telling(b"*4\r\n$2\r\nip\r\n$1\r\nd\r\n$4\r\nport\r\n$1\r\n4\r\n");
        let mut addresses = AddressMap::default();
        addresses.add("d=gateway").unwrap();
        let addresses = Arc::new(addresses);
        let known = known("p:7", 3, "c:3");
        let mut first = Search::new(sentinels(None), &[], Arc::clone(&addresses), known.as_ref());
        answer(&mut first, &inside);
        assert_eq!(first.others(), None, "whoever named it has not said yet that it is the primary");
        first.handle_role(PRIMARY);
        let others = first.others().unwrap();
        assert_eq!(others, [at("gateway:4")], "and not b:2, which is known");

        let mut second = Search::new(sentinels(None), &others, addresses, known.as_ref());
        silence(&mut second, "connection refused");
        assert_eq!(second.course(), Course::Ask(at("gateway:4")), "they are gone through in a circle");
        answer(&mut second, &telling(b"*0\r\n"));
        second.handle_role(PRIMARY);
        assert_eq!(second.others().unwrap(), others, "it doesn't name itself, and is there");
        let Course::Over(Ok(primary)) = second.course() else { panic!("{:?}", second.course()) };
        assert_eq!(primary.named_by, at("gateway:4"));
    }

    #[test]
    fn a_sentinel_that_does_not_tell_of_others_changes_nothing() {
        let mut search = search(known("p:7", 3, "a:1").as_ref());
        let mut replies = naming("p:7", 3);
        replies[2] = b"-NOPERM no\r\n".to_vec();
        answer(&mut search, &replies);
        search.handle_role(PRIMARY);
        assert_eq!((found(&search), search.others()), (at("p:7"), None));
    }

    #[test]
    fn who_is_slow_holds_nobody_up() {
        let mut search = search(known("p:7", 3, "a:1").as_ref());
        search.ask(&mut Vec::new());
        assert_eq!(search.course(), Course::Ask(at("b:2")));
        search.ask(&mut Vec::new());
        search.handle_answers(&at("b:2"), &naming("new:7", 4));
        assert_eq!(search.course(), Course::Check(at("new:7")));
        // What comes meanwhile waits for its turn, and what nobody asked for is nothing.
        search.handle_answers(&at("a:1"), &naming("old:7", 3));
        search.handle_answers(&at("x:9"), &naming("x:7", 9));
        assert_eq!(search.course(), Course::Check(at("new:7")));
        search.handle_role(REPLICA);
        assert_eq!(search.course(), Course::Check(at("old:7")));
        search.handle_role(PRIMARY);
        assert_eq!(found(&search), at("old:7"));
    }

    #[test]
    fn at_first_all_are_waited_for() {
        let mut search = search(None);
        for _ in 0..3 {
            search.ask(&mut Vec::new());
        }
        search.handle_answers(&at("c:3"), &naming("old:7", 1));
        search.handle_answers(&at("b:2"), &naming("new:7", 2));
        assert_eq!(search.course(), Course::Wait);
        search.handle_silence(&at("a:1"), "timed out");
        assert_eq!(search.course(), Course::Check(at("new:7")));
    }

    #[test]
    fn answers_of_any_length_are_survived() {
        for replies in [vec![], vec![vec![]], vec![b"+OK\r\n".to_vec(); 5]] {
            let mut search = search(None);
            answer(&mut search, &replies);
            assert_eq!(search.course(), Course::Ask(at("b:2")));
        }
    }
}
