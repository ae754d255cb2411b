//! A million ids in hashes of 1,000 fields, at the default limit of 512: what everybody runs into first. Here
//! with fewer of them.

use keyfold_testkit::{Server, found};
use serde_json::Value;

use super::stage::{apply, contents, data_bytes, doctor, doctor_text, numbers, on_every_server, write_hash};

/// 50,000 keys.
const HASHES: usize = 50;

/// The same fields however many of them a hash has, and each of them as long: what a hash takes goes up in steps,
/// and doctor knows no more than how long fields are on average.
fn load(server: &Server, per_hash: usize) {
    let mut wire = server.connect().unwrap();
    let fields: Vec<_> = (0..HASHES).flat_map(|_| numbers(2000).skip(1000)).collect();
    for (hash, fields) in fields.chunks(per_hash).enumerate() {
        write_hash(&mut wire, format!("mediabucket:{hash}").as_bytes(), fields.iter().cloned());
    }
}

/// Has the server keep nothing of commands: from 7.0 on some tens of kilobytes for each kind of them, and on a busy
/// machine up to 128 slow ones with their arguments.
fn keep_no_commands(server: &Server) {
    let mut wire = server.connect().unwrap();
    // Unknown before 7.0, which keeps none.
    let _ = wire.call(&[b"CONFIG", b"SET", b"latency-tracking", b"no"]).unwrap();
    assert_eq!(wire.call(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"-1"]).unwrap(), b"+OK\r\n");
}

/// Within so many percent of each other.
#[track_caller]
fn assert_near(predicted: i64, measured: i64, percent: i64, of: i64, name: &str) {
    let off = (predicted - measured).abs();
    assert!(off * 100 <= of.abs() * percent, "{name}: predicted {predicted}, measured {measured}");
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

#[test]
fn the_cause_is_named_and_what_is_printed_mends_it() {
    on_every_server(&[], |server| {
        let name = server.name();
        keep_no_commands(server);
        load(server, 1000);
        let (used, before) = (data_bytes(server), contents(&mut server.connect().unwrap()));
        let sick = doctor(&server.url(), &[]);
        assert_eq!((sick.code, sick.problems()), (Some(3), vec!["too-many-entries"]), "{name}: {sick:#?}");
        let finding = sick.finding("too-many-entries");
        assert!(finding["what"].as_str().unwrap().contains("50 hashes are hashtables: up to 1,000 entries"));
        assert!(finding["why"].to_string().contains("was never loaded"), "{finding:#?}");
        assert_eq!(finding["rewrite"], "after");

        let (_, text) = doctor_text(&server.url(), &[]);
        for line in
            ["1. hashes mediabucket:*", "   costs    ", "   mend     raise", "   or       no setting, but 100 entries"]
        {
            assert!(text.contains(line), "{line} in {text}");
        }

        apply(server, finding, 0);
        doctor(&server.url(), &[]).assert_well();
        assert!(contents(&mut server.connect().unwrap()) == before, "{name}: the data is as it was");
        let saved = used - data_bytes(server);
        assert_near(number(&finding["mends"][0]["saves_bytes"]), saved, 3, saved, &name);
    });
}

#[test]
fn the_right_bucket_saves_what_was_said() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        load(&server, 1000);
        let sick = doctor(&server.url(), &[]);
        let finding = sick.finding("too-many-entries");
        let buckets = &finding["mends"][1];
        assert!(buckets["what"].as_str().unwrap().contains("100 entries to a hash instead of 1,000"), "{buckets}");

        let right = binary.start(&[]).unwrap();
        keep_no_commands(&right);
        let empty = data_bytes(&right);
        load(&right, 100);
        let measured = data_bytes(&right) - empty;
        assert_near(number(&buckets["after_bytes"]), measured, 5, measured, &binary.name());
        doctor(&right.url(), &[]).assert_well();
    }
}
