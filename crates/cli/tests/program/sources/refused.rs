//! What can't be moved is said before anything is changed, or stays and is listed.

use keyfold_testkit::{Server, found};
use tempfile::TempDir;

use super::program::{MEDIA, Proxy, bulk, fold, keyfold, names, write_layout};

const FROM: [&str; 4] = ["--from", "buckets", "--keys", "mediabucket:{id/1000}"];

fn stage() -> (Server, TempDir) {
    (found()[0].start(&[]).unwrap(), TempDir::new().unwrap())
}

fn call(server: &Server, command: &[&str]) -> Vec<u8> {
    let args: Vec<&[u8]> = command.iter().map(|arg| arg.as_bytes()).collect();
    server.connect().unwrap().call(&args).unwrap()
}

/// Folds, which is refused with these words, and nothing is changed.
fn refused(server: &Server, layout: &str, options: &[&str], said: &str) {
    let dir = TempDir::new().unwrap();
    let ran = fold(server, &write_layout(dir.path(), layout), options);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains(said) || ran.stderr.contains(said), "{said}: {}{}", ran.stdout, ran.stderr);
    assert_eq!(names(&mut server.connect().unwrap(), "keyfold:{home}:layout"), 0, "{said}");
}

#[test]
fn what_stands_against_it() {
    let (server, _dir) = stage();
    call(&server, &["SET", "mediabucket:3", "nothing but a string"]);
    refused(&server, MEDIA, &FROM, "1 key, such as \"mediabucket:3\": called as the hashes are");
    call(&server, &["DEL", "mediabucket:3"]);
    call(&server, &["HSET", "mediabucket:1", "1001", "a"]);
    call(&server, &["EXPIRE", "mediabucket:1", "1000"]);
    refused(&server, MEDIA, &FROM, "1 hash, such as \"mediabucket:1\": with a TTL");
    call(&server, &["PERSIST", "mediabucket:1"]);
    call(&server, &["SET", "mediabucket:2", "string"]);
    refused(&server, MEDIA, &FROM, "such as \"mediabucket:2\": called as the hashes are");
    call(&server, &["DEL", "mediabucket:2"]);
    call(&server, &["SET", "media:7", "plain"]);
    refused(&server, MEDIA, &FROM, "fold these first, without --from");
    call(&server, &["DEL", "media:7"]);
    refused(&server, MEDIA, &["--from", "buckets"], "say how the hashes are called");
    refused(&server, MEDIA, &["--from", "me-redis", "--keys", "a:{id/2}"], "are for --from buckets");
    refused(&server, MEDIA, &["--from", "buckets", "--keys", "m:{id/9}", "--entries", "9"], "are for --from me-redis");
    let two = MEDIA.to_owned() + "[[namespace]]\nkeys = 'b:{name}'\n";
    refused(&server, &two, &FROM, "several namespaces");
    refused(&server, &two, &["--from", "me-redis"], "the namespace `b:{name}`");
    let field = ["--field", "{id%10}"];
    refused(&server, MEDIA, &[&FROM[..], &field].concat(), "doesn't say {id} whole");
    assert_eq!(call(&server, &["HGET", "mediabucket:1", "1001"]), bulk(b"a"));
}

#[test]
fn fields_with_a_ttl() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        call(&server, &["HSET", "mediabucket:1", "1001", "a", "1002", "b"]);
        // Before Redis 7.4 and Valkey 9 there is no such thing.
        if call(&server, &["HEXPIRE", "mediabucket:1", "1000", "FIELDS", "1", "1002"]).starts_with(b"-") {
            continue;
        }
        refused(&server, MEDIA, &FROM, "such as \"mediabucket:1\": with fields that have a TTL of their own");
        call(&server, &["HPERSIST", "mediabucket:1", "FIELDS", "1", "1002"]);
        let dir = TempDir::new().unwrap();
        let ran = fold(&server, &write_layout(dir.path(), MEDIA), &FROM);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn fields_with_a_ttl_far_from_the_sample() {
    for binary in found() {
        let server = binary.start(binary.with_debug()).unwrap();
        let handmade = 40;
        for bucket in 1..=handmade {
            call(&server, &["HSET", &format!("mediabucket:{bucket}"), &format!("{bucket}001"), "a"]);
        }
        call(&server, &["DEBUG", "POPULATE", "500000"]);
        if call(&server, &["HEXPIRE", "mediabucket:1", "1000", "FIELDS", "1", "1001"]).starts_with(b"-") {
            continue;
        }
        for bucket in 2..=handmade {
            call(
                &server,
                &["HEXPIRE", &format!("mediabucket:{bucket}"), "1000", "FIELDS", "1", &format!("{bucket}001")],
            );
        }
        refused(&server, MEDIA, &FROM, "40 hashes, such as");
    }
}

#[test]
fn fields_of_no_key_stay_and_are_listed() {
    let (server, dir) = stage();
    let layout = write_layout(dir.path(), MEDIA);
    for id in 1001..1021 {
        call(&server, &["HSET", "mediabucket:1", &id.to_string(), "a"]);
    }
    call(&server, &["HSET", "mediabucket:1", "x", "b", "2002", "c"]);
    let ran = fold(&server, &layout, &FROM);
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    let belong = "2 fields of handmade hashes belong to no key, and clients of keyfold don't reach what is there";
    for said in ["moved 20 keys", "its field \"x\" is the place of no key", "its field \"2002\" is", belong] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("still reach them"), "{}", ran.stdout);
    // They are all that is left, and listed once more.
    let again = fold(&server, &layout, &FROM);
    assert_eq!(again.code, Some(3), "{}{}", again.stdout, again.stderr);
    assert!(again.stdout.contains(belong), "{}", again.stdout);
    assert_eq!(call(&server, &["HLEN", "mediabucket:1"]), b":2\r\n");
    let ran = keyfold(&["verify", &server.url(), "--skip-encodings"]);
    assert!(ran.stdout.contains("strange-field"), "{}{}", ran.stdout, ran.stderr);

    // While they are there the hash is the move's, and not for clients.
    let proxy = Proxy::start(&server);
    let mut client = proxy.connect();
    let refusal = String::from_utf8(client.call(&[b"HGET", b"mediabucket:1", b"x"]).unwrap()).unwrap();
    assert!(refusal.contains("keys are being moved out of the hash 'mediabucket:1'"), "{refusal}");
    assert_eq!(client.call(&[b"GET", b"media:1001"]).unwrap(), bulk(b"a"));
    let unfold = keyfold(&["unfold", &server.url(), "--yes"]);
    assert_eq!(unfold.code, Some(1));
    assert!(unfold.stderr.contains("never back into them"), "{}", unfold.stderr);

    call(&server, &["DEL", "mediabucket:1"]);
    let ran = fold(&server, &layout, &[]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(call(&server, &["HSET", "mediabucket:1", "x", "theirs again"]), b":1\r\n");
}

/// Nobody would see the ids that the divisor puts elsewhere.
#[test]
fn hashes_that_are_packed_otherwise() {
    let (server, _dir) = stage();
    for bucket in 0..20 {
        let fields: Vec<String> = (0..10).map(|id| format!("{}", bucket * 1000 + id)).collect();
        let words: Vec<&str> = fields.iter().flat_map(|field| [field.as_str(), "v"]).collect();
        call(&server, &[&["HSET", &format!("mediabucket:{bucket}")], &words[..]].concat());
    }
    for keys in ["mediabucket:{id/500}", "mediabucket:{id/2000}", "mediabucket:{id/1001}"] {
        let from = ["--from", "buckets", "--keys", keys];
        refused(&server, MEDIA, &from, "the place of no key by this packing");
        let dir = TempDir::new().unwrap();
        let ran = fold(&server, &write_layout(dir.path(), MEDIA), &[&from[..], &["--dry-run", "--json"]].concat());
        let plan: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(plan["namespaces"][0]["count"].as_u64().unwrap() < 200, "{plan}");
    }
}

/// Written before the move began, where nobody looked for it then.
#[test]
fn of_two_values_it_is_said_what_removes_the_hidden_one() {
    let (server, dir) = stage();
    call(&server, &["SET", "media:2", "early"]);
    let layout = write_layout(dir.path(), MEDIA);
    assert_eq!(fold(&server, &layout, &[]).code, Some(0));
    call(&server, &["HSET", "mediabucket:0", "1", "a", "2", "b", "3", "c"]);
    let ran = fold(&server, &layout, &FROM);
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("`HDEL \"mediabucket:0\" \"2\"` on the server itself"), "{}", ran.stdout);
    let verified = || keyfold(&["verify", &server.url(), "--skip-encodings", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&verified().stdout).unwrap();
    assert_eq!(report["counts"]["namespaces"][0]["keys"], 3, "{report}");
    assert_eq!(report["findings"]["kinds"]["in-both-places"], 1, "{report}");
    assert_eq!(verified().code, Some(3));
    // What clients see is what is exported.
    let exported = keyfold(&["export", &server.url()]);
    assert_eq!(exported.code, Some(3), "{}", exported.stderr);
    assert!(
        exported.stdout.contains("\"media:2\",\"value\":\"early\"") && !exported.stdout.contains("\"b\""),
        "{}",
        exported.stdout
    );
    assert!(exported.stdout.contains("\"media:1\",\"value\":\"a\""), "{}", exported.stdout);
    call(&server, &["HDEL", "mediabucket:0", "2"]);
    let ran = fold(&server, &layout, &FROM);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(verified().code, Some(0));
}
