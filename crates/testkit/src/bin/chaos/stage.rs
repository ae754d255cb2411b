//! The cluster, and the keyfolds before it.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use keyfold_core::admin::{LAYOUT_KEY, home};
use keyfold_core::layout::{Attempt, Layout, Located};
use keyfold_testkit::cluster::{Options, SLOTS, slot_of};
use keyfold_testkit::patience::wait_for;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, Cluster, Subject, Wire, subject};

use crate::mover::{Course, Mover};

const PRIMARIES: usize = 3;
const KEYFOLDS: usize = 3;
/// How long a keyfold may fail to start: whoever supervises one would start it again as long.
const STARTED_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) keyfolds: Vec<Subject>,
    pub(crate) addresses: Vec<SocketAddr>,
    upstream: String,
    /// Where all keys lie between two rounds.
    course: Course,
}

impl Stage {
    /// Three primaries with a replica each, and three keyfolds.
    pub(crate) fn new(binary: &Binary) -> anyhow::Result<Self> {
        let options = Options { relays: true, ..Options::default() };
        let cluster = Cluster::start(binary, PRIMARIES, 1, &options)?;
        let course = Course::OneBucket;
        let layout = course.layout().context("a course that folds")?;
        let layout = Layout::parse_file(layout)?.with_attempt(Attempt(1));
        cluster.node(cluster.owner(home().number())?).server().put_in_force(&layout)?;
        let seeds: Vec<String> = cluster.nodes().iter().map(|node| node.address().to_string()).collect();
        let upstream = format!("cluster://{}", seeds.join(","));
        let started = (0..KEYFOLDS).map(|_| Subject::before_cluster_at(&upstream, None));
        let keyfolds: Vec<Subject> = started.collect::<Result<_, _>>()?;
        let addresses = keyfolds.iter().map(Subject::address).collect();
        Ok(Self { cluster, keyfolds, addresses, upstream, course })
    }

    /// Kills a keyfold and starts another in its place.
    pub(crate) fn restart_keyfold(&mut self, at: usize, random: &mut Random) -> anyhow::Result<()> {
        self.keyfolds[at].kill();
        thread::sleep(Duration::from_millis(random.below(1000)));
        self.keyfolds[at] = wait_for("a keyfold to start", STARTED_WITHIN, || {
            Subject::before_cluster_at(&self.upstream, Some(self.addresses[at])).map_err(|error| error.to_string())
        })?;
        Ok(())
    }

    /// Has all namespaces move to other places while other things happen, in most rounds.
    pub(crate) fn move_perhaps(&mut self, random: &mut Random) -> anyhow::Result<Option<Mover>> {
        let random = &mut Random::new(random.bits());
        // Keys that lie under their own names have little to show.
        if self.course.layout().is_some() && random.chance(35) {
            return Ok(None);
        }
        self.course = self.course.other(random);
        Mover::start(&self.upstream, self.course, Random::new(random.bits())).map(Some)
    }

    /// Which node has which slot, by what each says of itself.
    pub(crate) fn owners(&self) -> anyhow::Result<Vec<usize>> {
        let mut owners = vec![usize::MAX; usize::from(SLOTS)];
        let mut epochs = vec![0; usize::from(SLOTS)];
        for index in self.cluster.primaries()? {
            let seen = self.cluster.node(index).myself()?;
            for slot in seen.slots.into_iter().flatten().map(usize::from) {
                if seen.config_epoch >= epochs[slot] {
                    (owners[slot], epochs[slot]) = (index, seen.config_epoch);
                }
            }
        }
        Ok(owners)
    }

    /// `keyfold verify` over all nodes: what it says, where it isn't content.
    pub(crate) fn verify(&self) -> anyhow::Result<Option<String>> {
        let output = Command::new(subject::program()).args(["verify", &self.upstream, "--skip-encodings"]).output()?;
        let said = || format!("verify: {}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
        Ok((!output.status.success()).then(said))
    }

    /// What is amiss with the places of keys that have to be there.
    pub(crate) fn misplaced<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> anyhow::Result<Vec<String>> {
        let owners = self.owners()?;
        let at = owners[usize::from(home().number())];
        let stored = self.cluster.node(at).control()?.ask(&[b"GET", LAYOUT_KEY])?;
        let stored = String::from_utf8(stored.bytes().context("the home has no layout")?.to_vec())?;
        let layout = Layout::from_stored(&stored)?;
        let mut wires: Vec<Option<Wire>> = self.cluster.nodes().iter().map(|node| node.control().ok()).collect();
        let mut wrong = Vec::new();
        for key in keys {
            let Some(Some(wire)) = wires.get_mut(owners[usize::from(slot_of(key))]) else {
                wrong.push(format!("{}: nobody has its slot", key.escape_ascii()));
                continue;
            };
            wrong.extend(amiss(&layout, key, wire)?);
        }
        Ok(wrong)
    }
}

/// What is amiss with the place of a key, asked of the node that has its slot.
fn amiss(layout: &Layout, key: &[u8], wire: &mut Wire) -> anyhow::Result<Option<String>> {
    let place = match layout.locate(key) {
        Located::Placed(place) => Some(place),
        Located::Moving(moving) => moving.new,
        Located::Plain | Located::Reserved => None,
    };
    let mut holds = |args: &[&[u8]]| anyhow::Ok(wire.ask(args)?.integer() == Some(1));
    let is_there_by_name = holds(&[b"EXISTS", key])?;
    let Some(place) = place else {
        return Ok((!is_there_by_name).then(|| format!("{}: not there", key.escape_ascii())));
    };
    let told = |what: &str| Some(format!("{}: {what} {}", key.escape_ascii(), place.physical.escape_ascii()));
    Ok(if slot_of(&place.physical) != slot_of(key) {
        told("in another slot,")
    } else if is_there_by_name {
        told("under its own name, not in")
    } else if !holds(&[b"HEXISTS", &place.physical, &place.field])? {
        told("not in its bucket")
    } else {
        None
    })
}
