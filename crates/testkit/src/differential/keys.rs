//! The keys that random commands name, and the layouts that fold some of them.
//!
//! Keys are in groups. Before one server there is one group of all; before a cluster each group is of one slot, and a
//! command takes its keys from one group, now and then from others too.

use super::behind::Behind;
use super::collections;
use crate::conformance::pool;

/// The layout that the driver is run with before a cluster: every rule and every kind of placeholder in the slots.
pub const CLUSTER_LAYOUT: &str = r#"cluster = true

[[namespace]]
keys = "user:{{{shop:int}}}:{id:int}:logins"
bucket = { span = 8, of = "id" }
value_limit = 64

[[namespace]]
keys = "sess:{{{shop:int}}}:{id:uuid}"
bucket = { count = 1 }
value_limit = 64

[[namespace]]
keys = "sess:{id:uuid}"
bucket = { count = 2 }
value_limit = 64

[[namespace]]
keys = "h:{x:hex}"
bucket = { count = 1 }
value_limit = 64

[[namespace]]
keys = "post:{{{id:int}}}:{part}"
bucket = { by = "id" }
text_table = "AQFwATEEYm9keQFi"
value_limit = 64

[[namespace]]
keys = "cnt:{name}"
bucket = { count = 2 }
text_table = "AQFuAjpuATEBMgEzATQCbjUCbjE"
value_limit = 64

[[namespace]]
keys = ["flag:{{{shop:int}}}:{id:int}", "memo:{{{shop:int}}}:{name}"]
bucket = { count = 1 }
value_limit = 64

[[namespace]]
keys = "page:{path}"
value_limit = 64
"#;

/// The same keys with a codec each, and limits that some coded values go over too.
pub const CODED_CLUSTER_LAYOUT: &str = r#"cluster = true

[[namespace]]
keys = "user:{{{shop:int}}}:{id:int}:logins"
bucket = { span = 8, of = "id" }
value_limit = 64
codec = "zstd"

[[namespace]]
keys = "sess:{{{shop:int}}}:{id:uuid}"
bucket = { count = 1 }
value_limit = 20
codec = "uuid"

[[namespace]]
keys = "sess:{id:uuid}"
bucket = { count = 2 }
value_limit = 20
codec = "uuid"

[[namespace]]
keys = "h:{x:hex}"
bucket = { count = 1 }
value_limit = 16
codec = "hex"

[[namespace]]
keys = "post:{{{id:int}}}:{part}"
bucket = { by = "id" }
value_limit = 20
codec = { name = "zstd", level = 3 }

[[namespace]]
keys = "cnt:{name}"
bucket = { count = 2 }
value_limit = 12
codec = { name = "zstd", level = 19 }

[[namespace]]
keys = ["flag:{{{shop:int}}}:{id:int}", "memo:{{{shop:int}}}:{name}"]
bucket = { count = 1 }
value_limit = 12
codec = "zstd"

[[namespace]]
keys = "page:{path}"
codec = "zstd"
"#;

/// The tags of groups: of three nodes that share the slots evenly each has one, and the second has two.
const TAGS: [&str; 4] = ["3", "1", "0", "2"];

/// Keys that commands name together.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Keys of some template.
    pub(super) folded: Vec<Vec<u8>>,
    /// Keys of none, that only ever hold strings.
    pub(super) plain: Vec<Vec<u8>>,
    /// Keys of none that may hold another type.
    pub(super) other: Vec<Vec<u8>>,
    /// Keys that hold sets, folded and plain.
    pub(super) sets: Vec<Vec<u8>>,
    /// Keys that hold hashes.
    pub(super) hashes: Vec<Vec<u8>>,
}

impl Group {
    /// All of them.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        [&self.folded, &self.plain, &self.other, &self.sets, &self.hashes].into_iter().flatten()
    }
}

/// The one group of keys where sets and hashes are folded.
pub(super) fn group_of_collections() -> Group {
    let keys = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
    let [folded @ .., plain] = collections::STRINGS;
    Group {
        folded: keys(&folded),
        plain: keys(&[plain]),
        other: Vec::new(),
        sets: keys(&collections::SETS),
        hashes: keys(&collections::HASHES),
    }
}

/// The groups that there are, the large ones first.
pub(super) fn groups(behind: Behind) -> Vec<Group> {
    match behind {
        Behind::Server => vec![of_server()],
        Behind::Cluster | Behind::ClusterAsServer => {
            let alone = [pool::session(1), pool::hex(2), pool::page(0), pool::counter(0)]
                .map(|key| Group { folded: vec![key], ..Group::default() });
            TAGS.map(of_tag).into_iter().chain(alone).collect()
        }
    }
}

fn of_server() -> Group {
    let folded = vec![
        pool::logins(0),
        pool::logins(1),
        pool::logins(6),
        pool::session(1),
        pool::session(2),
        pool::hex(2),
        pool::post(0),
        pool::post(2),
        pool::counter(0),
        pool::counter(5),
        pool::page(0),
        pool::shared(0),
        pool::shared(6),
        pool::shared(1),
    ];
    let plain = vec![pool::plain(0), pool::almost(0), pool::almost(1)];
    Group { folded, plain, other: texts(&["list:a", "hash:a", "set:a", "zset:a"], ""), ..Group::default() }
}

fn of_tag(tag: &str) -> Group {
    let mut folded = texts(
        &[
            "user:@:0:logins",
            "user:@:3:logins",
            "user:@:1000000:logins",
            "sess:@:9e3779b9-7f4a-4c15-8bcd-123456789abd",
            "sess:@:00000000-0000-0000-0000-000000000000",
            "post:@:title",
            "cnt:n1@",
            "cnt:@12345",
            "page:/shop/@?id=0",
            "flag:@:0",
            "flag:@:7",
            "memo:@:0",
        ],
        tag,
    );
    folded.push([format!("post:{{{tag}}}:").as_bytes(), b"\x00\xff \r\n"].concat());
    let plain = texts(&["plain:@:0", "user:@:007:logins", "sess:@:00000000-0000-4000-8000-00000000000A"], tag);
    Group { folded, plain, other: texts(&["list:@", "hash:@", "set:@", "zset:@"], tag), ..Group::default() }
}

/// Keys with the tag in the place of `@`.
fn texts(keys: &[&str], tag: &str) -> Vec<Vec<u8>> {
    keys.iter().map(|key| key.replace('@', &format!("{{{tag}}}")).into_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use keyfold_core::layout::{Layout, Located};

    use super::*;
    use crate::cluster::slot_of;

    #[test]
    fn groups_are_of_one_slot_each_and_of_every_node() {
        let groups = groups(Behind::Cluster);
        for group in &groups {
            let slots: Vec<u16> = group.keys().map(|key| slot_of(key)).collect();
            assert!(slots.iter().all(|slot| *slot == slots[0]), "{group:?}");
        }
        let nodes: Vec<u16> = groups.iter().map(|group| slot_of(group.keys().next().unwrap()) / 5461).collect();
        assert_eq!(nodes[..TAGS.len()], [0, 1, 2, 1]);
    }

    #[test]
    fn most_sets_and_hashes_are_folded() {
        let layout = Layout::parse_file(collections::COLLECTIONS_LAYOUT).unwrap();
        let Group { folded, plain, sets, hashes, .. } = group_of_collections();
        let is_plain = |key: &&Vec<u8>| layout.locate(key) == Located::Plain;
        assert_eq!([&sets, &hashes].map(|keys| keys.iter().filter(is_plain).count()), [2, 2]);
        assert!(!folded.iter().any(|key| is_plain(&key)) && plain.iter().all(|key| is_plain(&key)));
    }

    #[test]
    fn layouts_fold_what_is_said_to_be_folded() {
        for (layout, behind) in [
            (pool::LAYOUT, Behind::Server),
            (pool::CODED_LAYOUT, Behind::Server),
            (CLUSTER_LAYOUT, Behind::Cluster),
            (CODED_CLUSTER_LAYOUT, Behind::Cluster),
        ] {
            let layout = Layout::parse_file(layout).unwrap();
            for Group { folded, plain, other, .. } in groups(behind) {
                let is_plain = |key: &Vec<u8>| layout.locate(key) == Located::Plain;
                assert!(!folded.iter().any(is_plain), "{folded:?}");
                assert!(plain.iter().chain(&other).all(is_plain), "{plain:?} {other:?}");
            }
        }
    }
}
