//! Requests that follow one another on a key in one call to the server.
//!
//! ```text
//! INCR k     ─▶ ┐                        ┌ :5   answered
//! EXPIRE k   ─▶ ├ one call of the script ┼ +?   worked out, in more round trips
//! APPEND k   ─▶ ┘                        └ +?   kept until EXPIRE is answered, and worked out then
//! ```
//! So it is with commands on members of one set or hash in parts, by the script on these.
//!
//! A write that may take a second round trip holds back what comes behind it on the same key. Where both are sent in one call,
//! which does nothing more on a key once it hasn't done something, the second need not wait to be sent: only what its reply
//! asks for must wait until the first is answered. That keeps the order on each key, whatever comes between: an error is for
//! all of a call, and is gone by in turn too.

use super::conversation::{Conversation, Progress};
use super::held::Following;
use crate::exchange::Env;
use crate::session::{Lane, Plan};

/// Why a request has no answer whose kept reply can't be read.
const UNREADABLE: &str =
    "the server sent a reply of another kind than the command has; this command may or may not have been carried out";

impl Conversation {
    /// Whether a request that is held back for one key may be sent in one call with the one that holds it; noted in `plan`.
    pub(super) fn may_follow(
        &self,
        plan: &mut Plan,
        args: &[&[u8]],
        env: &Env<'_>,
        joins: impl FnOnce(Lane, u64) -> bool,
    ) -> bool {
        let Some(holder) = self.held.holder(plan, args) else { return false };
        let exchange = self.index(holder).and_then(|index| self.slots[index].exchange.as_ref());
        let (Some(exchange), [_, key, ..]) = (exchange, args) else { return false };
        let call = exchange
            .shared_call(key)
            .filter(|call| joins(plan.lane, holder) && self.session.may_follow(*call, plan, args, env));
        plan.follows = call.map(|call| (holder, call));
        call.is_some()
    }

    /// Keeps a reply for as long as the request before isn't answered.
    pub(super) fn keep_reply(&mut self, index: usize, reply: &[u8]) -> bool {
        let Some(Following { behind, .. }) = &self.slots[index].following else { return false };
        let waits = self.is_under_way(*behind);
        if let Some(following) = self.slots[index].following.as_mut().filter(|_| waits) {
            following.reply = Some(reply.to_vec());
            self.kept_replies += 1;
        }
        waits
    }

    fn is_under_way(&self, slot: u64) -> bool {
        self.index(slot).is_some_and(|index| !self.slots[index].is_answered())
    }

    /// Whether there are replies that were kept. Then [`Self::take_up`] is to be called whenever a reply was taken.
    pub fn has_kept_replies(&self) -> bool {
        self.kept_replies > 0
    }

    /// Goes on with a request whose reply had to wait and need not any more, on the connection that the reply came from: by
    /// which slot it is known, and how it goes on. To be called until there is none.
    pub fn take_up(&mut self, env: &mut Env<'_>, wire: &mut Vec<u8>, out: &mut Vec<u8>) -> Option<(u64, Progress)> {
        let (slot, reply) = self.next_kept()?;
        let progress = self.handle_reply(slot, &reply, env, wire, out);
        if progress == Progress::Unexpected {
            // On its connection nothing is awaited for it any more: it isn't lost with that.
            self.lose(slot, UNREADABLE, out);
        }
        Some((slot, progress))
    }

    /// Takes a reply that need not wait any more.
    pub(super) fn next_kept(&mut self) -> Option<(u64, Vec<u8>)> {
        if self.kept_replies == 0 {
            return None;
        }
        let is_next = |following: &Following| following.reply.is_some() && !self.is_under_way(following.behind);
        let index = self.slots.iter().position(|slot| slot.following.as_ref().is_some_and(is_next))?;
        let reply = self.slots[index].following.as_mut()?.reply.take()?;
        self.kept_replies -= 1;
        Some((self.first + index as u64, reply))
    }
}

#[cfg(test)]
mod tests {
    use crate::clients::Clients;
    use crate::drive::{Context, Conversation, Progress, Started};
    use crate::exchange::{PARTS_CALL, ServerInfo};
    use crate::layout::Layout;
    use crate::session::{Peer, Session};

    const NOW_MS: i64 = 1_700_000_000_000;

    /// One client whose calls are joined as long as `joins`.
    struct Client<'l> {
        context: Context<'l>,
        conversation: Conversation,
        joins: bool,
        wire: Vec<u8>,
        out: Vec<u8>,
    }

    impl Client<'_> {
        /// The slot of a request that sends one command; none where it is held back.
        fn begin(&mut self, request: &str) -> Option<u64> {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let mut nonces = || 7;
            let mut env = self.context.env(NOW_MS, &mut nonces);
            let plan = self.conversation.plan_or_follow(&args, &env, |_, _| self.joins)?;
            match self.conversation.begin(&plan, &args, None, &mut env, &mut self.wire, &mut self.out) {
                Started::Sent { slot, replies: 1 } => Some(slot),
                started => panic!("{request}: {started:?}"),
            }
        }

        fn reply(&mut self, slot: u64, reply: &[u8]) -> Progress {
            let mut nonces = || 7;
            let mut env = self.context.env(NOW_MS, &mut nonces);
            self.conversation.handle_reply(slot, reply, &mut env, &mut self.wire, &mut self.out)
        }

        fn take_up(&mut self) -> Option<(u64, Progress)> {
            let mut nonces = || 7;
            let mut env = self.context.env(NOW_MS, &mut nonces);
            self.conversation.take_up(&mut env, &mut self.wire, &mut self.out)
        }

        fn out(&mut self) -> String {
            String::from_utf8(std::mem::take(&mut self.out)).unwrap().replace("\r\n", " ")
        }
    }

    fn with_client(body: impl FnOnce(&mut Client<'_>)) {
        let layout = "[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { count = 4 }\n\
                      [[namespace]]\nkeys = 's:{id:int}'\ntype = 'set'\nbucket = { count = 4 }\n";
        let layout = Layout::parse_file(layout).unwrap();
        let server = ServerInfo { name: "redis".into(), version: "7.0.15".into() };
        let context = Context::without_data(&layout, server);
        let session = Session::new(Peer::default(), &Clients::default().into(), &context.env(NOW_MS, &mut || 7));
        let conversation = Conversation::new(session);
        body(&mut Client { context, conversation, joins: true, wire: Vec::new(), out: Vec::new() });
    }

    #[test]
    fn writes_of_one_key_are_sent_before_the_first_is_answered() {
        with_client(|client| {
            let slots =
                ["EXPIRE n:1 100", "INCR n:1", "SET n:1 x", "SETEX n:1 9 y"].map(|text| client.begin(text).unwrap());
            assert_eq!(String::from_utf8_lossy(&client.wire).matches("EVALSHA").count(), 4);
            assert_eq!(client.begin("GET n:1"), None, "which isn't in the call");
            assert_eq!(client.begin("MGET n:2 n:1"), None);
            assert!(client.begin("GET n:2").is_some());
            for (slot, reply) in slots.into_iter().zip([":1\r\n", ":6\r\n", ":1\r\n", ":1\r\n"]) {
                assert_eq!(client.begin("GET n:1"), None);
                assert_eq!(client.reply(slot, reply.as_bytes()), Progress::Kept);
                assert_eq!(client.take_up(), None);
            }
            assert_eq!(client.out(), ":1 :6 +OK +OK ");
            assert!(client.begin("GET n:1").is_some());
        });
    }

    #[test]
    fn what_was_not_done_is_done_in_order() {
        with_client(|client| {
            let [first, second, third, other] = ["EXPIRE n:1 100", "APPEND n:1 x", "INCR n:1", "EXPIRE n:2 100"]
                .map(|text| client.begin(text).unwrap());
            assert_eq!(client.reply(first, b"+?\r\n"), Progress::More(1));
            assert_eq!(client.reply(second, b"+?\r\n"), Progress::Kept);
            assert_eq!(client.reply(third, b"+?\r\n"), Progress::Kept);
            assert_eq!(client.reply(other, b":1\r\n"), Progress::Kept);
            assert!(client.conversation.has_kept_replies());
            assert_eq!(client.take_up(), None, "the first isn't written yet");
            assert_eq!(client.begin("GET n:1"), None);
            assert_eq!(client.reply(first, b"$-1\r\n"), Progress::Kept, "there is nothing to expire");
            assert_eq!(client.out(), ":0 ");
            assert_eq!(client.take_up(), Some((second, Progress::More(1))));
            assert_eq!(client.take_up(), None);
            assert_eq!(client.reply(second, b"$1\r\n7\r\n"), Progress::More(1));
            assert_eq!(client.take_up(), None);
            assert_eq!(client.reply(second, b":1\r\n"), Progress::Kept);
            assert_eq!(client.take_up(), Some((third, Progress::More(1))));
            assert_eq!(client.reply(third, b"$2\r\n7x\r\n"), Progress::Kept);
            assert_eq!(client.out(), ":2 -ERR value is not an integer or out of range :1 ");
            assert!(!client.conversation.has_kept_replies());
            assert!(client.begin("GET n:1").is_some());
        });
    }

    #[test]
    fn an_unknown_script_is_sent_with_its_text_in_order() {
        with_client(|client| {
            let [first, second] = ["EXPIRE n:1 100", "INCR n:1"].map(|text| client.begin(text).unwrap());
            let unknown = b"-NOSCRIPT No matching script.\r\n";
            assert_eq!(client.reply(first, unknown), Progress::More(1));
            assert_eq!(client.reply(second, unknown), Progress::Kept);
            assert_eq!(client.take_up(), None);
            assert_eq!(client.reply(first, b":1\r\n"), Progress::Kept);
            assert_eq!(client.take_up(), Some((second, Progress::More(1))));
            assert_eq!(client.reply(second, b":8\r\n"), Progress::Kept);
            assert_eq!(client.out(), ":1 :8 ");
        });
    }

    #[test]
    fn who_is_lost_takes_along_who_waits_for_it() {
        with_client(|client| {
            let [first, second, third] =
                ["EXPIRE n:1 100", "APPEND n:1 x", "INCR n:1"].map(|text| client.begin(text).unwrap());
            client.reply(first, b"+?\r\n");
            client.reply(second, b"+?\r\n");
            client.reply(third, b"+?\r\n");
            assert!(client.conversation.lose(first, "it is away", &mut client.out));
            assert_eq!(client.out().matches("it is away").count(), 3);
            assert_eq!((client.conversation.in_flight(), client.conversation.has_kept_replies()), (0, false));
            assert!(client.begin("GET n:1").is_some());
        });
    }

    #[test]
    fn a_kept_reply_that_cannot_be_read_leaves_nobody_waiting() {
        with_client(|client| {
            let [first, second, third] =
                ["EXPIRE n:1 100", "APPEND n:1 x", "INCR n:1"].map(|text| client.begin(text).unwrap());
            client.reply(first, b"+?\r\n");
            client.reply(second, b"$1\r\nx\r\n");
            client.reply(third, b"+?\r\n");
            client.reply(first, b"$-1\r\n");
            assert_eq!(client.take_up(), Some((second, Progress::Unexpected)));
            let out = client.out();
            assert!(out.starts_with(":0 ") && out.matches("of another kind").count() == 2, "{out}");
            assert_eq!((client.conversation.in_flight(), client.conversation.has_kept_replies()), (0, false));
        });
    }

    /// How many calls on parts it has sent since this was last asked.
    fn calls_on_parts(client: &mut Client<'_>) -> usize {
        let call = str::from_utf8(PARTS_CALL).unwrap();
        String::from_utf8(std::mem::take(&mut client.wire)).unwrap().matches(call).count()
    }

    #[test]
    fn commands_on_members_of_what_was_found_in_parts_are_sent_before_the_first_is_answered() {
        with_client(|client| {
            client.context.env(NOW_MS, &mut || 7).stats.in_parts().note(b"s:1", 7, 7);
            let slots =
                ["SISMEMBER s:1 a", "SADD s:1 b", "SREM s:1 c d"].map(|text| (text, client.begin(text).unwrap()));
            assert_eq!(calls_on_parts(client), 3);
            for waits in ["SCARD s:1", "SPOP s:1", "DEL s:1", "SMEMBERS s:1", "SUNION s:2 s:1"] {
                assert_eq!(client.begin(waits), None, "{waits}");
            }
            let many = format!("SADD s:1{}", " x".repeat(17));
            assert_eq!(client.begin(&many), None, "others would wait too long");
            let [first, second, third] = slots.map(|(_, slot)| slot);
            assert_eq!(client.reply(first, b"*1\r\n:1\r\n"), Progress::Kept);
            assert_eq!(client.reply(second, b"+?\r\n"), Progress::More(1));
            assert_eq!(client.reply(third, b"+?\r\n"), Progress::Kept);
            assert_eq!(client.take_up(), None, "the second isn't worked out yet");
            assert_eq!((client.out(), calls_on_parts(client)), (":1 ".to_owned(), 0));
        });
    }

    #[test]
    fn what_may_be_read_once_more_is_not_overtaken_by_who_knows_where_it_lies() {
        with_client(|client| {
            let reads = ["SISMEMBER s:1 a", "SISMEMBER s:1 b"].map(|text| client.begin(text).unwrap());
            client.context.env(NOW_MS, &mut || 7).stats.in_parts().note(b"s:1", 7, 7);
            assert_eq!(client.begin("SADD s:1 a"), None, "they may find it in parts, and go there only then");
            assert!(client.begin("SADD s:2 a").is_some());
            client.reply(reads[0], b"$-1\r\n");
            assert_eq!(client.begin("SISMEMBER s:1 a"), None);
            client.reply(reads[1], b"$-1\r\n");
            assert_eq!(calls_on_parts(client), 0);
            client.begin("SADD s:1 a").unwrap();
            assert_eq!(calls_on_parts(client), 1);
        });
    }

    #[test]
    fn what_would_not_be_in_the_call_waits() {
        with_client(|client| {
            client.begin("EXPIRE n:1 100").unwrap();
            for waits in ["SETBIT n:1 99999 1", "BITFIELD n:1 SET u8 0 1", "TTL n:1", "DEL n:1", "EXPIRE n:1 x"] {
                assert_eq!(client.begin(waits), None, "{waits}");
            }
            client.joins = false;
            assert_eq!(client.begin("INCR n:1"), None);
        });
        with_client(|client| {
            client.begin("BITFIELD n:1 SET u8 0 1").unwrap();
            assert_eq!(client.begin("INCR n:1"), None, "its call is of two keys");
        });
    }
}
