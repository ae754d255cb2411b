//! A plan's bytes against servers: families found from the keys alone, the layout planned, the records loaded by it.

use keyfold_core::memory::{Limits, Model, Server};
use keyfold_survey::choose::{Aims, choose};
use keyfold_survey::observation::Observation;
use keyfold_survey::plan::{Family, Part, Plan};
use keyfold_survey::survey::Survey;
use keyfold_testkit::memory::{Case, Data, Record, case, measure, real};
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, Flavor, found};

/// What is promised of a plan.
const TOLERANCE_PERCENT: f64 = 3.0;
/// Some hundred buckets a set, and few enough to be quick.
const RECORDS: usize = 20_000;

/// Plans for the records, on a server that was measured with them as plain keys.
fn plan(records: &[Record], model: &Model, server: Server) -> Plan {
    let mut survey = Survey::new(model.clone());
    for Record { key, value, expires } in records {
        survey.observe(0, &Observation { has_expiry: *expires, ..Observation::of_string(key, value) });
    }
    let aims = Aims { min_saving: 0.0, ..Aims::new(model.clone(), server, Limits::default()) };
    let findings = survey.finish(records.len() as u64);
    let decide = |population: keyfold_survey::population::Population<'_>| {
        let choice = choose(&population, &aims);
        Family { template: population.template.clone(), keys: population.keys, choice }
    };
    Plan::new(findings.families.iter().filter_map(|family| family.population()).map(decide).collect(), None)
}

/// The records placed by the plan, on a server with the settings that it relies on.
fn planned_case(name: &str, records: Vec<Record>, plan: &Plan) -> Case {
    let mut limits = Limits::default();
    let placed = plan.families.iter().filter(|(_, part)| *part == Part::Namespace);
    for setting in placed.flat_map(|(family, _)| &family.choice.relies_on) {
        match setting.name {
            "hash-max-listpack-value" => limits.hash_value_bytes = limits.hash_value_bytes.max(setting.needs),
            _ => limits.hash_entries = limits.hash_entries.max(setting.needs),
        }
    }
    let layout = plan.layout().expect("the plan is a layout");
    let count = records.len();
    Case {
        name: name.to_owned(),
        records: count,
        data: Data::Placed(records, Box::new(layout)),
        limits,
        in_cluster: false,
    }
}

fn server_of(binary: &Binary) -> Server {
    let version = binary.version();
    match binary.flavor() {
        Flavor::Redis => Server::redis(version.major, version.minor),
        Flavor::Valkey => Server::valkey(version.major, version.minor),
    }
}

/// How far plan and server are from each other, as what is off; nothing where all is well.
fn check(binary: &Binary, plain: &Case) -> Vec<String> {
    let Data::Strings(records) = &plain.data else { return Vec::new() };
    let now = measure(binary, plain).unwrap();
    let server = server_of(binary);
    let model = Model::for_server(server).with_allocator(now.allocator);
    let plan = plan(records, &model, server);
    let (promised_now, promised) = plan.total_bytes(&model);
    let after = measure(binary, &planned_case(&plain.name, records.clone(), &plan)).unwrap();
    let pairs = [("now", promised_now, now.measured), ("as planned", promised, after.measured)];
    let off = |(what, predicted, measured): (&str, u64, u64)| {
        let percent = (predicted as f64 / measured as f64 - 1.0) * 100.0;
        let layout = plan.layout().map(|layout| layout.to_stored()).unwrap_or_default();
        let line =
            format!("{}, {}, {what}: {predicted} for {measured}, {percent:+.2} %\n{layout}", binary.name(), plain.name);
        (percent.abs() > TOLERANCE_PERCENT).then_some(line)
    };
    pairs.into_iter().filter_map(off).collect()
}

/// The oldest and the newest server of each flavor.
fn servers() -> Vec<Binary> {
    let found = found();
    let of = |flavor| found.iter().filter(move |binary| binary.flavor() == flavor);
    let mut ends: Vec<Binary> = Vec::new();
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        ends.extend(of(flavor).next().into_iter().chain(of(flavor).next_back()).cloned());
    }
    ends.dedup();
    ends
}

fn check_all(cases: &[Case]) {
    let plain = || cases.iter().filter(|case| matches!(case.data, Data::Strings(_)));
    let off: Vec<_> = servers().iter().flat_map(|binary| plain().flat_map(move |case| check(binary, case))).collect();
    assert!(off.is_empty(), "{}", off.join("\n"));
}

/// Ten families in one keyspace, of kinds and sizes that the seed chooses.
fn mix(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let names = ["user", "cart", "session", "token", "page", "rate", "score", "seen", "job", "lock"];
    let mut records = Vec::new();
    for name in names {
        let (kind, shape, expires) = (random.below(6), random.below(4), random.chance(30));
        let (keys, step, longest) = (1000 + random.below(4000), 1 + random.below(40), 8 + random.below(120));
        for i in 0..keys {
            let id = match kind {
                0 => (1_000_000 + i).to_string(),
                1 => (i * step + random.below(step)).to_string(),
                2 => (i / 50 * 1000 + i % 50).to_string(),
                3 => format!("{:016x}", random.bits()),
                4 => format!("{:08}", i * 3),
                _ => format!("{i}-{:x}/x", random.below(1 << 30)),
            };
            let value = match shape {
                0 => random.below(1 << 31).to_string().into_bytes(),
                1 => random.below(20_000).to_string().into_bytes(),
                2 => vec![b'v'; 24],
                _ => vec![b'v'; random.index(usize::try_from(longest).unwrap())],
            };
            records.push(Record { key: format!("{name}:{id}").into_bytes(), value, expires });
        }
    }
    Case::plain(&format!("mix {seed}"), records)
}

#[test]
fn mixes_of_ten_families() {
    check_all(&[1, 2, 3].map(mix));
}

#[test]
fn made_up_data() {
    check_all(&case::seeded(RECORDS));
}

#[test]
fn real_data() {
    let Some(directory) = real::directory() else {
        eprintln!("skipped: no real data beside the workspace or under KEYFOLD_DATA");
        return;
    };
    for cases in real::cases(&directory, RECORDS) {
        check_all(&cases.unwrap());
    }
}
