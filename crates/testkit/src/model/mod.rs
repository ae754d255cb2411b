//! Folding against a naive model: what clients see through sessions and exchanges is what one plain space
//! of strings would have shown them.
//!
//! ```text
//! bytes ▶ steps ┬▶ Session, Exchange ▶ physical commands ▶ FakeServer      replies, and what the keys hold
//!               └▶ Naive: the same commands on one Space                   must be equal
//! ```
//! Both sides share `keyfold_core::string`, which other tests compare with real servers; what is tried here is
//! everything around it: places, frames, spilled values, conflicts, transactions.
//!
//! Another client may come between any two physical commands of a client's exchange. Then either order of
//! the two logical commands is right, as long as the replies and all keys agree on one.

mod client;
mod fake_server;
mod naive;
mod steps;

pub use client::{Client, Intruder, World};
pub use fake_server::{Connection, FakeServer};
pub use naive::{Naive, NaiveClient};
pub use steps::{HASHES, KEYS, LAYOUT, OTHER_LAYOUT, Step, Steps};

use keyfold_core::layout::{Layout, LayoutFile, Move};
use keyfold_core::placement::handmade::{Handmade, Packing};
use keyfold_core::string::Held;

/// When the story begins, in milliseconds since 1970.
const START_MS: i64 = 1_700_000_000_000;

/// Runs the steps that `bytes` stand for on both sides.
///
/// # Errors
/// The shortest story found of what differs, or of what the fake server holds that no place decodes to.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let (first, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut drawn = Steps::new(bytes, START_MS);
    let resp3 = drawn.speaks_resp3();
    let journey = Journey::drawn(*first)?;
    let steps: Vec<Step> = std::iter::from_fn(|| drawn.next_step()).collect();
    tell(&steps, &journey, resp3).map_err(|why| shorten(steps, &journey, resp3, why))
}

/// What becomes of the layout while the story is told.
#[derive(Debug)]
struct Journey {
    name: &'static str,
    /// What an application put into hashes of its own before: see [`HASHES`].
    hashes: &'static [[&'static [u8]; 5]],
    before: Layout,
    moving: Layout,
    after: Layout,
    /// The shares of the steps, of 16, that come before the move begins and before it ends.
    begins: usize,
    ends: usize,
}

impl Journey {
    fn drawn(byte: u8) -> Result<Self, String> {
        let file = |text| LayoutFile::parse(text).map_err(|error| error.to_string());
        let (plain, folded) = (Layout::default(), Layout::parse_file(LAYOUT).map_err(|error| error.to_string())?);
        let ids: Vec<_> = folded.namespaces().iter().map(|namespace| namespace.id).collect();
        if byte % 5 == 4 {
            return Self::out_of_hashes(byte);
        }
        let (name, before, planned) = match byte % 5 {
            0 => ("settled", folded.clone(), folded.plan_fold(&file(LAYOUT)?)),
            1 => ("folded", plain.clone(), plain.plan_fold(&file(LAYOUT)?)),
            2 => ("unfolded", folded.clone(), folded.plan_unfold(&ids)),
            _ => ("folded otherwise", folded.clone(), folded.plan_fold(&file(OTHER_LAYOUT)?)),
        };
        let planned = planned.map_err(|conflict| conflict.to_string())?;
        Ok(Self::of(name, before, planned, byte))
    }

    fn of(name: &'static str, before: Layout, planned: Move, byte: u8) -> Self {
        let after = planned.layout.settled(&planned.moving);
        let (begins, ends) = (usize::from(byte >> 2 & 7), 8 + usize::from(byte >> 5));
        Self { name, hashes: &[], before, moving: planned.layout, after, begins, ends }
    }

    /// The first namespace's keys come out of an application's own hashes, which clients have no keys for before.
    fn out_of_hashes(byte: u8) -> Result<Self, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let mut file = LayoutFile::parse(LAYOUT).map_err(|error| said(&error))?;
        let first = LayoutFile { namespaces: file.namespaces.drain(..1).collect() };
        let template = &first.namespaces[0].template;
        let rule = Handmade::new(template, "sbucket:{id/4}", "{id}", Packing::Zlib).map_err(|error| said(&error))?;
        let before = Layout::merge(None, &file).map_err(|error| said(&error))?.layout;
        let planned = before.plan_fold_from(&first, &[rule]).map_err(|error| said(&error))?;
        Ok(Self { hashes: &HASHES, begins: 0, ..Self::of("out of hashes", before, planned, byte) })
    }

    /// The layout that is served from this step on, where it changes there.
    fn turn(&self, at: usize, steps: usize) -> Option<&Layout> {
        if at == self.begins * steps / 16 {
            Some(&self.moving)
        } else if at == self.ends * steps / 16 {
            Some(&self.after)
        } else {
            None
        }
    }
}

/// Leaves out what the difference doesn't need.
fn shorten(mut steps: Vec<Step>, journey: &Journey, resp3: bool, mut why: String) -> String {
    let mut at = steps.len();
    while at > 0 {
        at -= 1;
        let left_out = steps.remove(at);
        match tell(&steps, journey, resp3) {
            Err(shorter) => why = shorter,
            Ok(()) => steps.insert(at, left_out),
        }
    }
    why
}

fn tell(steps: &[Step], journey: &Journey, resp3: bool) -> Result<(), String> {
    let mut world = World::new(&journey.before, START_MS);
    let mut clients = [Client::new(&world), Client::new(&world)];
    // What a plain server would hold by now.
    let mut naive = Naive::new(START_MS);
    if resp3 {
        clients.iter_mut().for_each(|client| client.hello(&mut world));
        naive.speak_resp3();
    }
    for [hash, field, stored, key, value] in journey.hashes {
        world.put_field(hash, field, stored);
        naive.run(0, &[b"SET".to_vec(), key.to_vec(), value.to_vec()]);
    }
    for (at, step) in steps.iter().enumerate() {
        if let Some(layout) = journey.turn(at, steps.len()) {
            world.finish_move();
            world.serve(layout);
        }
        world.advance_to(step.now_ms);
        let seen = run(&mut world, &mut clients, step);
        let story = |why: String| {
            let told: Vec<String> = steps[..=at].iter().map(Step::to_string).collect();
            let (reply, intruded) = (seen.0.escape_ascii(), seen.1.as_deref().unwrap_or_default().escape_ascii());
            format!(
                "{why}\n{} in {} steps:\n{}\nlast replies: {reply} {intruded}",
                journey.name,
                steps.len(),
                told.join("\n")
            )
        };
        let mut candidates = naive.outcomes(step, &seen, false);
        if world.is_moving() {
            candidates.extend(naive.outcomes(step, &seen, true));
        }
        if candidates.is_empty() {
            let expected = naive.clone().answer(step);
            return Err(story(format!("a plain server answers: {}", expected.escape_ascii())));
        }
        world.check_places().map_err(story)?;
        let held = KEYS.iter().map(|key| world.held(key)).collect::<Result<Vec<Held>, _>>().map_err(story)?;
        let states: Vec<Vec<Held>> = candidates.iter().map(Naive::held).collect();
        let same = candidates.into_iter().find_map(|naive| naive.settle(&held));
        naive = same.ok_or_else(|| story(format!("the keys hold {held:?}\nand not {states:?}")))?;
    }
    Ok(())
}

/// The replies to a step's command, and to the intruder's.
type Seen = (Vec<u8>, Option<Vec<u8>>);

fn run(world: &mut World<'_>, clients: &mut [Client; 2], step: &Step) -> Seen {
    let [one, other] = clients;
    let (client, bystander) = if step.client == 0 { (one, other) } else { (other, one) };
    match &step.intruder {
        None => (client.run(world, &step.command, None), None),
        Some((after, command)) => {
            let mut intruder = Intruder { after: *after, client: bystander, command, reply: None };
            let reply = client.run(world, &step.command, Some(&mut intruder));
            let intruded = match intruder.reply.take() {
                Some(reply) => reply,
                None => intruder.client.run(world, command, None),
            };
            (reply, Some(intruded))
        }
    }
}
