//! What the documents name is there, and what is there they name.

use std::collections::BTreeSet;

use crate::root;

#[test]
fn the_readme_ends_with_a_link_to_each_guide_once() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, more) = text.split_once("\n## More\n").unwrap();
    let linked: Vec<&str> = more.split("](docs/").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let guides: BTreeSet<String> = std::fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect();
    assert_eq!(linked.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), guides);
    assert_eq!(linked.len(), guides.len(), "each once: {linked:?}");
}

#[test]
fn the_paths_in_architecture_exist() {
    let root = root();
    let text = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let roots = ["crates/", "scripts/", "fuzz/", "docs/", "examples/", "benches/"];
    let named: Vec<&str> = text.split('`').filter(|part| roots.iter().any(|root| part.starts_with(root))).collect();
    assert!(named.len() > 20, "the document names its rooms");
    let missing: Vec<_> = named.into_iter().filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "docs/architecture.md names what isn't there: {missing:?}");
}
