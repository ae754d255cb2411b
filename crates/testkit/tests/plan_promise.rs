//! A plan's bytes against servers: families found from the keys alone, the layout planned, the records loaded by it.
#![cfg(feature = "bench")]

use keyfold_core::memory::{Limits, Model, Server};
use keyfold_survey::choose::{Aims, choose};
use keyfold_survey::observation::Observation;
use keyfold_survey::plan::{Family, Part, Plan};
use keyfold_survey::survey::Survey;
use keyfold_testkit::memory::{Case, Data, Record, case, measure, real};
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
    Case { name: name.to_owned(), records: count, data: Data::Placed(records, Box::new(layout)), limits }
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
