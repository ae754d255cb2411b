//! Health: whether clients are to be sent to a keyfold, and why not.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use keyfold_proxy::start;
use serde_json::Value;

use super::{admin_address, ask, read_told, with_admin};
use crate::stage::{config_for, eventually, serve, stage_with, start_server};

/// The reasons that `/readyz` gives, with the status.
fn reasons(body: &str) -> Vec<(String, String)> {
    let health: Value = serde_json::from_str(body).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = health["reasons"].as_array().unwrap();
    all.iter().map(|trouble| (text(&trouble["reason"]), text(&trouble["detail"]))).collect()
}

#[test]
fn it_is_ready_until_the_server_goes_and_again_when_that_is_back() {
    let mut server = start_server(&[]);
    let mut config = config_for(&server);
    with_admin(&mut config);
    config.timeouts.connect = Duration::from_secs(1);
    let proxy = serve(&server, config);
    eventually("it is ready", || ask(&proxy, "/readyz").status == 200);
    assert_eq!(ask(&proxy, "/readyz").body, "{\"ok\":true,\"reasons\":[]}\n");
    server.kill();
    eventually("the server is away", || {
        let told = ask(&proxy, "/readyz");
        told.status == 503
            && reasons(&told.body).iter().any(|(reason, detail)| reason == "server_away" && !detail.is_empty())
    });
    let metrics = ask(&proxy, "/metrics").body;
    assert!(
        metrics.contains("keyfold_not_ready{reason=\"server_away\"} 1\n") && metrics.contains("\nkeyfold_ready 0\n")
    );
    assert_eq!(ask(&proxy, "/livez").status, 200, "it lives all the same");
    server.restart().unwrap();
    eventually("it is ready again", || ask(&proxy, "/readyz").status == 200);
}

#[test]
fn one_that_has_not_seen_its_layout_in_force_says_so() {
    let mut server = start_server(&[]);
    let mut config = config_for(&server);
    with_admin(&mut config);
    config.timeouts.connect = Duration::from_secs(1);
    server.put_in_force(&config.layout).unwrap();
    server.kill();
    let proxy = start(config).unwrap();
    let told = ask(&proxy, "/readyz");
    let reasons: Vec<String> = reasons(&told.body).into_iter().map(|(reason, _)| reason).collect();
    assert_eq!((told.status, reasons), (503, vec!["server_away".to_owned(), "layout".to_owned()]));
    server.restart().unwrap();
    eventually("it is ready", || ask(&proxy, "/readyz").status == 200);
}

#[test]
fn one_that_ends_says_so_until_the_last_answer() {
    let stage = stage_with(with_admin);
    let mut client = stage.connect();
    crate::stage::call(&mut client, "SET key v");
    stage.server.hang().unwrap();
    client.send(&[b"GET", b"key"]).unwrap();
    eventually("the question is under way", || {
        ask(&stage.proxy, "/metrics").body.contains("\nkeyfold_requests_in_flight 1\n")
    });
    stage.proxy.stop();
    eventually("it is stopping", || {
        let told = ask(&stage.proxy, "/readyz");
        told.status == 503 && reasons(&told.body).iter().any(|(reason, _)| reason == "stopping")
    });
    let operator = admin_address(&stage.proxy);
    stage.server.wake().unwrap();
    assert_eq!(client.reply().unwrap(), b"$1\r\nv\r\n");
    stage.proxy.join().unwrap();
    assert!(TcpStream::connect(operator).is_err(), "nobody is there any more");
}

#[test]
fn status_is_what_info_says() {
    let stage = stage_with(with_admin);
    let mut client = stage.connect();
    let info = crate::stage::call(&mut client, "INFO keyfold");
    let line = |name: &str| {
        let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
        info.lines().find_map(value).unwrap()
    };
    let told = ask(&stage.proxy, "/status");
    assert!(told.status == 200 && told.head.contains("content-type: application/json"), "{}", told.head);
    let status: Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(status["keyfold"]["version"].as_str().unwrap(), line("keyfold_version"));
    assert_eq!(status["keyfold"]["layout"]["hash"].as_str().unwrap(), line("keyfold_layout_hash"));
    assert_eq!(status["keyfold"]["layout"]["epoch"].to_string(), line("keyfold_layout_epoch"));
    assert_eq!(status["clients"]["connected"], 1);
    let schema: Value = serde_json::from_str(&ask(&stage.proxy, "/status/schema").body).unwrap();
    let required = schema["required"].as_array().unwrap();
    assert!(!required.is_empty());
    for name in required {
        assert!(!status[name.as_str().unwrap()].is_null(), "{name}");
    }
}

#[test]
fn a_connection_is_kept_for_the_next_question() {
    let stage = stage_with(with_admin);
    let mut stream = TcpStream::connect(admin_address(&stage.proxy)).unwrap();
    stream
        .write_all(
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let told = read_told(&mut stream).unwrap();
    assert_eq!(told.status, 200);
    assert_eq!(told.body.matches("HTTP/1.1 200 OK").count(), 1, "{}", told.body);
    assert!(told.body.ends_with("\r\n\r\n"), "the answer to HEAD has no body: {}", told.body);
}
