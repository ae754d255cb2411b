//! Made-up values of five kinds, the same for the same seed: integers, short English strings, pieces of HTML, and JSON
//! of two models.

use keyfold_core::named;

use keyfold_survey::random::Random;

named! {
    /// A kind of values.
    pub(super) enum ValueKind {
        Integers = "integers",
        Strings = "short strings",
        Html = "HTML",
        Books = "JSON, books",
        Users = "JSON, users",
    }
}

const ADJECTIVES: [&str; 40] = [
    "quiet", "old", "broken", "early", "northern", "golden", "second", "hidden", "long", "bitter", "open", "last",
    "paper", "winter", "distant", "small", "burning", "white", "silent", "iron", "empty", "better", "green", "secret",
    "crooked", "honest", "deep", "wild", "narrow", "salt", "patient", "foreign", "hollow", "bright", "lost", "tall",
    "careful", "sudden", "warm", "common",
];
const NOUNS: [&str; 48] = [
    "river", "house", "garden", "letter", "harbour", "mountain", "brother", "clock", "window", "forest", "orchard",
    "teacher", "engine", "bridge", "doctor", "summer", "island", "mirror", "captain", "kitchen", "library", "village",
    "station", "road", "daughter", "machine", "stranger", "painter", "market", "tower", "field", "notebook", "shadow",
    "ocean", "lantern", "keeper", "theatre", "mill", "voyage", "promise", "valley", "question", "singer", "map",
    "border", "witness", "sailor", "century",
];
const VERBS: [&str; 24] = [
    "remembers",
    "finds",
    "leaves",
    "builds",
    "follows",
    "sells",
    "paints",
    "forgets",
    "returns to",
    "looks for",
    "waits by",
    "keeps",
    "crosses",
    "writes about",
    "listens to",
    "breaks",
    "repairs",
    "visits",
    "loses",
    "watches",
    "believes in",
    "dreams of",
    "asks about",
    "answers",
];
const JOINTS: [&str; 8] = ["and", "while", "because", "although", "until", "before", "but", "so that"];
const FIRST: [&str; 24] = [
    "Anna", "Peter", "Maria", "John", "Elena", "Tom", "Irina", "David", "Sofia", "Martin", "Clara", "Paul", "Nina",
    "George", "Laura", "Victor", "Emma", "Oscar", "Julia", "Henry", "Alice", "Simon", "Vera", "Max",
];
const LAST: [&str; 28] = [
    "Keller", "Morris", "Ivanova", "Brown", "Costa", "Lind", "Novak", "Fischer", "Hale", "Peters", "Marsh", "Romano",
    "Weber", "Dunn", "Sato", "Grant", "Olsen", "Reyes", "Quinn", "Baker", "Horvat", "Stone", "Vidal", "Webb", "Young",
    "Frost", "Larsen", "Moreau",
];
const GENRES: [&str; 10] =
    ["novel", "history", "poetry", "travel", "science", "cooking", "biography", "crime", "children", "philosophy"];
const CITIES: [&str; 14] = [
    "Lisbon", "Riga", "Leeds", "Lyon", "Turin", "Graz", "Porto", "Malmo", "Gdansk", "Bergen", "Cork", "Ghent", "Basel",
    "Split",
];

impl ValueKind {
    /// How many times less memory the write-up came to, plain against all together.
    pub(super) fn original(self) -> f64 {
        match self {
            Self::Integers => 12.0,
            Self::Strings | Self::Books | Self::Users => 3.0,
            // 2.5 to 3.
            Self::Html => 2.75,
        }
    }

    /// The value of this id.
    pub(super) fn value(self, id: u64, random: &mut Random) -> Vec<u8> {
        let text = match self {
            Self::Integers => random.below(1_000_000).to_string(),
            Self::Strings => short(random),
            Self::Html => html(id, random),
            Self::Books => book(id, random),
            Self::Users => user(id, random),
        };
        text.into_bytes()
    }
}

fn pick<'w>(random: &mut Random, words: &[&'w str]) -> &'w str {
    words[usize::try_from(random.below(words.len() as u64)).unwrap_or(0)]
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(text.len().min(1));
    first.to_uppercase() + rest
}

/// A thing, with or without an attribute.
fn thing(random: &mut Random) -> String {
    let article = pick(random, &["the", "a", "her", "his", "every", "that"]);
    let noun = pick(random, &NOUNS);
    if random.below(2) == 0 {
        format!("{article} {noun}")
    } else {
        format!("{article} {} {noun}", pick(random, &ADJECTIVES))
    }
}

fn clause(random: &mut Random) -> String {
    format!("{} {} {}", thing(random), pick(random, &VERBS), thing(random))
}

fn sentence(random: &mut Random) -> String {
    let mut text = clause(random);
    if random.below(2) == 0 {
        text = format!("{text} {} {}", pick(random, &JOINTS), clause(random));
    }
    capital(&text) + "."
}

fn title(random: &mut Random) -> String {
    let (adjective, noun) = (capital(pick(random, &ADJECTIVES)), capital(pick(random, &NOUNS)));
    match random.below(3) {
        0 => format!("The {adjective} {noun}"),
        1 => format!("The {noun} of {} {}", pick(random, &FIRST), pick(random, &LAST)),
        _ => format!("{adjective} {noun} and {}", capital(pick(random, &NOUNS))),
    }
}

/// What fits a caption: one clause, mostly below fifty characters.
fn short(random: &mut Random) -> String {
    capital(&clause(random))
}

fn person(random: &mut Random) -> String {
    format!("{} {}", pick(random, &FIRST), pick(random, &LAST))
}

fn date(random: &mut Random) -> String {
    let (year, month, day) = (1990 + random.below(35), 1 + random.below(12), 1 + random.below(28));
    format!("{year}-{month:02}-{day:02}")
}

fn html(id: u64, random: &mut Random) -> String {
    let mut text = format!(
        "<article class=\"card-preview\" data-id=\"{id}\"><header><h3><a href=\"/books/{id}\">{}</a></h3><span \
         class=\"author\">{}</span><time datetime=\"{}\"></time></header>",
        title(random),
        person(random),
        date(random)
    );
    for _ in 0..1 + random.below(4) {
        text.push_str("<p>");
        for _ in 0..1 + random.below(4) {
            text.push_str(&sentence(random));
            text.push(' ');
        }
        text.push_str("</p>");
    }
    let (likes, genre) = (random.below(5000), pick(random, &GENRES));
    text.push_str(&format!(
        "<ul class=\"tags\"><li><a href=\"/genres/{genre}\">{genre}</a></li></ul><footer><span class=\"likes\">{likes}</span>\
         </footer></article>"
    ));
    text
}

fn book(id: u64, random: &mut Random) -> String {
    format!(
        "{{\"id\":{id},\"title\":\"{}\",\"author\":{{\"id\":{},\"name\":\"{}\"}},\"isbn\":\"978{:010}\",\"genre\":\"{}\",\
         \"pages\":{},\"price\":\"{}.{:02}\",\"in_stock\":{},\"published_on\":\"{}\",\"summary\":\"{}\"}}",
        title(random),
        random.below(20_000),
        person(random),
        random.below(10_000_000_000),
        pick(random, &GENRES),
        80 + random.below(900),
        3 + random.below(60),
        random.below(100),
        random.below(4) > 0,
        date(random),
        sentence(random)
    )
}

fn user(id: u64, random: &mut Random) -> String {
    let (first, last) = (pick(random, &FIRST), pick(random, &LAST));
    let host = pick(random, &["example.com", "example.org", "mail.example", "post.example"]);
    let (month, day, second) = (1 + random.below(12), 1 + random.below(28), random.below(86_400));
    format!(
        "{{\"id\":{id},\"email\":\"{}.{}{}@{host}\",\"first_name\":\"{first}\",\"last_name\":\"{last}\",\"city\":\"{}\",\
         \"phone\":\"+{:011}\",\"roles\":[\"{}\"],\"settings\":{{\"locale\":\"{}\",\"newsletter\":{},\"page_size\":{}}},\
         \"sign_in_count\":{},\"created_at\":\"2017-{month:02}-{day:02}T{:02}:{:02}:{:02}Z\",\"token\":\"{}\"}}",
        first.to_lowercase(),
        last.to_lowercase(),
        random.below(100),
        pick(random, &CITIES),
        random.below(100_000_000_000),
        pick(random, &["reader", "author", "editor", "admin"]),
        pick(random, &["en", "de", "ru", "fr"]),
        random.below(2) == 0,
        pick(random, &["10", "25", "50", "100"]),
        random.below(400),
        second / 3600,
        second / 60 % 60,
        second % 60,
        String::from_utf8_lossy(&random.hex(16)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_their_kinds_say() {
        let mut random = Random::new(3);
        let mean =
            |kind: ValueKind, random: &mut Random| (0..500).map(|id| kind.value(id, random).len()).sum::<usize>() / 500;
        assert!((20..50).contains(&mean(ValueKind::Strings, &mut random)));
        assert!((400..1500).contains(&mean(ValueKind::Html, &mut random)));
        for kind in [ValueKind::Books, ValueKind::Users] {
            let value: serde_json::Value = serde_json::from_slice(&kind.value(7, &mut random)).unwrap();
            assert_eq!(value["id"], 7);
        }
        let number = String::from_utf8(ValueKind::Integers.value(1, &mut random)).unwrap();
        assert!(number.parse::<u64>().unwrap() < 1_000_000);
        assert_eq!(ValueKind::Html.value(1, &mut Random::new(5)), ValueKind::Html.value(1, &mut Random::new(5)));
    }
}
