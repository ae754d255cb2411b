//! What can't be folded stays where it is, and works.

use keyfold_core::layout::Layout;
use keyfold_testkit::{Subject, Wire};

use super::stage::{LAYOUT, Stage, assert_same, fill, ok, on_every_server, said};

#[test]
fn keys_of_other_types_stay_are_listed_and_work() {
    on_every_server(&[], |stage| {
        let what = stage.server.name();
        let mut direct = stage.connect();
        fill(&mut direct);
        direct.call(&[b"RPUSH", b"user:77", b"no list yet"]).unwrap();
        ok(&mut direct, &[b"RENAME", b"user:5", b"user:aside"]);
        for command in [
            &[&b"RPUSH"[..], b"user:5", b"a", b"b"][..],
            &[b"HSET", b"sess:00000000-e89b-12d3-a456-426614170000", b"f", b"v"],
        ] {
            assert_ne!(direct.call(command).unwrap()[0], b'-');
        }
        let before = stage.keyspace();
        let ran = stage.fold(LAYOUT, &[]);
        ran.assert_code(3).assert_says("2 keys stay").assert_says("\"user:5\": it is a list");
        ran.assert_says("hold another type");

        let proxy = Subject::beside(&stage.server).unwrap();
        let mut wire = Wire::connect(proxy.address()).unwrap();
        for (line, answer) in [
            ("LPUSH user:5 z", ":3"),
            ("LRANGE user:5 0 -1", "*3\\r\\n$1\\r\\nz\\r\\n$1\\r\\na\\r\\n$1\\r\\nb"),
            ("TYPE user:5", "+list"),
            ("GET user:5", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("EXPIRE user:5 1000", ":1"),
            ("PERSIST user:5", ":1"),
            ("LPOP user:5", "$1\\r\\nz"),
            ("HGET sess:00000000-e89b-12d3-a456-426614170000 f", "$1\\r\\nv"),
            ("GET user:6", "$5\\r\\n47514"),
            ("TYPE user:6", "+string"),
            ("RPUSH user:6 x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ] {
            assert_eq!(said(&mut wire, line), format!("{answer}\\r\\n"), "{what}: {line}");
        }
        drop(proxy);

        // The same once more, and back.
        stage.fold(LAYOUT, &[]).assert_code(3).assert_says("2 keys stay");
        stage.unfold(&["--clean"]).assert_code(0);
        assert_same(&before, &stage.keyspace(), &what);
    });
}

#[test]
fn what_stays_is_named_with_its_database() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    fill(&mut direct);
    ok(&mut direct, &[b"SELECT", b"2"]);
    assert_ne!(direct.call(&[b"RPUSH", b"user:5", b"a"]).unwrap()[0], b'-');
    let ran = stage.fold(LAYOUT, &[]);
    ran.assert_code(3).assert_says("such as db 2 \"user:5\" (list)").assert_says("\n  db 2 \"user:5\": it is a list");
}

/// What stays of one namespace keeps no other between its places, and is reached with all that lies beside its bucket.
#[test]
fn only_the_namespace_of_what_stays_stays_open() {
    const TWO: &str = "[[namespace]]\nkeys = 'profile:{id:int}'\nbucket = { span = 8 }\n\
         [[namespace]]\nkeys = 'cart:{id:int}'\nbucket = { span = 8 }\n";
    const OTHERWISE: &str = "[[namespace]]\nkeys = 'profile:{id:int}'\nbucket = { span = 16 }\n\
         [[namespace]]\nkeys = 'cart:{id:int}'\nbucket = { span = 16 }\n";
    on_every_server(&[], |stage| {
        let what = stage.server.name();
        let mut direct = stage.connect();
        let long = "long".repeat(50);
        for id in 0..200 {
            ok(&mut direct, &[b"SET", format!("profile:{id}").as_bytes(), format!("{long}{id}").as_bytes()]);
            ok(&mut direct, &[b"SET", format!("cart:{id}").as_bytes(), format!("{long}{id}").as_bytes()]);
        }
        let open = |stage: &Stage| {
            let ran = stage.run(&["status", &stage.server.url()]);
            ["profile", "cart"].map(|name| ran.stdout.contains(&format!("a move of {name}:{{id:int}} from")))
        };
        direct.call(&[b"RPUSH", b"profile:9000", b"a list"]).unwrap();
        stage.fold(TWO, &[]).assert_code(3).assert_says("\"profile:9000\": it is a list");
        assert_eq!(open(stage), [true, false], "{what}");
        direct.call(&[b"DEL", b"profile:9000"]).unwrap();
        stage.fold(TWO, &[]).assert_code(0);

        // Both places of a key hold something now, the old one beside its bucket.
        let place = |layout: &str| Layout::parse_file(layout).unwrap().locate(b"profile:9").place().unwrap();
        let new = place(OTHERWISE);
        direct.call(&[b"HSET", &new.physical, &new.field, b"past keyfold"]).unwrap();
        stage.fold(OTHERWISE, &[]).assert_code(3).assert_says("\"profile:9\": it was written in its old place too");
        assert_eq!(open(stage), [true, false], "{what}");
        direct.call(&[b"HDEL", &new.physical, &new.field]).unwrap();
        let proxy = Subject::beside(&stage.server).unwrap();
        let mut wire = Wire::connect(proxy.address()).unwrap();
        assert_eq!(said(&mut wire, "GET profile:9"), format!("$201\\r\\n{long}9\\r\\n"), "{what}");
        assert_eq!(said(&mut wire, "GET cart:9"), format!("$201\\r\\n{long}9\\r\\n"), "{what}");
        drop(proxy);
        stage.fold(OTHERWISE, &[]).assert_code(0);
        stage.verify();
        stage.unfold(&["--clean"]).assert_code(0);
        assert_eq!(said(&mut direct, "DBSIZE"), ":400\\r\\n", "{what}");
    });
}

#[test]
fn once_the_other_type_is_gone_the_move_ends() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    fill(&mut direct);
    direct.call(&[b"RPUSH", b"user:5000", b"a"]).unwrap();
    stage.fold(LAYOUT, &[]).assert_code(3);
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    assert_eq!(said(&mut wire, "DEL user:5000"), ":1\\r\\n");
    ok(&mut wire, &[b"SET", b"user:5000", b"a string now"]);
    stage.fold(LAYOUT, &[]).assert_code(0);
    assert_eq!(said(&mut wire, "GET user:5000"), "$12\\r\\na string now\\r\\n");
    stage.verify();
    stage.fold(LAYOUT, &[]).assert_code(0).assert_says("everything lies where the layout says");
}

/// A name that is too long for a field as it is, and not once a table packs it.
#[test]
fn what_was_too_long_for_its_field_is_folded_once_it_is_not() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let long = format!("page:{}", "docs/".repeat(20));
    let mut direct = stage.connect();
    fill(&mut direct);
    ok(&mut direct, &[b"SET", long.as_bytes(), b"a long way"]);
    let before = stage.keyspace();
    stage.fold(LAYOUT, &[]).assert_code(0);
    let is_plain = |stage: &Stage| stage.keyspace().contains_key(&(0, long.clone().into_bytes()));
    assert!(is_plain(&stage));
    stage.verify();
    // The symbol `docs/`.
    let packed = format!("{LAYOUT}text_table = 'AQVkb2NzLw'\n");
    stage.fold(&packed, &[]).assert_code(0);
    assert!(!is_plain(&stage));
    stage.verify();
    stage.fold(LAYOUT, &[]).assert_code(0);
    assert!(is_plain(&stage));
    stage.verify();
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same(&before, &stage.keyspace(), "there and back");
}
