//! What the documents name is there, and what is there they name.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::{crate_roots, entries, read, root};

#[test]
fn the_contents_have_each_page_once_and_the_readme_is_short_and_leads_there() {
    let text = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let linked: Vec<&str> = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let mut pages = BTreeSet::new();
    for folder in ["docs", "docs/start", "docs/frameworks"] {
        let names =
            entries(&root().join(folder)).into_iter().filter(|path| path.extension().is_some_and(|it| it == "md"));
        pages.extend(names.map(|path| path.strip_prefix(root().join("docs")).unwrap().display().to_string()));
    }
    pages.remove("SUMMARY.md");
    assert_eq!(linked.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), pages);
    assert_eq!(linked.len(), pages.len(), "each once: {linked:?}");
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("](docs/SUMMARY.md)"), "README.md leads to all pages");
    assert!(readme.lines().count() <= 80, "README.md is short: what is longer goes into a page of docs/");
}

#[test]
fn the_paths_in_architecture_and_contributing_exist() {
    let root = root();
    for document in ["docs/architecture.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        let roots = ["crates/", "scripts/", "fuzz/", "docs/", "examples/", "benches/"];
        let named: Vec<&str> = text.split('`').filter(|part| roots.iter().any(|root| part.starts_with(root))).collect();
        assert!(named.len() > 20, "{document} names its rooms");
        let missing: Vec<_> = named.into_iter().filter(|path| !root.join(path).exists()).collect();
        assert!(missing.is_empty(), "{document} names what isn't there: {missing:?}");
    }
}

/// The rows of tables whose first cell begins with a name like this, in a document: the name, and what is said of it.
fn rows(document: &str, name: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let row = |line: &str| {
        let (first, rest) = line.strip_prefix("| `")?.split_once('`')?;
        let (_, said) = rest.split_once('|')?;
        name(first).then(|| (first.to_owned(), said.trim_matches([' ', '|']).to_owned()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn every_room_has_one_row_in_architecture_that_says_what_it_holds() {
    let root = root();
    let rows = rows("docs/architecture.md", |name| name.starts_with("crates/") && name.contains("/src/"));
    let named: BTreeSet<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(named.len(), rows.len(), "each once");
    let unsaid: Vec<_> = rows.iter().filter(|(_, said)| said.split(' ').count() < 3).collect();
    assert!(unsaid.is_empty(), "docs/architecture.md says nothing of {unsaid:?}");
    let rooms = entries(&root.join("crates")).into_iter().flat_map(|folder| entries(&folder.join("src")));
    let rooms = rooms.map(|room| room.strip_prefix(&root).unwrap().display().to_string());
    let missing: Vec<_> = rooms
        .filter(|room| !room.ends_with("/lib.rs") && !room.ends_with("/main.rs") && !named.contains(room.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/architecture.md has no row for {missing:?}");
}

#[test]
fn the_head_of_each_crate_names_its_rooms() {
    for file in crate_roots().into_iter().filter(|file| file.parent().is_some_and(|folder| folder.ends_with("src"))) {
        let text = std::fs::read_to_string(&file).unwrap();
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let table = head.iter().filter(|line| line.starts_with("//! | "));
        let named: BTreeSet<&str> = table.flat_map(|line| line.split('`').skip(1).step_by(2)).collect();
        let krate = read(&file);
        let is_named = |room: &&str| named.contains(*room) || named.contains(format!("{room}.rs").as_str());
        let missing: Vec<_> = krate.rooms().filter(|room| !is_named(room)).collect();
        assert!(missing.is_empty(), "the head of {} doesn't name {missing:?}", file.display());
    }
}

/// What pages quote of examples: the page, the file that the comment before the block names, and the block.
fn quotes() -> Vec<(PathBuf, String, Vec<String>)> {
    let pages = ["docs", "docs/start", "docs/frameworks"].into_iter().flat_map(|folder| entries(&root().join(folder)));
    let mut quotes = Vec::new();
    for page in pages.filter(|path| path.extension().is_some_and(|it| it == "md")) {
        let text = std::fs::read_to_string(&page).unwrap();
        let mut lines = text.lines().map(str::to_owned);
        while let Some(line) = lines.next() {
            let named = line.trim().strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
            let Some(file) = named.filter(|file| file.starts_with("examples/")) else { continue };
            assert!(lines.next().is_some_and(|line| line.trim().starts_with("```")), "{}: {file}", page.display());
            quotes.push((
                page.clone(),
                file.to_owned(),
                lines.by_ref().take_while(|line| line.trim() != "```").collect(),
            ));
        }
    }
    quotes
}

/// Lines without the indent that all of them have.
fn without_indent(lines: &[String]) -> Vec<&str> {
    let indent = |line: &&String| line.len() - line.trim_start().len();
    let all = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(&line)).min().unwrap_or(0);
    lines.iter().map(|line| line.get(all..).unwrap_or_default().trim_end()).collect()
}

#[test]
fn what_pages_quote_of_examples_is_in_their_files() {
    let quotes = quotes();
    assert!(quotes.len() > 5, "pages quote examples behind a comment that names the file");
    for (page, file, block) in quotes {
        let text = std::fs::read_to_string(root().join(&file)).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let quoted = without_indent(&block);
        let is_there = !block.is_empty() && lines.windows(block.len()).any(|part| without_indent(part) == quoted);
        assert!(is_there, "{} quotes what is not in {file}:\n{}", page.display(), block.join("\n"));
    }
}

#[test]
fn every_key_of_keyfolds_own_has_one_row_in_operating() {
    let is_key = |text: &str| {
        let rest = text.strip_prefix("keyfold:").unwrap_or_default();
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b':')
    };
    let rows = rows("docs/operating.md", is_key);
    let named: BTreeSet<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    let published = crate_roots().into_iter().filter(|file| !file.starts_with(root().join("crates/testkit")));
    let krates: Vec<_> = published.map(|file| read(&file)).collect();
    let used = krates.iter().flat_map(|krate| krate.texts()).filter(|text| is_key(text)).map(str::to_owned);
    assert_eq!(named, used.collect(), "docs/operating.md beside the sources");
    assert_eq!(rows.len(), named.len(), "each once");
}
