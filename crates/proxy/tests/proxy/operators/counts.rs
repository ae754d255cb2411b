//! Metrics: right to the last digit, and without a key. That others can read them is seen by Prometheus' own parser
//! (`tests/clients/python/metrics.py`).

use keyfold_core::layout::Layout;
use keyfold_proxy::Handle;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Server, Wire};

use super::{ask, ask_for, with_admin};
use crate::stage::{call, commands, config_for, eventually, serve, stage_with, start_server};
use crate::talk::ends;

const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n[[namespace]]\nkeys = 'doc:{name}:\"x\"'\nbucket = { count = 4 }\nvalue_limit = 20\n";

/// The metrics as they are now; those that were gathered before are given away no more.
pub(super) fn scrape(proxy: &Handle) -> String {
    let told = ask(proxy, "/metrics");
    assert_eq!(told.status, 200);
    assert!(
        told.head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{}",
        told.head
    );
    assert!(told.body.ends_with("\n# EOF\n"), "{}", told.body);
    told.body
}

/// What a line of metrics says; nothing where there is no such line.
pub(super) fn value(metrics: &str, name: &str) -> Option<f64> {
    let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    metrics.lines().find_map(of_name)
}

/// Of all lines of this name.
pub(super) fn sum(metrics: &str, name: &str) -> f64 {
    let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once(' ')?.1.parse::<f64>().ok();
    metrics.lines().filter_map(of_name).sum()
}

/// Waits until metrics say so.
fn until(proxy: &Handle, name: &str, expected: f64) -> String {
    let mut metrics = String::new();
    eventually(&format!("{name} is {expected}"), || {
        metrics = scrape(proxy);
        value(&metrics, name) == Some(expected)
    });
    metrics
}

/// As Prometheus asks where it takes native histograms. That it reads the answer `make monitoring` sees.
#[test]
fn who_asks_for_messages_is_given_them_and_others_get_text() {
    let stage = stage_with(with_admin);
    let mut wire = stage.connect();
    call(&mut wire, "SET plain v");
    let messages = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    for accepted in
        [messages.to_owned(), format!("{messages},application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1")]
    {
        let told = ask_for(&stage.proxy, "/metrics", &format!("Accept: {accepted}\r\n"));
        assert!(
            told.head.contains("content-type: application/vnd.google.protobuf; proto=io.prometheus"),
            "{}",
            told.head
        );
        assert!(told.head.contains("vary: accept"), "{}", told.head);
        assert!(told.body.contains("keyfold_command_duration_seconds") && !told.body.contains("# EOF"));
    }
    scrape(&stage.proxy);
    let text_first = format!("Accept: application/openmetrics-text;q=0.6,{messages};q=0.5\r\n");
    assert!(ask_for(&stage.proxy, "/metrics", &text_first).body.ends_with("# EOF\n"));
}

#[test]
fn every_command_is_counted_once_by_its_way_and_its_end() {
    for binary in ends() {
        let server = binary.start(&[]).unwrap();
        let mut config = config_for(&server);
        config.layout = Layout::parse_file(LAYOUT).unwrap().into();
        with_admin(&mut config);
        let proxy = serve(&server, config);
        let mut client = Wire::connect(crate::stage::address(&proxy)).unwrap();
        let mut requests = Vec::new();
        let mut say = |text: &str| {
            requests.push(text.to_owned());
            call(&mut client, text)
        };
        for id in 0..10 {
            say(&format!("SET user:{id} value"));
        }
        for id in 5..15 {
            say(&format!("GET user:{id}"));
        }
        say("MGET user:1 user:2 user:99");
        say("SET plain v");
        say("GET plain");
        say("LPUSH list a");
        assert!(say("GET list").starts_with("-WRONGTYPE"));
        assert!(say("GET").starts_with("-ERR wrong number"));
        assert!(say("SYNC").starts_with("-ERR keyfold"));
        assert!(say("NOSUCH thing").starts_with("-ERR unknown command"));
        assert!(say("CONFIG GET nosuch").starts_with("*0"));
        say("EXPIRE user:1 100");
        say("APPEND user:2 x");
        say("EVAL return(redis.call('get',KEYS[1])) 1 user:1");
        for text in ["MULTI", "SET user:1 y", "INCR counter", "EXEC"] {
            say(text);
        }
        say("DBSIZE");
        say("GETSET doc:b:\"x\" this-is-longer-than-its-limit");
        say("CLIENT SETNAME me");
        let sent: usize = requests.iter().map(|text| commands(&[text]).len()).sum();

        let of = |command: &str, way: &str, outcome: &str| {
            format!("keyfold_commands_total{{command=\"{command}\",way=\"{way}\",outcome=\"{outcome}\"}}")
        };
        let metrics = until(&proxy, &of("client|setname", "local", "ok"), 1.0);
        let expected = [
            (of("set", "native", "ok"), 10.0),
            (of("get", "native", "ok"), 10.0),
            (of("set", "passed_on", "ok"), 1.0),
            (of("get", "passed_on", "ok"), 1.0),
            (of("get", "passed_on", "error"), 1.0),
            (of("get", "local", "refused"), 1.0),
            (of("lpush", "passed_on", "ok"), 1.0),
            (of("sync", "local", "refused"), 1.0),
            (of("config|get", "passed_on", "ok"), 1.0),
            (of("expire", "script", "ok"), 1.0),
            (of("append", "script", "ok"), 1.0),
            (of("eval", "user_script", "ok"), 1.0),
            (of("multi", "local", "ok"), 1.0),
            (of("set", "queued", "ok"), 1.0),
            (of("incr", "queued", "ok"), 1.0),
            (of("exec", "transaction", "ok"), 1.0),
            (of("dbsize", "keyspace", "ok"), 1.0),
        ];
        for (name, count) in expected {
            assert_eq!(value(&metrics, &name), Some(count), "{}: {name}\n{metrics}", binary.name());
        }
        assert_eq!(sum(&metrics, "keyfold_commands_total"), requests.len() as f64, "{}: {metrics}", binary.name());
        let other: f64 =
            metrics.lines().filter(|line| line.starts_with("keyfold_commands_total{command=\"other\"")).count() as f64;
        assert_eq!(other, 1.0, "{metrics}");
        assert_eq!(value(&metrics, "keyfold_client_received_bytes_total"), Some(sent as f64));
        // Those that were refused or queued are not timed.
        let untimed: f64 = metrics
            .lines()
            .filter(|line| line.contains("outcome=\"refused\"") || line.contains("way=\"queued\""))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum();
        assert_eq!(sum(&metrics, "keyfold_command_duration_seconds_count"), requests.len() as f64 - untimed);
        assert_eq!(value(&metrics, "keyfold_command_duration_seconds_count{command=\"get\"}"), Some(12.0), "{metrics}");
        assert_eq!(value(&metrics, "keyfold_command_duration_seconds_bucket{le=\"+Inf\",command=\"get\"}"), Some(12.0));

        // The same as INFO says, and the same as was asked.
        let info = call(&mut client, "INFO keyfold");
        let line = info.lines().find(|line| line.starts_with("keyfold_namespace_0:")).unwrap().to_owned();
        for (field, name, expected) in [
            ("reads", "reads", 13.0),
            ("hits", "hits", 7.0),
            ("misses", "misses", 6.0),
            ("writes", "writes", 12.0),
            ("spills", "spills", 0.0),
            ("conflicts", "conflicts", 0.0),
        ] {
            let shown = line.split(',').find_map(|part| part.strip_prefix(&format!("{field}="))).unwrap();
            let name = format!("keyfold_namespace_{name}_total{{namespace=\"user:{{id:int}}\"}}");
            assert_eq!(value(&metrics, &name).map(|value| value.to_string()), Some(shown.to_owned()), "{name}: {line}");
            if field != "reads" && field != "writes" {
                assert_eq!(value(&metrics, &name), Some(expected), "{}: {name}", binary.name());
            }
        }
        assert_eq!(
            value(&metrics, "keyfold_namespace_spills_total{namespace=\"doc:{name}:\\\"x\\\"\"}"),
            Some(1.0),
            "{metrics}"
        );
        let upstream = sum(&metrics, "keyfold_upstream_duration_seconds_count");
        assert!(upstream >= 20.0, "{metrics}");
    }
}

#[test]
fn what_is_seen_of_clients_and_servers_is_so() {
    let stage = stage_with(|config| {
        with_admin(config);
        config.limits.max_clients = 5;
    });
    let mut clients: Vec<Wire> = (0..3).map(|_| stage.connect()).collect();
    clients.iter_mut().for_each(|client| drop(call(client, "PING")));
    let mut blocked = stage.connect();
    blocked.send(&[b"BLPOP", b"never", b"0"]).unwrap();
    let mut subscribed = stage.connect();
    call(&mut subscribed, "SUBSCRIBE news");
    let metrics = until(&stage.proxy, "keyfold_client_connections{state=\"subscribed\"}", 1.0);
    let metrics = if value(&metrics, "keyfold_client_connections{state=\"blocked\"}") == Some(1.0) {
        metrics
    } else {
        until(&stage.proxy, "keyfold_client_connections{state=\"blocked\"}", 1.0)
    };
    assert_eq!(value(&metrics, "keyfold_client_connections{state=\"idle\"}"), Some(3.0));
    assert_eq!(value(&metrics, "keyfold_client_connections_opened_total"), Some(5.0));
    drop(stage.connect());
    until(&stage.proxy, "keyfold_client_connections_refused_total", 1.0);
    let metrics = until(&stage.proxy, "keyfold_upstream_connections{lane=\"own\",state=\"in_use\"}", 2.0);
    assert_eq!(value(&metrics, "keyfold_workers"), Some(2.0));
    assert_eq!(value(&metrics, "keyfold_ready"), Some(1.0));
    assert_eq!(value(&metrics, "keyfold_cluster_primaries"), None, "there is no cluster");
    let node = stage.server.address();
    let metrics = until(&stage.proxy, &format!("keyfold_server_hash_max_listpack_entries{{node=\"{node}\"}}"), 512.0);
    assert!(value(&metrics, &format!("keyfold_server_used_memory_bytes{{node=\"{node}\"}}")) > Some(100_000.0));
    let version = format!("version=\"{}\"}} 1\n", stage.server.version());
    assert!(metrics.contains("keyfold_server_info{node=") && metrics.contains(&version), "{metrics}");
}

#[test]
fn what_namespaces_hold_and_save_is_found_by_the_sweep() {
    let server = start_server(&[]);
    let mut config = config_for(&server);
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    config.sweep.pause = std::time::Duration::from_millis(50);
    with_admin(&mut config);
    let proxy = serve(&server, config);
    let mut client = Wire::connect(crate::stage::address(&proxy)).unwrap();
    let sets: Vec<String> = (0..6400).map(|id| format!("SET user:{} value-{id}", 1_000_000 + id)).collect();
    client.send_bytes(&commands(&sets.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
    sets.iter().for_each(|_| assert_eq!(client.reply().unwrap(), b"+OK\r\n"));
    let of = |name: &str| format!("keyfold_{name}{{namespace=\"user:{{id:int}}\"}}");
    let metrics = until(&proxy, &of("namespace_keys"), 6400.0);
    assert_eq!(value(&metrics, &of("namespace_buckets")), Some(100.0));
    assert!(value(&metrics, &of("namespace_swept_total")) >= Some(6400.0));
    let (stored, saved) =
        (value(&metrics, &of("namespace_stored_bytes")).unwrap(), value(&metrics, &of("saved_bytes")).unwrap());
    // Plain keys of this size take some 72 bytes, folded ones some 15.
    assert!((10.0..25.0).contains(&(stored / 6400.0)) && (30.0..80.0).contains(&(saved / 6400.0)), "{stored} {saved}");
    for id in 0..100 {
        call(&mut client, &format!("PEXPIRE user:{} 1", 1_000_000 + id));
    }
    let metrics = until(&proxy, &of("namespace_keys"), 6300.0);
    assert!(value(&metrics, &of("namespace_expired_total")) >= Some(100.0));
    assert_eq!(value(&metrics, "keyfold_namespace_keys{namespace=\"doc:{name}:\\\"x\\\"\"}"), Some(0.0));
    // Another keyfold sweeps from now on, and says what there is.
    let mut direct = server.connect().unwrap();
    assert_eq!(call(&mut direct, "SET keyfold:{home}:sweep another PX 600000"), "+OK\r\n");
    eventually("it says nothing of it any more", || value(&scrape(&proxy), &of("namespace_keys")).is_none());
    let metrics = scrape(&proxy);
    assert_eq!(value(&metrics, &of("saved_bytes")), None);
    assert!(value(&metrics, &of("namespace_expired_total")) >= Some(100.0), "what was counted stays");
}

/// What a server's keys take, about: connections, scripts, and the histogram of each command's latencies are counted apart.
fn keys_bytes(server: &Server) -> f64 {
    const HISTOGRAM_BYTES: f64 = 24_688.0;
    let mut direct = server.connect().unwrap();
    let told = call(&mut direct, "INFO memory");
    let of = |name: &str| told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.parse::<f64>().ok());
    let apart = ["used_memory_startup", "mem_clients_normal", "used_memory_scripts", "used_memory_functions"];
    let histograms = call(&mut direct, "INFO latencystats").matches("latency_percentiles_usec_").count();
    of("used_memory").unwrap()
        - apart.iter().filter_map(|name| of(name)).sum::<f64>()
        - histograms as f64 * HISTOGRAM_BYTES
}

#[test]
fn what_sets_and_hashes_save_is_found_by_the_sweep() {
    let namespace = |(keys, kind): (&str, &str)| {
        format!(
            "[[namespace]]\nkeys = '{keys}:{{id:int}}'\ntype = '{kind}'\nbucket = {{ span = 64 }}\nvalue_limit = 256\n"
        )
    };
    let layout = [("followers", "set"), ("room", "set"), ("cart", "hash"), ("session", "hash")].map(namespace).concat();
    for binary in ends() {
        let mut random = Random::new(4);
        let mut letters = move |count: u64| -> String {
            (0..count).map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap_or(0))).collect()
        };
        let mut random = Random::new(5);
        let (mut all, mut keys) = (Vec::new(), [0_u64; 4]);
        for id in 0..60 {
            let count = 700 + random.below(4000);
            keys[..3].iter_mut().for_each(|keys| *keys += 1);
            for from in (0..count).step_by(200) {
                let some = from..count.min(from + 200);
                let of = |member: &mut dyn FnMut(u64) -> String| some.clone().map(member).collect::<Vec<_>>().join(" ");
                all.push(format!("SADD followers:{id} {}", of(&mut |at| (10_000_000 + at * 7919).to_string())));
                all.push(format!("SADD room:{id} {}", of(&mut |_| letters(24))));
                all.push(format!("HSET cart:{id} {}", of(&mut |at| format!("item{:06} {}", at * 31, at % 900))));
            }
        }
        for id in 0..6400 {
            keys[3] += 1;
            all.push(format!("HSET session:{id} user {} ip 10.0.0.{} agent {} lang en", id * 7, id % 200, letters(12)));
        }
        let (plain, server) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let mut config = config_for(&server);
        config.layout = Layout::parse_file(&layout).unwrap().into();
        config.sweep.pause = std::time::Duration::from_millis(50);
        with_admin(&mut config);
        let proxy = serve(&server, config);
        let (none_plain, none_folded) = (keys_bytes(&plain), keys_bytes(&server));
        for wire in [plain.connect().unwrap(), Wire::connect(crate::stage::address(&proxy)).unwrap()] {
            let mut wire = wire;
            for some in all.chunks(100) {
                wire.send_bytes(&commands(&some.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
                some.iter().for_each(|_| assert!(wire.reply().unwrap().starts_with(b":")));
            }
        }
        // Draws have tables give up what they had before they grew.
        let mut direct = plain.connect().unwrap();
        for id in 0..60 {
            for draw in [
                format!("SRANDMEMBER followers:{id}"),
                format!("SRANDMEMBER room:{id}"),
                format!("HRANDFIELD cart:{id}"),
            ] {
                call(&mut direct, &format!("{draw} -4000"));
            }
        }
        drop(direct);
        let saved = (keys_bytes(&plain) - none_plain) - (keys_bytes(&server) - none_folded);
        eventually(&format!("{}: what is told is what is saved, {saved}", binary.name()), || {
            let metrics = scrape(&proxy);
            (sum(&metrics, "keyfold_saved_bytes") / saved - 1.0).abs() < 0.04
                && sum(&metrics, "keyfold_namespace_keys") == keys.iter().sum::<u64>() as f64
        });
    }
}

#[test]
fn no_key_and_no_value_is_ever_told() {
    const MARK: &str = "MARKER7f3a";
    let server = start_server(&[]);
    let mut config = config_for(&server);
    config.layout =
        Layout::parse_file("[[namespace]]\nkeys = 'page:{path}:{part}'\nbucket = { by = 'path' }\n").unwrap().into();
    config.sweep.pause = std::time::Duration::from_millis(20);
    with_admin(&mut config);
    let proxy = serve(&server, config);
    let mut client = Wire::connect(crate::stage::address(&proxy)).unwrap();
    for text in [
        format!("SET page:{MARK}:{MARK} {MARK}"),
        format!("GET page:{MARK}:{MARK}"),
        format!("SET {MARK} {MARK}"),
        format!("LPUSH page:{MARK}:{MARK} {MARK}"),
        format!("{MARK} {MARK}"),
        format!("CONFIG {MARK}"),
        format!("INCR page:{MARK}:{MARK}"),
        format!("EVAL {MARK} 1 page:{MARK}:{MARK}"),
        format!("CLIENT SETNAME {MARK}"),
        format!("SUBSCRIBE {MARK}"),
        format!("AUTH {MARK} {MARK}"),
    ] {
        call(&mut client, &text);
    }
    let keys = "keyfold_namespace_keys{namespace=\"page:{path}:{part}\"}";
    let metrics = until(&proxy, keys, 1.0);
    for (path, body) in [("/metrics", metrics)]
        .into_iter()
        .chain(["/status", "/history", "/readyz", "/livez", "/"].map(|path| (path, ask(&proxy, path).body)))
    {
        assert!(!body.contains(MARK), "{path}: {body}");
    }
}
