//! Plans are layouts that the core accepts, whatever the families are to each other.

use keyfold_core::layout::{Layout, Located};
use keyfold_core::memory::{Limits, Model, Server, ValueShape};
use keyfold_core::placement::Placement;
use keyfold_core::template::Template;

use super::*;
use crate::choose::{Aims, choose};
use crate::population::{Blocks, Population, SampledKey};

fn family(template: &str, keys: u64, key: impl Fn(u64) -> String, value: ValueShape) -> Family {
    let template = Template::parse(template).unwrap();
    let sampled = |i| SampledKey {
        database: 0,
        key: key(i).into_bytes().into(),
        value,
        has_expiry: false,
        plain_bytes: None,
        in_parts: None,
    };
    let sample: Vec<_> = (0..keys).map(sampled).collect();
    let population = Population {
        template: &template,
        collection: None,
        keys,
        sample: &sample,
        blocks: Blocks::Keys,
        kept: 1.0,
        within: 1.0,
        slots_seen: 1.0,
    };
    let choice = choose(&population, &aims());
    Family { template, keys, choice }
}

fn aims() -> Aims {
    let server = Server::valkey(9, 1);
    Aims::new(Model::for_server(server), server, Limits::default())
}

fn parts(plan: &Plan) -> Vec<(&str, &Part)> {
    plan.families.iter().map(|(family, part)| (family.template.source(), part)).collect()
}

const INT: ValueShape = ValueShape::Integer(1 << 30);

#[test]
fn the_file_is_the_layout_and_says_why() {
    let families = vec![
        family("big:{id:int}", 3000, |i| format!("big:{i}"), ValueShape::Bytes(20_000)),
        family("user:{id:int}", 20_000, |i| format!("user:{i}"), INT),
        family("page:{path}", 20_000, |i| format!("page:/{i}/x"), ValueShape::Bytes(100)),
    ];
    let plan = Plan::new(families, None);
    let expected =
        [("user:{id:int}", &Part::Namespace), ("page:{path}", &Part::Namespace), ("big:{id:int}", &Part::Left)];
    assert_eq!(parts(&plan), expected);
    let text = plan.to_toml(&Heading { lines: vec!["Made by a test.".to_owned()] });
    assert_eq!(Layout::parse_file(&text).unwrap(), plan.layout().unwrap());
    assert!(text.starts_with("# Made by a test.\n"), "{text}");
    for said in
        ["CONFIG SET hash-max-listpack-value 128", "# Left as it is: folding saves", "span = ", "Weighed and not"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    let (now, after) = plan.total_bytes(&aims().model);
    assert!(after < now && after > 3000 * 20_000, "{now} {after}");
}

#[test]
fn a_wider_family_leaves_the_keys_of_others_alone() {
    let families = vec![
        family("{word}", 30_000, |i| format!("word{i}"), INT),
        family("doc:{id:int}", 2000, |i| format!("doc:{i}"), ValueShape::Bytes(20_000)),
    ];
    let plan = Plan::new(families, None);
    assert_eq!(parts(&plan), [("{word}", &Part::Namespace), ("doc:{id:int}", &Part::KeptPlain)]);
    let layout = plan.layout().unwrap();
    assert_eq!(layout.namespaces()[1].placement, Placement::plain());
}

#[test]
fn keys_of_other_types_stay_plain_beside_a_wider_family() {
    let mut plan = Plan::new(vec![family("{name}:{id:int}", 30_000, |i| format!("w{}:{i}", i % 50), INT)], None);
    assert_eq!(plan.families[0].1, Part::Namespace);
    let template = |text: &str| Template::parse(text).unwrap();
    plan.keep_others([
        (template("queue:{id:int}"), 300),
        (template("other:{id}"), 1),
        (template("{name}:{id:int}"), 2),
    ]);
    assert_eq!(plan.kept_others, [(template("queue:{id:int}"), 300)]);
    let text = plan.to_toml(&Heading::default());
    assert!(text.contains("# queue:{id:int}: 300 keys that stay as they are. Without this"), "{text}");
    let layout = plan.layout().unwrap();
    assert_eq!(layout, Layout::parse_file(&text).unwrap());
    assert_eq!(layout.locate(b"queue:7"), Located::Plain);
    assert!(layout.locate(b"jobs:7").namespace().is_some());
}

#[test]
fn a_few_keys_go_with_the_wider_template() {
    let families = vec![
        family("{word}", 30_000, |i| format!("word{i}"), INT),
        family("doc:{id:int}", 20, |i| format!("doc:{i}"), INT),
    ];
    let plan = Plan::new(families, None);
    assert_eq!(parts(&plan)[1], ("doc:{id:int}", &Part::GoesWith("{word}".to_owned())));
    let (notable, minor, keys) = plan.notable();
    assert_eq!((notable.count(), minor, keys), (1, 1, 20));
    let text = plan.to_toml(&Heading::default());
    assert!(text.contains("# 20 keys of 1 other template, too few each") && !text.contains("doc:"), "{text}");
}

#[test]
fn of_two_that_cross_the_one_that_saves_more_stays() {
    let families = vec![
        family("{kind}:x", 5000, |i| format!("a{i}:x"), INT),
        family("a:{id}", 30_000, |i| format!("a:{i}z"), INT),
    ];
    let plan = Plan::new(families, None);
    assert_eq!(plan.families[0].1, Part::Namespace);
    assert!(matches!(&plan.families[1].1, Part::Dropped(why) if why.contains("a:x")), "{:?}", plan.families[1].1);
    assert!(Layout::parse_file(&plan.to_toml(&Heading::default())).is_ok());
}

#[test]
fn what_the_server_has_stays_as_it_is() {
    let stored = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n";
    let stored = Layout::parse_file(stored).unwrap();
    let families = vec![
        family("user:{id:int}", 20_000, |i| format!("user:{i}"), INT),
        family("seen:{id:int}", 20_000, |i| format!("seen:{i}"), INT),
    ];
    let plan = Plan::new(families, Some(stored.clone()));
    assert!(plan.families.iter().any(|(family, part)| {
        family.template.source() == "user:{id:int}" && matches!(part, Part::Dropped(why) if why.contains("already"))
    }));
    let file = LayoutFile::parse(&plan.to_toml(&Heading::default())).unwrap();
    let merged = Layout::merge(Some(&stored), &file).unwrap();
    assert_eq!(merged.added.len(), 1);
    assert!(merged.changed.is_empty());
    assert_eq!(merged.layout.namespaces()[0], stored.namespaces()[0]);
}

#[test]
fn names_that_toml_must_quote() {
    let families = vec![family("a\"\\{{:{id:int}", 20_000, |i| format!("a\"\\{{:{i}"), INT)];
    let plan = Plan::new(families, None);
    assert_eq!(plan.families[0].1, Part::Namespace);
    assert!(Layout::parse_file(&plan.to_toml(&Heading::default())).is_ok());
}

#[test]
fn a_server_that_evicts_gets_a_word_on_it_and_fewer_entries_where_they_lose_less() {
    let families = || {
        vec![
            family("user:{id:int}", 20_000, |i| format!("user:{i}"), INT),
            family("big:{id:int}", 3000, |i| format!("big:{i}"), ValueShape::Bytes(20_000)),
        ]
    };
    let plan = Plan::new(families(), None);
    let lfu = plan.eviction_notes(Eviction::LeastFrequent, 7);
    assert_eq!(lfu.len(), 2, "{lfu:?}");
    assert!(
        lfu[0].contains("16.1 points lower") && lfu[1].contains("`bucket = { span = 16 }` for user:{id:int}"),
        "{lfu:?}"
    );
    assert_eq!(plan.eviction_notes(Eviction::LeastFrequent, 0).len(), 1, "nothing was evicted yet");
    let lru = plan.eviction_notes(Eviction::LeastRecent, 7);
    assert!(lru.len() == 1 && lru[0].contains("10.8 points higher"), "{lru:?}");
    let left = Plan::new(families().split_off(1), None);
    assert!(left.eviction_notes(Eviction::LeastFrequent, 7).is_empty(), "nothing is folded");
}
