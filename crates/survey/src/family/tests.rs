use keyfold_core::template::Parts;
use proptest::prelude::*;

use super::*;

/// Counts keys, and keeps the first few.
#[derive(Debug, Default)]
struct Count(u64, Vec<Vec<u8>>);

impl Tally for Count {
    fn merge(&mut self, other: Self) {
        self.0 += other.0;
        self.1.extend(other.1);
        self.1.truncate(20);
    }

    fn resembles(&self, _: &Self) -> bool {
        true
    }
}

fn find<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Vec<Family<Count>> {
    let mut families = Families::<Count>::new();
    for key in keys {
        let key = key.as_ref();
        let tally = families.tally(&Split::of(key));
        tally.0 += 1;
        if tally.1.len() < 20 {
            tally.1.push(key.to_vec());
        }
    }
    let families = families.finish();
    for family in &families {
        assert_eq!(family.keys, family.tally.0, "{}", family.name);
        if let Some(template) = &family.template {
            for key in &family.tally.1 {
                let matches = template.parse_key(key, &mut Parts::new());
                assert!(matches, "{} doesn't match {}", key.escape_ascii(), template);
            }
        }
    }
    families
}

fn names<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Vec<String> {
    find(keys).into_iter().map(|family| family.name).collect()
}

fn uuid(seed: u64) -> String {
    let hash = u128::from(xxhash_rust::xxh3::xxh3_64(&seed.to_le_bytes())) << 64
        | u128::from(xxhash_rust::xxh3::xxh3_64(&(!seed).to_le_bytes()));
    let hex = format!("{hash:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn hex(seed: u64, digits: usize) -> String {
    let hash = xxhash_rust::xxh3::xxh3_64(&seed.to_le_bytes());
    format!("{hash:016x}")[..digits].to_owned()
}

#[test]
fn one_family_of_each_type() {
    let n = 5000;
    assert_eq!(names((0..n).map(|i| format!("user:{i}"))), ["user:{id:int}"]);
    assert_eq!(names((0..n).map(|i| format!("order:{i:012}"))), ["order:{id:int(12)}"]);
    assert_eq!(names((0..n).map(|i| format!("sess:{}", uuid(i)))), ["sess:{id:uuid}"]);
    assert_eq!(names((0..n).map(|i| format!("cart:{}", hex(i, 16)))), ["cart:{id:hex}"]);
    assert_eq!(names((0..n).map(|i| format!("cart:{}", hex(i, 8)))), ["cart:{id:hex}"]);
    assert_eq!(names((0..n).map(|i| format!("sess-{}", uuid(i)))), ["sess-{id:uuid}"]);
    assert_eq!(names((0..n).map(|i| format!("user_{i}_name"))), ["user_{id:int}_name"]);
    assert_eq!(names((0..n).map(|i| format!("user{i}"))), ["user{id:int}"]);
    assert_eq!(names((0..n).map(|i| i.to_string())), ["{id:int}"]);
    assert_eq!(names((0..n).map(uuid)), ["{id:uuid}"]);
    let word = |i: u64| -> String { hex(i, 10).bytes().map(|b| char::from(b'g' + b % 17)).collect() };
    assert_eq!(names((0..n).map(|i| format!("word:{}", word(i)))), ["word:{name}"]);
    assert_eq!(names((0..n).map(word)), ["{name}"]);
}

#[test]
fn several_placeholders() {
    let keys = (0..5000).map(|i| format!("feed:{}:{}", i % 70, i / 70));
    assert_eq!(names(keys), ["feed:{id:int}:{id2:int}"]);
    let keys = (0..5000).map(|i| format!("media:{}:thumb_{}x{}.jpg", i, i % 7 + 2, i % 5 + 2));
    assert_eq!(names(keys), ["media:{id:int}:thumb_{id2:int}x{id3:int}.jpg"]);
    let keys = (0..2000).flat_map(|i| [format!("user:{i}:name"), format!("user:{i}:email")]);
    assert_eq!(names(keys), ["user:{id:int}:email", "user:{id:int}:name"]);
    let keys = (0..5000).map(|i| format!("{{user:{i}}}.following"));
    assert_eq!(names(keys), ["{{user:{id:int}}}.following"]);
    let keys = (0..5000).map(|i| format!("v2:l10n:{i}:x"));
    assert_eq!(names(keys), ["v2:l10n:{id:int}:x"]);
}

#[test]
fn paths_are_text_to_the_end() {
    let keys = (0..6000_u64).map(|i| {
        let part = |seed: u64| hex(seed, 6).bytes().map(|b| char::from(b'g' + b % 17)).collect::<String>();
        let depth = 1 + i % 4;
        let path: Vec<_> = (0..depth).map(|level| part(i * 7 + level)).collect();
        format!("page:/{}", path.join("/"))
    });
    assert_eq!(names(keys), ["page:/{name}"]);
}

#[test]
fn strangers_stay_apart() {
    let keys = (0..5000).map(|i| format!("user:{i}")).chain(["user:admin".into(), "user:007".into(), "config".into()]);
    let found = names(keys);
    assert_eq!(found[0], "user:{id:int}");
    assert!(found.contains(&"config".to_owned()), "{found:?}");
    assert!(found.contains(&"user:{name}".to_owned()), "{found:?}");
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn ten_families_in_one_keyspace_come_in_any_order() {
    let one = |family: u64, i: u64| match family {
        0 => format!("user:{i}"),
        1 => format!("user:{i}:logins"),
        2 => format!("session:{}", uuid(i)),
        3 => format!("order:{i:010}"),
        4 => format!("cart:{}", hex(i, 16)),
        5 => format!("app:counter:{i}"),
        6 => format!("app:flag:{i}"),
        7 => format!("rate:10.{}.{}.{}:{}", i % 200, i % 251, i % 13, i / 3),
        8 => format!("geo_{}_{}", i % 90, i),
        _ => hex(i, 12).bytes().map(|b| char::from(b'g' + b % 17)).collect(),
    };
    let expected = [
        "app:counter:{id:int}",
        "app:flag:{id:int}",
        "cart:{id:hex}",
        "geo_{id:int}_{id2:int}",
        "order:{id:int(10)}",
        "rate:10.{id:int}.{id2:int}.{id3:int}:{id4:int}",
        "session:{id:uuid}",
        "user:{id:int}",
        "user:{id:int}:logins",
        "{name}",
    ];
    let mixed = (0..20_000).map(|i| one(i % 10, i / 10));
    let sorted = (0..20_000).map(|i| one(i / 2000, i % 2000));
    for keys in [mixed.collect::<Vec<_>>(), sorted.rev().collect()] {
        let mut found = names(&keys);
        found.sort();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_tree_stays_small() {
    let mut families = Families::<Count>::new();
    let mut most = 0;
    for i in 0..400_000_u64 {
        let word = |seed: u64| hex(seed, 8).bytes().map(|b| char::from(b'g' + b % 17)).collect::<String>();
        let key = format!("{}:{}:{}:{}", word(i % 300), word(i), word(i * 3), word(i % 1000));
        families.tally(&Split::of(key.as_bytes())).0 += 1;
        most = most.max(families.tracked());
    }
    assert!(most < 12_000, "{most}");
    let families = families.finish();
    assert_eq!(families.iter().map(|family| family.keys).sum::<u64>(), 400_000);
}

proptest! {
    #[test]
    fn any_keys_are_counted_and_match_their_templates(
        keys in prop::collection::vec(prop::collection::vec(prop_oneof![
            Just(b':'), Just(b'_'), Just(b'-'), Just(b'{'), Just(b'0'), Just(b'7'), Just(b'a'), Just(b'f'), any::<u8>(),
        ], 0..20), 0..300)
    ) {
        let total = keys.len() as u64;
        let families = find(keys);
        prop_assert_eq!(families.iter().map(|family| family.keys).sum::<u64>(), total);
    }
}

/// A title as films have them: some with a comma, a slash, a hash or a colon in it, some with numbers.
fn title(seed: u64) -> String {
    let word = |n: u64| -> String { hex(seed * 31 + n, 7).bytes().map(|b| char::from(b'g' + b % 17)).collect() };
    let (one, two, three) = (word(1), word(2), word(3));
    match seed % 40 {
        0 => format!("{one}, the"),
        1 => format!("{one}/{two}"),
        2 => format!("{one}, {two}, and {three}"),
        3 => format!("{one} #{}", seed % 9 + 1),
        4 => format!("{one}; or, {two}"),
        5 => format!("{one}: {two} {three}"),
        6 => format!("{one} {}: {two}", seed % 5 + 2),
        7 => format!("{}", 1900 + seed % 150),
        _ => format!("{one} {two}"),
    }
}

#[test]
fn text_with_delimiters_in_it_is_one_family() {
    let found = names((0..36_000).map(|i| format!("movie:{}:{}", title(i), 1920 + i % 100)));
    assert_eq!(found, ["movie:{name}:{id:int}", "movie:{name}:{name2}:{id:int}"]);
}
