//! Which of a client's requests are held back by those under way.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, DefaultHasher};

use smallvec::SmallVec;

use crate::clients::{KeyHash, hash_of};
use crate::session::{Hold, Plan};

/// The keys that a request holds, by their hashes. Two keys of one hash wait for each other, and that is all.
pub(super) type HeldKeys = SmallVec<[KeyHash; 1]>;

/// The keys that one request concerns as long as it is under way.
#[derive(Debug, Default)]
pub(super) struct Holding {
    keys: HeldKeys,
    /// It lets others pass, and may read the parts of these keys in a second round trip.
    only_reads: bool,
}

/// What is held by requests under way.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The last request must be answered before another begins.
    all: bool,
    /// Each with the last request that holds it.
    keys: HashMap<KeyHash, u64, BuildHasherDefault<DefaultHasher>>,
    /// How many requests may read the parts of a key that they don't hold.
    read: HashMap<KeyHash, u32, BuildHasherDefault<DefaultHasher>>,
}

impl Held {
    /// Whether no other request may begin.
    pub(super) fn is_all(&self) -> bool {
        self.all
    }

    /// Whether a request may begin behind those under way.
    pub(super) fn lets_pass(&self, plan: &Plan, args: &[&[u8]]) -> bool {
        self.keys.is_empty()
            || hashes(plan, args).is_some_and(|keys| keys.iter().all(|key| !self.keys.contains_key(key)))
    }

    /// The last of the requests that hold the one key of this one.
    pub(super) fn holder(&self, plan: &Plan, args: &[&[u8]]) -> Option<u64> {
        match hashes(plan, args)?.as_slice() {
            [key] if !self.all => self.keys.get(key).copied(),
            _ => None,
        }
    }

    /// Whether a request under way that holds nothing may read the parts of one of the keys in a second round trip.
    pub(super) fn is_read(&self, plan: &Plan, args: &[&[u8]]) -> bool {
        !self.read.is_empty()
            && plan.may_read_parts()
            && hashes(plan, args).is_some_and(|keys| keys.iter().any(|key| self.read.contains_key(key)))
    }

    /// Notes what the request in this slot holds; it is to be released once that is answered.
    pub(super) fn hold(&mut self, hold: Hold, plan: &Plan, args: &[&[u8]], slot: u64) -> Holding {
        let keys = match hold {
            Hold::Nothing if plan.may_read_parts() => {
                let keys = hashes(plan, args).unwrap_or_default();
                keys.iter().for_each(|key| *self.read.entry(*key).or_default() += 1);
                return Holding { keys, only_reads: true };
            }
            Hold::Nothing => return Holding::default(),
            Hold::SameKeys => hashes(plan, args),
            Hold::All => None,
        };
        self.all = keys.is_none();
        let keys = keys.unwrap_or_default();
        self.keys.extend(keys.iter().map(|key| (*key, slot)));
        Holding { keys, only_reads: false }
    }

    /// The request in this slot is answered.
    pub(super) fn release(&mut self, Holding { keys, only_reads }: Holding, slot: u64) {
        for key in keys {
            if only_reads {
                if let Entry::Occupied(mut read) = self.read.entry(key) {
                    *read.get_mut() -= 1;
                    if *read.get() == 0 {
                        read.remove();
                    }
                }
            } else if self.keys.get(&key) == Some(&slot) {
                self.keys.remove(&key);
            }
        }
    }

    /// All requests are answered.
    pub(super) fn release_all(&mut self) {
        self.all = false;
    }
}

/// What a request goes out with in one call, and its reply as long as that has to wait.
#[derive(Debug)]
pub(super) struct Following {
    /// The request before it on the same key.
    pub(super) behind: u64,
    /// Its reply, which came while that one wasn't answered.
    pub(super) reply: Option<Vec<u8>>,
}

impl Following {
    pub(super) fn new(behind: u64) -> Self {
        Self { behind, reply: None }
    }
}

fn hashes(plan: &Plan, args: &[&[u8]]) -> Option<HeldKeys> {
    Some(plan.keys(args)?.iter().map(|key| hash_of(args[key.index])).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use crate::cache::Cache;
    use crate::clients::{Clients, hash_of};
    use crate::drive::{Context, Conversation, Progress, Started};
    use crate::exchange::{Env, ServerInfo};
    use crate::frame::Body;
    use crate::layout::Layout;
    use crate::session::{Peer, Session};

    const NOW_MS: i64 = 1_700_000_000_000;

    /// One client, and how many requests it has begun.
    struct Client<'l> {
        context: Context<'l>,
        conversation: Conversation,
        cache: Option<&'l Cache>,
        wire: Vec<u8>,
        out: Vec<u8>,
    }

    impl<'l> Client<'l> {
        fn new(layout: &'l Layout) -> Self {
            Self::among(&Clients::default().into(), layout)
        }

        fn among(clients: &Arc<Clients>, layout: &'l Layout) -> Self {
            let server = ServerInfo { name: "redis".into(), version: "7.0.15".into() };
            let context = Context::without_data(layout, server);
            let session = Session::new(Peer::default(), clients, &context.env(NOW_MS, &mut || 7));
            Self { context, conversation: Conversation::new(session), cache: None, wire: Vec::new(), out: Vec::new() }
        }

        /// The slot of a request, and how many replies it waits for; none where it is held back.
        fn begin(&mut self, request: &str) -> Option<(u64, u32)> {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let mut nonces = || 7;
            let mut env = self.context.env(NOW_MS, &mut nonces);
            if self.conversation.is_held() {
                return None;
            }
            let plan = self.conversation.plan(&args, &env)?;
            match self.conversation.begin(&plan, &args, None, &mut env, &mut self.wire, &mut self.out) {
                Started::Sent { slot, replies } => Some((slot, replies)),
                started => panic!("{request}: {started:?}"),
            }
        }

        /// Whether it may write the key now, as far as others that do are concerned.
        fn takes_turn(&mut self, request: &str) -> bool {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let mut nonces = || 7;
            let plan = self.conversation.plan(&args, &self.context.env(NOW_MS, &mut nonces)).unwrap();
            self.conversation.take_turn(&plan, &args, Waker::noop())
        }

        fn reply(&mut self, slot: u64, reply: &[u8]) -> Progress {
            let mut nonces = || 7;
            let mut env = Env { cache: self.cache, ..self.context.env(NOW_MS, &mut nonces) };
            self.conversation.handle_reply(slot, reply, &mut env, &mut self.wire, &mut self.out)
        }
    }

    fn layout() -> Layout {
        Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { count = 4 }\n").unwrap()
    }

    #[test]
    fn only_what_concerns_the_same_keys_waits_for_what_is_worked_out() {
        let layout = layout();
        let mut client = Client::new(&layout);
        let (first, replies) = client.begin("SETBIT n:1 9999 1").unwrap();
        assert_eq!(replies, 1);
        for waits in ["GET n:1", "MGET n:2 n:1", "RENAME n:3 n:1", "SETRANGE n:1 0 x"] {
            assert_eq!(client.begin(waits), None, "{waits}");
        }
        for waits in ["PUBLISH news it-is-written", "EVAL return 0", "KEYS *", "SELECT 1"] {
            assert_eq!(client.begin(waits), None, "{waits}: it may tell others of what was written");
        }
        for passes in ["GET n:2", "LPUSH list n:1", "GET plain", "SETRANGE n:3 0 x"] {
            assert!(client.begin(passes).is_some(), "{passes}");
        }
        assert_eq!(client.begin("APPEND n:3 x"), None);
        assert_eq!(client.reply(first, b"$4\r\nxyzz\r\n"), Progress::More(1));
        assert_eq!(client.begin("GET n:1"), None, "it isn't written yet");
        assert_eq!(client.reply(first, b":1\r\n"), Progress::Kept);
        assert_eq!(client.out, b":0\r\n");
        assert!(client.begin("GET n:1").is_some());
        assert_eq!(client.begin("PUBLISH news x"), None, "another is still worked out");
    }

    #[test]
    fn who_waits_for_something_else_holds_up_nobody() {
        let (layout, clients) = (layout(), Arc::default());
        let [mut first, mut second] = [(); 2].map(|()| Client::among(&clients, &layout));
        let write = "SETRANGE n:1 9999 x";
        let turn = first.conversation.session().turns().join(hash_of(b"n:1"));
        assert!(!first.takes_turn(write) && !second.takes_turn(write));
        drop(turn);
        assert!(!second.takes_turn(write), "it is the first one's turn");
        first.conversation.leave_line();
        assert!(second.takes_turn(write));
        assert!(!first.takes_turn(write));
        second.conversation.leave_line();
        assert!(first.takes_turn(write));
        assert!(!second.takes_turn(write));
        first.conversation.give_back_turn();
        assert!(second.takes_turn(write));
    }

    /// Each is offered the turn in its order and takes it, though a key that has no line is asked for before.
    #[test]
    fn whoever_waits_for_its_second_key_keeps_its_place() {
        let (layout, clients) = (layout(), Arc::default());
        let [mut first, mut second] = [(); 2].map(|()| Client::among(&clients, &layout));
        let [mut third, mut fourth] = [(); 2].map(|()| Client::among(&clients, &layout));
        let turn = first.conversation.session().turns().join(hash_of(b"n:1"));
        assert!(!first.takes_turn("RENAME n:2 n:1") && !second.takes_turn("RENAME n:3 n:1"));
        assert!(!third.takes_turn("RENAME n:4 n:1") && !fourth.takes_turn("SETRANGE n:1 9999 x"));
        drop(turn);
        for (client, write) in [(&mut first, "RENAME n:2 n:1"), (&mut second, "RENAME n:3 n:1")] {
            assert!(!third.takes_turn("RENAME n:4 n:1"), "it is another one's turn");
            assert!(client.takes_turn(write), "{write}");
            client.conversation.leave_line();
        }
        assert!(third.takes_turn("RENAME n:4 n:1"));
    }

    /// The second value is evicted between its pointer and itself, and the client has written both keys behind the read.
    #[test]
    fn what_is_evicted_while_it_is_read_is_absent_and_no_later_write_is_read_instead() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n").unwrap();
        let cache = Cache::new(1 << 20);
        let gone: [&[u8]; 2] = [b":0\r\n", b"$0\r\n\r\n"];
        let mut pointer = Vec::new();
        Body::Spill { nonce: 3, slot: None }.encode(None, &mut pointer);
        let pointer = [format!("*2\r\n$-1\r\n${}\r\n", pointer.len()).as_bytes(), &pointer, b"\r\n"].concat();
        for (is_kept, followed) in [(true, true), (true, false), (false, true)] {
            let mut client = Client::new(&layout);
            let server = ServerInfo { name: "redis".into(), version: "7.2.0".into() };
            client.context = Context::without_data(&layout, server);
            client.cache = is_kept.then_some(&cache);
            let (read, _) = client.begin("MGET n:1 n:5").unwrap();
            if followed {
                client.begin("SET n:1 later").unwrap();
            }
            assert_eq!(client.reply(read, &pointer), Progress::More(2));
            client.wire.clear();
            assert_eq!(client.reply(read, gone[0]), Progress::Kept);
            let answered = client.reply(read, gone[1]);
            match is_kept && followed {
                true => assert_eq!((answered, &client.out[..]), (Progress::Kept, &b"*2\r\n$-1\r\n$-1\r\n"[..])),
                false => assert_eq!((answered, client.out.len()), (Progress::More(1), 0), "it may have been replaced"),
            }
        }
    }

    /// Up to Redis 7.0 a full server refuses reads in a MULTI, and they are sent once more.
    #[test]
    fn what_may_be_sent_once_more_is_not_overtaken() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n").unwrap();
        for (version, waits) in [("7.0.15", true), ("7.2.0", false)] {
            for request in ["DEL n:1", "MGET n:1 n:5"] {
                let mut client = Client::new(&layout);
                let server = ServerInfo { name: "redis".into(), version: version.into() };
                client.context = Context::without_data(&layout, server);
                client.begin(request).unwrap();
                assert_eq!(client.begin("SET n:1 later").is_none(), waits, "{request}, {version}");
                assert!(client.begin("SET n:2 other").is_some(), "{request}, {version}");
            }
        }
    }

    #[test]
    fn a_key_is_free_once_its_write_is_answered_though_the_answer_waits() {
        let layout = layout();
        let mut client = Client::new(&layout);
        let (first, _) = client.begin("SETRANGE n:1 2 abc").unwrap();
        let (second, _) = client.begin("INCR n:2").unwrap();
        assert_eq!(client.begin("INCR n:2"), None);
        assert_eq!(client.reply(second, b":1\r\n"), Progress::Kept);
        assert_eq!(client.out, b"", "the first is answered first");
        let (third, _) = client.begin("INCR n:2").unwrap();
        assert!(client.conversation.lose(first, "its connection was closed", &mut client.out));
        assert!(client.begin("GET n:1").is_some(), "what is lost holds nothing");
        assert_eq!(client.reply(third, b":2\r\n"), Progress::Kept);
        assert!(client.out.ends_with(b":1\r\n:2\r\n"), "{}", client.out.escape_ascii());
    }
}
