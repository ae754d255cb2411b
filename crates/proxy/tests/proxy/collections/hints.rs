//! Where members of a large set or hash lie is remembered by each keyfold, and is otherwise as soon as another one writes: what it answers
//! must not depend on that.

use std::collections::BTreeMap;

use keyfold_testkit::random::Random;
use keyfold_testkit::servers::each;
use keyfold_testkit::{Wire, found};

use super::LAYOUT;
use crate::stage::{address, call, commands, proxy_before};

/// What is known of one key: members with their values, which sets have none of.
type Known = BTreeMap<String, String>;

const MEMBERS: u64 = 4000;

/// Sends all of it together; the answers, one after the other.
fn all(client: &mut Wire, requests: &[String]) -> Vec<String> {
    let texts: Vec<&str> = requests.iter().map(String::as_str).collect();
    client.send_bytes(&commands(&texts)).unwrap();
    requests.iter().map(|_| String::from_utf8(client.reply().unwrap()).unwrap()).collect()
}

fn bulk(text: Option<&String>) -> String {
    text.map_or("$-1\r\n".to_owned(), |text| format!("${}\r\n{text}\r\n", text.len()))
}

/// Asks for members here and there, one by one and several at once, and for how many there are.
fn check(client: &mut Wire, random: &mut Random, key: &str, known: &Known) {
    let is_set = key.starts_with("tags");
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let names: Vec<String> = (0..1 + random.below(3)).map(|_| name(random)).collect();
        let is_in = |name: &String| format!(":{}\r\n", u8::from(known.contains_key(name)));
        if let [name] = &names[..] {
            requests.push(format!("{} {key} {name}", if is_set { "SISMEMBER" } else { "HEXISTS" }));
            expected.push(is_in(name));
            if !is_set {
                requests.extend([format!("HGET {key} {name}"), format!("HSTRLEN {key} {name}")]);
                expected.extend([bulk(known.get(name)), format!(":{}\r\n", known.get(name).map_or(0, String::len))]);
            }
        } else {
            requests.push(format!("{} {key} {}", if is_set { "SMISMEMBER" } else { "HMGET" }, names.join(" ")));
            let answers = names.iter().map(|name| if is_set { is_in(name) } else { bulk(known.get(name)) });
            expected.push(format!("*{}\r\n{}", names.len(), answers.collect::<String>()));
        }
    }
    requests.push(format!("{} {key}", if is_set { "SCARD" } else { "HLEN" }));
    expected.push(format!(":{}\r\n", known.len()));
    for ((answer, expected), request) in all(client, &requests).iter().zip(&expected).zip(&requests) {
        assert_eq!(answer, expected, "{request}");
    }
}

/// Integers, texts, and a few that are longer than what is packed.
fn name(random: &mut Random) -> String {
    let number = random.below(MEMBERS);
    match number % 40 {
        0 => format!("{number}{}", "long".repeat(20)),
        1..=15 => number.to_string(),
        _ => format!("text{number}"),
    }
}

/// What looks at the value that a field has, and what it answers.
fn counted(random: &mut Random, key: &str, known: &mut Known) -> (String, String) {
    let (name, by) = (name(random), random.below(9).cast_signed() - 4);
    let old = known.get(&name).cloned();
    if random.chance(30) {
        known.entry(name.clone()).or_insert_with(|| by.to_string());
        return (format!("HSETNX {key} {name} {by}"), format!(":{}\r\n", u8::from(old.is_none())));
    }
    let is_float = random.chance(50);
    let request = format!("{} {key} {name} {by}", if is_float { "HINCRBYFLOAT" } else { "HINCRBY" });
    let Ok(number) = old.unwrap_or("0".to_owned()).parse::<i64>() else {
        return (request, format!("-ERR hash value is not {}\r\n", if is_float { "a float" } else { "an integer" }));
    };
    let sum = (number + by).to_string();
    let answer = if is_float { bulk(Some(&sum)) } else { format!(":{sum}\r\n") };
    known.insert(name, sum);
    (request, answer)
}

/// Adds or removes so many.
fn write(client: &mut Wire, random: &mut Random, key: &str, known: &mut Known, adds: bool, count: usize) {
    let is_set = key.starts_with("tags");
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..count {
        if adds && !is_set && random.chance(30) {
            let (request, answer) = counted(random, key, known);
            requests.push(request);
            expected.push(answer);
            continue;
        }
        let names: Vec<String> = (0..1 + random.below(3)).map(|_| name(random)).collect();
        let (mut words, mut new) = (String::new(), 0);
        for name in names {
            let value = match (adds && !is_set, random.below(30)) {
                (false, _) => String::new(),
                (true, 0) => "v".repeat(70),
                (true, any) => any.to_string(),
            };
            words += &format!(" {name}");
            if adds && !is_set {
                words += &format!(" {value}");
            }
            new += usize::from(match adds {
                true => known.insert(name, value).is_none(),
                false => known.remove(&name).is_some(),
            });
        }
        let command = match (is_set, adds) {
            (true, true) => "SADD",
            (true, false) => "SREM",
            (false, true) => "HSET",
            (false, false) => "HDEL",
        };
        requests.push(format!("{command} {key}{words}"));
        expected.push(format!(":{new}\r\n"));
    }
    for ((answer, expected), request) in all(client, &requests).iter().zip(&expected).zip(&requests) {
        assert_eq!(answer, expected, "{request}");
    }
}

#[test]
fn what_one_keyfold_has_learned_and_another_has_changed_is_answered_as_it_is() {
    each(&found(), |binary| {
        let server = binary.start(&[]).unwrap();
        let proxies = [(); 2].map(|()| proxy_before(&server, LAYOUT));
        let mut clients = proxies.each_ref().map(|proxy| Wire::connect(address(proxy)).unwrap());
        let mut random = Random::new(41);
        for (key, other) in [("tags:1", "tags:2"), ("sess:1", "sess:2")] {
            let (mut known, mut beside) = (Known::new(), Known::new());
            // It grows and shrinks, more than once, and each time is read and written through the one that knows it as it was.
            for (round, (adds, count)) in
                [(true, 1500), (false, 900), (true, 2500), (false, 4000), (true, 400), (true, 3000)]
                    .into_iter()
                    .enumerate()
            {
                let [writer, reader] = &mut clients;
                write(writer, &mut random, key, &mut known, adds, count);
                check(reader, &mut random, key, &known);
                write(reader, &mut random, key, &mut known, !adds, 40);
                check(writer, &mut random, key, &known);
                check(reader, &mut random, key, &known);
                // Other parts come to be its own, and those that it had are left for a while.
                if round % 2 == 1 {
                    write(writer, &mut random, other, &mut beside, true, 700);
                    assert_eq!(call(writer, &format!("RENAME {other} {key}")), "+OK\r\n");
                    known = std::mem::take(&mut beside);
                    check(reader, &mut random, key, &known);
                    write(reader, &mut random, key, &mut known, true, 40);
                    check(writer, &mut random, key, &known);
                }
                clients.swap(0, 1);
            }
        }
    });
}
