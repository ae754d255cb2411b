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
mod journey;
mod naive;
mod steps;

pub use client::{Client, Intruder, World};
pub use fake_server::{Connection, FakeServer};
pub use naive::{Naive, NaiveClient};
pub use steps::{CODED_LAYOUT, HASHES, KEYS, LAYOUT, OTHER_CODED_LAYOUT, OTHER_LAYOUT, Step, Steps};

use journey::Journey;

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
    let mut world = World::new(&journey.route.before, START_MS);
    let mut clients = [Client::new(&world), Client::new(&world)];
    // What a plain server would hold by now.
    let mut naive = Naive::new(START_MS);
    if resp3 {
        clients.iter_mut().for_each(|client| client.hello(&mut world));
        naive.speak_resp3();
    }
    for [hash, field, stored, key, value] in journey.route.hashes {
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
                journey.route.name,
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
