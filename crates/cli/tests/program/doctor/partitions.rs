//! Sets and hashes that an application has split by hand: what is said of them, and that the lines that are printed take them over.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use keyfold_testkit::{Subject, Value, Wire, found};
use serde_json::Value as Json;
use tempfile::TempDir;

use super::stage::{data_bytes, doctor, doctor_text, keyfold, on_every_server};

const KEYS: usize = 30;
const PARTITIONS: usize = 16;
const MEMBERS: usize = 200;
/// The server's table of that many keys, which no key is charged with.
const TABLE_BYTES: f64 = 16_384.0;

/// Sends many commands at once; none may fail.
fn send_all(wire: &mut Wire, commands: &[Vec<String>]) {
    for commands in commands.chunks(500) {
        for command in commands {
            let command: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
            wire.send(&command).unwrap();
        }
        for command in commands {
            let reply = wire.reply().unwrap();
            assert!(!reply.starts_with(b"-"), "{command:?}: {}", reply.escape_ascii());
        }
    }
}

fn member(key: usize, partition: usize, nth: usize) -> usize {
    10_000_000 + key * 7_919 + nth * PARTITIONS + partition
}

/// Followers by their id modulo 16.
fn followers(partition: impl Fn(usize, usize) -> String) -> Vec<Vec<String>> {
    let all = (0..KEYS).flat_map(|key| (0..PARTITIONS).map(move |number| (key, number)));
    all.map(|(key, number)| {
        let members = (0..MEMBERS).map(|nth| member(key, number, nth).to_string());
        ["SADD".to_owned(), partition(key, number)].into_iter().chain(members).collect()
    })
    .collect()
}

fn layout_of(finding: &Json) -> String {
    let lines = finding["mends"][0]["lines"].as_array().unwrap();
    let text = lines.iter().filter(|line| line["for"] == "layout").map(|line| line["text"].as_str().unwrap());
    text.collect::<Vec<_>>().join("\n")
}

fn shell_of(finding: &Json) -> Vec<String> {
    let lines = finding["mends"][0]["lines"].as_array().unwrap();
    let shell = lines.iter().filter(|line| line["for"] == "shell");
    shell.map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

fn names(wire: &mut Wire) -> Vec<String> {
    let Value::Array(keys) = wire.ask(&[b"KEYS", b"*"]).unwrap() else { panic!("KEYS answers an array") };
    let mut keys: Vec<_> = keys.iter().map(|key| String::from_utf8(key.bytes().unwrap().to_vec()).unwrap()).collect();
    keys.sort();
    keys
}

/// Carries out a line as a shell does that has a `redis-cli` for the keyfold at `wire`; what that one answers.
fn type_line(line: &str, wire: &mut Wire, dir: &Path) -> Vec<String> {
    assert_eq!(line.matches("redis-cli -h 127.0.0.1 -p 6380").count(), 2, "{line}");
    fs::write(dir.join("names"), names(wire).join("\n") + "\n").unwrap();
    let client = dir.join("redis-cli");
    fs::write(&client, "#!/bin/sh\ncase \"$*\" in *--scan*) cat names ;; *) cat > commands ;; esac\n").unwrap();
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let ran = Command::new("sh").arg("-c").arg(line).env("PATH", path).current_dir(dir).output().unwrap();
    assert!(ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    let commands = fs::read_to_string(dir.join("commands")).unwrap();
    let ask = |command: &str| {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        String::from_utf8(wire.call(&words).unwrap()).unwrap().trim_end().to_owned()
    };
    commands.lines().map(ask).collect()
}

/// What all that is folded takes, as the server says.
fn folded_bytes(wire: &mut Wire) -> i64 {
    let folded: Vec<_> = names(wire).into_iter().filter(|name| name.starts_with('~')).collect();
    let mut usage = |name: &String| wire.ask(&[b"MEMORY", b"USAGE", name.as_bytes()]).unwrap().integer().unwrap();
    folded.iter().map(&mut usage).sum()
}

fn sorted_members(wire: &mut Wire, command: &[&[u8]]) -> Vec<Vec<u8>> {
    let Value::Array(members) = wire.ask(command).unwrap() else { panic!("it is a set") };
    let mut members: Vec<_> = members.iter().map(|member| member.bytes().unwrap().to_vec()).collect();
    members.sort();
    members
}

#[test]
fn sets_are_named_weighed_and_taken_over_by_the_lines_that_are_printed() {
    on_every_server(&[], |server| {
        let what = server.name();
        let mut wire = server.connect().unwrap();
        // A server keeps something for each command that it has run once.
        wire.call(&[b"SADD", b"first", b"1"]).unwrap();
        wire.call(&[b"DEL", b"first"]).unwrap();
        drop(wire);
        let empty = data_bytes(server);
        let mut wire = server.connect().unwrap();
        send_all(&mut wire, &followers(|key, number| format!("followers:{key}:{number}")));
        drop(wire);
        let plain = (data_bytes(server) - empty) as f64;
        let seen = doctor(&server.url(), &[]);
        assert_eq!((seen.code, seen.problems()), (Some(0), vec![]), "{what}: a note is no problem");
        let finding = seen.finding("handmade-partitions");
        let said = finding["what"].as_str().unwrap();
        let start = "480 sets look like 30 `followers:{id:int}`, split by hand into 16 each: 96,000 members in ";
        assert!(said.starts_with(start), "{what}: {said}");
        assert_eq!(finding["where"], "sets followers:{id:int}:0 to 15");
        let mend = &finding["mends"][0];
        let (after, saves) = (mend["after_bytes"].as_f64().unwrap(), mend["saves_bytes"].as_f64().unwrap());
        let now = said.strip_prefix(start).unwrap().split(' ').next().unwrap().replace(',', "").parse::<f64>().unwrap();
        assert!((now - plain).abs() < plain * 0.1 + TABLE_BYTES, "{what}: {now} of {plain}");
        assert_eq!(saves, (now - after).max(0.0), "{what}");

        let dir = TempDir::new().unwrap();
        let path = dir.path().join("layout.toml");
        fs::write(&path, layout_of(finding)).unwrap();
        let shell = shell_of(finding);
        assert_eq!(shell.len(), 3, "{shell:?}");
        assert!(shell[0].starts_with("keyfold serve --upstream redis://127.0.0.1:"), "{shell:?}");
        let subject = Subject::beside(server).unwrap();
        assert_eq!(shell[1], format!("keyfold fold {} --layout layout.toml", server.url()));
        let fold = ["fold", &server.url(), "--layout", path.to_str().unwrap(), "--yes"];
        let folded = keyfold(&fold).output().unwrap();
        assert!(folded.status.success(), "{what}: {}", String::from_utf8_lossy(&folded.stderr));

        let mut through = Wire::connect(subject.address()).unwrap();
        let seventh: Vec<Vec<u8>> =
            (0..PARTITIONS).map(|number| format!("followers:7:{number}").into_bytes()).collect();
        let union: Vec<&[u8]> = [&b"SUNION"[..]].into_iter().chain(seventh.iter().map(Vec::as_slice)).collect();
        let expected = sorted_members(&mut server.connect().unwrap(), &union);
        assert_eq!(expected.len(), PARTITIONS * MEMBERS);
        // One that can't be taken over keeps its members where they are.
        through.call(&[b"RENAME", b"followers:8:3", b"aside"]).unwrap();
        through.call(&[b"SET", b"followers:8:3", b"a string"]).unwrap();
        let answers = type_line(&shell[2], &mut through, dir.path());
        let refused = answers.iter().filter(|answer| answer.starts_with("-WRONGTYPE")).count();
        assert_eq!((answers.len(), refused), (KEYS * (PARTITIONS + 1), 2), "{what}");
        let left = names(&mut through);
        assert_eq!(left.len(), KEYS - 1 + PARTITIONS + 1, "{what}: {left:?}");
        assert_eq!(sorted_members(&mut through, &[b"SMEMBERS", b"followers:7"]), expected, "{what}");
        assert_eq!(through.call(&[b"SCARD", b"followers:8:4"]).unwrap(), format!(":{MEMBERS}\r\n").into_bytes());

        // Once that is mended, the same line takes over what is left.
        through.call(&[b"RENAME", b"aside", b"followers:8:3"]).unwrap();
        type_line(&shell[2], &mut through, dir.path());
        let logical: Vec<String> = (0..KEYS).map(|key| format!("followers:{key}")).collect();
        assert_eq!(names(&mut through).len(), logical.len(), "{what}");
        for key in logical {
            let members = through.call(&[b"SCARD", key.as_bytes()]).unwrap();
            assert_eq!(members, format!(":{}\r\n", PARTITIONS * MEMBERS).into_bytes(), "{what}: {key}");
        }
        drop((through, subject));
        let taken = folded_bytes(&mut server.connect().unwrap()) as f64;
        assert!((taken - after).abs() < after * 0.1, "{what}: {taken} instead of {after}");
        let again = doctor(&server.url(), &[]);
        assert!(
            again.report["findings"].as_array().unwrap().iter().all(|finding| finding["kind"] != "handmade-partitions")
        );
    });
}

#[test]
fn hashes_are_named_in_their_database() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        wire.call(&[b"SELECT", b"2"]).unwrap();
        let carts = (0..30).flat_map(|key| (0..8).map(move |number| (key, number))).map(|(key, number)| {
            let fields = (0..25).flat_map(|nth| [format!("item{}", nth * 8 + number), (key * nth).to_string()]);
            ["HSET".to_owned(), format!("cart:{key}:items:{number}")].into_iter().chain(fields).collect::<Vec<_>>()
        });
        send_all(&mut wire, &carts.collect::<Vec<_>>());
        let seen = doctor(&server.url(), &[]);
        assert_eq!((seen.code, seen.problems()), (Some(0), vec![]));
        let finding = seen.finding("handmade-partitions");
        let said = finding["what"].as_str().unwrap();
        let start = "240 hashes look like 30 `cart:{id:int}:items`, split by hand into 8 each: 6,000 fields in ";
        assert!(said.starts_with(start), "{}: {said}", server.name());
        assert_eq!(finding["where"], "hashes cart:{id:int}:items:0 to 7 in database 2");
        assert!(layout_of(finding).contains("type = \"hash\""), "{finding:#}");
        let (code, text) = doctor_text(&server.url(), &["--database", "2"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("note: hashes cart:{id:int}:items:0 to 7 in database 2\n"), "{text}");
    });
}

/// Three families that are none, each by another sign, and one that expires.
#[test]
fn what_only_looks_like_partitions_is_not_named() {
    let Some(binary) = found().pop() else { return };
    let server = binary.start(&[]).unwrap();
    let mut wire = server.connect().unwrap();
    let set = |key: String, first: usize| {
        let members = (first..first + 50).map(|member| format!("visitor{member}"));
        ["SADD".to_owned(), key].into_iter().chain(members).collect::<Vec<_>>()
    };
    let hours = (0..20).flat_map(|day| (0..24).map(move |hour| (day, hour)));
    let mut commands: Vec<_> = hours.map(|(day, hour)| set(format!("visits:{day}:{hour}"), hour * 10)).collect();
    let orders = (0..20).flat_map(|shop| (0..8).map(move |order| (shop, order * 3)));
    commands.extend(orders.map(|(shop, order)| set(format!("order:{shop}:{order}"), order * 50)));
    commands.extend((0..200).map(|id| set(format!("fans:{id}"), id * 50)));
    send_all(&mut wire, &commands);
    let named = |url: &str| -> Vec<Json> {
        let all = doctor(url, &[]).report["findings"].as_array().unwrap().clone();
        all.into_iter().filter(|finding| finding["kind"] == "handmade-partitions").collect()
    };
    assert_eq!(named(&server.url()), Vec::<Json>::new());

    let lists = (0..5).flat_map(|list| (0..4).map(move |number| (list, number)));
    send_all(
        &mut wire,
        &lists.map(|(list, number)| set(format!("seen:{list}:{number}"), number * 50)).collect::<Vec<_>>(),
    );
    let found = named(&server.url());
    assert_eq!((found.len(), shell_of(&found[0]).len()), (1, 3), "{found:#?}");
    let expiring: Vec<_> =
        (0..5).map(|list| ["EXPIRE".to_owned(), format!("seen:{list}:2"), "10000".to_owned()].to_vec()).collect();
    send_all(&mut wire, &expiring);
    let found = named(&server.url());
    assert_eq!((found.len(), found[0]["mends"][0]["lines"].as_array().unwrap().len()), (1, 0), "{found:#?}");
    assert!(found[0]["mends"][0]["what"].as_str().unwrap().contains("PERSIST"), "{found:#?}");
}
