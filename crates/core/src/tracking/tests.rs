//! Who is told what, whatever servers say meanwhile.

use super::*;
use crate::tracking::mode::Options;

const LAYOUT: &str = "
    [[namespace]]
    keys = 'user:{id:int}'
    bucket = { span = 10 }
    [[namespace]]
    keys = 'zip:{id:int}'
";

struct Stage {
    tracking: Tracking,
    layout: Layout,
    mailboxes: BTreeMap<u64, Arc<Mailbox>>,
}

impl Stage {
    /// Servers tell, and nobody is told.
    fn new() -> Self {
        let tracking = Tracking::default();
        assert_eq!(tracking.prepare(), Readiness::Later);
        tracking.stand();
        Self { tracking, layout: Layout::parse_file(LAYOUT).unwrap(), mailboxes: BTreeMap::new() }
    }

    fn track(&mut self, id: u64, options: &str) {
        let args: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
        let mode = Options::parse(&args, |_| true).unwrap().switch_on(None).unwrap();
        let mailbox = self.mailboxes.entry(id).or_default();
        self.tracking.begin(id, mailbox, &mode).unwrap();
    }

    /// A client reads a key; `id` where it is told of what it reads.
    fn read(&self, id: Option<u64>, key: &str) -> Traced {
        let mut traced = Traced::default();
        let reader = Reader { id, is_told: id.is_some() };
        self.tracking.notes().note_read(key.as_bytes(), reader, &self.layout, &mut traced);
        traced
    }

    /// What is written of these keys, as somebody is told of it.
    fn write(&self, keys: &[&str]) -> Traced {
        let mut traced = Traced::default();
        keys.iter().for_each(|key| self.tracking.notes().note_write(key.as_bytes(), &self.layout, &mut traced));
        traced
    }

    fn place(&self, key: &str) -> Vec<u8> {
        places(key.as_bytes(), &self.layout)[0].to_vec()
    }

    /// The server says that this has changed, which a key lies in.
    fn change(&self, key: &str) {
        let place = self.place(key);
        self.tracking.invalidate([place.as_slice()], &self.layout);
    }

    /// What a client is told.
    fn told(&self, id: u64) -> Vec<String> {
        let own = self.mailboxes[&id].take().unwrap_or_default().own;
        let keys = own.keys().iter().map(|key| String::from_utf8_lossy(key).into_owned());
        own.is_all().then(|| "*".to_owned()).into_iter().chain(keys).collect()
    }
}

#[test]
fn a_bucket_tells_all_that_was_read_in_it_once() {
    let mut stage = Stage::new();
    stage.track(1, "");
    stage.track(2, "OPTIN");
    for (id, key) in [(1, "user:1"), (1, "user:2"), (2, "user:2"), (1, "user:11"), (2, "plain")] {
        assert!(stage.read(Some(id), key).again.is_empty());
    }
    stage.change("user:9");
    assert_eq!((stage.told(1), stage.told(2)), (vec!["user:1".into(), "user:2".into()], vec!["user:2".to_owned()]));
    stage.change("user:9");
    stage.change("plain");
    assert_eq!((stage.told(1), stage.told(2)), (vec![], vec!["plain".to_owned()]));
    stage.tracking.end(1);
    stage.change("user:11");
    assert_eq!((stage.told(1), stage.tracking.keys()), (vec![], 0));
}

#[test]
fn broadcasts_go_by_prefix_and_know_buckets_by_what_was_read() {
    let mut stage = Stage::new();
    stage.track(1, "BCAST PREFIX user: PREFIX zip:");
    stage.track(2, "BCAST");
    stage.read(None, "user:1");
    stage.change("user:1");
    stage.change("user:1");
    assert_eq!((stage.told(1), stage.told(2)), (vec!["user:1".to_owned()], vec!["user:1".to_owned()]));
    stage.read(None, "zip:5");
    stage.change("zip:5");
    stage.change("plain");
    assert_eq!(stage.told(1), ["zip:5"]);
    assert_eq!(stage.told(2), ["zip:5", "plain"]);
    stage.tracking.invalidate([crate::admin::LAYOUT_KEY, b"~nothing"], &stage.layout);
    assert_eq!((stage.told(1), stage.told(2)), (vec![], vec![]));
}

#[test]
fn nothing_is_remembered_by_a_word_that_is_not_there() {
    let mut stage = Stage::new();
    stage.track(1, "");
    stage.track(2, "BCAST");
    stage.read(Some(1), "user:1");
    stage.tracking.break_off();
    assert_eq!((stage.told(1), stage.told(2)), (vec!["*".to_owned()], vec!["*".to_owned()]));
    let traced = stage.read(Some(1), "user:1");
    assert_eq!((traced.again.keys().len(), traced.broadcast_again.len(), stage.tracking.keys()), (1, 1, 0));
    stage.tracking.break_off();
    assert!(stage.told(1).is_empty(), "it is lost once");
    stage.tracking.stand();
    assert_eq!(stage.told(1), ["*"]);
    assert!(stage.read(Some(1), "user:1").again.is_empty());
}

#[test]
fn another_layout_and_a_flush_forget_all() {
    let mut stage = Stage::new();
    stage.track(1, "");
    stage.tracking.follow_layout(&stage.layout);
    stage.told(1);
    stage.read(Some(1), "user:1");
    stage.tracking.follow_layout(&stage.layout);
    assert!(stage.told(1).is_empty(), "it is the same");
    stage.tracking.flush();
    assert_eq!((stage.told(1), stage.tracking.keys()), (vec!["*".to_owned()], 0));
}

#[test]
fn what_expires_is_told_at_that_time() {
    let mut stage = Stage::new();
    stage.tracking.note_expiry(b"user:1", 50, &stage.layout);
    stage.track(1, "");
    stage.read(Some(1), "user:1");
    stage.tracking.note_expiry(b"user:1", 50, &stage.layout);
    stage.tracking.expire(49, &stage.layout);
    assert!(stage.told(1).is_empty());
    stage.tracking.expire(50, &stage.layout);
    assert_eq!(stage.told(1), ["user:1"]);
    stage.read(Some(1), "user:1");
    stage.tracking.expire(1000, &stage.layout);
    assert!(stage.told(1).is_empty());
}

#[test]
fn where_there_is_no_room_others_are_put_out_and_told() {
    let mut stage = Stage::new();
    stage.tracking.set_most_keys(2);
    stage.track(1, "");
    for key in ["a", "b", "c", "d"] {
        stage.read(Some(1), key);
    }
    assert_eq!((stage.tracking.keys(), stage.told(1).len()), (2, 2));
    stage.tracking.note_expiry(b"d", 50, &stage.layout);
    stage.tracking.note_expiry(b"x", 50, &stage.layout);
    stage.tracking.note_expiry(b"c", 50, &stage.layout);
    assert_eq!(stage.tracking.keys() + stage.told(1).len(), 2, "what can't be noted is told at once");
}

#[test]
fn writes_tell_before_the_server_does() {
    let mut stage = Stage::new();
    stage.track(1, "");
    stage.track(2, "NOLOOP");
    for id in [1, 2] {
        stage.read(Some(id), "user:1");
        stage.read(Some(id), "user:2");
    }
    let traced = stage.write(&["user:1", "user:7"]);
    assert_eq!(traced.writes.len(), 1, "nobody has read the other");
    stage.tracking.settle(&traced.writes, Some(2), |_| false);
    assert_eq!((stage.told(1), stage.told(2)), (vec!["user:1".to_owned()], vec![]));
    stage.change("user:1");
    assert_eq!(stage.told(2), ["user:1", "user:2"], "it may not have been its own");
    stage.read(Some(2), "user:1");
    stage.tracking.settle(&stage.write(&["user:1"]).writes, Some(2), |_| true);
    stage.change("user:1");
    assert!(stage.told(2).is_empty());
}

#[test]
fn who_asks_first_waits_for_the_servers_and_hears_their_refusal() {
    let tracking = Tracking::default();
    let mailbox = Arc::default();
    assert_eq!(tracking.begin(1, &mailbox, &Mode::default()).map_err(|why| why.contains("listens")), Err(true));
    assert!(tracking.take_over() && !tracking.take_over());
    assert_eq!((tracking.prepare(), tracking.prepare()), (Readiness::Later, Readiness::Later));
    assert!(!tracking.rest());
    assert!(tracking.fail("NOPERM") && !tracking.fail("another reason"));
    assert_eq!(tracking.prepare(), Readiness::Refused("NOPERM".into()));
    assert_eq!(tracking.begin(1, &mailbox, &Mode::default()), Err("NOPERM".into()));
    assert_eq!(tracking.prepare(), Readiness::Later, "they are asked anew");
    tracking.stand();
    assert_eq!(tracking.begin(1, &mailbox, &Mode::default()), Ok(()));
    tracking.break_off();
    assert!(!tracking.fail("NOPERM"));
    assert_eq!(tracking.prepare(), Readiness::Ready, "who comes later is told behind each answer");
    assert!(!tracking.rest());
    tracking.end(1);
    assert!(tracking.rest() && !tracking.is_standing());
}
