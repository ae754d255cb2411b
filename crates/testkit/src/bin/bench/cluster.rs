//! Requests a second through keyfold before a cluster of three primaries, beside keyfold before one server.
//!
//! Both have the same layout, the same keys and the same number of worker threads. They take turns in each round; what
//! counts is the ratio within a round, and of those the median.

use anyhow::Context;
use keyfold_core::admin::home;
use keyfold_core::layout::Layout;
use keyfold_lab::{Cell, Table};
use keyfold_testkit::Binary;
use keyfold_testkit::cluster::{Cluster, Options as ClusterOptions};

use crate::options::Options;
use crate::proxy::Proxy;
use crate::redis_benchmark::{self, CLIENTS, Load, SET_AND_GET, median};
use crate::report::{Report, cell, each_round};

/// The keys that redis-benchmark writes, as a cluster has them: a bucket in each slot.
const LAYOUT: &str = "cluster = true\n\n[[namespace]]\nkeys = \"key:{id:int(12)}\"\nbucket = { count = 1 }\n";

const PRIMARIES: usize = 3;

/// At least so much of keyfold before one server is wanted before the cluster.
const GOAL: f64 = 0.8;

/// Measures without pipelining and with 16 requests at a time, and says which goals are missed.
pub(crate) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    if !redis_benchmark::is_there() {
        eprintln!("bench: redis-benchmark is not on PATH; speed before a cluster is not measured");
        return Ok(Vec::new());
    }
    let layout = Layout::parse_file(LAYOUT)?;
    let server = binary.start(&[])?;
    server.put_in_force(&layout)?;
    let cluster = Cluster::start(binary, PRIMARIES, 0, &ClusterOptions::default())?;
    cluster.put_in_force(&layout)?;
    let (before_one, before_cluster) =
        (Proxy::beside(&server)?, Proxy::beside(cluster.node(cluster.owner(home().number())?).server())?);
    let targets = [&before_one, &before_cluster].map(Proxy::target);
    let nodes: Vec<u32> = cluster.nodes().iter().map(|node| node.server().pid()).collect();
    let servers = [vec![server.pid()], nodes];
    let title = format!(
        "keyfold before one server and before {PRIMARIES} primaries, thousand requests a second and CPU µs a request, \
         {CLIENTS} clients, {} rounds",
        options.rounds
    );
    let mut table = Table::titled(title, &COLUMNS);
    let mut missed = Vec::new();
    for load in Load::both(options) {
        for command in SET_AND_GET {
            let mut sides = [Side::default(), Side::default()];
            for _ in 0..options.rounds {
                for ((side, target), servers) in sides.iter_mut().zip(targets).zip(&servers) {
                    let (run, cpu) = redis_benchmark::run_beside(target, servers, command, load)?;
                    side.thousands.push(run.requests_per_second / 1000.0);
                    side.keyfold_cpu.push(run.cpu_us_per_request);
                    side.server_cpu.push(cpu.iter().sum());
                }
            }
            let [one, three] = sides;
            let ratios: Vec<f64> = three.thousands.iter().zip(&one.thousands).map(|(three, one)| three / one).collect();
            let ratio = median(ratios.clone()).context("there are rounds")?;
            if ratio < GOAL {
                missed.push(format!(
                    "{}, {} at a time: {ratio:.2} of one server, {GOAL} is the goal",
                    command[0], load.pipeline
                ));
            }
            table.row(vec![
                command[0].into(),
                Cell::Whole(load.pipeline as u64),
                cell(one.thousands, 1),
                cell(three.thousands, 1),
                each_round(&ratios),
                Cell::Number(ratio, 2),
                cell(one.keyfold_cpu, 2),
                cell(three.keyfold_cpu, 2),
                cell(one.server_cpu, 2),
                cell(three.server_cpu, 2),
            ]);
        }
    }
    report.add(&binary.name(), &table);
    Ok(missed)
}

const COLUMNS: [&str; 10] = [
    "command",
    "pipeline",
    "one server",
    "cluster",
    "cluster/one",
    "median",
    "keyfold CPU, one",
    "cluster",
    "server CPU, one",
    "cluster",
];

/// What the rounds of one of the two gave.
#[derive(Default)]
struct Side {
    thousands: Vec<f64>,
    keyfold_cpu: Vec<f64>,
    /// Of all its servers together.
    server_cpu: Vec<f64>,
}
