//! What every command prints that prints tables, at 80 columns: no line is longer, and with `--wide` nothing is left out.

use keyfold_testkit::found;
use tempfile::TempDir;
use textwrap::core::display_width;

use crate::fold::stage::{Ran, Stage, finished, ok};

const COLUMNS: usize = 80;

/// Names that would move a cursor, turn the direction of writing, take two columns a letter, or fill a line by themselves.
const HOSTILE: [&str; 3] = [
    "\x1b[31m\u{202e}evil",
    "漢字漢字漢字漢字",
    "a:rather:long:prefix:that:fills:most:of:one:line:by:itself:at:eighty",
];

const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}:logins'\nbucket = { span = 100 }\n\
     [[namespace]]\nkeys = 'a:rather:long:prefix:that:fills:most:of:one:line:by:itself:at:eighty:{id:int}'\n\
     bucket = { span = 64 }\ncodec = 'auto'\n\
     [[namespace]]\nkeys = '漢字漢字漢字漢字:{id:int}'\nbucket = { span = 64 }\n\
     [[namespace]]\nkeys = \"\\u001b[31m\\u202eevil:{id:int}\"\nbucket = { span = 64 }\n";

fn fill_users(stage: &Stage) {
    let mut wire = stage.connect();
    for id in 0..1500 {
        ok(&mut wire, &[b"SET", format!("user:{id}:logins").as_bytes(), (id * 31).to_string().as_bytes()]);
    }
}

fn fill(stage: &Stage) {
    fill_users(stage);
    let mut wire = stage.connect();
    for id in 0..300 {
        for name in HOSTILE {
            let value = format!("{{\"id\":{id},\"name\":\"somebody\",\"roles\":[\"reader\"]}}");
            ok(&mut wire, &[b"SET", format!("{name}:{id}").as_bytes(), value.as_bytes()]);
        }
        wire.call(&[b"HSET", format!("profile:{id}").as_bytes(), b"bio", &[b'x'; 100]]).unwrap();
    }
}

fn ran(stage: &Stage, args: &[&str], columns: Option<usize>) -> Ran {
    let mut command = stage.command(args);
    match columns {
        Some(columns) => command.env("COLUMNS", columns.to_string()),
        None => command.env_remove("COLUMNS"),
    };
    finished(command.output().unwrap())
}

/// No line is longer than a terminal's but those that are one word, such as a path, which are to be copied.
#[track_caller]
fn assert_narrow(args: &[&str], text: &str) {
    for line in text.lines() {
        let is_one_word = !line.trim_start().contains(' ');
        assert!(display_width(line) <= COLUMNS || is_one_word, "{args:?}: {line:?} in\n{text}");
        assert!(!line.contains(|one: char| one.is_control() || one == '\u{202e}'), "{args:?}: {line:?}");
    }
}

#[track_caller]
fn run(stage: &Stage, args: &[&str], code: i32) -> Ran {
    let narrow = ran(stage, args, Some(COLUMNS));
    narrow.assert_code(code);
    assert_narrow(args, &narrow.stdout);
    assert_narrow(args, &narrow.stderr);
    narrow
}

/// The same where nothing is changed by it: with `--wide` every head is there, and so it is in a pipe.
#[track_caller]
fn run_wide(stage: &Stage, args: &[&str], code: i32, heads: &[&str]) {
    run(stage, args, code);
    for wide in [ran(stage, &[args, &["--wide"]].concat(), Some(COLUMNS)), ran(stage, args, None)] {
        wide.assert_code(code);
        let shown = |head: &&str| wide.stdout.contains(*head);
        assert!(heads.iter().all(shown) && !wide.stdout.contains("--wide"), "{args:?}: {heads:?}\n{}", wide.stdout);
    }
}

#[test]
fn every_command_is_readable_at_80_columns_and_whole_with_wide() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&stage);
    let url = stage.server.url();
    let layout = stage.layout(LAYOUT);
    let [planned, dump] = ["planned.toml", "dump.jsonl"].map(|name| format!("{layout}.{name}"));
    let costs = ["a key", "values, median", "99th", "TTL", "compressible", "stored as", "read now", "how, or why not"];
    run_wide(
        &stage,
        &["analyze", &url, "--usd-per-gb-month", "12"],
        0,
        &[&costs[..], &["USD a month", "saved"]].concat(),
    );
    let plan = ["number", "bytes now", "after", "ratio", "µs now", "values", "advice"];
    run_wide(&stage, &["plan", &url, "--out", &planned, "--force"], 0, &plan);
    let check = ["names", "placement", "value limit", "field limit"];
    run_wide(&stage, &["layout", "check", &layout], 0, &check);
    run_wide(&stage, &["fold", &url, "--layout", &layout, "--dry-run"], 0, &["number", "from", "to"]);
    run(&stage, &["fold", &url, "--layout", &layout, "--yes"], 0);
    let status = ["number", "bytes, plain", "folded", "ratio", "placement"];
    run_wide(&stage, &["status", &url], 0, &status);
    run_wide(&stage, &["analyze", &url], 0, &costs[..1]);
    run_wide(&stage, &["plan", &url], 0, &plan);
    run_wide(&stage, &["verify", &url], 0, &["buckets", "mean", "largest", "spilled", "expired"]);
    run_wide(&stage, &["doctor", &url], 3, &["hashtables", "entries: median", "99th", "most"]);
    run_wide(&stage, &["layout", "show", &url], 0, &check);
    run_wide(&stage, &["layout", "recover", &url, "--dry-run"], 0, &["names", "such as"]);
    run_wide(&stage, &["train", &url, "--dry-run"], 0, &[]);
    run_wide(&stage, &["top", "--once", "--interval", "200ms", &url], 0, &["requests", "writes", "found"]);
    run(&stage, &["layout", "push", &url, &layout], 0);
    run(&stage, &["where", &url, "user:7:logins"], 0);
    run(&stage, &["where", &url, "\x1b[31m\u{202e}evil:7"], 0);
    run(&stage, &["recode", &url], 0);
    run(&stage, &["export", &url, "--out", &dump], 0);
    run(&stage, &["import", &url, &dump], 0);
    run(&stage, &["unfold", &url, "--yes", "--clean"], 0);
    run_wide(&stage, &["lab", "list"], 0, &["study", "after", "asks"]);
}

/// Of `demo` the one that measures, and of the studies the quickest: the others wait for clocks, and print in the same way.
#[test]
fn demos_studies_and_the_guide_are_readable_at_80_columns() {
    let Some(binary) = found().pop() else { return };
    let stage = Stage::newest(&[]).unwrap();
    let (program, dir) = (binary.path().to_str().unwrap(), TempDir::new().unwrap());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let study = ["lab", "run", "set-vs-hash", "--quick", "--program", program, "--out", &path("results")];
    run(&stage, &study, 0);
    run(&stage, &["demo", "--measure", "--records", "300", "--server", program, "--plot", &path("saved.svg")], 0);
    fill_users(&stage);
    let url = stage.server.url();
    run(&stage, &["try", &url, "--out", &path("layout.toml"), "--yes", "--unserved"], 0);
}

#[test]
fn help_is_readable_at_80_columns() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let shown = ran(&stage, &["--help"], Some(COLUMNS)).stdout;
    let commands = shown.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> =
        commands.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        run(&stage, &[name, "--help"], 0);
        run(&stage, &[name, "-h"], 0);
    }
}
