//! Tests of namespaces whose buckets follow from a secret.

use std::sync::Arc;

use super::{Layout, LayoutError, LayoutFile, NamespaceIndex, Problem};
use crate::codec::Kinds;
use crate::placement::{Secret, Secrets};

const KEYED: &str = "[[namespace]]\nkeys = 'user:{name}'\nbucket = { count = 64 }\nkeyed = true\n";
const OPEN: &str = "[[namespace]]\nkeys = 'user:{name}'\nbucket = { count = 64 }\n";

fn secrets(texts: &[&str]) -> Secrets {
    texts.iter().map(|text| Arc::new(Secret::new(text.as_bytes()).unwrap())).collect()
}

fn ours() -> Secrets {
    secrets(&["correct horse battery staple"])
}

fn read(text: &str, secrets: &Secrets) -> Result<LayoutFile, LayoutError> {
    LayoutFile::parse_with(text, &Kinds::default(), secrets)
}

fn keyed() -> Layout {
    read(KEYED, &ours()).unwrap().into_layout()
}

#[test]
fn a_layout_is_read_with_its_secret_and_with_no_other() {
    let layout = keyed();
    let stored = layout.to_stored();
    assert_eq!(Layout::from_stored_with(&stored, &ours()), Ok(layout.clone()));
    let fingerprint = ours().first().unwrap().fingerprint().to_string();
    assert!(stored.contains(&format!("\nkeyed = \"{fingerprint}\"\n")), "{stored}");
    assert!(!stored.contains("horse"), "the secret is not in the server");

    let error = read(KEYED, &Secrets::default()).unwrap_err();
    assert_eq!((error.line, &error.problem), (4, &Problem::NoSecret));
    let other = Layout::from_stored_with(&stored, &secrets(&["another secret of somebody"])).unwrap_err();
    for error in [error, other, Layout::from_stored(&stored).unwrap_err()] {
        assert!(error.to_string().contains("give its file with --secret-file"), "{error}");
        assert!(!error.is_damage(), "it is right, and another keyfold reads it");
    }
    assert_eq!(read(&layout.to_file(), &ours()).unwrap().into_layout(), layout);
    assert_eq!(layout.secrets(), ours());
}

#[test]
fn what_no_secret_can_decide_on_is_refused() {
    for (text, said) in [
        (
            "[[namespace]]\nkeys = 'u:{id:int}'\nbucket = { span = 8 }\nkeyed = true",
            "only the buckets of { count = N }",
        ),
        ("[[namespace]]\nkeys = 'u:{id:int}'\nkeyed = true", "only the buckets of { count = N }"),
        (
            "[[namespace]]\nkeys = 'u:{id:int}'\nbucket = { count = 8 }\nkeyed = 'mine'",
            "it is `true`, or the fingerprint",
        ),
        (
            "[[namespace]]\nkeys = 'u:{id:int}'\nbucket = { count = 8 }\nkeyed = 7",
            "true, or the fingerprint of a secret",
        ),
    ] {
        let error = read(text, &ours()).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    assert_eq!(read(&KEYED.replace("true", "false"), &ours()), LayoutFile::parse(OPEN));
}

#[test]
fn names_follow_from_the_secret() {
    let names = |layout: &Layout| layout.namespaces()[0].names().unwrap();
    let open = LayoutFile::parse(OPEN).unwrap().into_layout();
    let other = read(KEYED, &secrets(&["another secret of somebody"])).unwrap().into_layout();
    assert!(names(&open) != names(&keyed()) && names(&keyed()) != names(&other));
}

#[test]
fn a_secret_is_taken_up_and_changed_by_moves() {
    let open = LayoutFile::parse(OPEN).unwrap().into_layout();
    let conflict = Layout::merge(Some(&open), &read(KEYED, &ours()).unwrap()).unwrap_err();
    assert!(conflict.to_string().contains("in file: bucket = { count = 64 }, keyed by "), "{conflict}");
    let planned = open.plan_fold(&read(KEYED, &ours()).unwrap()).unwrap();
    assert_eq!(Layout::from_stored_with(&planned.layout.to_stored(), &ours()).unwrap(), planned.layout);
    let settled = planned.layout.settled(&planned.moving);

    let both = secrets(&["another secret of somebody", "correct horse battery staple"]);
    let changed = settled.plan_fold(&read(KEYED, &both).unwrap()).unwrap();
    assert_eq!(changed.moving, [NamespaceIndex(0)]);
    let stored = changed.layout.to_stored();
    assert_eq!(Layout::from_stored_with(&stored, &both).unwrap(), changed.layout);
    assert!(Layout::from_stored_with(&stored, &ours()).is_err(), "half of the keys couldn't be found");
    let said = settled.to_file();
    assert_eq!(settled.plan_fold(&read(&said, &both).unwrap()).unwrap().layout, settled, "the file says which");
}
