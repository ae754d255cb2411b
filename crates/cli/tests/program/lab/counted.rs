//! What the studies of pairs and counters find has the shape of the originals'.

use std::collections::HashMap;
use std::path::Path;

use keyfold_testkit::found;
use tempfile::TempDir;

use super::{Stage, ended, keyfold};

type Row = HashMap<String, String>;

fn rows(study: &str, table: &str, program: &Path) -> Vec<Row> {
    let out = TempDir::new().unwrap();
    let mut command = keyfold(&["lab", "run", study, "--quick", "--program"]);
    ended(command.arg(program).arg("--out").arg(out.path()).output().unwrap()).assert_code(0);
    let mut csv = csv::Reader::from_path(out.path().join(study).join(table)).unwrap();
    csv.deserialize().map(Result::unwrap).collect()
}

/// A number of the only row with these columns.
#[track_caller]
fn number(rows: &[Row], columns: &[(&str, &str)], wanted: &str) -> f64 {
    let mut found = rows.iter().filter(|row| columns.iter().all(|(column, is)| row[*column] == *is));
    let row = found.next().unwrap_or_else(|| panic!("no row with {columns:?}"));
    assert!(found.next().is_none(), "several rows with {columns:?}");
    row[wanted].parse().unwrap()
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn all_together_saves_as_much_as_the_original_on_every_server() {
    for binary in found() {
        let rows = rows("codecs", "memory.csv", binary.path());
        let times = |values, form| number(&rows, &[("values", values), ("form", form)], "times_less");
        // On servers whose plain keys have become smaller there is less to save.
        assert!(times("integers", "all") > 10.0, "{}", binary.name());
        for (values, least) in [("short strings", 3.0), ("HTML", 2.5), ("JSON, books", 3.0), ("JSON, users", 3.0)] {
            let all = times(values, "all");
            assert!(all > least, "{values} on {}: {all}", binary.name());
            for form in ["key-zipped", "bucketed", "zlib", "codec", "zipped + codec"] {
                assert!(times(values, form) < all, "{values}, {form} on {}", binary.name());
            }
        }
        assert!(rows.iter().all(|row| row["spilled_values"] == "0"));
    }
}

#[test]
fn holes_cost_buckets_by_ids_and_not_those_by_count() {
    for binary in found() {
        let rows = rows("int-buckets", "memory.csv", binary.path());
        let bytes = |ids, form| number(&rows, &[("ids", ids), ("form", form)], "measured_bytes");
        assert!(bytes("dense", "by 512") < bytes("dense", "strings") / 6.0, "{}", binary.name());
        assert!(bytes("with holes", "by 64") > bytes("with holes", "by 512") * 2.0, "{}", binary.name());
        assert!(bytes("with holes", "by 512") > bytes("dense", "by 512") * 2.0, "{}", binary.name());
        assert!(bytes("with holes", "keyfold, count") < bytes("with holes", "by 512") / 2.0, "{}", binary.name());
    }
}

#[test]
fn every_command_is_timed_at_every_length_of_a_pipeline() {
    let Some(binary) = found().into_iter().next() else { return };
    let rows = rows("int-buckets", "speed.csv", binary.path());
    assert_eq!(rows.len(), 24);
    for row in &rows {
        let time = |column: &str| row[column].parse::<f64>().unwrap();
        assert!(0.0 < time("server_us") && time("server_us") < time("clock_us"), "{row:?}");
    }
    let clock =
        |at_a_time| number(&rows, &[("command", "GET"), ("form", "strings"), ("at_a_time", at_a_time)], "clock_us");
    assert!(clock("100") < clock("1"), "a pipeline saves round trips");
}

#[test]
fn folded_collections_take_less_than_plain_ones_and_are_found() {
    let Some(stage) = Stage::start(&[]) else { return };
    stage.run(&["lab", "run", "collections", "--quick"]).assert_code(0).assert_says("sessions of 5 fields, folded");
    assert_eq!(stage.said("DBSIZE"), ":0\\r\\n");
    let read = |table: &str| -> Vec<Row> {
        let file = stage.out.path().join("lab/collections").join(table);
        csv::Reader::from_path(file).unwrap().deserialize().map(Result::unwrap).collect()
    };
    let (plain, folded, look_ups) = (read("memory.csv"), read("folded.csv"), read("look-ups.csv"));
    assert_eq!((folded.len(), look_ups.len()), (6, plain.len() + folded.len()));
    for row in &folded {
        let plain = number(&plain, &[("what", &row["what"]), ("way", "plain")], "bytes_per_member");
        assert!(row["bytes_per_member"].parse::<f64>().unwrap() < plain / 1.5, "{row:?}");
    }
    for row in &look_ups {
        let time = |column: &str| row[column].parse::<f64>().unwrap();
        assert!(0.0 < time("server_us") && time("server_us") < time("clock_us"), "{row:?}");
    }
}

#[test]
fn longer_names_cost_more_by_steps() {
    for binary in found() {
        let rows = rows("key-length", "memory.csv", binary.path());
        let bytes = |symbols| number(&rows, &[("symbols", symbols)], "bytes_per_key");
        let grown = bytes("128") - bytes("3");
        assert!((100.0..180.0).contains(&grown), "{}: {grown}", binary.name());
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn beside_other_keys_nothing_of_theirs_is_touched() {
    let Some(stage) = Stage::start(&[]) else { return };
    stage.said("SET mine 1");
    for study in ["key-length", "int-buckets", "codecs"] {
        stage.run(&["lab", "run", study, "--quick", "--i-know"]).assert_code(0).assert_says("original");
        assert_eq!(stage.said("KEYS *"), "*1\\r\\n$4\\r\\nmine\\r\\n", "{study}");
    }
}
