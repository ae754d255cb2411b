//! Data that the demo makes up: the same on every machine and every run.

use super::layouts::{self, ENTRIES};
use super::records::{DataSet, Record};
use keyfold_survey::random::Random;

/// Rate limits live for an hour: longer than the demo.
const WINDOW_MS: u64 = 3_600_000;

/// Every set with the text of its layout.
pub fn sets(records: usize) -> Vec<(DataSet, String)> {
    let buckets = layouts::buckets(records, ENTRIES);
    let set = |name: &str, make: fn(u64, &mut Random) -> Record, layout: String| {
        let mut numbers = Random::new(0);
        let records = (0..records as u64).map(|i| make(i, &mut numbers)).collect();
        (DataSet { name: name.to_owned(), records }, layout)
    };
    let layout = |keys: &str, rest: &str| format!("[[namespace]]\nkeys = \"{keys}\"\n{rest}\n");
    vec![
        set("counters", counter, layout("user:{id:int}:logins", &format!("bucket = {{ span = {ENTRIES} }}"))),
        set("sessions", session, layout("sess:{id:uuid}", &format!("bucket = {{ count = {buckets} }}"))),
        set(
            "users, JSON",
            user,
            layout("profile:{id:int}", &format!("bucket = {{ span = {ENTRIES} }}\nvalue_limit = 320")),
        ),
        set("rate limits, TTL", rate, layout("rate:{ip}:{window:int}", &format!("bucket = {{ count = {buckets} }}"))),
    ]
}

fn record(key: String, value: String, expires_in_ms: Option<u64>) -> Record {
    Record { key: key.into_bytes(), value: value.into_bytes(), expires_in_ms }
}

/// Logins of users with growing ids: 31-bit integers.
fn counter(i: u64, numbers: &mut Random) -> Record {
    record(format!("user:{}:logins", 1_000_000 + i), numbers.below(1 << 31).to_string(), None)
}

/// Version 4 uuids with tokens of 24 letters.
fn session(_: u64, numbers: &mut Random) -> Record {
    record(format!("sess:{}", numbers.uuid()), numbers.lower_case(24), None)
}

/// Profiles of about 200 bytes.
fn user(i: u64, numbers: &mut Random) -> Record {
    const NAMES: [&str; 8] = ["Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Frances", "Tony"];
    const CITIES: [&str; 6] = ["Oslo", "Lagos", "Kyoto", "Quito", "Porto", "Perth"];
    const PLANS: [&str; 3] = ["free", "team", "enterprise"];
    let (name, family) = (numbers.pick(&NAMES), numbers.lower_case(8));
    let id = 1_000_000 + i;
    let value = format!(
        "{{\"id\":{id},\"name\":\"{name} {family}\",\"email\":\"{family}{}@example.com\",\"city\":\"{}\",\"plan\":\"{}\",\
         \"created\":{},\"visits\":{},\"avatar\":\"https://img.example.com/{:016x}.webp\",\"active\":{}}}",
        numbers.below(1000),
        numbers.pick(&CITIES),
        numbers.pick(&PLANS),
        1_600_000_000 + numbers.below(150_000_000),
        numbers.below(5000),
        numbers.bits(),
        numbers.below(4) > 0,
    );
    record(format!("profile:{id}"), value, None)
}

/// Requests of an address within a minute. The address is made of `i`, so that no key comes twice.
fn rate(i: u64, numbers: &mut Random) -> Record {
    let address = i.wrapping_mul(0x9e37_79b1) & 0xffff_ffff;
    let octet = |shift: u32| address >> shift & 255;
    let key = format!("rate:{}.{}.{}.{}:{}", octet(24), octet(16), octet(8), octet(0), 29_000_000 + numbers.below(60));
    record(key, (1 + numbers.below(600)).to_string(), Some(WINDOW_MS))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use keyfold_core::layout::{Layout, Located};

    use super::*;

    #[test]
    fn every_record_is_folded_by_its_layout_and_none_comes_twice() {
        for (set, text) in sets(5000) {
            let layout = Layout::parse_file(&text).unwrap();
            let limit = layout.namespaces()[0].value_limit;
            let keys: HashSet<_> = set.records.iter().map(|record| &record.key).collect();
            assert_eq!(keys.len(), set.records.len(), "{}", set.name);
            for record in &set.records {
                assert!(matches!(layout.locate(&record.key), Located::Placed(_)), "{}", record.key.escape_ascii());
                assert!(record.value.len() <= limit, "{}", record.value.escape_ascii());
            }
        }
    }

    #[test]
    fn the_same_every_time() {
        let first = |sets: &[(DataSet, String)]| sets.iter().map(|(set, _)| set.records[9].clone()).collect::<Vec<_>>();
        assert_eq!(first(&sets(10)), first(&sets(10)));
    }
}
