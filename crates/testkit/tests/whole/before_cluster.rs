//! The `keyfold` program before a cluster, compared with a cluster and with one server.

use keyfold_testkit::differential::{self, Behind, CalledAs, Options, ScriptOptions, Stage, is_later};
use keyfold_testkit::{Binary, found};

const BEHIND: [Behind; 2] = [Behind::Cluster, Behind::ClusterAsServer];

fn compare(binary: &Binary, behind: Behind, coded: bool, options: &Options) {
    let stage = Stage::start(binary, behind, coded).expect("both sides start");
    let options = Options { behind, later: is_later(binary), ..*options };
    if let Err(failure) = differential::run(stage.sides(), &options, |_| {}) {
        panic!("{}, {behind}, coded {coded}: {failure}", binary.name());
    }
}

/// The oldest server, whose answers are those of folded keys, and the newest.
#[test]
fn random_commands_get_a_clusters_answers_and_one_servers() {
    let binaries = found();
    let ends = [binaries.first(), binaries.last().filter(|_| binaries.len() > 1)];
    for (seed, binary) in (1..).zip(ends.into_iter().flatten()) {
        for (behind, coded) in BEHIND.into_iter().zip([true, false]) {
            compare(binary, behind, coded, &Options { commands: 8_000, seed, ..Options::default() });
        }
    }
}

#[test]
fn random_scripts_get_a_clusters_answers() {
    let binary = found().pop().expect("no redis-server or valkey-server; run scripts/ensure-server");
    for coded in [false, true] {
        let stage = Stage::start(&binary, Behind::Cluster, coded).expect("both sides start");
        for called_as in [CalledAs::Scripts, CalledAs::Functions] {
            let options = ScriptOptions { called_as, ..ScriptOptions::new(Behind::Cluster, 1, 1_000) };
            if let Err(failure) = differential::run_scripts(stage.sides(), &options, |_| {}) {
                panic!("{}: {failure}", binary.name());
            }
        }
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn many_random_commands_get_a_clusters_answers_and_one_servers_on_all() {
    for (seed, binary) in (1..).zip(found()) {
        for behind in BEHIND {
            for coded in [false, true] {
                compare(&binary, behind, coded, &Options { commands: 30_000, seed, ..Options::default() });
            }
        }
    }
}
