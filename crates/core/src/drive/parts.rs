//! A request that several nodes of a cluster carry out, each a part of it.

use super::replica_read::ReplicaRead;
use crate::cluster::{Part, merge};
use crate::command::ResponsePolicy;
use crate::exchange::{Env, Exchange, Io, Step};
use crate::resp::Protocol;
use crate::slot::Slot;

/// What one node is to carry out of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRequest<'a> {
    /// A request of its own.
    pub args: Vec<&'a [u8]>,
    /// Which of the whole request's keys it has, counted from 0; none where the request has no keys.
    pub keys: Vec<usize>,
    /// Keyfold's own keys are not on the node that it goes to.
    pub is_away_from_home: bool,
    /// A slot of the node that it goes to, where it goes to each of several.
    pub slot: Option<Slot>,
}

impl<'a> PartRequest<'a> {
    /// The part of a request that is of one slot.
    pub fn of_slot(part: &Part, args: &[&'a [u8]]) -> Self {
        Self { args: part.request(args), keys: part.keys.clone(), is_away_from_home: false, slot: None }
    }

    /// All of a request, for one of several nodes, which has this slot; `is_home` where it has keyfold's own keys.
    pub fn whole(args: &[&'a [u8]], slot: Slot, is_home: bool) -> Self {
        Self { args: args.to_vec(), keys: Vec::new(), is_away_from_home: !is_home, slot: Some(slot) }
    }
}

/// The commands that begin a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentPart {
    /// Which part it is, in the order in which they were given.
    pub part: usize,
    /// What is to be sent.
    pub commands: Vec<u8>,
    /// How many replies will come.
    pub replies: u32,
}

/// The parts of a request that are under way.
#[derive(Debug)]
pub(super) struct Parts {
    parts: Vec<UnderWay>,
    response: ResponsePolicy,
    protocol: Protocol,
    /// The client wants no answer.
    is_silent: bool,
}

#[derive(Debug)]
struct UnderWay {
    /// None once it is answered.
    exchange: Option<Exchange>,
    /// A replica was asked, whose answer may not be the client's.
    replica_read: Option<Box<ReplicaRead>>,
    keys: Vec<usize>,
    answer: Vec<u8>,
}

impl Parts {
    pub(super) fn new(response: ResponsePolicy, protocol: Protocol, is_silent: bool) -> Self {
        Self { parts: Vec::new(), response, protocol, is_silent }
    }

    /// One more, with what it was answered already, where it is not under way.
    pub(super) fn push(
        &mut self,
        exchange: Option<Exchange>,
        replica_read: Option<Box<ReplicaRead>>,
        keys: Vec<usize>,
        answer: Vec<u8>,
    ) {
        self.parts.push(UnderWay { exchange, replica_read, keys, answer });
    }

    /// The request of a part that was answered by a replica which can't be believed.
    pub(super) fn take_doubtful(&mut self, part: usize) -> Option<Box<ReplicaRead>> {
        let UnderWay { exchange, replica_read, answer, .. } = self.parts.get_mut(part)?;
        let is_doubtful = |read: &mut Box<ReplicaRead>| exchange.is_none() && read.doubts(answer);
        replica_read.take_if(is_doubtful)
    }

    /// A part is under way once more, or has this answer.
    pub(super) fn begin_again(&mut self, part: usize, exchange: Option<Exchange>, answer: Vec<u8>) {
        if let Some(under_way) = self.parts.get_mut(part) {
            (under_way.exchange, under_way.answer) = (exchange, answer);
        }
    }

    pub(super) fn is_at_replica(&self, part: usize) -> bool {
        self.parts.get(part).is_some_and(|part| part.replica_read.is_some())
    }

    pub(super) fn leave_replica(&mut self, part: usize) {
        self.parts.get_mut(part).into_iter().for_each(|part| part.replica_read = None);
    }

    /// Whether what is under way is the client's own command, as it came.
    pub(super) fn are_the_servers(&self) -> bool {
        self.parts.iter().filter_map(|part| part.exchange.as_ref()).all(Exchange::is_the_servers)
    }

    pub(super) fn are_answered(&self) -> bool {
        self.parts.iter().all(|part| part.exchange.is_none())
    }

    /// Takes a reply to a part; none where it has no part any more that waits.
    pub(super) fn handle_reply(
        &mut self,
        part: usize,
        reply: &[u8],
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Option<Step> {
        let UnderWay { exchange, answer, .. } = self.parts.get_mut(part)?;
        let step = exchange.as_mut()?.handle_reply(reply, env, &mut Io { wire, answer });
        if matches!(step, Step::Done(_)) {
            *exchange = None;
        }
        Some(step)
    }

    /// Answers a part by what `answer` writes: its connection is lost. False where it was answered already.
    pub(super) fn lose(&mut self, part: usize, answer: impl FnOnce(&Exchange, &mut Vec<u8>)) -> bool {
        let Some(lost) = self.parts.get_mut(part) else { return false };
        let Some(exchange) = lost.exchange.take() else { return false };
        lost.answer.clear();
        answer(&exchange, &mut lost.answer);
        true
    }

    /// Writes what the parts' answers come to.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        if self.is_silent {
            return;
        }
        let (mut answers, mut keys) = (Vec::new(), Vec::new());
        for UnderWay { keys: own, answer, .. } in self.parts {
            answers.push(answer);
            keys.push(own);
        }
        let keys: Vec<&[usize]> = keys.iter().filter(|keys| !keys.is_empty()).map(Vec::as_slice).collect();
        merge(self.response, &answers, &keys, self.protocol, out);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::clients::Clients;
    use crate::cluster::Target;
    use crate::drive::{Context, Conversation, PartRequest, Progress, SentPart};
    use crate::exchange::{ClusterRules, Env, ServerInfo};
    use crate::layout::Layout;
    use crate::session::{Peer, Session};
    use crate::slot::Slot;

    const LAYOUT: &str = "cluster = true\n[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { count = 1 }\n";

    /// Runs `body` for a client of a cluster that has just connected.
    fn with_client(body: impl FnOnce(&mut Conversation, &mut Env<'_>)) {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let server = ServerInfo { name: "redis".into(), version: "7.0.15".into() };
        let context = Context::without_data(&layout, server).before_cluster(ClusterRules::default());
        let mut nonces = || 7;
        let mut env = context.env(1_700_000_000_000, &mut nonces);
        let mut client = Conversation::new(Session::new(Peer::default(), &Arc::new(Clients::default()), &env));
        body(&mut client, &mut env);
    }

    /// Begins a request in its parts, or at two primaries.
    fn begin(client: &mut Conversation, request: &str, env: &mut Env<'_>, out: &mut Vec<u8>) -> (u64, Vec<SentPart>) {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let plan = client.plan(&args, env).unwrap();
        let parts = match &plan.target {
            Target::Parts(parts) => parts.iter().map(|part| PartRequest::of_slot(part, &args)).collect(),
            Target::Shards => {
                vec![PartRequest::whole(&args, Slot::FIRST, true), PartRequest::whole(&args, Slot::FIRST, false)]
            }
            other => panic!("{request} is one: {other:?}"),
        };
        client.begin_parts(&plan, &args, parts, env, out)
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).trim_end().replace("\r\n", " ")
    }

    #[test]
    fn parts_are_answered_together_and_in_the_order_of_requests() {
        with_client(|client, env| {
            let (mut out, mut wire) = (Vec::new(), Vec::new());
            let (slot, sent) = begin(client, "MGET n:1 plain n:2", env, &mut out);
            assert_eq!(sent.iter().map(|sent| (sent.part, sent.replies)).collect::<Vec<_>>(), [(0, 1), (1, 1), (2, 1)]);
            assert!(text(&sent[0].commands).contains("HGET"), "{}", text(&sent[0].commands));
            assert_eq!(text(&sent[1].commands), "*2 $4 MGET $5 plain");
            let (later, gets) = begin(client, "EXISTS a b", env, &mut out);
            assert_eq!(gets.len(), 2);
            let mut reply = |client: &mut Conversation, slot, part, reply: &[u8], out: &mut Vec<u8>| {
                assert_eq!(client.handle_part_reply(slot, part, reply, env, &mut wire, out), Progress::Kept);
            };
            reply(client, later, 0, b":1\r\n", &mut out);
            reply(client, later, 1, b":1\r\n", &mut out);
            assert!(out.is_empty(), "what was asked first is answered first");
            reply(client, slot, 2, b"$1\r\nz\r\n", &mut out);
            reply(client, slot, 1, b"*1\r\n$-1\r\n", &mut out);
            reply(client, slot, 0, b"$1\r\nx\r\n", &mut out);
            assert_eq!(text(&out), "*3 $1 x $-1 $1 z :2");
            assert_eq!(client.in_flight(), 0);
        });
    }

    #[test]
    fn a_part_that_is_lost_is_the_answer() {
        with_client(|client, env| {
            let (mut out, mut wire) = (Vec::new(), Vec::new());
            let (slot, _) = begin(client, "DEL a b", env, &mut out);
            client.lose_part(slot, 1, "the node is away", &mut out);
            client.lose_part(slot, 1, "the node is away", &mut out);
            assert!(out.is_empty());
            client.handle_part_reply(slot, 0, b":1\r\n", env, &mut wire, &mut out);
            assert_eq!(text(&out), "-ERR keyfold: the node is away");
        });
    }

    #[test]
    fn a_flush_spares_keyfolds_keys_where_they_are() {
        with_client(|client, env| {
            let (_, sent) = begin(client, "FLUSHALL", env, &mut Vec::new());
            let commands: Vec<_> = sent.iter().map(|sent| text(&sent.commands)).collect();
            assert!(commands[0].contains("EVAL") && commands[0].contains("{home}:layout"), "{}", commands[0]);
            assert_eq!(commands[1], "*1 $8 FLUSHALL");
        });
    }

    #[test]
    fn who_waits_for_replicas_of_several_nodes_is_told_of_the_fewest() {
        with_client(|client, env| {
            let (mut out, mut wire) = (Vec::new(), Vec::new());
            for (request, replies, answer) in
                [("WAIT 1 0", [":2", ":1"], ":1"), ("WAITAOF 1 1 0", ["*2 :1 :0", "*2 :0 :3"], "*2 :0 :0")]
            {
                let (slot, sent) = begin(client, request, env, &mut out);
                let first = text(&sent[0].commands);
                assert!(first.contains("EVAL") && first.contains("keyfold:{06S}:wait"), "{first}");
                for (part, reply) in replies.iter().enumerate() {
                    let reply = format!("{}\r\n", reply.replace(' ', "\r\n"));
                    assert!(client.is_quiet(), "a layout may be replaced meanwhile");
                    for reply in [b":1\r\n", reply.as_bytes()] {
                        client.handle_part_reply(slot, part, reply, env, &mut wire, &mut out);
                    }
                }
                assert_eq!(text(&std::mem::take(&mut out)), answer);
            }
            assert!(wire.is_empty() && client.is_quiet());
        });
    }

    #[test]
    fn what_concerns_all_primaries_is_asked_of_each() {
        with_client(|client, env| {
            let (mut out, mut wire) = (Vec::new(), Vec::new());
            let mut ask = |request: &str, replies: [&[u8]; 2]| {
                out.clear();
                let (slot, sent) = begin(client, request, env, &mut out);
                assert_eq!(sent.len(), 2);
                for (part, reply) in replies.into_iter().enumerate() {
                    client.handle_part_reply(slot, part, reply, env, &mut wire, &mut out);
                }
                text(&out)
            };
            let sha = "356a192b7913b04c54574d18c28d46e6395428ab";
            let both = b"*2\r\n:1\r\n:1\r\n".as_slice();
            assert_eq!(ask(&format!("SCRIPT EXISTS {sha} a"), [both, both]), "*2 :0 :0", "keyfold knows neither");
            ask("SCRIPT LOAD 1", [b"$1\r\n-\r\n"; 2]);
            assert_eq!(ask(&format!("SCRIPT EXISTS {sha} a"), [both, both]), "*2 :1 :0");
            assert_eq!(ask(&format!("SCRIPT EXISTS {sha} a"), [both, b"*2\r\n:0\r\n:1\r\n"]), "*2 :0 :0");
        });
    }
}
