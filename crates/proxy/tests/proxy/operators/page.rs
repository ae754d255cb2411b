//! The page, and what it is drawn from: `/status` and `/history`.

use std::net::TcpStream;
use std::time::Duration;

use keyfold_core::layout::Layout;
use keyfold_core::status::Status;
use keyfold_proxy::admin::{FullStatus, History};
use keyfold_proxy::config::Admin;
use keyfold_proxy::{Handle, admin};
use keyfold_testkit::{Server, Wire};

use super::counts::{scrape, sum};
use super::{Told, admin_address, ask, ask_on};
use crate::stage::{address, call, config_for, eventually, serve, start_server};

/// What browsers say of themselves.
const BROWSER: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

/// Templates that would be markup, end a string, turn the direction of writing round, or move a terminal's cursor.
const HOSTILE: [&str; 4] = [
    "<script>alert(1)</script>:{id:int}",
    "\"'</td><img src=x onerror=alert(1)>&amp;:{id:int}",
    "\u{202e}\u{2066}evil:{id:int}",
    "\u{1b}[2J\u{7}\r\nkeyfold_version:9\r\n:{id:int}",
];

/// A keyfold whose history takes samples often.
fn watched(server: &Server, layout: &str) -> Handle {
    let mut config = config_for(server);
    config.layout = Layout::parse_file(layout).unwrap().into();
    config.sweep.pause = Duration::from_millis(50);
    let admin = Admin::at("127.0.0.1:0".parse().unwrap());
    config.admin = Some(Admin { sample_every: Duration::from_millis(50), usd_per_gb_month: Some(4.0), ..admin });
    serve(server, config)
}

fn asked(proxy: &Handle, method: &str, path: &str, headers: &str) -> Told {
    ask_on(&mut TcpStream::connect(admin_address(proxy)).unwrap(), method, path, headers).unwrap()
}

fn status(proxy: &Handle) -> FullStatus {
    serde_json::from_str(&ask(proxy, "/status").body).unwrap()
}

fn history(proxy: &Handle) -> History {
    serde_json::from_str(&ask(proxy, "/history").body).unwrap()
}

#[test]
fn a_browser_is_given_a_page_that_asks_nobody_else_and_others_a_text() {
    let server = start_server(&[]);
    let proxy = watched(&server, "");
    let page = asked(&proxy, "GET", "/", BROWSER);
    assert!(page.status == 200 && page.body.starts_with("<!doctype html>"), "{}", page.head);
    let policy = page.head.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).unwrap();
    let rules: Vec<&str> = policy.split("; ").collect();
    assert_eq!(rules[0], "default-src 'none'");
    for rule in
        ["connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "require-trusted-types-for 'script'"]
    {
        assert!(rules.contains(&rule), "{rule}: {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    assert_eq!(policy.matches("'sha256-").count(), 2, "one script and one style");
    for header in
        ["x-content-type-options: nosniff", "referrer-policy: no-referrer", "vary: accept", "cache-control: no-store"]
    {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    let head = asked(&proxy, "HEAD", "/", BROWSER);
    assert!(head.status == 200 && head.body.is_empty() && head.head.contains("text/html"), "{head:?}");
    for other in ["", "Accept: */*\r\n", "Accept: text/plain\r\n", "Accept: application/json, text/htmlx\r\n"] {
        let text = asked(&proxy, "GET", "/", other);
        assert!(
            text.head.contains("text/plain") && text.body.starts_with("keyfold, for operators\n"),
            "{other}: {text:?}"
        );
        assert!(!text.head.contains("content-security-policy"));
    }
    assert_eq!(asked(&proxy, "GET", "/help", BROWSER).body, ask(&proxy, "/").body);
    assert_eq!(asked(&proxy, "POST", "/", BROWSER).status, 405, "there is nothing to change");
}

#[test]
fn status_info_history_and_metrics_say_the_same_to_the_last_digit() {
    let server = start_server(&[]);
    let proxy = watched(&server, "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n");
    let mut client = Wire::connect(address(&proxy)).unwrap();
    for id in 0..640 {
        call(&mut client, &format!("SET user:{} value-{id}", 1_000_000 + id));
    }
    for id in 0..900 {
        call(&mut client, &format!("GET user:{}", 1_000_000 + id));
    }
    for id in 0..60 {
        call(&mut client, &format!("SET plain:{id} v"));
        call(&mut client, "NOSUCH");
    }
    let mut waiting = Wire::connect(address(&proxy)).unwrap();
    waiting.send(&[b"BLPOP", b"never", b"0.01"]).unwrap();
    waiting.reply().unwrap();
    eventually("a walk has found all", || status(&proxy).saving.is_some_and(|saving| saving.keys == 640));
    let info = call(&mut client, "INFO keyfold");
    let read = Status::read_info(&info).unwrap();
    let now = status(&proxy);
    // INFO itself was not over when it was asked.
    assert_eq!((read.requests, now.keyfold.requests), (Some(now.requests - 1), Some(now.requests)));
    let counted = sum(&scrape(&proxy), "keyfold_commands_total");
    assert!(counted == now.requests as f64 && counted >= f64::from(640 + 900 + 120 + 1 + 1), "{counted} {now:?}");
    let (of_info, mut of_json) = (&read.namespaces[0], now.keyfold.namespaces[0].clone());
    assert!(of_json.swept >= of_info.swept, "it sweeps on");
    of_json.swept = of_info.swept;
    assert_eq!(*of_info, of_json);
    assert_eq!((of_json.hits, of_json.misses, of_json.writes), (640, 260, 640));
    assert_eq!(read.saving(), now.saving);
    let saved = now.saving.unwrap().saved_bytes;
    assert!((now.saved_usd_per_month.unwrap() - saved as f64 * 4e-9).abs() < 1e-12, "{now:?}");
    let latency = now.keyfold.latency.as_ref().unwrap();
    assert_eq!(latency.commands, read.latency.unwrap().commands + 1);

    let all = |history: &History, read: fn(&admin::Sample) -> u64| history.samples.iter().map(read).sum::<u64>();
    eventually("the history has seen all", || all(&history(&proxy), |one| one.requests) == now.requests);
    let told = history(&proxy);
    let metrics = scrape(&proxy);
    let counted = sum(&metrics, "keyfold_command_duration_seconds_count");
    assert_eq!(all(&told, |one| one.commands) as f64, counted - 1.0, "all but the one that waited: {metrics}");
    assert_eq!((all(&told, |one| one.hits), all(&told, |one| one.misses)), (640, 260));
    assert_eq!(told.samples.last().unwrap().saved_bytes, Some(saved));
    let timed = told.samples.iter().filter(|one| one.commands > 0);
    assert!(
        timed.clone().count() > 0 && timed.clone().all(|one| one.p50_us.unwrap() <= one.p99_us.unwrap()),
        "{told:?}"
    );
    assert!(told.samples.iter().filter(|one| one.commands == 0).all(|one| one.p50_us.is_none()));
    assert!(told.samples.is_sorted_by_key(|one| one.at_ms) && told.every_ms == 50);
}

#[test]
fn names_that_mean_harm_are_told_as_they_are_and_end_no_string() {
    let server = start_server(&[]);
    let namespaces = HOSTILE.map(|keys| {
        let escaped: String = keys.chars().map(|one| format!("\\U{:08X}", u32::from(one))).collect();
        format!("[[namespace]]\nkeys = \"{escaped}\"\nbucket = {{ span = 64 }}\n")
    });
    let proxy = watched(&server, &namespaces.concat());
    let told = ask(&proxy, "/status").body;
    assert!(told.trim_end().chars().all(|one| !one.is_control()), "{told}");
    let names: Vec<String> = status(&proxy).keyfold.namespaces.into_iter().map(|one| one.keys).collect();
    assert_eq!(names, HOSTILE);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    let info = call(&mut client, "INFO keyfold");
    assert_eq!(info.matches("keyfold_version:").count() - info.matches("\\r\\nkeyfold_version:9").count(), 1, "{info}");
    assert!(!info.contains('\u{1b}'), "{info}");
    assert_eq!(Status::read_info(&info).unwrap().namespaces.len(), HOSTILE.len());
}

#[test]
fn warnings_say_what_keeps_it_from_being_ready_and_what_to_do() {
    let mut server = start_server(&["--hash-max-listpack-entries", "32"]);
    let proxy = watched(&server, "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n");
    let codes = || status(&proxy).warnings.into_iter().map(|warning| warning.code).collect::<Vec<_>>();
    eventually("the server's limit is known", || codes() == ["limit_too_small"]);
    let warning = status(&proxy).warnings.remove(0);
    assert_eq!(warning.advice, "On the server: CONFIG SET hash-max-listpack-entries 64");
    assert_eq!(warning.about, Some(server.address().to_string()));
    server.kill();
    eventually("the server is away", || codes().first().is_some_and(|code| code == "server_away"));
    let first = status(&proxy).warnings.remove(0);
    assert!(first.text.starts_with("Clients are not to be sent here: ") && !first.advice.is_empty(), "{first:?}");
}
