use proptest::prelude::*;

use super::*;

fn template(source: &str) -> Template {
    Template::parse(source).unwrap()
}

fn rule(source: &str, keys: &str, field: &str) -> Handmade {
    Handmade::new(&template(source), keys, field, Packing::Raw).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(source: &str, keys: &str, field: &str) -> String {
    Handmade::new(&template(source), keys, field, Packing::Raw).unwrap_err().to_string()
}

fn crumbs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(crumb, short)| ((*crumb).to_owned(), (*short).to_owned())).collect()
}

fn me_redis(source: &str, pairs: &[(&str, &str)], entries: u64) -> Result<Handmade, HandmadeError> {
    MeRedis::new(&crumbs(pairs), entries, Packing::Zlib)?.rule(&template(source))
}

/// Where the rule puts a key of the template, as text.
fn place(rule: &Handmade, source: &str, key: &str) -> (String, String) {
    let (mut parts, mut name, mut field) = (Parts::new(), Name::new(), Field::new());
    assert!(template(source).parse_key(key.as_bytes(), &mut parts), "{key}");
    assert!(rule.locate(&parts, &mut name, &mut field));
    assert!(rule.names_hash(&name));
    let back = rule.decode(&template(source), &name, &field).expect("a place is some key's");
    assert_eq!(template(source).render(&back), key.as_bytes());
    (String::from_utf8(name.to_vec()).unwrap(), String::from_utf8(field.to_vec()).unwrap())
}

fn at(name: &str, field: &str) -> (String, String) {
    (name.to_owned(), field.to_owned())
}

#[test]
fn buckets_by_example() {
    let media = "media:{id:int}";
    let whole = rule(media, "mediabucket:{id/1000}", "{id}");
    assert_eq!(place(&whole, media, "media:1155315"), at("mediabucket:1155", "1155315"));
    assert_eq!(place(&whole, media, "media:7"), at("mediabucket:0", "7"));
    let rest = rule(media, "mediabucket:{id/1000}", "{id%1000}");
    assert_eq!(place(&rest, media, "media:1155005"), at("mediabucket:1155", "5"));
    let two = "{{shop}}:{shop:int}:item:{id:int}";
    let both = rule(two, "{{s}}:{shop:base62}:{id/100}", "i{id%100}");
    assert_eq!(place(&both, two, "{shop}:62:item:345"), at("{s}:10:3", "i45"));
    assert!(
        !whole.names_hash(b"mediabucket:01") && !whole.names_hash(b"mediabucket:") && !whole.names_hash(b"media:1")
    );
}

#[test]
fn bytes_that_are_no_place_are_no_keys() {
    let media = template("media:{id:int}");
    let rest = rule("media:{id:int}", "mediabucket:{id/1000}", "{id%1000}");
    for (name, field) in [("mediabucket:1155", "x"), ("mediabucket:1155", ""), ("mediabucket:1155", "05")] {
        assert_eq!(rest.decode(&media, name.as_bytes(), field.as_bytes()), None, "{name} {field}");
    }
    assert_eq!(rest.decode(&media, b"mediabucket:9223372036854775807", b"5"), None);
}

#[test]
fn me_redis_by_its_own_tests() {
    // me-redis, test/me-redis/me_redis_test.rb: 100 / 64 == 1, (100 % 64).to_base62 == 'A'.
    let user = me_redis("user:{id:int}", &[("user", "u")], 64).unwrap();
    assert_eq!(place(&user, "user:{id:int}", "user:100"), at("u:1", "A"));
    assert_eq!(place(&user, "user:{id:int}", "user:101"), at("u:1", "B"));
    let inside = [("user", "u"), ("user_inside", "u1")];
    let rule = me_redis("user_inside:{id:int}", &inside, 64).unwrap();
    assert_eq!(place(&rule, "user_inside:{id:int}", "user_inside:100"), at("u1:1", "A"));
    let plain = me_redis("user:{id:int}", &[], 64).unwrap();
    assert_eq!(place(&plain, "user:{id:int}", "user:100"), at("user:1", "A"));
}

#[test]
fn me_redis_shortens_every_number_of_a_name() {
    let source = "some/v12/organization:{org:int}:user:{id:int}";
    let rule = me_redis(source, &[("user", "u"), ("organization", "o")], 512).unwrap();
    // 6200 * 512 + 61, and 6200 = 1 * 62² + 38 * 62.
    assert_eq!(place(&rule, source, "some/v12/organization:100:user:3174461"), at("some/vc/o:1C:u:1C0", "Z"));
    assert_eq!(place(&rule, source, "some/v12/organization:0:user:0"), at("some/vc/o:0:u:0", "0"));
    let zeros = me_redis("a00b:{id:int(8)}", &[], 512).unwrap();
    assert_eq!(place(&zeros, "a00b:{id:int(8)}", "a00b:00000511"), at("a00b:0", "8f"));
}

#[test]
fn what_can_not_be_told_again_is_refused() {
    let media = "media:{id:int}";
    for (keys, field, said) in [
        ("b:{id/1000}", "x", "doesn't say {id} whole"),
        ("b:{id/1000}", "{id%100}", "doesn't say {id} whole"),
        ("b:{id/1000}x{id/10}", "{id%10}", "doesn't say {id} whole"),
        ("b:{id/1000}0", "{id}", "the number {id/1000} can't be told from what follows it"),
        ("b:{id/10:base62}x", "{id}", "can't be told"),
        ("b:{id/1000}{id}", "{id}", "can't be told"),
        ("b:{it/1000}", "{id}", "no such placeholder; they have id"),
        ("b:{id/1}", "{id}", "divided by 2 to"),
        ("b:{id*2}", "{id}", "no such placeholder"),
        ("b:{id/10:hex}", "{id}", "there are {id}"),
        ("b:{}", "{id}", "there are {id}"),
        ("b:{id", "{id}", "brace without its partner"),
        ("b:}", "{id}", "brace without its partner"),
        ("bucket", "{id}", "the names of the hashes"),
        ("~{id/10}", "{id}", "one of keyfold's own names"),
        ("{id/10:base62}:x", "{id}", "one of keyfold's own names"),
        ("keyfold:{id/10}", "{id}", "one of keyfold's own names"),
    ] {
        let refusal = refusal(media, keys, field);
        assert!(refusal.contains(said), "{keys} {field}: {refusal}");
    }
    assert!(refusal("a:{id:int}:{name}", "b:{id/10}", "{id}").contains("\"name\" is text"));
}

#[test]
fn what_me_redis_would_read_otherwise_is_refused() {
    let refusal =
        |source: &str, pairs: &[(&str, &str)], entries| me_redis(source, pairs, entries).unwrap_err().to_string();
    let user = "user:{id:int}";
    assert!(refusal(user, &[("", "u")], 512).contains("is empty"));
    assert!(refusal(user, &[("us3r", "u")], 512).contains("has digits"));
    assert!(refusal(user, &[("us.r", "u")], 512).contains("regular expressions"));
    assert!(refusal(user, &[("user", "u"), ("uther", "u")], 512).contains("short form of another"));
    assert!(refusal(user, &[("user", "u"), ("user", "v")], 512).contains("twice"));
    assert!(refusal(user, &[], 1).contains("2 to 4294967296"));
    assert!(refusal("user:{id:int}:name", &[], 512).contains("doesn't"));
    assert!(refusal("user2{id:int}", &[], 512).contains("digits right before"));
    assert!(refusal("a:{a:int(2)}:{id:int}", &[], 512).contains("leading zeros"));
    assert!(refusal("a:{a:int}user{id:int}", &[("user", "u")], 512).contains("can't be told"));
    assert!(refusal("a99999999999999999999:{id:int}", &[], 512).contains("over 19 digits"));
}

#[test]
fn a_rule_is_written_as_it_is_read() {
    let source = "{{org}}:{org:int}:user:{id:int}";
    let written = me_redis(source, &[("user", "u")], 512).unwrap().table(&template(source));
    assert_eq!(
        written,
        r#"{ keys = "{{org}}:{org:base62}:u:{id/512:base62}", field = "{id%512:base62}", value = "zlib" }"#
    );
    let table: toml::Table = toml::from_str(&format!("rule = {written}")).unwrap();
    let text = |name: &str| table["rule"][name].as_str().unwrap();
    let packing = Packing::named(text("value")).unwrap();
    let read = Handmade::new(&template(source), text("keys"), text("field"), packing).unwrap();
    assert_eq!(read.table(&template(source)), written);
    assert_eq!(read, me_redis(source, &[("user", "u")], 512).unwrap());
}

/// What me-redis writes for `prefix` and a number, worked out otherwise than the rule does: digit by digit.
fn as_the_gem_does(short_prefix: &str, id: u64, entries: u64) -> (String, String) {
    let base62 = |mut number: u128| {
        let alphabet: Vec<char> = ('0'..='9').chain('a'..='z').chain('A'..='Z').collect();
        let mut power = 1_u128;
        while power * 62 <= number {
            power *= 62;
        }
        let mut digits = String::new();
        while power > 0 {
            digits.push(alphabet[usize::try_from(number / power).unwrap()]);
            number %= power;
            power /= 62;
        }
        digits
    };
    (format!("{short_prefix}{}", base62(u128::from(id / entries))), base62(u128::from(id % entries)))
}

proptest! {
    #[test]
    fn me_redis_is_followed(id in 0..=i64::MAX.unsigned_abs(), entries in 2_u64..5_000) {
        let rule = me_redis("user:{id:int}", &[("user", "u")], entries).unwrap();
        let expected = as_the_gem_does("u:", id, entries);
        prop_assert_eq!(place(&rule, "user:{id:int}", &format!("user:{id}")), expected);
    }

    #[test]
    fn every_place_gives_its_key(
        ids in prop::array::uniform2(prop_oneof![0..3000_u64, 0..=i64::MAX.unsigned_abs()]),
        by in 2..2000_u64,
        form in 0..6_usize,
    ) {
        let source = "a:{x:int}:{y:int}";
        let (keys, field) = [
            ("h:{x}:{y/N}", "{y}"),
            ("h:{x}:{y/N}", "{y%N}"),
            ("h:{x:base62}:{y/N:base62}", "{y%N:base62}"),
            ("h:{x/N}", "{x%N}:{y:base62}"),
            ("h:{y/N}-{x/N:base62}", "{x%N}.{y%N}"),
            ("h:{y%N}", "{y/N}:{x}"),
        ][form];
        let with = |pattern: &str| pattern.replace('N', &by.to_string());
        let rule = rule(source, &with(keys), &with(field));
        place(&rule, source, &format!("a:{}:{}", ids[0], ids[1]));
    }

    #[test]
    fn what_decodes_is_a_place(name in "h:[0-9]{1,4}(:[0-9]{0,3})?", field in "[0-9:]{0,5}") {
        let source = "a:{x:int}:{y:int}";
        let rule = rule(source, "h:{x}:{y/100}", "{y%100}");
        if let Some(parts) = rule.decode(&template(source), name.as_bytes(), field.as_bytes()) {
            let (mut again, mut at) = (Name::new(), Field::new());
            prop_assert!(rule.locate(&parts, &mut again, &mut at));
            // A remainder over the divisor reads as a number; whoever asks locates the key again, and sees it.
            let same = again.as_slice() == name.as_bytes() && at.as_slice() == field.as_bytes();
            prop_assert!(same || field.parse::<u64>().unwrap() >= 100);
        }
    }
}
