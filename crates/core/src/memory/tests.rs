//! Single keys, as servers were measured to hold them. Whole sets are compared with servers in the testkit.

use super::{Allocator, BucketCost, Keyspace, Limits, Model, Placed, Server, SetCost, ValueShape};
use crate::layout::Layout;

fn model(server: Server) -> Model {
    Model::for_server(server).with_allocator(Allocator::SYSTEM)
}

fn bytes(len: u64) -> ValueShape {
    ValueShape::Bytes(len)
}

/// Rows of key lengths, columns of values: 123456789, then text of 1, 8, 20, 44, 45, 60, 100 and 125 bytes.
fn strings(server: Server, has_expiry: bool, key_lens: &[u64]) -> Vec<[u64; 9]> {
    let model = model(server);
    let values = [1, 8, 20, 44, 45, 60, 100, 125].map(ValueShape::Bytes);
    let row = |key_len: &u64| {
        let mut row = [model.string_bytes(*key_len, ValueShape::Integer(123_456_789), has_expiry); 9];
        for (cell, value) in row[1..].iter_mut().zip(values) {
            *cell = model.string_bytes(*key_len, value, has_expiry);
        }
        row
    };
    key_lens.iter().map(row).collect()
}

#[test]
fn strings_of_redis() {
    for server in [Server::redis(7, 0), Server::redis(8, 0)] {
        let expected = [
            [56, 72, 72, 88, 104, 120, 120, 168, 216],
            [64, 80, 80, 96, 112, 128, 128, 176, 224],
            [96, 112, 112, 128, 144, 160, 160, 208, 256],
            [304, 320, 320, 336, 352, 368, 368, 416, 464],
        ];
        assert_eq!(strings(server, false, &[6, 14, 32, 250]), expected, "{server}");
        assert_eq!(strings(server, true, &[6]), [expected[0].map(|bytes| bytes + 32)], "{server}");
    }
}

#[test]
fn strings_of_valkey_8_0() {
    let expected = [
        [48, 64, 64, 80, 96, 112, 112, 160, 208],
        [64, 80, 80, 96, 112, 128, 128, 176, 224],
        [80, 96, 96, 112, 128, 144, 144, 192, 240],
        [336, 352, 352, 368, 384, 400, 400, 448, 496],
    ];
    assert_eq!(strings(Server::valkey(8, 0), false, &[6, 22, 30, 260]), expected);
    assert_eq!(
        strings(Server::valkey(8, 0), true, &[139])[0],
        [192, 208, 208, 224, 240, 256, 256, 304, 352].map(|b| b + 16)
    );
}

#[test]
fn strings_of_valkey_8_1() {
    let expected = [
        [32, 32, 48, 64, 80, 96, 96, 144, 192],
        [48, 48, 64, 80, 96, 112, 112, 160, 208],
        [96, 104, 112, 128, 144, 160, 160, 208, 256],
        [192, 200, 208, 224, 240, 256, 256, 304, 352],
    ];
    assert_eq!(strings(Server::valkey(8, 1), false, &[6, 22, 60, 139]), expected);
    let expiring = [
        [48, 48, 48, 64, 96, 112, 112, 160, 208],
        [64, 64, 64, 96, 112, 128, 128, 176, 224],
        [80, 88, 96, 112, 128, 144, 144, 192, 240],
    ];
    assert_eq!(strings(Server::valkey(8, 1), true, &[6, 22, 37]), expiring);
}

#[test]
fn strings_of_valkey_9_1() {
    let expected = [
        [32, 32, 32, 48, 80, 80, 96, 128, 192],
        [48, 48, 48, 64, 80, 80, 96, 160, 208],
        [64, 64, 64, 80, 96, 96, 112, 176, 224],
        [96, 96, 96, 112, 128, 128, 160, 208, 256],
        [320, 328, 336, 352, 368, 384, 384, 432, 480],
    ];
    assert_eq!(strings(Server::valkey(9, 1), false, &[6, 14, 30, 60, 250]), expected);
    let expiring = [[48, 48, 48, 64, 80, 80, 96, 160, 208], [96, 96, 96, 112, 144, 160, 160, 208, 256]];
    assert_eq!(strings(Server::valkey(9, 1), true, &[6, 60]), expiring);
}

#[test]
fn small_integers_are_shared_where_the_policy_lets_them() {
    let redis = model(Server::redis(7, 0));
    assert_eq!(redis.string_bytes(6, ValueShape::Integer(9_999), false), 40);
    assert_eq!(redis.string_bytes(6, ValueShape::Integer(10_000), false), 56);
    assert_eq!(redis.string_bytes(6, ValueShape::Integer(-1), false), 56);
    assert_eq!(redis.with_shared_integers(false).string_bytes(6, ValueShape::Integer(7), false), 56);
    assert_eq!(model(Server::valkey(9, 1)).string_bytes(6, ValueShape::Integer(7), false), 32);
}

/// The growth of a hash of 6-byte keys from one to two fields of these lengths, over the limits.
fn second_field(server: Server, field_len: u64, value_len: u64) -> u64 {
    let model = model(server).with_limits(Limits { hash_entries: 0, ..Limits::default() });
    let mut hash = BucketCost::default();
    let mut sizes = [0; 2];
    for size in &mut sizes {
        hash.add(&model, bytes(field_len), bytes(value_len));
        *size = model.hash_bytes(6, &hash, false);
    }
    sizes[1] - sizes[0]
}

#[test]
fn fields_of_hashtables() {
    let lens = [(6, 0), (6, 13), (14, 77), (15, 30), (31, 100), (61, 60), (130, 0), (260, 300)];
    for server in [Server::redis(7, 0), Server::redis(8, 0), Server::valkey(8, 0)] {
        let measured = [48, 56, 144, 96, 192, 176, 200, 672];
        assert_eq!(lens.map(|(field, value)| second_field(server, field, value)), measured, "{server}");
    }
    for server in [Server::valkey(8, 1), Server::valkey(9, 1)] {
        let measured = [16, 32, 112, 64, 160, 144, 168, 640];
        assert_eq!(lens.map(|(field, value)| second_field(server, field, value)), measured, "{server}");
    }
}

#[test]
fn a_settled_table_holds_no_old_half() {
    let model = model(Server::redis(7, 0)).with_limits(Limits { hash_entries: 0, ..Limits::default() });
    let (mut hash, mut set) = (BucketCost::default(), SetCost::default());
    for members in 1..=600_u64 {
        hash.add(&model, bytes(6), bytes(1));
        set.add(&model, bytes(200));
        // At 513 the buckets grow from 512 to 1,024; the old ones are there until the first ones are full.
        let old_half = if members == 513 { 512 * 8 } else { 0 };
        if [512, 513].contains(&members) {
            assert_eq!(model.hash_bytes(6, &hash, false) - model.settled_hash_bytes(6, &hash, false), old_half);
            assert_eq!(model.set_bytes(6, &set, false) - model.settled_set_bytes(6, &set, false), old_half);
        }
    }
}

#[test]
fn one_field_over_the_limit_makes_a_table() {
    let sizes = |server| {
        let model = model(server);
        let mut hash = BucketCost::default();
        hash.add(&model, bytes(1), bytes(64));
        assert!(!hash.is_table());
        hash.add(&model, bytes(1), bytes(65));
        assert!(hash.is_table());
        let mut hash = BucketCost::default();
        hash.add(&model, bytes(1), bytes(100));
        hash.add(&model, bytes(1), bytes(100));
        model.hash_bytes(6, &hash, false)
    };
    assert_eq!(sizes(Server::redis(7, 0)), 456);
    assert_eq!(sizes(Server::redis(8, 0)), 456);
    assert_eq!(sizes(Server::valkey(8, 0)), 448);
    assert_eq!(sizes(Server::valkey(8, 1)), 400);
    assert_eq!(sizes(Server::valkey(9, 1)), 416);
}

#[test]
fn sets_of_one_and_two_members() {
    let sizes = |server, members: &[ValueShape]| {
        let model = model(server);
        let mut set = SetCost::default();
        members.iter().for_each(|member| set.add(&model, *member));
        model.set_bytes(6, &set, false)
    };
    let servers =
        [Server::redis(7, 0), Server::redis(8, 0), Server::valkey(8, 0), Server::valkey(8, 1), Server::valkey(9, 1)];
    let integers = [ValueShape::Integer(5), ValueShape::Integer(70_000)];
    assert_eq!(servers.map(|server| sizes(server, &integers)), [72, 72, 64, 48, 48]);
    assert_eq!(servers.map(|server| sizes(server, &[bytes(100)])), [296, 264, 256, 288, 288]);
    assert_eq!(servers.map(|server| sizes(server, &[bytes(10)])), [200, 88, 80, 64, 64]);
}

#[test]
fn a_listpack_is_rounded_to_a_size_class() {
    let model = model(Server::valkey(9, 1));
    let mut hash = BucketCost::default();
    for field in 0..512 {
        hash.add(&model, bytes(6), bytes(10));
        assert_eq!(hash.fields(), field + 1);
    }
    // 7 + 512 × (8 + 12) = 10,247.
    assert_eq!(model.hash_bytes(5, &hash, false), 32 + 12_288);
}

#[test]
fn the_expiry_takes_an_entry_and_a_table_of_its_own() {
    let expiring = |server| {
        let model = model(server);
        let mut keyspace = Keyspace::new(&model);
        let plain = keyspace.clone();
        (0..1000).for_each(|_| keyspace.add_string(12_u64, bytes(8), true));
        assert_eq!(plain.total_bytes(), 0);
        keyspace.table_bytes()
    };
    assert_eq!(expiring(Server::redis(7, 0)), 2 * 1024 * 8);
    let valkey = expiring(Server::valkey(9, 1));
    assert!((2 * 256 * 64..2 * 270 * 64).contains(&valkey), "{valkey}");
}

#[test]
fn records_take_what_their_places_take() {
    let file = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 128 }\nvalue_limit = 10\n";
    let layout = Layout::parse_file(file).unwrap();
    let model = model(Server::redis(7, 0));
    let mut placed = Placed::new(&model, &layout);
    for id in 0..128 {
        placed.add(format!("user:{id}").as_bytes(), b"77", None);
    }
    placed.add(b"user:129", b"more than ten bytes", None);
    placed.add(b"user:x", b"77", None);

    let mut full = BucketCost::default();
    (0..128).for_each(|id| full.add(&model, ValueShape::Integer(id), ValueShape::Integer(77)));
    let mut spilling = BucketCost::default();
    spilling.add(&model, ValueShape::Integer(1), bytes(9));
    let mut expected = Keyspace::new(&model);
    expected.add_hash(7_u64, &full, false);
    expected.add_hash(7_u64, &spilling, false);
    expected.add_string(6_u64 + 11 + 1 + 8, bytes(19), false);
    expected.add_string(6_u64, ValueShape::Integer(77), false);
    assert_eq!(placed.buckets().len(), 2);
    assert_eq!(placed.spills(), 1);
    assert_eq!(placed.keyspace().keys(), 4);
    assert_eq!(placed.total_bytes(), expected.total_bytes());
}

/// The first key of a slot, the second, and an expiry's; names of seven bytes and values of eight.
#[test]
fn a_slot_has_tables_of_its_own_in_cluster_mode() {
    let measured = [
        (Server::redis(7, 0), [96, 96, 32]),
        (Server::redis(8, 0), [2672, 80, 128]),
        (Server::valkey(8, 0), [176, 64, 144]),
        (Server::valkey(8, 1), [208, 48, 160]),
        (Server::valkey(9, 1), [192, 32, 176]),
    ];
    for (server, expected) in measured {
        let model = model(server).in_cluster_mode(true);
        let bytes = |names: &[&str], expiring: bool| {
            let mut keyspace = Keyspace::new(&model);
            names.iter().for_each(|name| keyspace.add_string(name.as_bytes(), bytes(8), expiring));
            // The one table of all slots has room from the start.
            keyspace.total_bytes() - if model.has_tables_by_slot() { 0 } else { keyspace.table_bytes() }
        };
        let first = bytes(&["{aa}xxx"], false);
        let second = bytes(&["{aa}xxx", "{aa}yyy"], false) - first;
        let other = bytes(&["{aa}xxx", "{ab}xxx"], false) - first;
        let expiry = bytes(&["{aa}xxx"], true) - first;
        assert_eq!([first, second, expiry], expected, "{server}");
        assert_eq!(other, first, "{server}");
    }
}

#[test]
fn keys_of_which_only_the_number_is_known_spread_by_chance() {
    for server in [Server::redis(7, 0), Server::redis(8, 0), Server::valkey(8, 0), Server::valkey(9, 1)] {
        let model = model(server).in_cluster_mode(true);
        let (mut known, mut unknown) = (Keyspace::new(&model), Keyspace::new(&model));
        for id in 0..40_000_u64 {
            let name = format!("user:{:016x}", xxhash_rust::xxh3::xxh3_64(&id.to_le_bytes()));
            known.add_string(name.as_bytes(), bytes(8), id % 2 == 0);
            unknown.add_string(name.len() as u64, bytes(8), id % 2 == 0);
        }
        assert_eq!(known.content_bytes(), unknown.content_bytes(), "{server}");
        let off = unknown.total_bytes() as f64 / known.total_bytes() as f64 - 1.0;
        assert!(off.abs() < 0.005, "{server}: {off}");
        assert_eq!(model.table_bytes(40_000, 20_000), unknown.table_bytes(), "{server}");
    }
}

/// Bytes a record, of so many uuids with small values over as many buckets as have 100 of them each.
fn bytes_of_uuids(uuid: impl Fn(u64, u64, u64) -> (u64, u64)) -> u64 {
    let records = 40_000_u64;
    let layout = Layout::parse_file("[[namespace]]\nkeys = 's:{id:uuid}'\nbucket = { count = 400 }\n").unwrap();
    let model = model(Server::redis(7, 0));
    let mut placed = Placed::new(&model, &layout);
    for record in 0..records {
        let [first, second] = [0, 1].map(|half| xxhash_rust::xxh3::xxh3_64_with_seed(&record.to_le_bytes(), half));
        let (high, low) = uuid(record, first, second);
        let text = format!("{high:016x}{low:016x}");
        let uuid = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-");
        placed.add(format!("s:{uuid}").as_bytes(), b"12345678", None);
    }
    assert_eq!(placed.buckets().len(), 400);
    placed.total_bytes() * 10 / records
}

#[test]
fn uuids_of_every_variant_take_about_as_much() {
    let rfc = |low: u64| 0b10 << 62 | low >> 2;
    let random = bytes_of_uuids(|_, high, low| (high & !0xf000 | 0x4000, rfc(low)));
    let timed =
        bytes_of_uuids(|record, high, low| (((0x018f << 48) + (record << 16)) | 0x7000 | (high & 0xfff), rfc(low)));
    let hashes = bytes_of_uuids(|_, high, low| (high, low));
    assert_eq!((random, timed, hashes), (258, 263, 264), "tenths of a byte");
}

/// Hundredths of a byte that a key of its own takes on average for so many bytes more of its name, over parts of 4 to 67
/// bytes and values of 1 to 64.
fn cost_of_name_bytes(server: Server, short: u64, long: u64) -> u64 {
    let model = model(server);
    let sizes = || (4..68).flat_map(|part| (1..65).map(move |value| (part, value)));
    let bytes = |head: u64| -> u64 {
        sizes().map(|(part, value)| model.string_bytes(head + part, ValueShape::Bytes(value), false)).sum()
    };
    (bytes(long) - bytes(short)) * 100 / sizes().count() as u64
}

/// What docs/layout.md says of names: `~6Bk9=` stands before what a key of its own is called, where a counter's digit would
/// make `~0=`.
#[test]
fn the_head_of_a_name_costs_its_bytes() {
    let servers = [Server::redis(7, 0), Server::redis(8, 0), Server::valkey(8, 1), Server::valkey(9, 1)];
    assert_eq!(servers.map(|server| cost_of_name_bytes(server, 3, 6)), [300, 300, 304, 326]);
}

#[test]
fn fields_that_come_and_go_take_what_a_whole_bucket_does() {
    for server in [Server::redis(6, 2), Server::redis(7, 0), Server::valkey(9, 1)] {
        let model = model(server);
        let mut bucket = BucketCost::default();
        let mut fields = 0;
        for (field, value) in
            [(ValueShape::Integer(7), bytes(20)), (bytes(30), ValueShape::Integer(-70_000)), (bytes(3), bytes(64))]
        {
            bucket.add(&model, field, value);
            fields += model.packed_field_bytes(field, value);
            assert_eq!(model.packed_hash_bytes(9, fields), model.hash_bytes(9, &bucket, false), "{server}");
        }
    }
}
