//! What is drawn, at several sizes, of keyfolds that say so.

use std::time::{Duration, Instant};

use keyfold_core::status::Status;
use keyfold_proxy::admin::FullStatus;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::behind::{BehindTold, Sampled};
use super::columns::{By, Sort};
use super::draw::{Chosen, Page, draw};
use super::names::width;
use super::screen::press;
use super::source::{Look, Told};
use super::text;
use super::view::{View, Watch};

/// A template that would clear a terminal, ring, and turn the direction of writing round.
const HOSTILE: &str = "\u{1b}[2J\u{7}\u{202e}evil:{id:int}";

/// A keyfold's status, so many requests on: 100 of them a round, each within 128 µs.
fn status(round: u64) -> FullStatus {
    let namespace = |index: usize, keys: &str, times: u64| {
        format!(
            "keyfold_namespace_{index}:keys={keys},names=~x,reads={},writes={},spills=0,conflicts=0,hits={},misses={},swept=0,\
             expired=0,evicted={},evicted_new={},moving={}\r\nkeyfold_placement_{index}:bucket = {{ span = 64 }}\r\n",
            times * round * 60,
            times * round * 40,
            times * round * 45,
            times * round * 15,
            times * round * 20,
            times * round * 2,
            u8::from(index == 1)
        )
    };
    let info = format!(
        "# Keyfold\r\nkeyfold_version:0.1.0\r\nkeyfold_server:redis://10.0.0.1:6379\r\nkeyfold_layout_epoch:4\r\n\
         keyfold_namespaces:3\r\nkeyfold_requests:{requests}\r\nkeyfold_latency:commands={requests},total_us={}\r\n\
         keyfold_latency_buckets:128={requests}\r\n{}keyfold_contents_0:keys=6400,buckets=100,stored_bytes=98000,plain_bytes=460000\r\n\
         {}{}keyfold_former_1:placement = \"plain\"\r\n\
         keyfold_cache:policy=tinylfu,evicts=1,used_bytes=996147,max_bytes=1048576,keys=6400\r\n\
         keyfold_evicted_age_buckets:256=10\r\n",
        round * 100_000,
        namespace(0, "user:{id:int}:logins", 1),
        namespace(1, "漢字:session:{id:uuid}", 2),
        namespace(2, "page:{path}", 0),
        requests = round * 1000,
    );
    let mut keyfold = Status::read_info(&info).unwrap();
    keyfold.namespaces[2].keys = HOSTILE.to_owned();
    let mut status = FullStatus::default();
    status.ready.ok = true;
    status.requests = keyfold.requests.unwrap();
    status.saving = keyfold.saving();
    status.saved_usd_per_month = Some(1.5);
    status.clients.connected = 12;
    status.warnings = keyfold.warnings();
    status.keyfold = keyfold;
    status
}

fn look(at: Instant, told: Told) -> Look {
    Look { at, told: Ok(told) }
}

/// Two looks at a keyfold, two seconds apart.
fn one_keyfold() -> Watch {
    let mut watch = Watch::new(vec!["redis://10.0.0.5:6380".to_owned()], Duration::from_secs(2));
    let at = Instant::now();
    watch.take(0, look(at, Told::Keyfold(Box::new(status(1)))));
    watch.take(0, look(at + Duration::from_secs(2), Told::Keyfold(Box::new(status(2)))));
    watch
}

/// Two keyfolds of which one is away, and the server behind.
fn several() -> Watch {
    let names = ["http://10.0.0.5:9379", "http://10.0.0.6:9379", "redis://10.0.0.1:6379"].map(str::to_owned);
    let mut watch = Watch::new(names.to_vec(), Duration::from_secs(2));
    let at = Instant::now();
    for (index, first) in [(0, 1), (1, 5)] {
        for step in 0..2 {
            let status = status(first + u64::from(step));
            watch.take(index, look(at + Duration::from_secs(2) * step, Told::Keyfold(Box::new(status))));
        }
    }
    watch.take(1, Look { at, told: Err("it is gone: \u{1b}[31mconnection refused".to_owned()) });
    let behind = BehindTold {
        server: "Valkey 9.1.0".to_owned(),
        per_second: 321,
        used_bytes: 5_000_000,
        epoch: Some(4),
        keyfolds: vec!["keyfold:00ff from 10.0.0.5, 4 connections".to_owned()],
        namespaces: vec![Sampled { keys: "cart:{id:int}".to_owned(), count: 70.0, saved_bytes: Some(900.0) }],
        saved_bytes: Some(900.0),
        ..BehindTold::default()
    };
    watch.take(2, look(at, Told::Behind(Box::new(behind))));
    watch
}

/// The lines of a screen of this size.
fn screen(watch: &Watch, columns: u16, rows: u16, chosen: Chosen) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let view = View::of(watch);
    terminal.draw(|frame| _ = draw(frame, &view, chosen)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let (mut line, mut x) = (String::new(), 0);
        while x < columns {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // A wide character takes the cell behind it too.
            x += u16::try_from(width(symbol).max(1)).unwrap();
        }
        line.trim_end().to_owned()
    };
    let lines: Vec<String> = (0..rows).map(line).collect();
    for line in &lines {
        assert!(width(line) <= usize::from(columns) && !line.contains(char::is_control), "{columns}x{rows}: {line:?}");
    }
    lines
}

#[test]
fn a_terminal_of_usual_size_shows_all_that_matters() {
    let lines = screen(&one_keyfold(), 80, 24, Chosen::default());
    assert_eq!(lines[0], format!("{:<71}every 2 s", "keyfold top: redis://10.0.0.5:6380, ready"), "{lines:#?}");
    let head = &lines[1];
    assert!(head.starts_with("500/s · saved 354 KiB (78.7 %) · p99 127 µs · hits 75.0 % · p50 96 µs"), "{head}");
    let namespaces = lines.iter().position(|line| line.starts_with("keys of")).unwrap();
    assert!(lines[namespaces].contains("cmd/s") && lines[namespaces].contains("saved"), "{lines:#?}");
    // The busiest first.
    assert!(lines[namespaces + 1].starts_with("漢字:session:{id:uuid}"), "{lines:#?}");
    assert!(lines[namespaces + 1].contains(" 100 "), "{lines:#?}");
    assert!(
        lines[namespaces + 2].starts_with("user:{id:int}:logins") && lines[namespaces + 2].contains("354 KiB"),
        "{lines:#?}"
    );
    assert!(lines[namespaces + 3].starts_with("\\u{1b}[2J\\u{7}\\u{202e}"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("moving: 漢字:session:{id:uuid} from placement")), "{lines:#?}");
    let cache = "cache: 973 KiB of 1.00 MiB (95.0 %), 30 evicted/s (3 new), half asked for wi";
    assert!(lines.iter().any(|line| line.starts_with(cache)), "{lines:#?}");
    assert!(lines[23].starts_with("q quit  h help  w warnings (0)  p hold  ←→ sort: cmd/s"), "{lines:#?}");
}

#[test]
fn a_small_terminal_leaves_out_what_matters_least() {
    let lines = screen(&one_keyfold(), 40, 12, Chosen::default());
    assert!(lines[0].starts_with("keyfold top: redis://10.0.0.5:6380, rea"), "{lines:#?}");
    assert_eq!(lines[1], "500/s · saved 354 KiB (78.7 %)", "{lines:#?}");
    assert!(lines[2].starts_with("keys of") && lines[2].contains("cmd/s") && lines[2].contains("saved"), "{lines:#?}");
    assert!(!lines[2].contains("spills"), "{lines:#?}");
    assert!(lines[4].starts_with("user:{id:int}:l"), "{lines:#?}");
    assert!(lines[11].starts_with("q quit  h help"), "{lines:#?}");
}

#[test]
fn every_size_is_drawn_on_without_a_panic() {
    for watch in [one_keyfold(), several(), Watch::new(vec!["a".to_owned()], Duration::from_secs(1))] {
        for (columns, rows) in (1..90).step_by(4).flat_map(|columns| (1..30).map(move |rows| (columns, rows))) {
            for page in [Page::All, Page::Warnings, Page::Help] {
                screen(&watch, columns, rows, Chosen { page, scrolled: 3, is_held: true, ..Chosen::default() });
            }
        }
    }
    screen(&several(), 300, 100, Chosen::default());
}

#[test]
fn several_are_added_up_and_one_that_is_away_is_said() {
    let lines = screen(&several(), 120, 30, Chosen::default());
    let all = lines.join("\n");
    assert!(lines[0].starts_with("keyfold top: 3 sources, 1 away"), "{all}");
    // Of keyfolds before one server only one sweeps: what it saves counts once.
    assert!(lines[1].contains("saved 354 KiB"), "{all}");
    assert!(lines.iter().any(|line| line.starts_with("http://10.0.0.6:9379") && line.contains("away")), "{all}");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("Valkey 9.1.0, 4.77 MiB") || line.contains("Valkey 9.1.0, 4.77 MiB, layout 4")),
        "{all}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("!! http://10.0.0.6:9379: It can't be asked: it is gone: \\u{1b}[31m")),
        "{all}"
    );
    assert!(lines.iter().any(|line| line.starts_with("keyfold:00ff from 10.0.0.5, 4 connections")), "{all}");
    assert!(lines.iter().any(|line| line.starts_with("cart:{id:int}")), "{all}");
    let warnings = screen(&several(), 60, 20, Chosen { page: Page::Warnings, ..Chosen::default() });
    assert!(warnings.iter().any(|line| line.starts_with("what to do: ")), "{warnings:#?}");
}

#[test]
fn text_has_every_column_and_every_digit() {
    let shown = text::render(&View::of(&one_keyfold()), keyfold_report::room::Room::ENDLESS);
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}') && !shown.contains('\u{202e}'), "{shown}");
    let line = shown.lines().find(|line| line.trim_start().starts_with("user:{id:int}:logins")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        cells,
        ["user:{id:int}:logins", "50", "354", "KiB", "75.0", "%", "6,400", "64.0", "–", "120", "90", "30", "80", "0"]
    );
    assert!(
        shown.contains("\nmoves\n  漢字:session:{id:uuid} from placement = \"plain\" to bucket = { span = 64 }\n"),
        "{shown}"
    );
    let caches = "\ncaches\n  973 KiB of 1.00 MiB (95.0 %), 30 evicted/s (3 new), half asked for within 3 min\n";
    assert!(shown.contains(caches), "{shown}");
    assert!(shown.ends_with("nothing to warn of\n"), "{shown}");
}

#[test]
fn a_keyfold_that_was_started_anew_has_no_rate_until_the_next_look() {
    let mut watch = one_keyfold();
    watch.take(0, look(Instant::now(), Told::Keyfold(Box::new(status(1)))));
    let view = View::of(&watch);
    assert_eq!((view.total.per_second, view.total.p50_us, view.sources[0].requests), (None, None, Some(1000)));
    assert!(view.namespaces.iter().all(|row| row.per_second.is_none()));
}

#[test]
fn keys_choose_what_is_shown() {
    let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
    let start = Chosen::default();
    for code in [KeyCode::Char('q'), KeyCode::Esc] {
        assert!(press(key(code), start).is_none());
    }
    assert!(press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), start).is_none());
    let held = press(key(KeyCode::Char('p')), start).unwrap();
    assert!(held.is_held && !press(key(KeyCode::Char(' ')), held).unwrap().is_held);
    let help = press(key(KeyCode::Char('?')), start).unwrap();
    assert_eq!((help.page, press(key(KeyCode::Esc), help).unwrap().page), (Page::Help, Page::All));
    assert_eq!(press(key(KeyCode::Char('w')), help).unwrap().page, Page::Warnings);
    let saved = press(key(KeyCode::Right), start).unwrap();
    assert_eq!(saved.sort, Sort { by: Some(By::Saved), ascending: false });
    assert!(press(key(KeyCode::Char('r')), saved).unwrap().sort.ascending);
    let by_name = press(key(KeyCode::Left), start).unwrap();
    assert_eq!(by_name.sort, Sort { by: None, ascending: true });
    let lines = screen(&one_keyfold(), 80, 24, by_name);
    let at = lines.iter().position(|line| line.starts_with("keys of")).unwrap();
    assert!(lines[at + 1].starts_with("\\u{1b}") && lines[at + 3].starts_with("漢字"), "{lines:#?}");
    let down = press(key(KeyCode::Down), by_name).unwrap();
    assert_eq!((down.scrolled, press(key(KeyCode::PageUp), down).unwrap().scrolled), (1, 0));
    let small = screen(&one_keyfold(), 40, 7, Chosen { scrolled: 9, ..by_name });
    assert!(small[3].starts_with("user:{id") && small[4].starts_with("漢字"), "{small:#?}");
}
