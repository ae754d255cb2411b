//! Data in the conventions of the field, each value found again under its key, and nothing of the hashes left.

use keyfold_testkit::{Server, Wire, found};
use tempfile::TempDir;

use super::program::{MEDIA, Proxy, bulk, deflate, fold, keyfold, names, write_fields, write_layout};

/// A key as an application will call it, where it lies now, and its value.
struct Datum {
    key: String,
    hash: String,
    field: String,
    stored: Vec<u8>,
    value: Vec<u8>,
}

/// Any bytes, those of frames and of deflated values among them.
fn values(id: u64) -> Vec<u8> {
    match id % 7 {
        0 => id.to_string().into_bytes(),
        1 => Vec::new(),
        // A frame that expired in 2020, if it were one.
        2 => b"\x05\0\0\0\0\x01x".to_vec(),
        3 => vec![id.to_le_bytes()[0] & 0x1f; 3],
        4 => deflate(b"deflated by the application itself"),
        5 => format!("{{\"id\":{id},\"name\":\"caf\u{e9}\"}}").into_bytes(),
        _ => vec![b'v'; usize::try_from(id % 200).unwrap()],
    }
}

/// Instagram's: a thousand ids to a hash, the whole id as field.
fn media(ids: impl Iterator<Item = u64>) -> Vec<Datum> {
    ids.map(|id| Datum {
        key: format!("media:{id}"),
        hash: format!("mediabucket:{}", id / 1000),
        field: id.to_string(),
        stored: values(id),
        value: values(id),
    })
    .collect()
}

/// The gem's, after its source: `Integer#to_base62` of base62-rb over the quotient and what is left of 64.
fn users(ids: impl Iterator<Item = u64>) -> Vec<Datum> {
    fn to_base62(number: u64) -> String {
        const KEYS: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let digit = KEYS.chars().nth(usize::try_from(number % 62).unwrap()).unwrap();
        if number < 62 { digit.to_string() } else { format!("{}{digit}", to_base62(number / 62)) }
    }
    ids.map(|id| {
        let value = format!("{{\"user\":{id},\"more\":\"{}\"}}", "and more ".repeat(12)).into_bytes();
        // Counters that me_incr made are not deflated.
        let (stored, value) = if id % 3 == 0 {
            (id.to_string().into_bytes(), id.to_string().into_bytes())
        } else {
            (deflate(&value), value)
        };
        Datum {
            key: format!("user:{id}"),
            hash: format!("u:{}", to_base62(id / 64)),
            field: to_base62(id % 64),
            stored,
            value,
        }
    })
    .collect()
}

fn write(server: &Server, data: &[Datum]) {
    let fields: Vec<_> =
        data.iter().map(|datum| (datum.hash.clone(), datum.field.clone(), datum.stored.clone())).collect();
    write_fields(&mut server.connect().unwrap(), &fields);
}

fn check(wire: &mut Wire, data: &[Datum], what: &str) {
    for some in data.chunks(500) {
        some.iter().for_each(|datum| wire.send(&[b"GET", datum.key.as_bytes()]).unwrap());
        for datum in some {
            assert_eq!(wire.reply().unwrap(), bulk(&datum.value), "{what}: {}", datum.key);
        }
    }
}

#[test]
fn buckets_of_a_thousand() {
    for binary in found() {
        let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
        let layout = write_layout(dir.path(), MEDIA);
        let data = media((0..2_000).chain(1_155_000..1_156_000).chain([i64::MAX.unsigned_abs()]));
        write(&server, &data);
        let from = ["--from", "buckets", "--keys", "mediabucket:{id/1000}"];
        let ran = fold(&server, &layout, &[&from[..], &["--dry-run"]].concat());
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("3,001") && ran.stdout.contains("handmade = { keys"), "{}", ran.stdout);
        assert_eq!(names(&mut server.connect().unwrap(), "mediabucket:*"), 4);

        let ran = fold(&server, &layout, &from);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("moved 3,001 keys"), "{}", ran.stdout);
        assert_eq!(names(&mut server.connect().unwrap(), "mediabucket:*"), 0);
        let proxy = Proxy::start(&server);
        check(&mut proxy.connect(), &data, &server.name());
        assert_eq!(proxy.connect().call(&[b"DBSIZE"]).unwrap(), b":3001\r\n");
        // Once more: nothing is left there, and nothing happens to what is moved.
        let ran = fold(&server, &layout, &from);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("moved 0 keys"), "{}", ran.stdout);
        let ran = keyfold(&["verify", &server.url(), "--skip-encodings"]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);

        // Back is to plain keys, not to the hashes.
        let ran = keyfold(&["unfold", &server.url(), "--yes", "--clean"]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        check(&mut server.connect().unwrap(), &data, &server.name());
        assert_eq!(names(&mut server.connect().unwrap(), "media*"), 3_001);
    }
}

#[test]
fn the_rest_of_a_division_as_field_and_plain_keys_at_the_end() {
    let (server, dir) = (found()[0].start(&[]).unwrap(), TempDir::new().unwrap());
    let layout = write_layout(dir.path(), "[[namespace]]\nkeys = 'media:{id:int}'\nplacement = 'plain'\n");
    let mut data = media(0..3_000);
    data.iter_mut().for_each(|datum| datum.field = (datum.field.parse::<u64>().unwrap() % 1000).to_string());
    write(&server, &data);
    let from = ["--from", "buckets", "--keys", "mediabucket:{id/1000}", "--field", "{id%1000}"];
    let ran = fold(&server, &layout, &from);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let mut wire = server.connect().unwrap();
    check(&mut wire, &data, "plain");
    assert_eq!((names(&mut wire, "mediabucket:*"), names(&mut wire, "media:*")), (0, 3_000));
}

#[test]
fn me_redis_with_crumbs_and_zlib() {
    for binary in found() {
        let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
        let both = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 40 }\nvalue_limit = 64\n\
             [[namespace]]\nkeys = 'media:{id:int}'\nbucket = { span = 64 }\n";
        let layout = write_layout(dir.path(), both);
        let data = users((0..3_000).chain(3_174_400..3_174_500));
        write(&server, &data);
        let from = ["--from", "me-redis", "--crumbs", "user=u", "--entries", "64", "--value", "zlib"];
        let ran = fold(&server, &layout, &[&from[..], &["--namespace", "user:{id:int}"]].concat());
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("moved 3,100 keys"), "{}", ran.stdout);
        assert_eq!(names(&mut server.connect().unwrap(), "u:*"), 0);
        let proxy = Proxy::start(&server);
        check(&mut proxy.connect(), &data, &server.name());
        assert_eq!(proxy.connect().call(&[b"INCR", b"user:3"]).unwrap(), b":4\r\n");
    }
}
