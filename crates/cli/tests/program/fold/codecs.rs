//! Values that are compressed while keys are folded, stored again by other codecs, and come back as they were.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use keyfold_testkit::{Subject, Value, Wire};

use super::stage::{Stage, assert_same, ok, on_every_server, said};

/// Records in buckets, tokens in keys of their own.
fn layout(records: &str, tokens: &str) -> String {
    format!(
        "[[namespace]]\nkeys = 'rec:{{id:int}}'\nbucket = {{ span = 64 }}\nvalue_limit = 128\ncodec = {records}\n\
         [[namespace]]\nkeys = 'tok:{{name}}'\ncodec = {tokens}\n"
    )
}

/// Records like each other, some with a TTL; tokens; and what no codec makes shorter.
fn fill(wire: &mut Wire) {
    for id in 0..2000_u32 {
        let n = id.wrapping_mul(2_654_435_761) % 99_991;
        let (key, role) = (format!("rec:{id}"), ["admin", "editor", "reader"][id as usize % 3]);
        let value = format!(
            r#"{{"id":{id},"name":"User Number {n}","email":"user{n}@example.com","role":"{role}","team":"team-{}"}}"#,
            n % 17
        );
        let late: &[&[u8]] = if id % 10 == 0 { &[b"PXAT", b"2209000000123"] } else { &[] };
        ok(wire, &[&[&b"SET"[..], key.as_bytes(), value.as_bytes()], late].concat());
        ok(wire, &[b"SET", format!("tok:{id}").as_bytes(), format!("{:016x}{:016x}", n * 7919, id).as_bytes()]);
    }
    let long = "a long value, a longer value. ".repeat(4000);
    let rest: [(&str, &[u8]); 7] = [
        ("rec:5000", b""),
        ("rec:5001", b"17"),
        ("rec:5002", b"\x00\x01\x02\x1f"),
        ("rec:5003", long.as_bytes()),
        ("tok:", b""),
        ("tok:é", b"\x04binary"),
        ("tok:long", long.as_bytes()),
    ];
    for (key, value) in rest {
        ok(wire, &[b"SET", key.as_bytes(), value]);
    }
}

/// What all keys take, dictionaries included. What the server has for connections and scripts comes and goes.
fn used(stage: &Stage) -> i64 {
    let mut wire = stage.connect();
    let keys = wire.ask(&[b"KEYS", b"*"]).unwrap();
    let names = keys.elements().unwrap().iter().filter_map(Value::bytes);
    names.map(|name| wire.ask(&[b"MEMORY", b"USAGE", name, b"SAMPLES", b"0"]).unwrap().integer().unwrap()).sum()
}

#[test]
fn compressed_and_unfolded_a_keyspace_is_what_it_was() {
    on_every_server(&[], |stage| {
        let what = stage.server.name();
        fill(&mut stage.connect());
        let before = stage.keyspace();
        stage.fold(&layout("'none'", "'none'"), &["--raise-limits"]).assert_code(0);
        let raw = used(stage);
        stage.unfold(&["--clean"]).assert_code(0);
        let folded = stage.fold(&layout("'zstd'", "'hex'"), &["--raise-limits"]);
        folded.assert_code(0).assert_says("chosen");
        let compressed = used(stage);
        assert!(compressed + 100_000 < raw, "{what}: {compressed} is no less than {raw}");
        stage.verify();
        stage.unfold(&["--clean"]).assert_code(0);
        assert_same(&before, &stage.keyspace(), &what);
        assert_eq!(stage.own_keys(), [""; 0], "{what}");
    });
}

#[test]
fn other_buckets_and_another_codec_at_once_lose_nothing() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let before = stage.keyspace();
    let layout = |count: u32, codec: &str| {
        format!("[[namespace]]\nkeys = 'tok:{{name}}'\nbucket = {{ count = {count} }}\ncodec = '{codec}'\n")
    };
    stage.fold(&layout(20, "hex"), &[]).assert_code(0);
    // Values in the slot of hex move while a dictionary is trained by them and takes a slot of its own.
    stage.fold(&layout(40, "fsst"), &[]).assert_code(0).assert_says("chosen");
    stage.verify();
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same(&before, &stage.keyspace(), "after both");
}

#[test]
fn what_a_codec_saves_is_measured_against_the_one_in_force() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let layout = |count: u32, codec: &str| {
        format!("[[namespace]]\nkeys = 'tok:{{name}}'\nbucket = {{ count = {count} }}\ncodec = '{codec}'\n")
    };
    let now = |folded: &str| {
        let before = folded.split(" as they are written now").next().filter(|before| before.len() < folded.len());
        before.map(|before| before.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
    };
    let folded = stage.fold(&layout(20, "zstd"), &["--dry-run"]);
    assert_eq!(now(&folded.stdout), None, "{}", folded.stdout);
    stage.fold(&layout(20, "hex"), &[]).assert_code(0);
    // Half of 32 characters, and what names the codec; zstd without a dictionary leaves them as they are.
    let folded = stage.fold(&layout(40, "zstd"), &[]);
    folded.assert_code(0).assert_says("chosen");
    assert!(now(&folded.stdout).is_some_and(|bytes| (17.0..20.0).contains(&bytes)), "{}", folded.stdout);
}

/// What clients see of it all.
fn answers(proxy: &Subject) -> Vec<String> {
    let mut wire = Wire::connect(proxy.address()).unwrap();
    let mut questions: Vec<String> = (0..2000).step_by(7).map(|id| format!("GET rec:{id}")).collect();
    questions.extend((0..2000).step_by(9).map(|id| format!("GET tok:{id}")));
    for key in ["rec:10", "rec:5000", "rec:5001", "rec:5002", "rec:5003", "tok:", "tok:77", "tok:long", "rec:no"] {
        for command in ["STRLEN", "GET", "TYPE", "PEXPIRETIME", "BITCOUNT", "EXISTS"] {
            questions.push(format!("{command} {key}"));
        }
        questions.push(format!("GETRANGE {key} -5 -1"));
    }
    questions.push("MGET rec:1 tok:1 rec:no rec:5003".to_owned());
    questions.iter().map(|question| said(&mut wire, question)).collect()
}

/// How many keys DBSIZE counts, once it no longer counts a replaced value that has just expired.
fn size(proxy: &Subject, expected: &str) -> String {
    let mut wire = Wire::connect(proxy.address()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let size = said(&mut wire, "DBSIZE");
        if size == expected || Instant::now() > deadline {
            return size;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The slots that the layout in the server has, by the lines that name them.
fn slots(stage: &Stage) -> usize {
    said(&mut stage.connect(), "GET keyfold:{home}:layout").matches("number = ").count()
}

#[test]
fn codecs_change_and_nothing_is_to_be_seen_of_it() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let proxy = Subject::beside(&stage.server).unwrap();
    let url = stage.server.url();
    let before = answers(&proxy);
    let all = said(&mut Wire::connect(proxy.address()).unwrap(), "DBSIZE");
    stage.fold(&layout("'none'", "'none'"), &["--raise-limits"]).assert_code(0);
    assert_eq!(answers(&proxy), before);
    // Without a bucket, a codec means frames, and so other places; in buckets only what is written from now on.
    stage.fold(&layout("'fsst'", "'fsst'"), &["--raise-limits"]).assert_code(0);
    assert_eq!(answers(&proxy), before);
    for codec in ["fsst", "zstd", "auto"] {
        stage.run(&["train", &url, "--namespace", "rec:{id:int}", "--codec", codec, "--force"]).assert_code(0);
        assert_eq!(answers(&proxy), before, "written by {codec} from now on");
        stage.run(&["recode", &url]).assert_code(0).assert_says("looked at");
        assert_eq!(answers(&proxy), before, "recoded to {codec}");
        assert_eq!(size(&proxy, &all), all, "recoded to {codec}");
        assert_eq!(slots(&stage), 2, "one of each namespace");
        stage.verify();
    }
    stage.fold(&layout("'none'", "'hex'"), &["--raise-limits"]).assert_code(0);
    stage.run(&["recode", &url]).assert_code(0);
    assert_eq!(answers(&proxy), before);
    assert_eq!(slots(&stage), 1);
    let kept = said(&mut stage.connect(), "HKEYS keyfold:{home}:dictionaries");
    assert_eq!(kept.matches("slots ~").count(), 2, "what the slots are, of each namespace: {kept}");
    assert!(kept.starts_with("*2\\r"), "and no dictionary: {kept}");
    stage.verify();
}

#[test]
fn a_recode_that_was_killed_goes_on_and_frees_no_slot_in_use() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let before = stage.keyspace();
    let url = stage.server.url();
    stage.fold(&layout("'fsst'", "'hex'"), &["--raise-limits"]).assert_code(0);
    stage.run(&["train", &url, "--namespace", "rec:{id:int}", "--codec", "zstd"]).assert_code(0);
    for delay_ms in [0, 50, 100, 200] {
        let mut recode = stage.command(&["recode", &url, "--max-ops", "20000"]);
        let mut recode = recode.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay_ms));
        recode.kill().unwrap();
        recode.wait().unwrap();
        stage.verify();
    }
    stage.run(&["recode", &url]).assert_code(0);
    assert_eq!(slots(&stage), 2);
    stage.verify();
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same(&before, &stage.keyspace(), "after all that");
}

#[test]
fn a_recode_ends_while_clients_write_what_expires() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    stage.fold(&layout("'zstd'", "'none'"), &["--raise-limits"]).assert_code(0);
    let recode = |namespace: &str| {
        let run = stage.run(&["recode", &stage.server.url(), "--namespace", namespace, "--json"]);
        run.assert_code(0);
        let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        ["seen", "recoded"].map(|number| report[number].as_u64().unwrap())
    };
    let before = recode("rec:{id:int}");
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    let expiring = |id: u32| format!("SET rec:{id} {{\"id\":{id},\"name\":\"short-lived\"}} PX 1");
    for id in 0..300 {
        assert_eq!(said(&mut wire, &expiring(id)), "+OK\\r\\n");
    }
    // Nobody sweeps from here on.
    drop(proxy);
    assert_eq!(before[1], 0);
    assert_eq!(recode("rec:{id:int}"), before, "what is expired is seen, and need not be stored again");
}

#[test]
fn values_whose_dictionary_is_lost_are_refused_and_others_go_on() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let url = stage.server.url();
    stage.fold(&layout("'zstd'", "'hex'"), &["--raise-limits"]).assert_code(0);
    assert_eq!(said(&mut stage.connect(), "DEL keyfold:{home}:dictionaries"), ":1\\r\\n");
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    for refused in ["GET rec:1", "APPEND rec:1 x", "STRLEN rec:1", "MGET rec:1 tok:1", "GETSET rec:1 new"] {
        let answer = said(&mut wire, refused);
        // Of several values only this one is an error.
        let error = answer.strip_prefix("*2\\r\\n").filter(|_| refused.starts_with("MGET")).unwrap_or(&answer);
        assert!(error.starts_with(r"-ERR keyfold: key \'rec:1\': its codec, slot"), "{refused}: {answer}");
        assert!(answer.contains("keyfold:{home}:dictionaries; put it back"), "{refused}: {answer}");
    }
    assert!(said(&mut wire, "GET tok:1").starts_with('$'), "another codec");
    assert_eq!(said(&mut wire, "GET rec:5001"), "$2\\r\\n17\\r\\n", "not compressed");
    assert_eq!(said(&mut wire, "SET rec:1 new"), "+OK\\r\\n");
    assert_eq!(said(&mut wire, "GET rec:1"), "$3\\r\\nnew\\r\\n");
    let before = stage.keyspace();
    stage
        .run(&["recode", &url])
        .assert_code(1)
        .assert_says("can't be written by their codec")
        .assert_says("put it back");
    assert_same(&before, &stage.keyspace(), "and none is stored as it is");
    assert_eq!(slots(&stage), 2);
    stage.fold(&layout("'none'", "'hex'"), &["--raise-limits"]).assert_code(0);
    stage.run(&["recode", &url]).assert_code(3).assert_says("can't be decoded and stay as they are");
    assert_eq!(slots(&stage), 2, "a slot that values name stays");
    stage.run(&["verify", &url, "--skip-encodings"]).assert_code(3);
}
