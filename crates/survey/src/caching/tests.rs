//! Caches small enough to know what they find, samples held against the whole, and bytes against the memory model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use keyfold_core::layout::Layout;
use keyfold_core::memory::{Limits, Model, Placed, Server};

use super::room::{FoldedRoom, Room};
use super::sizes::ENTRIES;
use super::*;
use crate::choose::Aims;
use crate::random::Random;

fn model() -> Model {
    Model::for_server(Server::redis(7, 0))
}

fn key(number: u32) -> Vec<u8> {
    format!("item:{}", 100_000 + number).into_bytes()
}

/// All keys in buckets, by chance.
fn layout() -> Layout {
    let text = "[[namespace]]\nkeys = \"item:{id:int}\"\nbucket = { count = 100 }\nvalue_limit = 256\n";
    Layout::parse_file(text).unwrap()
}

/// Reads of keys by their numbers, with values of so many bytes.
fn reads(numbers: &[u32], value_bytes: u32, bounds: Bounds) -> Requests {
    let mut recorder = Recorder::new(bounds);
    numbers.iter().for_each(|number| recorder.add(&key(*number), Action::Read, Some(value_bytes), None));
    recorder.finish()
}

const ALL: Bounds = Bounds { keys: 1 << 20, requests: 1 << 24 };

/// Numbers of which few come often: the cube of a chance between 0 and 1 is small more often than not.
fn uneven(keys: u32, requests: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number of keys")]
    let draw = |_| (random.unit().powi(3) * f64::from(keys)) as u32;
    (0..requests).map(draw).collect()
}

fn found(requests: &Requests, sizes: &Sizes, cache: Cache, memory_bytes: f64) -> Tally {
    replay(requests, sizes, cache, memory_bytes, 0.0, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// What a cache of so many keys finds at best, by trying everything.
fn best(numbers: &[u32], room: usize) -> u64 {
    let mut states = BTreeMap::from([(BTreeSet::new(), 0_u64)]);
    for number in numbers {
        let mut next = BTreeMap::new();
        let mut reach = |state: BTreeSet<u32>, hits: u64| {
            let best = next.entry(state).or_insert(hits);
            *best = hits.max(*best);
        };
        for (state, hits) in states {
            if state.contains(number) {
                reach(state, hits + 1);
                continue;
            }
            reach(state.clone(), hits);
            let with: BTreeSet<u32> = state.iter().copied().chain([*number]).collect();
            if with.len() <= room {
                reach(with.clone(), hits);
            }
            for leaves in &state {
                reach(with.iter().copied().filter(|other| other != leaves).collect(), hits);
            }
        }
        states = next;
    }
    states.into_values().max().unwrap()
}

#[test]
fn the_optimum_is_the_best_of_all_ways() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let numbers: Vec<u32> = (0..40).map(|_| u32::try_from(random.below(7)).unwrap()).collect();
        let requests = reads(&numbers, 20, ALL);
        let sizes = Sizes::new(&requests, &model(), &layout());
        for room in 1..=4 {
            let memory = f64::from(sizes.plain[0]) * room as f64;
            let tally = found(&requests, &sizes, Cache::PlainOptimum, memory);
            assert_eq!(tally.hits, best(&numbers, room), "seed {seed}, room for {room}");
        }
    }
}

#[test]
fn nobody_finds_more_than_the_optimum_and_all_find_all_where_all_fits() {
    let numbers = uneven(3000, 40_000, 1);
    let requests = reads(&numbers, 32, ALL);
    let sizes = Sizes::new(&requests, &model(), &layout());
    let whole = sizes.all_plain_bytes(&requests);
    for percent in [2.0, 10.0, 30.0] {
        let found = |cache| found(&requests, &sizes, cache, whole * percent / 100.0).hit_ratio();
        // A server may be over its limit by what it wrote last.
        assert!(found(Cache::Plain(ServerPolicy::Recency)) < found(Cache::PlainOptimum) + 0.002);
        assert!(found(Cache::Plain(ServerPolicy::Frequency)) < found(Cache::PlainOptimum) + 0.002);
        assert!(found(Cache::Records) < found(Cache::FoldedOptimum) + 0.002);
        assert!(found(Cache::Records) > found(Cache::Plain(ServerPolicy::Recency)) + 0.05, "at {percent} %");
    }
    for cache in Cache::ALL {
        assert_eq!(found(&requests, &sizes, cache, whole * 1.1).hits, 40_000 - requests.sampled_keys(), "{cache:?}");
    }
}

#[test]
fn samples_find_what_the_whole_finds() {
    const SAMPLES: u32 = 8;
    let numbers = uneven(40_000, 200_000, 2);
    // Other keys of the same requests are another sample.
    let of_keys = |first: u32, bounds: Bounds| {
        let numbers: Vec<u32> = numbers.iter().map(|number| first + number).collect();
        reads(&numbers, 200, bounds)
    };
    let whole = of_keys(0, ALL);
    let sizes = Sizes::new(&whole, &model(), &layout());
    let memory = sizes.all_plain_bytes(&whole) / 10.0;
    // Where whole buckets leave, a small sample has too few of them to tell.
    let caches = [
        Cache::Plain(ServerPolicy::Recency),
        Cache::Plain(ServerPolicy::Frequency),
        Cache::Records,
        Cache::FoldedOptimum,
    ];
    let mut off = [0.0; 4];
    for number in 0..SAMPLES {
        let sampled = of_keys(number * 100_000, Bounds { keys: 12_000, ..ALL });
        assert!(sampled.rate() <= 0.25 && sampled.sampled_keys() <= 12_000);
        assert_eq!((sampled.seen(), sampled.reads()), (200_000, 200_000));
        assert!((sampled.keys() / whole.keys() - 1.0).abs() < 0.05, "{} of {}", sampled.keys(), whole.keys());
        let own = Sizes::new(&sampled, &model(), &layout());
        for (cache, off) in caches.into_iter().zip(&mut off) {
            let points = (found(&sampled, &own, cache, memory).hit_ratio()
                - found(&whole, &sizes, cache, memory).hit_ratio())
                * 100.0;
            assert!(points.abs() < 5.0, "{cache:?}: {points:+.1} points");
            *off += points / f64::from(SAMPLES);
        }
    }
    assert!(off.iter().all(|points| points.abs() < 1.5), "on the mean of all samples: {off:.2?}");
}

#[test]
fn a_key_is_in_the_sample_with_all_its_requests_or_with_none() {
    let numbers: Vec<u32> = (0..20_000).map(|request| request % 1000).collect();
    for bounds in [Bounds { keys: 300, ..ALL }, Bounds { requests: 5000, ..ALL }] {
        let sampled = reads(&numbers, 20, bounds);
        assert!(sampled.rate() < 1.0 && sampled.sampled_keys() > 50);
        assert_eq!(sampled.sampled(), sampled.sampled_keys() * 20);
        assert!(sampled.sampled_keys() <= bounds.keys as u64 && sampled.sampled() <= bounds.requests as u64);
    }
}

#[test]
fn what_is_not_read_again_fills_no_cache_of_keyfolds() {
    // Of 50 keys each is read again and again; between them come keys that are read once.
    let numbers: Vec<u32> = (0..30_000).map(|at| if at % 3 == 0 { at / 3 % 50 } else { 1000 + at }).collect();
    let requests = reads(&numbers, 32, ALL);
    let sizes = Sizes::new(&requests, &model(), &layout());
    let memory = f64::from(sizes.plain[0]) * 120.0;
    let [by_key, lru] = [Cache::Records, Cache::Plain(ServerPolicy::Recency)]
        .map(|cache| found(&requests, &sizes, cache, memory).hit_ratio());
    assert!(by_key > 0.32 && lru < 0.2, "{by_key} by the key, {lru} under LRU");
}

#[test]
fn a_servers_lru_keeps_what_was_used_lately() {
    // A loop over 90 keys where 100 fit: all but the first round is found, and a loop over 200 is hardly ever.
    let looped = |keys: u32| -> Vec<u32> { (0..20_000).map(|at| at % keys).collect() };
    let lru = |numbers: &[u32]| {
        let requests = reads(numbers, 32, ALL);
        let sizes = Sizes::new(&requests, &model(), &layout());
        found(&requests, &sizes, Cache::Plain(ServerPolicy::Recency), f64::from(sizes.plain[0]) * 100.0).hits
    };
    assert_eq!(lru(&looped(90)), 20_000 - 90);
    assert!(lru(&looped(200)) < 6000);
}

#[test]
fn writes_and_removals_are_followed() {
    let mut recorder = Recorder::new(ALL);
    let mut add = |name: &str, action| recorder.add(name.as_bytes(), action, Some(10), None);
    add("item:100001", Action::Write);
    add("item:100001", Action::Read);
    add("item:100001", Action::Delete);
    add("item:100001", Action::Read);
    add("item:100001", Action::Read);
    let requests = recorder.finish();
    assert_eq!((requests.seen(), requests.reads()), (5, 3));
    let sizes = Sizes::new(&requests, &model(), &layout());
    for cache in Cache::ALL {
        let tally = found(&requests, &sizes, cache, 1e6);
        assert_eq!((tally.reads, tally.hits), (3, 2), "{cache:?}");
    }
}

#[test]
fn records_take_what_the_memory_model_says() {
    let numbers: Vec<u32> = (0..6400).collect();
    let requests = reads(&numbers, 32, ALL);
    let (model, layout) = (model().with_limits(Limits { hash_value_bytes: 256, ..Limits::default() }), layout());
    let sizes = Sizes::new(&requests, &model, &layout);
    // As many buckets as the layout has.
    let mut room = Room::Folded(FoldedRoom::new(&sizes, 100.0 * ENTRIES / 6400.0));
    let mut placed = Placed::new(&model, &layout);
    let value = [b'x'; 32];
    for number in numbers {
        room.put(number);
        placed.add(&key(number), &value, None);
    }
    let (simulated, expected) = (room.used() as f64, placed.keyspace().content_bytes() as f64 + 100.0 * 11.0);
    // The layout's buckets are filled evenly, those of the simulation by chance.
    assert!((simulated / expected - 1.0).abs() < 0.02, "{simulated} simulated, {expected} by the model");
    assert!((sizes.all_folded_bytes(&requests) / expected - 1.0).abs() < 0.03);
    (0..6400).for_each(|number| room.take(number));
    assert_eq!(room.used(), 0);
}

#[test]
fn values_that_spill_take_a_key_of_their_own() {
    let requests = reads(&[1, 2], 2000, ALL);
    let sizes = Sizes::new(&requests, &model(), &layout());
    assert!(sizes.records.iter().all(|record| record.own_bytes > 2000 && (1..64).contains(&record.field_bytes)));
    assert_eq!(sizes.folded_share(), 1.0);
}

#[test]
fn the_plan_for_a_trace_folds_its_families() {
    let mut recorder = Recorder::new(ALL);
    for id in 0..5000_u32 {
        recorder.add(format!("user:{id}:name").as_bytes(), Action::Read, Some(20), None);
        recorder.add(format!("page:{:08x}", id.wrapping_mul(2_654_435_761)).as_bytes(), Action::Read, Some(40), None);
    }
    recorder.add(b"the:only:one", Action::Read, Some(5), None);
    let requests = recorder.finish();
    let layout = layout_for(&requests, &Aims::new(model(), Server::redis(7, 0), Limits::default())).unwrap();
    let templates: Vec<_> = layout.namespaces().iter().map(|namespace| namespace.keys.to_string()).collect();
    assert_eq!(templates.len(), 2, "{templates:?}");
    let sizes = Sizes::new(&requests, &model(), &layout);
    assert!(sizes.folded_share() > 0.999);
    assert!(sizes.all_folded_bytes(&requests) < sizes.all_plain_bytes(&requests) / 2.0);
}

#[test]
fn curves_say_how_much_memory_finds_as_much() {
    let requests = reads(&uneven(3000, 30_000, 3), 32, ALL);
    let sizes = Sizes::new(&requests, &model(), &layout());
    let today = sizes.all_plain_bytes(&requests) * 0.17;
    let mut curves = Curves::new(&requests, &sizes, Some(today));
    let jobs = curves.jobs();
    assert_eq!(jobs.len(), curves.memories.len() * Cache::ALL.len());
    for job in jobs {
        curves.add(job.run(&requests, &sizes, 0.5, &mut |_| ControlFlow::Continue(())).unwrap());
    }
    let saving = curves.saving(ServerPolicy::Recency, today).unwrap();
    let folded = saving.folded_bytes.unwrap();
    assert!(saving.folded_hit_ratio > saving.hit_ratio && folded < today / 2.0, "{saving:?}");
    assert!((curves.hit_ratio(Cache::Records, folded).unwrap() - saving.hit_ratio).abs() < 1e-9);
    assert_eq!(curves.memory_for(Cache::Records, 0.0), None);
    assert_eq!(curves.hit_ratio(Cache::Records, today * 100.0), None);
}

#[test]
fn who_breaks_off_gets_nothing_half_done() {
    let requests = reads(&uneven(100, 1000, 4), 32, ALL);
    let sizes = Sizes::new(&requests, &model(), &layout());
    assert_eq!(replay(&requests, &sizes, Cache::Records, 1e4, 0.0, &mut |_| ControlFlow::Break(())), None);
}
