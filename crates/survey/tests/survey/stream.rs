//! Keyspaces larger than what fits in memory: generated key by key, never stored.

use keyfold_core::memory::{Model, Server};
use keyfold_survey::observation::Observation;
use keyfold_survey::survey::{Findings, Survey};

/// Branches of families that may be tracked: `MAX_BRANCHES`, and what comes between two looks at it.
const MOST_TRACKED: usize = 12_000;

/// Mixes the bits of a number, one to one.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Letters from `g` on: no hexadecimal.
fn word(seed: u64, letters: u32) -> String {
    (0..letters).map(|i| char::from(b'g' + u8::try_from((mix(seed) >> (5 * i)) % 17).unwrap())).collect()
}

/// Eight families, one of words that no two keys share, one of paths of several depths.
fn key(i: u64) -> String {
    let n = mix(i) % 1_000_000_000;
    match i % 8 {
        0 => format!("user:{n}"),
        1 => format!("user:{n}:logins"),
        2 => {
            let (high, low) = (mix(i), mix(!i));
            let hex = format!("{high:016x}{low:016x}");
            format!("session:{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
        }
        3 => format!("cart:{:016x}", mix(i)),
        4 => format!("order:{n:012}"),
        5 => format!("feed:{}:{}", n % 5000, n / 5000),
        6 => format!("tag:{}", word(i, 12)),
        _ => format!("page:/{}/{}{}", word(n % 300, 6), word(i, 8), if n.is_multiple_of(3) { "/edit" } else { "" }),
    }
}

fn survey(keys: u64) -> Findings {
    let mut survey = Survey::new(Model::for_server(Server::valkey(9, 1)));
    for i in 0..keys {
        survey.observe(0, &Observation::of_string(key(i).as_bytes(), b"twenty-four letters long"));
        if i % (1 << 16) == 0 {
            assert!(survey.tracked() < MOST_TRACKED, "{} branches after {i} keys", survey.tracked());
        }
    }
    survey.finish(keys)
}

fn check(keys: u64) {
    let findings = survey(keys);
    let mut names: Vec<_> = findings.families.iter().map(|family| family.name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "cart:{id:hex}",
        "feed:{id:int}:{id2:int}",
        "order:{id:int(12)}",
        "page:/{name}/{part}",
        "session:{id:uuid}",
        "tag:{name}",
        "user:{id:int}",
        "user:{id:int}:logins",
    ];
    for name in expected {
        assert!(names.contains(&name), "{name} is missing among {names:?}");
    }
    assert!(names.len() <= 12, "{names:?}");
    let counted: u64 = findings.families.iter().map(|family| family.summary.keys).sum();
    assert_eq!(counted, keys);
    let bytes: usize =
        findings.families.iter().map(|family| family.sample.iter().map(|key| key.key.len() + 90).sum::<usize>()).sum();
    assert!(bytes < 64 << 20, "{bytes} bytes of samples");
}

#[test]
fn two_million_keys_take_bounded_memory() {
    check(2_000_000);
}

/// `make analyze-stream`: 100 million keys, and the resident size of the process, which must stay below 200 MB.
#[test]
#[ignore = "takes minutes; run by `make analyze-stream`"]
#[expect(clippy::disallowed_methods, reason = "only the system knows the size of this process")]
fn a_hundred_million_keys_take_less_than_200_mb() {
    check(100_000_000);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    println!("peak resident size: {peak}");
    let kilobytes: u64 = peak.trim_end_matches("kB").trim().parse().unwrap();
    assert!(kilobytes < 200_000, "{peak}");
}
