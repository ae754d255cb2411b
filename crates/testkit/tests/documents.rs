//! What the documents name is there.

use std::path::Path;

#[test]
fn the_paths_in_architecture_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let roots = ["crates/", "scripts/", "fuzz/", "docs/", "examples/", "benches/"];
    let named: Vec<&str> = text.split('`').filter(|part| roots.iter().any(|root| part.starts_with(root))).collect();
    assert!(named.len() > 20, "the document names its rooms");
    let missing: Vec<_> = named.into_iter().filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "docs/architecture.md names what isn't there: {missing:?}");
}
