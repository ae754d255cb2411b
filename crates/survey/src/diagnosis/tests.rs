//! From observations to findings, each with what mends it.

use keyfold_core::collection::CollectionKind;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::memory::{Allocator, Model, Server};

use super::*;

const COUNTERS: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 100 }\n";

/// A server with settings that it tells itself, and hashes added one by one.
struct Case {
    seen: Observation,
    models: Models,
}

impl Case {
    fn new() -> Self {
        let names = ServerNames { url: "redis://here:1".into(), redis_cli: "redis-cli -h here -p 1".into() };
        let mut seen = Observation { names, ..Observation::default() };
        seen.settings.hash_entries.origin = Origin::Server;
        seen.settings.hash_value_bytes.origin = Origin::Server;
        let model = Model::for_server(Server::redis(7, 0)).with_allocator(Allocator::SYSTEM);
        Self { seen, models: Models::new(&model, 64) }
    }

    fn with_layout(text: &str) -> Self {
        let mut case = Self::new();
        case.seen.layout = LayoutState::Known(Layout::parse_file(text).unwrap());
        case
    }

    fn hash(&mut self, name: FamilyName, key: &str, encoding: Encoding, fields: &[(String, String)]) {
        let mut contents = Contents::default();
        for (field, value) in fields {
            contents.add(&self.models, field.as_bytes(), value.as_bytes());
        }
        let seen = Seen {
            database: 0,
            key: key.as_bytes(),
            encoding,
            entries: fields.len() as u64,
            bytes: None,
            contents: Some(&contents),
            expiring_fields: false,
        };
        self.seen.families.add(name, &seen, &self.seen.settings, &self.models);
    }

    fn hand_made(&mut self, key: &str, encoding: Encoding, fields: &[(String, String)]) {
        let name = self.seen.families.name_of(key.as_bytes());
        self.hash(name, key, encoding, fields);
    }

    fn problems(&self) -> Vec<Finding> {
        diagnose(&self.seen).into_iter().filter(|finding| finding.severity == Severity::Problem).collect()
    }

    fn only(&self) -> Finding {
        let mut problems = self.problems();
        assert_eq!(problems.len(), 1, "{problems:#?}");
        problems.remove(0)
    }
}

fn numbers(count: usize) -> Vec<(String, String)> {
    (0..count).map(|id| (id.to_string(), (1_155_315 + id).to_string())).collect()
}

fn lines(mend: &Mend, way: &str) -> Vec<String> {
    mend.lines.iter().filter(|line| line.way == way).map(|line| line.text.clone()).collect()
}

#[test]
fn an_empty_server_is_well() {
    assert_eq!(diagnose(&Case::new().seen), []);
}

#[test]
fn the_study_is_explained() {
    let mut case = Case::new();
    for bucket in 0..50 {
        case.hand_made(&format!("mediabucket:{bucket}"), Encoding::Table, &numbers(1000));
    }
    case.seen.config_file.loaded = Some(String::new());
    let finding = case.only();
    assert_eq!((finding.kind, finding.rewrite), (Trouble::TooManyEntries, Rewrite::After));
    assert_eq!(finding.place, "hashes mediabucket:*");
    assert!(finding.what.contains("50 hashes are hashtables: up to 1,000 entries"), "{}", finding.what);
    assert!(finding.why.iter().any(|why| why.contains("was never loaded")), "{:?}", finding.why);
    assert_eq!(finding.examples.len(), 3);
    let [raise, buckets] = &finding.mends[..] else { panic!("{:?}", finding.mends) };
    let cli = lines(raise, "shell");
    assert_eq!(cli[0], "redis-cli -h here -p 1 CONFIG SET hash-max-listpack-entries 1024");
    assert_eq!(cli[1], "keyfold doctor redis://here:1 --rewrite");
    assert_eq!(lines(raise, "redis.conf"), ["hash-max-listpack-entries 1024"]);
    assert!(lines(raise, "AWS")[0].contains("ParameterName=hash-max-listpack-entries,ParameterValue=1024"));
    assert!(buckets.what.contains("divide ids by 100"), "{}", buckets.what);
    let cost = finding.cost_bytes.unwrap();
    assert!(buckets.saves_bytes.unwrap() <= cost && raise.saves_bytes.unwrap() <= cost);
    assert!(cost > 50 * 40_000, "{cost}");
}

#[test]
fn nobody_raises_a_limit_to_a_million() {
    let mut case = Case::new();
    case.hand_made("big", Encoding::Table, &numbers(5000));
    let finding = case.only();
    assert_eq!(finding.mends.len(), 1);
    assert_eq!(finding.mends[0].lines, []);
}

#[test]
fn the_value_that_broke_it_is_named() {
    let mut case = Case::new();
    let mut fields = numbers(99);
    fields.push(("bio".into(), "x".repeat(300)));
    case.hand_made("profile:1", Encoding::Table, &fields);
    let finding = case.only();
    assert_eq!(finding.kind, Trouble::LongValue);
    let example = &finding.examples[0];
    assert_eq!((example.field.as_deref(), example.long), (Some(&b"bio"[..]), Some(("value", 300))));
    assert_eq!(lines(&finding.mends[0], "redis.conf"), ["hash-max-listpack-value 512"]);
    assert!(finding.why[0].starts_with("1 of 100 entries are too long"), "{:?}", finding.why);
}

#[test]
fn no_command_takes_back_what_another_raised() {
    let mut case = Case::new();
    let mut fields = numbers(99);
    for (key, bytes) in [("profile:1", 300), ("page:1", 100)] {
        fields.push(("text".into(), "x".repeat(bytes)));
        case.hand_made(key, Encoding::Table, &fields);
        fields.pop();
    }
    let settings: Vec<_> = case.problems().iter().map(|finding| lines(&finding.mends[0], "redis.conf")).collect();
    assert_eq!(settings, [["hash-max-listpack-value 512"], ["hash-max-listpack-value 512"]]);
}

#[test]
fn a_long_field_is_told_from_a_long_value() {
    let mut case = Case::new();
    let mut fields = numbers(99);
    fields.push(("f".repeat(90), "1".into()));
    case.hand_made("profile:1", Encoding::Table, &fields);
    let finding = case.only();
    assert_eq!((finding.kind, finding.examples[0].long), (Trouble::LongField, Some(("field", 90))));
}

#[test]
fn a_limit_is_not_raised_for_outliers() {
    let mut case = Case::new();
    for (bucket, bytes) in [(1, 100), (2, 200), (3, 100_000)] {
        let mut fields = numbers(99);
        fields.push(("bio".into(), "x".repeat(bytes)));
        case.hand_made(&format!("profile:{bucket}"), Encoding::Table, &fields);
    }
    let finding = case.only();
    assert_eq!(lines(&finding.mends[0], "redis.conf"), ["hash-max-listpack-value 256"]);
    assert!(finding.mends[0].what.contains("1 hash with longer ones"), "{}", finding.mends[0].what);
    assert!(finding.mends[1].what.contains("keys of their own"), "{}", finding.mends[1].what);
}

#[test]
fn a_table_that_neednt_be_one_is_rewritten_at_once() {
    let mut case = Case::new();
    case.hand_made("a:1", Encoding::Table, &numbers(100));
    let finding = case.only();
    assert_eq!((finding.kind, finding.rewrite), (Trouble::StillTable, Rewrite::Now));
    assert_eq!(lines(&finding.mends[0], "shell"), ["keyfold doctor redis://here:1 --rewrite"]);
}

#[test]
fn what_saves_next_to_nothing_is_left_alone() {
    let mut case = Case::new();
    let fields: Vec<_> = (0..20).map(|i| (format!("field{i}"), "x".repeat(4000))).collect();
    case.hand_made("page:1", Encoding::Table, &fields);
    assert_eq!(case.problems(), []);
}

#[test]
fn many_families_are_told_together() {
    let mut case = Case::new();
    for letter in 'a'..='p' {
        case.hand_made(&format!("{letter}:x:{letter}{letter}:y"), Encoding::Table, &numbers(100));
    }
    let problems = case.problems();
    assert_eq!(problems.len(), 9);
    assert!(problems.iter().any(|finding| finding.place == "8 more families of hashes"));
}

#[test]
fn limits_below_the_layout() {
    let case = Case::with_layout(
        "[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { span = 1000 }\nvalue_limit = 300\n\
         [[namespace]]\nkeys = 'b:{id}'\nvalue_limit = 9000\n",
    );
    let problems = case.problems();
    let mended: Vec<_> = problems.iter().map(|finding| lines(&finding.mends[0], "redis.conf")).collect();
    assert_eq!(mended, [["hash-max-listpack-value 300"], ["hash-max-listpack-entries 1000"]]);
    assert!(problems.iter().all(|finding| finding.kind == Trouble::LimitBelowLayout));
}

#[test]
fn replicas_with_lower_limits_are_named_with_the_line_that_raises_them() {
    let mut case = Case::with_layout("[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { count = 10 }\nvalue_limit = 64\n");
    let setting = |value, origin| Setting { value, origin };
    let replica = |entries, value| Replica {
        names: ServerNames { url: format!("redis://r{value}"), redis_cli: format!("redis-cli -h r{value}") },
        settings: Ok(Settings {
            hash_entries: setting(entries, Origin::Server),
            hash_value_bytes: setting(value, Origin::Server),
            ..Settings::default()
        }),
    };
    case.seen.settings.hash_value_bytes = setting(100, Origin::Server);
    case.seen.replicas = vec![replica(512, 32), replica(512, 64), replica(512, 100)];
    case.seen.replicas.push(Replica { settings: Err("it is away".to_owned()), ..replica(512, 1) });
    // One that doesn't tell is not guessed at.
    case.seen.replicas.push(Replica { settings: Ok(Settings::default()), ..replica(512, 2) });
    let findings = diagnose(&case.seen);
    let told: Vec<_> = findings.iter().map(|finding| (finding.kind, finding.severity, finding.what.as_str())).collect();
    let value = "hash-max-listpack-value";
    assert_eq!(
        told,
        [
            (
                Trouble::LowerLimitAtReplica,
                Severity::Problem,
                format!("{value} is 32 at the replica redis://r32, and the layout needs 64").as_str()
            ),
            (
                Trouble::LowerLimitAtReplica,
                Severity::Note,
                format!("{value} is 64 at the replica redis://r64, and it is 100 here").as_str()
            ),
            (Trouble::LimitUnknown, Severity::Note, "this replica can't be asked for its limits: it is away"),
        ]
    );
    assert_eq!(lines(&findings[0].mends[0], "shell"), ["redis-cli -h r32 CONFIG SET hash-max-listpack-value 100"]);
}

#[test]
fn servers_before_7_0_get_their_own_names() {
    let mut case = Case::with_layout("[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { span = 1000 }\n");
    case.seen.settings.old_names = true;
    assert_eq!(lines(&case.only().mends[0], "redis.conf"), ["hash-max-ziplist-entries 1000"]);
}

#[test]
fn what_nobody_tells_is_a_note() {
    let mut case = Case::new();
    case.seen.settings = Settings::default();
    let findings = diagnose(&case.seen);
    assert_eq!((findings.len(), findings[0].kind, findings[0].severity), (1, Trouble::LimitUnknown, Severity::Note));
    let command = &findings[0].mends[0].lines[0].text;
    assert!(
        command.contains("--assume hash-max-listpack-entries=512 --assume hash-max-listpack-value=64"),
        "{command}"
    );
}

#[test]
fn a_file_that_is_not_in_effect() {
    let mut case = Case::new();
    let expected = Expected { path: "redis.conf".into(), entries: Some(1000), value_bytes: Some(64) };
    let config_file = |loaded: &str| ConfigFile { loaded: Some(loaded.into()), expected: Some(expected.clone()) };
    case.seen.config_file = config_file("");
    let finding = case.only();
    assert!(finding.what.contains("never loaded"), "{}", finding.what);
    assert_eq!(lines(&finding.mends[0], "redis.conf"), ["hash-max-listpack-entries 1000"]);
    case.seen.config_file = config_file("/etc/other.conf");
    assert!(case.only().what.contains("/etc/other.conf"));
    case.seen.config_file = config_file("/etc/redis/redis.conf");
    assert!(case.only().what.contains("says otherwise"));
    case.seen.settings.hash_entries.value = 1000;
    assert_eq!(diagnose(&case.seen), []);
}

#[test]
fn sparse_buckets_say_what_a_better_count_saves() {
    let mut case = Case::with_layout(COUNTERS);
    for bucket in 0..200 {
        case.hash(FamilyName::Namespace(NamespaceIndex(0)), &format!("~tnrO:{bucket}"), Encoding::Packed, &numbers(3));
    }
    let finding = case.only();
    assert_eq!(finding.kind, Trouble::SparseBuckets);
    assert_eq!(lines(&finding.mends[0], "layout"), ["bucket = { count = 6 }"]);
    let shell = lines(&finding.mends[0], "shell");
    assert!(shell[0].starts_with("keyfold plan ") && shell[1].starts_with("keyfold fold "), "{shell:?}");
    assert!(finding.why[0].contains("3 in half of them"), "{:?}", finding.why);
    assert!(finding.cost_bytes > Some(200 * 60));
}

#[test]
fn a_slot_has_one_bucket_at_least() {
    for (bucket, entries, better) in [
        ("count = 1", 3, None),
        ("count = 6", 3, Some("bucket = { count = 1 }")),
        ("count = 64", 20, Some("bucket = { count = 13 }")),
        ("count = 2", 480, Some("bucket = { count = 10 }")),
        ("count = 2", 5000, Some("bucket = { count = 100 }")),
        // How many of them a slot has isn't known.
        ("span = 1024", 3, Some("none")),
        ("span = 1024", 480, Some("none")),
    ] {
        let layout =
            format!("cluster = true\n[[namespace]]\nkeys = 'n:{{{{{{org}}}}}}:{{id:int}}'\nbucket = {{ {bucket} }}\n");
        let mut case = Case::with_layout(&layout);
        for number in 0..200 {
            case.hash(
                FamilyName::Namespace(NamespaceIndex(0)),
                &format!("~{{x}}tnrO:{number}"),
                Encoding::Packed,
                &numbers(entries),
            );
        }
        let findings = diagnose(&case.seen);
        let of_buckets = findings.iter().flat_map(|finding| &finding.mends).find(|mend| mend.what.contains("buckets"));
        let line = of_buckets.map(|mend| lines(mend, "layout").first().map_or("none", |line| line).to_owned());
        assert_eq!(line.as_deref(), better, "{bucket} {entries}: {findings:?}");
    }
}

#[test]
fn sparse_hashes_made_by_hand_are_a_note_as_they_may_be_meant_so() {
    let mut case = Case::new();
    for bucket in 0..200 {
        case.hand_made(&format!("media:{bucket}"), Encoding::Packed, &numbers(3));
    }
    let findings = diagnose(&case.seen);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = &findings[0];
    assert_eq!((finding.kind, finding.severity), (Trouble::SparseBuckets, Severity::Note));
    assert_eq!((finding.mends.len(), finding.rewrite), (2, Rewrite::No));
    assert!(finding.mends[0].what.starts_with("if they are buckets"), "{}", finding.mends[0].what);
    let shell = lines(&finding.mends[1], "shell");
    assert!(shell[0].starts_with("keyfold plan ") && shell[1].starts_with("keyfold fold "), "{shell:?}");
}

#[test]
fn objects_are_no_sparse_buckets() {
    let mut case = Case::new();
    let fields = [("name".to_owned(), "x".to_owned()), ("mail".to_owned(), "y".to_owned())];
    for user in 0..200 {
        case.hand_made(&format!("user:{user}"), Encoding::Packed, &fields);
    }
    assert_eq!(case.problems(), []);
}

#[test]
fn nearly_full_buckets_are_a_note() {
    let mut case = Case::with_layout(COUNTERS);
    for bucket in 0..64 {
        case.hash(
            FamilyName::Namespace(NamespaceIndex(0)),
            &format!("~tnrO:{bucket}"),
            Encoding::Packed,
            &numbers(480),
        );
    }
    let findings = diagnose(&case.seen);
    assert_eq!((findings.len(), findings[0].kind, findings[0].severity), (1, Trouble::FullBuckets, Severity::Note));
}

#[test]
fn partitions_are_a_note_with_lines_that_take_them_over() {
    let mut case = Case::new();
    for (key, number) in (0..300).flat_map(|key| (0..16).map(move |number| (key, number))) {
        case.seen.partitions.add(3, CollectionKind::Set, format!("f:{key}:{number}").as_bytes(), 40, 2400);
    }
    assert_eq!(diagnose(&case.seen), [], "names alone say nothing");
    let wanted = case.seen.partitions.wanted(3).remove(0);
    let partition =
        |number: usize| (0..40).map(move |nth| (format!("member{}", nth * 16 + number).into_bytes(), Vec::new()));
    let key =
        LookedAt { partitions: (0..16).map(|number| partition(number).collect()).collect(), ..LookedAt::default() };
    let model = Model::for_server(Server::redis(7, 0));
    case.seen.partitions.look(&wanted.name, &[key], &model);
    let [note] = &diagnose(&case.seen)[..] else { panic!("one note") };
    assert_eq!((note.kind, note.severity), (Trouble::HandmadePartitions, Severity::Note));
    assert_eq!(note.place, "sets f:{id:int}:0 to 15 in database 3");
    assert!(note.what.contains("4,800 sets look like 300 `f:{id:int}`"), "{}", note.what);
    let mend = &note.mends[0];
    assert_eq!(note.cost_bytes, mend.saves_bytes);
    assert_eq!(mend.after_bytes.unwrap() + mend.saves_bytes.unwrap(), 4800 * 2400);
    let layout = Layout::parse_file(&lines(mend, "layout").join("\n")).unwrap();
    assert_eq!(layout.namespaces()[0].line(), "bucket = { count = 3 }, type = \"set\"");
    let shell = lines(mend, "shell");
    assert_eq!(shell[1], "keyfold fold redis://here:1 --layout layout.toml");
    case.seen.partitions.add(3, CollectionKind::Set, b"f:300:0", 20_000, 2400);
    let [note] = &diagnose(&case.seen)[..] else { panic!("one note") };
    assert!(
        note.mends[0].lines.is_empty()
            && note.cost_bytes.is_none()
            && note.mends[0].what.contains("more than 262,144 members"),
        "{:?}",
        note.mends
    );
    assert!(shell[2].contains("-n 3 --scan --pattern 'f:*:*' | sed -nE 's/^(f:[0-9]+):[0-9]+$/\\1/p'"), "{}", shell[2]);
}

#[test]
fn leftovers_say_where_they_are() {
    let mut case = Case::with_layout(COUNTERS);
    case.seen.leftovers.now_ms = 10 * 3_600_000;
    case.seen.leftovers.expired.add(Example::new(0, b"~tnrO:1", 20).with_field(b"7"));
    case.seen.leftovers.expired_since_ms = Some(5 * 3_600_000);
    case.seen.leftovers.orphans.add(Example::new(2, b"~tnrO!x:user:1", 500));
    case.seen.leftovers.unknown_names.add(Example::new(0, b"~0000:1", 300));
    let problems = case.problems();
    let kinds: Vec<_> = problems.iter().map(|finding| (finding.kind, finding.cost_bytes)).collect();
    assert_eq!(
        kinds,
        [
            (Trouble::OrphanedSpills, Some(500)),
            (Trouble::UnknownNames, Some(300)),
            (Trouble::ExpiredNotSwept, Some(20))
        ]
    );
    assert!(problems[2].what.contains("300 minutes"), "{}", problems[2].what);
    assert!(lines(&problems[2].mends[0], "shell")[0].contains("--sweep-rate 20000"));
}

#[test]
fn a_damaged_layout_shows_its_line() {
    let mut case = Case::new();
    case.seen.layout = LayoutState::Damaged("keyfold:{home}:layout:3:1: no such field".into());
    case.seen.leftovers.unknown_names.add(Example::new(0, b"~tnrO:1", 300));
    let problems = case.problems();
    assert_eq!(
        problems.iter().map(|one| one.kind).collect::<Vec<_>>(),
        [Trouble::UnknownNames, Trouble::DamagedLayout]
    );
    assert!(problems[1].why[0].contains("3:1"));
}

#[test]
fn eviction_by_buckets_needs_a_limit_and_a_policy() {
    let mut case = Case::with_layout(COUNTERS);
    case.seen.settings.maxmemory_policy = "allkeys-lru".into();
    assert_eq!(case.problems(), []);
    case.seen.settings.maxmemory_bytes = 1 << 30;
    let finding = case.only();
    assert_eq!(finding.kind, Trouble::BucketsEvicted);
    assert_eq!(lines(&finding.mends[0], "redis.conf"), ["maxmemory-policy volatile-lru"]);
    assert!(lines(&finding.mends[0], "Google Cloud")[0].contains("maxmemory-policy=volatile-lru"));
    case.seen.settings.maxmemory_policy = "volatile-lru".into();
    assert_eq!(case.problems(), []);
    // Where keyfold keeps a cache the server's own eviction is the net below.
    for (max_memory, troubles) in [("90%", 0), ("900mb", 0), ("1gb", 1)] {
        let mut case = Case::with_layout(&format!("[cache]\nmax_memory = '{max_memory}'\n{COUNTERS}"));
        case.seen.settings.maxmemory_policy = "allkeys-lru".into();
        case.seen.settings.maxmemory_bytes = 1 << 30;
        assert_eq!(case.problems().len(), troubles, "{max_memory}");
    }
}

#[test]
fn memory_beyond_the_data() {
    let mut case = Case::new();
    case.seen.memory = MemoryFacts { used_bytes: 1 << 20, rss_bytes: 10 << 20, ..MemoryFacts::default() };
    assert_eq!(case.problems(), [], "a small server is mostly code");
    case.seen.memory.used_bytes = 100 << 20;
    case.seen.memory.rss_bytes = 200 << 20;
    case.seen.memory.kept_pages_bytes = 90 << 20;
    let finding = case.only();
    assert_eq!((finding.kind, finding.cost_bytes), (Trouble::Fragmentation, Some(100 << 20)));
    assert_eq!(lines(&finding.mends[0], "shell"), ["redis-cli -h here -p 1 MEMORY PURGE"]);
    assert_eq!(lines(&finding.mends[1], "redis.conf"), ["activedefrag yes"]);
    case.seen.memory.rss_bytes = 20 << 20;
    assert_eq!(case.only().kind, Trouble::Swapped);
}

#[test]
fn every_kind_is_described() {
    let document = include_str!("../../../../docs/doctor.md");
    for kind in Trouble::ALL {
        assert!(document.contains(&format!("`{}`", kind.name())), "{}", kind.name());
    }
}

#[test]
fn a_codec_that_has_learned_nothing_is_told_where_there_are_keys() {
    let mut case = Case::with_layout(&format!("{COUNTERS}codec = 'fsst'\n"));
    assert_eq!(case.problems(), []);
    case.hash(FamilyName::Namespace(NamespaceIndex(0)), "~tnrO:0", Encoding::Packed, &numbers(50));
    let finding = case.only();
    assert_eq!((finding.kind, finding.place.as_str()), (Trouble::UntrainedCodec, "user:{id:int}"));
    assert_eq!(lines(&finding.mends[0], "shell"), ["keyfold train redis://here:1", "keyfold recode redis://here:1"]);
}
