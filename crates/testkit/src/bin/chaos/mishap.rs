//! What befalls nodes, slots and keyfolds. Each mishap ends with a cluster that is whole.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::admin::home;
use keyfold_testkit::Flavor;
use keyfold_testkit::cluster::{Cut, Failover, SLOTS};
use keyfold_testkit::random::Random;

use crate::report::now_ms;
use crate::stage::Stage;

/// Writes acknowledged so long before a node fails may not have reached its replica; generous, for loaded machines.
const LAG_MS: i64 = 3000;
/// For how long a node is away that nobody shall take the place of: less than the node timeout.
const SHORT_MS: u64 = 2500;
/// Slots that move at once.
const MOST_AT_ONCE: usize = 400;

/// What befell whom, and when.
#[derive(Debug)]
pub(crate) struct Mishap {
    pub(crate) what: String,
    /// Slots that were away meanwhile, or may have lost writes.
    pub(crate) slots: Vec<u16>,
    /// Whether the cluster may have lost writes of these.
    pub(crate) may_lose: bool,
    /// The keyfold that something befell too.
    pub(crate) keyfold: Option<usize>,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    began_ms: i64,
    ended_ms: i64,
}

impl Mishap {
    /// Whether a write of a slot that was acknowledged then may be lost by this.
    pub(crate) fn excuses(&self, slot: u16, acked_ms: i64) -> bool {
        self.may_lose
            && (self.began_ms - LAG_MS..=self.ended_ms).contains(&acked_ms)
            && self.slots.binary_search(&slot).is_ok()
    }

    /// Whether nodes may disagree about a slot then.
    pub(crate) fn disturbs(&self, slot: u16, at_ms: i64) -> bool {
        self.excuses(slot, at_ms)
    }
}

impl fmt::Display for Mishap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:.1} s)", self.what, (self.ended - self.began).as_secs_f64())
    }
}

/// Something befalls the stage, by chance.
pub(crate) fn happen(stage: &mut Stage, random: &mut Random) -> anyhow::Result<Mishap> {
    let before = stage.owners()?;
    let (began, began_ms) = (Instant::now(), now_ms());
    let mut course = Course { stage, random, keyfold: None };
    let (what, whose, may_lose, is_planned) = course.run()?;
    let keyfold = course.keyfold;
    let after = stage.owners()?;
    let (ended, ended_ms) = (Instant::now(), now_ms());
    // Whoever else was followed meanwhile: on a loaded machine nodes are taken for gone that are only slow.
    let is_concerned = |slot: &u16| {
        let slot = usize::from(*slot);
        Whose::covers(&whose, &before, slot) || (!is_planned && before[slot] != after[slot])
    };
    let may_lose = may_lose || (!is_planned && before != after);
    let slots = (0..SLOTS).filter(is_concerned).collect();
    Ok(Mishap { what, slots, may_lose, keyfold, began, ended, began_ms, ended_ms })
}

/// Slots that a mishap concerns.
enum Whose {
    Node(usize),
    Slots(Vec<u16>),
}

impl Whose {
    fn covers(&self, owners: &[usize], slot: usize) -> bool {
        match self {
            Self::Node(node) => owners[slot] == *node,
            Self::Slots(slots) => slots.iter().any(|own| usize::from(*own) == slot),
        }
    }
}

/// What it was, whom it concerned, whether it may lose writes, and whether owners change by plan.
type Told = (String, Whose, bool, bool);

struct Course<'s> {
    stage: &'s mut Stage,
    random: &'s mut Random,
    keyfold: Option<usize>,
}

impl Course<'_> {
    fn run(&mut self) -> anyhow::Result<Told> {
        match self.random.below(16) {
            0..3 => self.kill(),
            3..6 => self.freeze(),
            6..9 => self.partition(),
            9 => self.fail_over(Failover::Clean),
            10 => self.fail_over(Failover::Force),
            11..14 => self.reshard(),
            14 => self.reshard_atomically(),
            _ => self.only_keyfold(),
        }
    }

    fn primary(&mut self) -> anyhow::Result<usize> {
        Ok(*self.random.pick(&self.stage.cluster.primaries()?))
    }

    fn pause(&mut self, most_ms: u64) {
        thread::sleep(Duration::from_millis(self.random.below(most_ms)));
    }

    /// Perhaps something befalls a keyfold too, in the midst of all.
    fn perhaps_keyfold(&mut self) -> anyhow::Result<String> {
        if self.random.chance(70) {
            return Ok(String::new());
        }
        let at = self.random.index(self.stage.keyfolds.len());
        self.keyfold = Some(at);
        if self.random.chance(50) {
            self.stage.restart_keyfold(at, self.random)?;
            return Ok(format!(", keyfold {at} killed meanwhile"));
        }
        self.stage.keyfolds[at].hang()?;
        self.pause(3000);
        self.stage.keyfolds[at].wake()?;
        Ok(format!(", keyfold {at} frozen meanwhile"))
    }

    fn kill(&mut self) -> anyhow::Result<Told> {
        let node = self.primary()?;
        self.stage.cluster.kill(node)?;
        let besides = self.perhaps_keyfold()?;
        self.stage.cluster.wait_for_successor(node)?;
        self.stage.cluster.restart(node)?;
        self.stage.cluster.wait_until_settled()?;
        Ok((format!("node {node} killed{besides}"), Whose::Node(node), true, false))
    }

    fn freeze(&mut self) -> anyhow::Result<Told> {
        let (node, is_long) = (self.primary()?, self.random.chance(60));
        self.stage.cluster.freeze(node)?;
        let mut besides = String::new();
        if is_long {
            besides = self.perhaps_keyfold()?;
            self.stage.cluster.wait_for_successor(node)?;
        } else {
            self.pause(SHORT_MS);
        }
        self.stage.cluster.wake(node)?;
        self.stage.cluster.wait_until_settled()?;
        let what = if is_long { "frozen" } else { "frozen for a moment" };
        Ok((format!("node {node} {what}{besides}"), Whose::Node(node), is_long, false))
    }

    fn partition(&mut self) -> anyhow::Result<Told> {
        let node = self.primary()?;
        let (cut, what) = *self.random.pick(&[
            (Cut::Both, "cut off"),
            (Cut::Nodes, "cut off from nodes"),
            (Cut::Clients, "cut off from clients"),
        ]);
        // A keyfold doesn't start while the layout's node is away, and nobody takes its place where nodes still see it.
        let keeps_home = cut == Cut::Clients && self.stage.cluster.owner(home().number())? == node;
        self.stage.cluster.cut(node, cut)?;
        let besides = if keeps_home { String::new() } else { self.perhaps_keyfold()? };
        if cut == Cut::Clients {
            self.pause(6000);
        } else {
            self.stage.cluster.wait_for_successor(node)?;
        }
        if self.random.chance(30) {
            self.stage.cluster.break_held();
        }
        self.stage.cluster.heal(node);
        self.stage.cluster.wait_until_settled()?;
        Ok((format!("node {node} {what}{besides}"), Whose::Node(node), cut != Cut::Clients, false))
    }

    fn fail_over(&mut self, how: Failover) -> anyhow::Result<Told> {
        let node = self.primary()?;
        let replicas = self.stage.cluster.replicas_of(node)?;
        let replica = *self.random.pick(&replicas);
        self.stage.cluster.fail_over(replica, how)?;
        let besides = self.perhaps_keyfold()?;
        let is_clean = how == Failover::Clean;
        Ok((format!("node {node} followed, {how:?}{besides}"), Whose::Node(node), !is_clean, is_clean))
    }

    /// A slot moves key by key, with a stop half-way; perhaps its source is killed at that stop.
    fn reshard(&mut self) -> anyhow::Result<Told> {
        let slot = self.busy_slot()?;
        let source = self.stage.cluster.owner(slot)?;
        let others: Vec<usize> = self.stage.cluster.primaries()?.into_iter().filter(|node| *node != source).collect();
        let target = *self.random.pick(&others);
        let resharding = self.stage.cluster.begin_reshard(slot, target)?;
        let some = self.random.index(4);
        self.stage.cluster.move_keys(resharding, some)?;
        self.pause(1500);
        // Redis's replicas don't know that a slot is on its way, so clients miss what has gone ahead, and the target takes the
        // one that is gone for the owner until an operator says otherwise; the proxy's test `half_way` has that.
        let replicas_know = self.stage.cluster.binary().flavor() == Flavor::Valkey;
        if replicas_know && self.random.chance(25) {
            self.stage.cluster.kill(source)?;
            let successor = self.stage.cluster.wait_for_successor(source)?;
            self.stage.cluster.restart(source)?;
            self.stage.cluster.wait_until_settled()?;
            let resharding = self.stage.cluster.begin_reshard(slot, target)?;
            self.stage.cluster.finish_reshard(resharding)?;
            self.stage.cluster.wait_until_settled()?;
            let what = format!("slot {slot} moved, its source {source} killed half-way, {successor} in its place");
            return Ok((what, Whose::Node(source), true, false));
        }
        let besides = self.perhaps_keyfold()?;
        let is_taken_back = self.random.chance(20);
        if is_taken_back {
            self.stage.cluster.take_back_reshard(resharding)?;
        } else {
            self.stage.cluster.finish_reshard(resharding)?;
        }
        let how = if is_taken_back { " and back" } else { "" };
        Ok((format!("slot {slot} moved{how}{besides}"), Whose::Slots(vec![slot]), false, true))
    }

    /// A slot that holds keys.
    fn busy_slot(&mut self) -> anyhow::Result<u16> {
        let node = self.primary()?;
        for seen in self.stage.cluster.node(node).myself()?.slots {
            let start = self.random.below(u64::from(seen.end() - seen.start()) + 1);
            let start = *seen.start() + u16::try_from(start)?;
            for slot in (start..=*seen.end()).chain(*seen.start()..start).take(2000) {
                if self.stage.cluster.keys_in_slot(node, slot)? > 0 {
                    return Ok(slot);
                }
            }
        }
        Ok(self.stage.cluster.node(node).myself()?.slots.first().map_or(0, |range| *range.start()))
    }

    fn reshard_atomically(&mut self) -> anyhow::Result<Told> {
        if self.stage.cluster.atomic_migration()?.is_none() {
            return self.reshard();
        }
        let source = self.primary()?;
        let ranges = self.stage.cluster.node(source).myself()?.slots;
        let range = self.random.pick(&ranges).clone();
        let last = (*range.end()).min(range.start() + u16::try_from(self.random.index(MOST_AT_ONCE))?);
        let range = *range.start()..=last;
        let others: Vec<usize> = self.stage.cluster.primaries()?.into_iter().filter(|node| *node != source).collect();
        let target = *self.random.pick(&others);
        self.stage.cluster.reshard_atomically(range.clone(), target)?;
        let what = format!("slots {} to {} moved at once", range.start(), range.end());
        Ok((what, Whose::Slots(range.collect()), false, true))
    }

    fn only_keyfold(&mut self) -> anyhow::Result<Told> {
        let at = self.random.index(self.stage.keyfolds.len());
        self.keyfold = Some(at);
        self.stage.restart_keyfold(at, self.random)?;
        Ok((format!("keyfold {at} killed"), Whose::Slots(Vec::new()), false, false))
    }
}
