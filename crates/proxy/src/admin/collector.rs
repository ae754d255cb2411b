//! What every metric is at the moment.

use std::time::SystemTime;

use keyfold_core::admin::move_progress::MoveProgress;
use keyfold_core::stats::{CommandStats, Counter};
use keyfold_core::status::{AgesStatus, CacheStatus, NamespaceStatus, Status};

use super::catalog::{self as metric, Family};
use super::health::{Reason, troubles};
use super::series::{Buckets, Measured, Sample, Series, Value};
use super::sources::Sources;
use crate::stats::{ClientGauges, LaneGauges, Meters, each_node};

/// Milliseconds of a second.
const SECOND_MS: f64 = 1e3;

/// All of them.
pub(super) fn gather(sources: &Sources) -> Vec<Series> {
    let status = sources.status();
    let mut series = Vec::new();
    add_process(sources, &status, &mut series);
    add_commands(sources, &mut series);
    add_clients(sources, &mut series);
    add_upstream(sources, &mut series);
    add_namespaces(&status, &mut series);
    add_move(sources, &mut series);
    status.cache.iter().for_each(|cache| add_cache(cache, &status, &mut series));
    add_layout(sources, &status, &mut series);
    add_sweep(&status, &mut series);
    add_cluster(sources, &status, &mut series);
    add_servers(sources, &mut series);
    series
}

/// A family with one value and no labels.
fn one(family: &'static Family, value: Value) -> Series {
    Series { family, samples: vec![Sample { labels: Vec::new(), value }] }
}

fn number(family: &'static Family, number: u64) -> Series {
    one(family, Value::Number(number))
}

/// A family with a number for each value of its one label.
fn numbers<L: Into<String>>(family: &'static Family, all: impl IntoIterator<Item = (L, u64)>) -> Series {
    let sample = |(label, number): (L, u64)| Sample { labels: vec![label.into()], value: Value::Number(number) };
    Series { family, samples: all.into_iter().map(sample).collect() }
}

#[expect(clippy::cast_precision_loss, reason = "seconds need no more than 15 digits")]
fn seconds(ms: u64) -> Value {
    Value::Level(ms as f64 / SECOND_MS)
}

fn add_process(sources: &Sources, status: &Status, series: &mut Vec<Series>) {
    let version = Sample { labels: vec![status.version.clone()], value: Value::Nothing };
    series.push(Series { family: &metric::BUILD, samples: vec![version] });
    let started = sources.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    series.push(one(&metric::START_TIME, Value::Level(started.as_secs_f64())));
    series.push(number(&metric::WORKERS, sources.stats.len() as u64));
    let troubles = troubles(sources);
    series.push(number(&metric::READY, troubles.is_empty().into()));
    let is_one = |reason: Reason| u64::from(troubles.iter().any(|(trouble, _)| *trouble == reason));
    series.push(numbers(&metric::NOT_READY, Reason::ALL.map(|reason| (reason.name(), is_one(reason)))));
}

fn add_commands(sources: &Sources, series: &mut Vec<Series>) {
    let all: Vec<&CommandStats> = sources.meters().map(|meters| &*meters.commands).collect();
    let (mut ends, mut durations) = (Vec::new(), Vec::new());
    for counts in CommandStats::sum(&all) {
        for (way, end, count) in counts.ends() {
            let labels = [counts.name, way.name(), end.name()].map(str::to_owned).to_vec();
            ends.push(Sample { labels, value: Value::Number(count) });
        }
        if counts.durations.count() > 0 {
            let value = Value::Durations(Box::new(Measured { durations: counts.durations, native: counts.native }));
            durations.push(Sample { labels: vec![counts.name.to_owned()], value });
        }
    }
    series.push(Series { family: &metric::COMMANDS, samples: ends });
    series.push(Series { family: &metric::COMMAND_DURATION, samples: durations });
    let of_node = |(node, measured): (Box<str>, _)| Sample {
        labels: vec![node.into()],
        value: Value::Durations(Box::new(measured)),
    };
    let nodes = each_node(sources.meters().map(Meters::nodes), Measured::add);
    series.push(Series { family: &metric::UPSTREAM_DURATION, samples: nodes.into_iter().map(of_node).collect() });
}

/// A counter of all workers.
fn total(family: &'static Family, sources: &Sources, counter: impl Fn(&Meters) -> &Counter) -> Series {
    number(family, sources.meters().map(|meters| counter(meters).read()).sum())
}

fn add_clients(sources: &Sources, series: &mut Vec<Series>) {
    let mut clients = ClientGauges::default();
    sources.meters().for_each(|meters| clients += meters.clients.read());
    let ClientGauges { idle, active, held, blocked, subscribed, requests, parked, answer_bytes } = clients;
    let states = [("idle", idle), ("active", active), ("held", held), ("blocked", blocked), ("subscribed", subscribed)];
    series.push(numbers(&metric::CLIENT_CONNECTIONS, states));
    series.push(number(&metric::CLIENTS_OPENED, sources.room.admitted()));
    series.push(number(&metric::CLIENTS_REFUSED, sources.room.refused()));
    series.push(total(&metric::CLIENT_RECEIVED, sources, |meters| &meters.client_received_bytes));
    series.push(total(&metric::CLIENT_SENT, sources, |meters| &meters.client_sent_bytes));
    series.push(number(&metric::REQUESTS_IN_FLIGHT, requests));
    series.push(number(&metric::ANSWERS_PARKED, parked));
    series.push(number(&metric::ANSWERS_WAITING, answer_bytes));
}

fn add_upstream(sources: &Sources, series: &mut Vec<Series>) {
    let mut lanes = LaneGauges::default();
    sources.meters().for_each(|meters| lanes += meters.lanes.read());
    let all = [
        ("shared", "ready", lanes.shared_ready),
        ("shared", "connecting", lanes.shared_connecting),
        ("shared", "away", lanes.shared_away),
        ("own", "in_use", lanes.own_in_use),
        ("own", "idle", lanes.own_idle),
    ];
    let sample = |(lane, state, number): (&str, &str, u64)| Sample {
        labels: vec![lane.to_owned(), state.to_owned()],
        value: Value::Number(number),
    };
    series.push(Series { family: &metric::UPSTREAM_CONNECTIONS, samples: all.map(sample).into() });
    series.push(total(&metric::UPSTREAM_OPENED, sources, |meters| &meters.server_connected));
    series.push(total(&metric::UPSTREAM_LOST, sources, |meters| &meters.server_lost));
    series.push(total(&metric::UPSTREAM_RECEIVED, sources, |meters| &meters.server_received_bytes));
    series.push(total(&metric::UPSTREAM_SENT, sources, |meters| &meters.server_sent_bytes));
}

fn add_namespaces(status: &Status, series: &mut Vec<Series>) {
    let mut add = |family: &'static Family, number: fn(&NamespaceStatus) -> Option<u64>| {
        let all = status.namespaces.iter();
        series.push(numbers(family, all.filter_map(|namespace| Some((&namespace.keys, number(namespace)?)))));
    };
    add(&metric::NAMESPACE_READS, |namespace| Some(namespace.reads));
    add(&metric::NAMESPACE_HITS, |namespace| Some(namespace.hits));
    add(&metric::NAMESPACE_MISSES, |namespace| Some(namespace.misses));
    add(&metric::NAMESPACE_WRITES, |namespace| Some(namespace.writes));
    add(&metric::NAMESPACE_SPILLS, |namespace| Some(namespace.spills));
    add(&metric::NAMESPACE_CONFLICTS, |namespace| Some(namespace.conflicts));
    add(&metric::NAMESPACE_UNDECODABLE, |namespace| Some(namespace.undecodable));
    add(&metric::NAMESPACE_SWEPT, |namespace| Some(namespace.swept));
    add(&metric::NAMESPACE_EXPIRED, |namespace| Some(namespace.expired));
    add(&metric::NAMESPACE_CODEC_INPUT, |namespace| Some(namespace.codec.as_ref()?.value_bytes));
    add(&metric::NAMESPACE_CODEC_OUTPUT, |namespace| Some(namespace.codec.as_ref()?.stored_bytes));
    add(&metric::NAMESPACE_MOVING, |namespace| Some(namespace.moving.into()));
    add(&metric::NAMESPACE_KEYS, |namespace| Some(namespace.contents?.keys));
    add(&metric::NAMESPACE_BUCKETS, |namespace| Some(namespace.contents?.buckets));
    add(&metric::NAMESPACE_STORED, |namespace| Some(namespace.contents?.stored_bytes));
    let saved = |namespace: &NamespaceStatus| {
        #[expect(clippy::cast_precision_loss, reason = "it is an estimate")]
        let saved = namespace.contents?.saved_bytes() as f64;
        Some(Sample { labels: vec![namespace.keys.clone()], value: Value::Level(saved) })
    };
    series.push(Series { family: &metric::SAVED, samples: status.namespaces.iter().filter_map(saved).collect() });
}

fn add_move(sources: &Sources, series: &mut Vec<Series>) {
    let progress = sources.observations.move_progress();
    let mut add = |family: &'static Family, value: fn(&MoveProgress) -> Value| {
        let sample = |progress| Sample { labels: Vec::new(), value: value(progress) };
        series.push(Series { family, samples: progress.as_ref().map(sample).into_iter().collect() });
    };
    add(&metric::MOVE_MOVED, |progress| Value::Number(progress.moved));
    add(&metric::MOVE_KEYS, |progress| Value::Number(progress.keys));
    add(&metric::MOVE_SILENCE, |progress| seconds(progress.silent_ms));
}

fn add_cache(cache: &CacheStatus, status: &Status, series: &mut Vec<Series>) {
    let evicted = status.namespaces.iter().flat_map(|namespace| {
        let cold = namespace.evicted.saturating_sub(namespace.evicted_new);
        [("cold", cold), ("new", namespace.evicted_new)].map(|(reason, keys)| Sample {
            labels: vec![namespace.keys.clone(), reason.to_owned()],
            value: Value::Number(keys),
        })
    });
    series.push(Series { family: &metric::EVICTED, samples: evicted.collect() });
    series.push(number(&metric::EVICTED_PLAIN, cache.plain_evicted));
    series.push(number(&metric::EVICTED_BY_SERVER, cache.evicted_by_server));
    series.push(one(&metric::EVICTED_AGE, ages(&cache.evicted_ages)));
    series.push(number(&metric::CACHE_MEMORY, cache.used_bytes));
    series.push(number(&metric::CACHE_MAX_MEMORY, cache.max_bytes));
    series.push(number(&metric::CACHE_KEYS, cache.keys));
    series.push(number(&metric::CACHE_COUNTERS, cache.counters_bytes));
    series.push(number(&metric::CACHE_LOOKED_AT, cache.looked_at));
    series.push(number(&metric::CACHE_WAITED, cache.waited));
    series.push(number(&metric::CACHE_REFUSED, cache.refused));
    series.push(number(&metric::CACHE_EVICTS, cache.evicts.into()));
}

#[expect(clippy::cast_precision_loss, reason = "seconds need no more than 15 digits")]
fn ages(ages: &AgesStatus) -> Value {
    let bound = |seconds: Option<u64>| seconds.map_or(f64::INFINITY, |seconds| seconds as f64);
    let counts = ages.all_buckets().map(|bucket| (bound(bucket.within_s), bucket.keys)).collect();
    Value::Buckets(Buckets { counts, sum: ages.total_ms as f64 / SECOND_MS })
}

fn add_layout(sources: &Sources, status: &Status, series: &mut Vec<Series>) {
    let layout = &status.layout;
    let hash = Sample { labels: vec![layout.hash.clone()], value: Value::Nothing };
    series.push(Series { family: &metric::LAYOUT, samples: vec![hash] });
    series.push(number(&metric::LAYOUT_EPOCH, layout.epoch));
    series.push(number(&metric::LAYOUT_IN_DOUBT, layout.in_doubt.into()));
    series.push(number(&metric::LAYOUT_CHANGES, layout.changes));
    series.push(number(&metric::LAYOUT_FOUND_LOST, layout.found_lost));
    series.push(number(&metric::LAYOUT_PUT_BACK, layout.put_back));
    series.push(number(&metric::LAYOUT_FENCED, layout.connections_closed));
    series.push(number(&metric::SERVING, sources.membership.is_serving().into()));
}

fn add_sweep(status: &Status, series: &mut Vec<Series>) {
    let sweep = &status.sweep;
    series.push(number(&metric::SWEEP_FIELDS, sweep.fields));
    series.push(number(&metric::SWEEP_EXPIRED, sweep.expired));
    series.push(number(&metric::SWEEP_ORPHANS, sweep.orphans));
    series.push(number(&metric::SWEEP_NOTED, sweep.noted as u64));
    series.push(one(&metric::SWEEP_LAG, seconds(sweep.lag_ms)));
    series.push(one(&metric::SWEEP_WALK, seconds(sweep.walk_ms)));
    series.push(number(&metric::LARGE_BUCKETS, status.large_buckets.len() as u64));
}

fn add_cluster(sources: &Sources, status: &Status, series: &mut Vec<Series>) {
    if let Some(cluster) = sources.cluster() {
        let redirects = cluster.redirects;
        series.push(number(&metric::CLUSTER_PRIMARIES, cluster.primaries));
        series.push(number(&metric::CLUSTER_REPLICAS, cluster.replicas));
        series.push(number(&metric::CLUSTER_SLOTS_SERVED, cluster.served_slots));
        series.push(number(&metric::CLUSTER_SLOTS_HELD, cluster.held_slots));
        series.push(number(&metric::CLUSTER_MAP_CHANGES, cluster.map_changes));
        let kinds = [
            ("moved", redirects.moved),
            ("ask", redirects.asked),
            ("tryagain", redirects.try_again),
            ("unserved", redirects.unserved),
        ];
        series.push(numbers(&metric::CLUSTER_REDIRECTS, kinds));
    }
    let replicas = status.replicas.iter().flat_map(|all| &all.replicas);
    series.push(numbers(&metric::REPLICA_READS, replicas.clone().map(|one| (&one.address, one.reads))));
    series.push(numbers(&metric::REPLICA_RETURNED, replicas.clone().map(|one| (&one.address, one.returned))));
    series.push(numbers(&metric::REPLICA_FIT, replicas.clone().map(|one| (&one.address, one.unfit.is_none().into()))));
    let lags = replicas.filter_map(|one| Some((&one.address, u64::try_from(one.lag_ms?).ok()?)));
    let lag = |(address, ms): (&String, u64)| Sample { labels: vec![address.clone()], value: seconds(ms) };
    series.push(Series { family: &metric::REPLICA_LAG, samples: lags.map(lag).collect() });
    series.extend(status.sentinels.iter().map(|sentinels| number(&metric::PRIMARY_CHANGES, sentinels.changes)));
}

fn add_servers(sources: &Sources, series: &mut Vec<Series>) {
    let observed = sources.observations.all();
    let info = observed.iter().map(|(node, server)| Sample {
        labels: vec![node.clone(), server.name.clone(), server.version.clone()],
        value: Value::Nothing,
    });
    series.push(Series { family: &metric::SERVER, samples: info.collect() });
    let each = || observed.iter();
    series.push(numbers(&metric::SERVER_USED_MEMORY, each().filter_map(|(at, one)| Some((at, one.used_memory?)))));
    series.push(numbers(&metric::SERVER_MAX_MEMORY, each().filter_map(|(at, one)| Some((at, one.max_memory?)))));
    let entries = each().filter_map(|(at, one)| Some((at, one.listpack_entries?)));
    series.push(numbers(&metric::SERVER_LISTPACK_ENTRIES, entries));
    let value = each().filter_map(|(at, one)| Some((at, one.listpack_value?)));
    series.push(numbers(&metric::SERVER_LISTPACK_VALUE, value));
}
