//! What makes hashtables of hashes, one by one.

use keyfold_testkit::Flavor;

use super::stage::{apply, contents, doctor, encoding, numbers, on_every_server, write_hash};

#[test]
fn a_long_value_is_named_and_mended() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        let long = (b"bio".to_vec(), vec![b'x'; 300]);
        write_hash(&mut wire, b"profile:1", numbers(99).chain([long]));
        write_hash(&mut wire, b"profile:2", numbers(99));
        let before = contents(&mut wire);
        let sick = doctor(&server.url(), &[]);
        assert_eq!((sick.code, sick.problems()), (Some(3), vec!["long-value"]), "{}", server.name());
        let finding = sick.finding("long-value");
        let example = &finding["examples"][0];
        assert_eq!((&example["key"], &example["field"]), (&"profile:1".into(), &"bio".into()));
        assert_eq!(example["too_long"]["bytes"], 300);
        apply(server, finding, 0);
        doctor(&server.url(), &[]).assert_well();
        assert!(contents(&mut wire) == before, "the data is as it was");
    });
}

#[test]
fn a_long_field_is_named_and_mended() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        wire.call(&[b"SELECT", b"3"]).unwrap();
        write_hash(&mut wire, b"\xff\x00hash", numbers(99).chain([(vec![b'f'; 90], b"1".to_vec())]));
        let sick = doctor(&server.url(), &[]);
        let example = &sick.finding("long-field")["examples"][0];
        assert_eq!((&example["database"], &example["key"]), (&3.into(), &"\\xff\\x00hash".into()));
        assert_eq!(doctor(&format!("{}/3", server.url()), &[]).problems(), ["long-field"]);
        doctor(&server.url(), &["--database", "1"]).assert_well();
        apply(server, sick.finding("long-field"), 0);
        doctor(&server.url(), &[]).assert_well();
    });
}

#[test]
fn what_was_over_a_limit_once_is_rewritten_with_its_expiry() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        write_hash(&mut wire, b"a:1", numbers(100).chain([(b"long".to_vec(), vec![b'x'; 100])]));
        wire.call(&[b"HDEL", b"a:1", b"long"]).unwrap();
        write_hash(&mut wire, b"a:2", numbers(100).chain([(b"long".to_vec(), vec![b'x'; 100])]));
        wire.call(&[b"HDEL", b"a:2", b"long"]).unwrap();
        wire.call(&[b"PEXPIREAT", b"a:2", b"4102444800123"]).unwrap();
        let before = contents(&mut wire);
        assert_eq!(encoding(&mut wire, b"a:1"), "hashtable");
        let sick = doctor(&server.url(), &[]);
        assert_eq!((sick.problems(), &sick.finding("still-table")["rewrite"]), (vec!["still-table"], &"now".into()));
        assert_eq!(encoding(&mut wire, b"a:1"), "hashtable", "nothing is written without being told");

        let mended = doctor(&server.url(), &["--rewrite"]);
        mended.assert_well();
        assert_eq!(mended.report["rewritten"]["hashes"], 2);
        assert_ne!(encoding(&mut wire, b"a:1"), "hashtable");
        assert!(contents(&mut wire) == before, "the data is as it was");
        if server.version().major >= 7 {
            assert_eq!(wire.call(&[b"PEXPIRETIME", b"a:2"]).unwrap(), b":4102444800123\r\n");
            assert_eq!(wire.call(&[b"PEXPIRETIME", b"a:1"]).unwrap(), b":-1\r\n");
        }
    });
}

#[test]
fn fields_with_an_expiry_of_the_servers_own() {
    on_every_server(&[], |server| {
        if server.flavor() != Flavor::Valkey || server.version().major < 9 {
            return;
        }
        let mut wire = server.connect().unwrap();
        write_hash(&mut wire, b"a:1", numbers(100));
        wire.call(&[b"HEXPIRE", b"a:1", b"10000", b"FIELDS", b"1", b"7"]).unwrap();
        let sick = doctor(&server.url(), &["--rewrite"]);
        assert_eq!(sick.problems(), ["field-expiry"]);
        wire.call(&[b"HPERSIST", b"a:1", b"FIELDS", b"1", b"7"]).unwrap();
        doctor(&server.url(), &["--rewrite"]).assert_well();
    });
}

#[test]
fn large_hashes_of_other_kinds_are_no_findings() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        let pages = (0..50).map(|page: usize| (format!("page{page}").into_bytes(), vec![b'x'; 5000]));
        write_hash(&mut wire, b"pages", pages);
        for command in [&[&b"SADD"[..], b"set", b"a"][..], &[b"RPUSH", b"list", b"a"], &[b"ZADD", b"zset", b"1", b"a"]]
        {
            wire.call(command).unwrap();
        }
        doctor(&server.url(), &[]).assert_well();
    });
}
