//! Users of keyfold's own beside the servers' ACL: the same rules allow the same requests, and refuse the
//! others in the same words.

use std::collections::BTreeSet;

use keyfold_core::access::{User, Users};
use keyfold_core::command::{Categories, Command, CommandTable, table};
use keyfold_testkit::{Flavor, Server, Value, Wire, found};

/// Rules that are compared; `access` of the core says the same of each.
const USERS: usize = 400;
const REQUESTS_OF_A_USER: usize = 60;

/// A seeded generator; the same requests on every run.
struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

const PATTERNS: [&str; 12] = ["a*", "b", "?", "[ab]*", "k:*", "*:1", "", "**", "a\\*", "[^a]*", "k:?", "*"];
const WORDS: [&str; 16] =
    ["a", "b", "ab", "k:1", "k:2", "c:1", "a*", "", "1", "2", "0", "*", "GET", "STORE", "BY", "STREAMS"];

fn main_rule(random: &mut Random, known: &[&'static Command]) -> String {
    let category = |random: &mut Random| {
        let names: Vec<_> = Categories::all().iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names[random.below(names.len())].clone()
    };
    let sign = random.pick(&["+", "-"]);
    match random.below(16) {
        0 => random.pick(&["+@all", "allcommands", "-@all", "nocommands", "+@ALL"]).to_owned(),
        1..=3 => format!("{sign}@{}", category(random)),
        4..=7 => format!("{sign}{}", random.pick(known).name),
        8 => {
            let plain: Vec<_> = known.iter().filter(|command| !command.is_container && !command.name.contains('|')).collect();
            format!("+{}|{}", plain[random.below(plain.len())].name, random.pick(&["a", "A*", "k:1", "1"]))
        }
        9 => random.pick(&["allkeys", "~*", "resetkeys", "%R~*", "%W~*"]).to_owned(),
        10..=12 => format!("{}{}", random.pick(&["~", "%R~", "%W~", "%RW~", "%r~"]), random.pick(&PATTERNS)),
        13 => random.pick(&["allchannels", "&*", "resetchannels"]).to_owned(),
        _ => format!("&{}", random.pick(&PATTERNS)),
    }
}

/// Rules for commands, keys and channels; some in a selector of their own.
fn random_rules(random: &mut Random, known: &[&'static Command]) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    if random.below(2) == 0 {
        rules.push("+@all".to_owned());
    }
    for _ in 0..random.below(10) {
        rules.push(main_rule(random, known));
    }
    if random.below(4) == 0 {
        let inner: Vec<_> = (0..=random.below(4)).map(|_| main_rule(random, known)).collect();
        rules.push(format!("({})", inner.join(" ")));
    }
    if random.below(20) == 0 {
        rules.push(random.pick(&["reset", "clearselectors"]).to_owned());
    }
    rules
}

fn random_request(random: &mut Random, command: &Command) -> Vec<String> {
    let mut words: Vec<String> = command.name.split('|').map(str::to_ascii_uppercase).collect();
    let least = command.arity.unsigned_abs() as usize;
    let len = least + if command.arity < 0 { random.below(4) } else { 0 };
    while words.len() < len {
        words.push(random.pick(&WORDS).to_owned());
    }
    words
}
