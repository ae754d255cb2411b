use keyfold_core::memory::{Limits, Model, Server, ValueShape};

use super::*;
use crate::choose::choose;
use crate::population::SampledKey;

struct Family {
    template: Template,
    keys: u64,
    sample: Vec<SampledKey>,
}

impl Family {
    fn new(template: &str, keys: u64, key: impl Fn(u64) -> String, value: ValueShape) -> Self {
        let sampled = |i| SampledKey {
            database: 0,
            key: key(i).into_bytes().into(),
            value,
            has_expiry: i % 4 == 0,
            plain_bytes: None,
            in_parts: None,
        };
        Self { template: Template::parse(template).unwrap(), keys, sample: (0..keys).map(sampled).collect() }
    }

    /// The same of which the sample has only a share.
    fn sampled(&self, share: f64) -> Self {
        let is_kept = |one: &&SampledKey| xxh3_64_with_seed(&one.key, 1) as f64 <= share * u64::MAX as f64;
        let sample = self.sample.iter().filter(is_kept).cloned().collect();
        Self { template: self.template.clone(), keys: self.keys, sample }
    }

    fn population(&self) -> Population<'_> {
        let (template, keys) = (&self.template, self.keys);
        let (kept, within, slots_seen) = (self.sample.len() as f64 / keys as f64, 1.0, 1.0);
        Population {
            template,
            collection: None,
            keys,
            sample: &self.sample,
            blocks: Blocks::Keys,
            kept,
            within,
            slots_seen,
        }
    }
}

fn small(keys: u64) -> Vec<Family> {
    let uuid = |i: u64| format!("sess:{:08x}-0000-4000-8000-{:012x}", i * 2_654_435_761 % (1 << 32), i);
    vec![
        Family::new("seen:{id:int}:last", keys, |i| format!("seen:{}:last", i * 7919), ValueShape::Integer(1 << 30)),
        Family::new("sess:{id:uuid}", keys, uuid, ValueShape::Bytes(24)),
        Family::new("flag:{name}", keys, |i| format!("flag:n{i}"), ValueShape::Bytes(2)),
    ]
}

fn aims(server: Server, keys: u64) -> Aims {
    let model = Model::for_server(server).in_cluster_mode(true);
    Aims { all_keys: (keys, keys / 4), ..Aims::new(model, server, Limits::default()) }
}

fn shared(families: &[Family], aims: &Aims) -> Option<(Sharing, Vec<Choice>)> {
    let populations: Vec<_> = families.iter().map(Family::population).collect();
    let alone: Vec<_> = populations.iter().map(|population| choose(population, aims)).collect();
    let candidates: Vec<_> =
        populations.iter().zip(&alone).map(|(population, alone)| Candidate { population, alone }).collect();
    share(&candidates, aims).map(|sharing| (sharing, alone))
}

#[test]
fn small_families_go_together_and_take_less() {
    for server in [Server::redis(7, 0), Server::redis(8, 0), Server::valkey(8, 1), Server::valkey(9, 1)] {
        let families = small(20_000);
        let (sharing, alone) = shared(&families, &aims(server, 60_000)).unwrap();
        assert_eq!(sharing.families.len(), 3, "{server}");
        let sum = |choices: &[Choice], of: fn(&Choice) -> u64| choices.iter().map(of).sum::<u64>();
        let [before, after] = [&alone, &sharing.choices].map(|choices| sum(choices, |choice| choice.bytes_after));
        assert!(after * 100 < before * 85, "{server}: {after} of {before}");
        let first = &sharing.choices[0];
        assert!(
            first.notes[0].starts_with("3 families share buckets, 4 keys to a bucket together"),
            "{:?}",
            first.notes
        );
        assert!(first.fill.as_ref().is_some_and(|fill| fill.mean() > 3.5));
        let keys: f64 = sharing.choices.iter().map(|choice| choice.after.keys).sum();
        assert!(keys < 16_385.0, "the buckets are counted once");
    }
}

#[test]
fn what_is_in_few_slots_stays_alone() {
    let aims = aims(Server::valkey(9, 1), 62_000);
    let mut families = small(20_000);
    families.push(Family::new("{{q}}:{id:int}", 2_000, |i| format!("{{q}}:{i}"), ValueShape::Integer(1 << 30)));
    let (sharing, _) = shared(&families, &aims).unwrap();
    assert!(sharing.families.iter().all(|index| *index < 3), "{:?}", sharing.families);
    let one_server = Aims { by_slot: false, ..aims };
    assert!(shared(&small(20_000), &one_server).is_none());
}

#[test]
fn parts_of_the_keys_show_what_all_of_them_take() {
    // Without the steps of tables, over which a bucket more or less may come.
    let bytes = |sharing: &Sharing| sharing.choices[0].after.smooth_bytes();
    for server in [Server::redis(7, 0), Server::valkey(9, 1)] {
        let (families, aims) = (small(30_000), aims(server, 90_000));
        let (whole, _) = shared(&families, &aims).unwrap();
        for shares in [[0.5, 0.5, 0.5], [0.2, 0.3, 1.0]] {
            let parts: Vec<_> = families.iter().zip(shares).map(|(one, share)| one.sampled(share)).collect();
            let (sharing, _) = shared(&parts, &aims).unwrap();
            assert_eq!(sharing.families, whole.families, "{server} {shares:?}");
            let off = bytes(&sharing) / bytes(&whole) - 1.0;
            assert!(off.abs() < 0.02, "{server} {shares:?}: {:.1} % off", off * 100.0);
            for (part, all) in sharing.choices.iter().zip(&whole.choices) {
                let off = part.bytes_after as f64 / all.bytes_after as f64 - 1.0;
                assert!(off.abs() < 0.05, "{server} {shares:?}, one family: {:.1} % off", off * 100.0);
            }
        }
    }
}

#[test]
fn parts_of_the_keys_do_not_show_how_many_have_a_tag() {
    let aims = aims(Server::valkey(9, 1), 60_000);
    let mut families = small(20_000);
    families[2] = Family::new("flag:{name}", 20_000, |i| format!("flag:{{n{i}}}"), ValueShape::Bytes(2));
    let (sharing, _) = shared(&families, &aims).unwrap();
    assert!(sharing.families.contains(&2), "{:?}", sharing.families);
    let parts: Vec<_> = families.iter().map(|one| one.sampled(0.5)).collect();
    let tagged = shared(&parts, &aims).is_some_and(|(sharing, _)| sharing.families.contains(&2));
    assert!(!tagged, "nobody knows how many keys have one tag");
    let few: Vec<_> = small(20_000).iter().map(|one| one.sampled(0.1)).collect();
    assert!(shared(&few, &aims).is_none(), "too few keys to tell");
}
