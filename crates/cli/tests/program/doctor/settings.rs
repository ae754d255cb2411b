//! Settings: too low for the layout, blocked, from a file that isn't in effect, or evicting buckets.

use tempfile::TempDir;

use super::stage::{apply, doctor, doctor_text, numbers, on_every_server, push_layout, write_hash};

const COUNTERS: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n";

#[test]
fn limits_below_the_layout_are_raised_as_printed() {
    on_every_server(&[], |server| {
        let dir = TempDir::new().unwrap();
        let wide = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 1000 }\nvalue_limit = 300\n";
        push_layout(server, dir.path(), wide);
        let sick = doctor(&server.url(), &[]);
        assert_eq!(sick.problems(), ["limit-below-layout", "limit-below-layout"]);
        for finding in sick.report["findings"].as_array().unwrap() {
            if finding["severity"] == "problem" {
                for line in finding["mends"][0]["lines"].as_array().unwrap() {
                    let text = line["text"].as_str().unwrap();
                    if let Some(command) = text.strip_prefix(&format!("redis-cli -h 127.0.0.1 -p {} ", server.port())) {
                        let args: Vec<_> = command.split(' ').map(str::as_bytes).collect();
                        assert_eq!(server.connect().unwrap().call(&args).unwrap(), b"+OK\r\n");
                    }
                }
            }
        }
        doctor(&server.url(), &[]).assert_well();
    });
}

#[test]
fn where_config_is_blocked_settings_are_assumed() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        wire.call(&[b"CONFIG", b"SET", b"hash-max-ziplist-entries", b"100"]).unwrap();
        write_hash(&mut wire, b"a:1", numbers(200));
        wire.call(&[b"ACL", b"SETUSER", b"u", b"on", b">pw", b"~*", b"&*", b"+@all", b"-config", b"-memory"]).unwrap();
        let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
        let blind = doctor(&url, &[]);
        assert_eq!(blind.problems(), ["still-table"], "512 is taken for granted");
        assert_eq!(blind.finding("limit-unknown")["severity"], "note");
        assert_eq!(blind.report["settings"]["hash_entries"]["from"], "default");

        let assumed = doctor(&url, &["--assume", "hash-max-listpack-entries=100"]);
        assert_eq!(assumed.problems(), ["too-many-entries"]);
        assert_eq!(assumed.report["settings"]["hash_entries"]["from"], "assumed");

        let wrong = doctor(&url, &["--rewrite"]);
        assert_eq!(wrong.problems(), ["still-table"]);
        assert_eq!(wrong.report["rewritten"]["still_tables"], 1, "the server knows better");
    });
}

#[test]
fn a_file_that_was_never_loaded() {
    on_every_server(&[], |server| {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("redis.conf");
        std::fs::write(&path, "hash-max-ziplist-entries 1000\n").unwrap();
        let sick = doctor(&server.url(), &["--config-file", path.to_str().unwrap()]);
        assert_eq!((sick.code, sick.problems()), (Some(3), vec!["config-file-not-in-effect"]));
        let finding = sick.finding("config-file-not-in-effect");
        assert!(finding["what"].as_str().unwrap().contains("was never loaded"), "{finding:#?}");
        assert!(
            finding["why"][0].as_str().unwrap().contains("1,000 in the file, and 512 on the server"),
            "{finding:#?}"
        );
        let (code, text) = doctor_text(&server.url(), &[]);
        assert_eq!(code, Some(0), "without a file to compare, it is a note");
        assert!(text.contains("note: INFO server, config_file"), "{text}");
    });
}

#[test]
fn eviction_of_whole_buckets() {
    on_every_server(&["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lfu"], |server| {
        doctor(&server.url(), &[]).assert_well();
        let dir = TempDir::new().unwrap();
        push_layout(server, dir.path(), COUNTERS);
        let sick = doctor(&server.url(), &[]);
        assert_eq!(sick.problems(), ["buckets-evicted"]);
        apply(server, sick.finding("buckets-evicted"), 0);
        doctor(&server.url(), &[]).assert_well();
    });
}

#[test]
fn memory_that_is_held_and_not_used() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        wire.set_timeout(std::time::Duration::from_secs(60)).unwrap();
        let fill = b"for i = 1, 400000 do redis.call('SET', 'k' .. i, string.rep('x', 150)) end \
                     for i = 1, 400000 do if i % 20 ~= 0 then redis.call('DEL', 'k' .. i) end end";
        wire.call(&[b"EVAL", fill, b"0"]).unwrap();
        let sick = doctor(&server.url(), &[]);
        assert_eq!(sick.problems(), ["fragmentation"], "{}", server.name());
        let finding = sick.finding("fragmentation");
        assert!(finding["cost_bytes"].as_u64().unwrap() > 32 << 20, "{finding:#?}");
        assert!(finding["mends"].to_string().contains("CONFIG SET activedefrag yes"), "{finding:#?}");
    });
}
