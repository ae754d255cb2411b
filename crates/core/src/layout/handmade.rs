//! Handmade hashes beside keyfold's own buckets, while keys are moved out of them.
//!
//! Their names are no names of keyfold's, and what lies in them is no frame. So whoever meets a bucket asks here how
//! its values are read, and whoever looks for buckets, what their names begin with. As long as a namespace moves out
//! of them, clients can't use the hashes themselves: what they did to one would go past the keys in it.

use super::locate::is_reserved;
use super::{Layout, NAMES_PATTERN, NamespaceIndex};
use crate::frame::Frame;
use crate::glob;
use crate::placement::handmade::{Handmade, Packing};

impl Layout {
    /// The namespace whose handmade hashes a hash of this name belongs to, and the rule of these hashes.
    pub(super) fn handmade_hash(&self, name: &[u8]) -> Option<(NamespaceIndex, &Handmade)> {
        self.handmade.iter().find_map(|index| {
            let rule = self.namespaces[index.0].handmade()?;
            rule.names_hash(name).then_some((*index, rule))
        })
    }

    /// How values lie in the bucket `physical`, where that is one which an application made itself; none in keyfold's
    /// own, which hold frames.
    pub fn packing_in(&self, physical: &[u8]) -> Option<Packing> {
        self.handmade_hash(physical).filter(|_| !is_reserved(physical)).map(|(_, rule)| rule.packing())
    }

    /// Whether what is stored at `field` of the bucket `physical` has expired.
    pub fn has_expired_in(
        &self,
        namespace: NamespaceIndex,
        physical: &[u8],
        field: &[u8],
        stored: &[u8],
        now_ms: i64,
    ) -> bool {
        let ends_at = |frame: Frame<'_>| self.ends_at_ms(namespace, physical, field, &frame);
        let has_ended = Frame::decode(stored).ok().and_then(ends_at).is_some_and(|at| at < now_ms);
        has_ended && self.packing_in(physical).is_none()
    }

    /// Whether the physical name is one of the places that keys of this namespace are being moved out of.
    pub fn is_former_place(&self, namespace: NamespaceIndex, physical: &[u8]) -> bool {
        let Some(former) = &self.namespace(namespace).former else { return false };
        match Self::origin_of(physical) {
            Some(origin) => origin.stem == former.stem && former.placement.has_names(),
            None => former.placement.handmade().is_some(),
        }
    }

    /// Globs that the names of all buckets match, handmade ones included.
    pub fn bucket_globs(&self) -> Vec<Vec<u8>> {
        let handmade = self.handmade.iter().filter_map(|index| self.namespaces[index.0].handmade());
        let globs = handmade.map(|rule| glob::starting_with(rule.shape().literal_prefix()));
        std::iter::once(NAMES_PATTERN.to_vec()).chain(globs).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::layout::{Former, LayoutFile, Located, Move, Physical};

    use super::*;

    const FILE: &str = "[[namespace]]\nkeys = 'media:{id:int}'\nbucket = { span = 64 }\n";
    const USERS: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 64 }\n";

    fn file(text: &str) -> LayoutFile {
        LayoutFile::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn rule(file: &LayoutFile, keys: &str, field: &str, packing: Packing) -> Handmade {
        Handmade::new(file.namespaces[0].keys.first(), keys, field, packing).unwrap()
    }

    fn planned(before: &Layout, text: &str, keys: &str) -> Result<Move, String> {
        let file = file(text);
        let rules: Vec<_> = file
            .namespaces
            .iter()
            .map(|namespace| Handmade::new(namespace.keys.first(), keys, "{id}", Packing::Raw).unwrap())
            .collect();
        before.plan_fold_from(&file, &rules).map_err(|conflict| conflict.to_string())
    }

    /// A physical name of the only namespace.
    fn name(layout: &Layout, rest: &str) -> Vec<u8> {
        (layout.namespaces()[0].names().unwrap() + rest).into_bytes()
    }

    fn media() -> Layout {
        planned(&Layout::default(), FILE, "mediabucket:{id/1000}").unwrap().layout
    }

    #[test]
    fn a_key_lies_in_the_hash_or_in_its_new_place() {
        let layout = media();
        let Located::Moving(moving) = layout.locate(b"media:1155315") else { panic!("it is moving") };
        let old = moving.old.unwrap();
        assert_eq!(old.kind.packing(), Some(Packing::Raw));
        assert_eq!(
            (old.physical.as_slice(), old.field.as_slice()),
            (b"mediabucket:1155".as_slice(), b"1155315".as_slice())
        );
        assert_eq!(moving.new.unwrap().physical.as_slice(), name(&layout, ":4h9"));
        let index = NamespaceIndex(0);
        assert_eq!(layout.read_physical(b"mediabucket:1155"), Physical::Bucket(index));
        assert_eq!(layout.key_of(index, b"mediabucket:1155", b"1155315"), Some(b"media:1155315".to_vec()));
        for (hash, field) in [("mediabucket:1155", "1154315"), ("mediabucket:1155", "x"), ("mediabucket:01", "1000")] {
            assert_eq!(layout.key_of(index, hash.as_bytes(), field.as_bytes()), None, "{hash} {field}");
        }
        assert!(layout.is_former_place(index, b"mediabucket:1155"));
        assert!(!layout.is_former_place(index, &name(&layout, ":4h9")));
        assert_eq!(layout.bucket_globs(), [b"~*".to_vec(), b"mediabucket:*".to_vec()]);
    }

    #[test]
    fn clients_leave_the_hashes_alone_until_all_is_moved() {
        let planned = planned(&Layout::default(), FILE, "mediabucket:{id/1000}").unwrap();
        assert_eq!(planned.layout.locate(b"mediabucket:5"), Located::Reserved);
        assert_eq!(planned.layout.locate(b"mediabucket:x"), Located::Plain);
        let settled = planned.layout.settled(&planned.moving);
        assert_eq!(settled.locate(b"mediabucket:5"), Located::Plain);
        assert_eq!(settled.read_physical(b"mediabucket:5"), Physical::Plain);
        assert_eq!(settled.bucket_globs(), [b"~*".to_vec()]);
        settled.follows(&planned.layout).unwrap();
        planned.layout.follows(&Layout::default()).unwrap();
    }

    #[test]
    fn values_there_are_no_frames() {
        let layout = media();
        let mut expired = Vec::new();
        crate::frame::encode(b"1", Some(1_600_000_000_000), &mut expired);
        let now_ms = 1_700_000_000_000;
        assert!(layout.has_expired_in(NamespaceIndex(0), &name(&layout, ":4h9"), b"f", &expired, now_ms));
        assert!(!layout.has_expired_in(NamespaceIndex(0), b"mediabucket:1155", b"f", &expired, now_ms));
        assert_eq!(layout.packing_in(b"mediabucket:1155"), Some(Packing::Raw));
        assert_eq!(layout.packing_in(&name(&layout, ":4h9")), None);
        assert_eq!(layout.packing_in(b"other"), None);
    }

    #[test]
    fn the_stored_form_says_it() {
        let text = "[[namespace]]\nkeys = 'media:{id:int}'\nplacement = 'plain'\n";
        for (text, packing) in [(FILE, Packing::Raw), (text, Packing::Zlib)] {
            let file = file(text);
            let rule = rule(&file, "m:{id/512:base62}", "{id%512:base62}", packing);
            let layout = Layout::default().plan_fold_from(&file, &[rule]).unwrap().layout;
            let stored = layout.to_stored();
            assert!(stored.contains("handmade = { keys = \"m:{id/512:base62}\""), "{stored}");
            assert_eq!(Layout::from_stored(&stored).unwrap(), layout);
        }
        let stored = media().to_stored();
        for (from, to, said) in [
            ("\"raw\"", "\"gzip\"", "\"raw\" and \"zlib\""),
            ("{id/1000}", "{it/1000}", "no such placeholder"),
            ("handmade", "bucket = { span = 64 }\nhandmade", "restore the layout"),
        ] {
            let refusal = Layout::from_stored(&stored.replace(from, to)).unwrap_err().to_string();
            assert!(refusal.contains(said), "{refusal}");
        }
        let in_file = FILE.to_owned() + "handmade = { keys = 'a:{id/2}', field = '{id}', value = 'raw' }\n";
        assert!(LayoutFile::parse(&in_file).unwrap_err().to_string().contains("handmade"));
    }

    #[test]
    fn a_move_goes_on_and_never_back() {
        let layout = media();
        let again = planned(&layout, FILE, "mediabucket:{id/1000}").unwrap();
        assert_eq!(again.layout, layout);
        // Also by a fold that doesn't say from where.
        assert_eq!(layout.plan_fold(&file(FILE)).unwrap().layout, layout);
        let other = planned(&layout, FILE, "mediabucket:{id/500}").unwrap_err();
        assert!(other.contains("never back into them"), "{other}");
        let back = layout.plan_unfold(&[NamespaceIndex(0)]).unwrap_err().to_string();
        assert!(back.contains("finish that with `keyfold fold` first"), "{back}");
    }

    #[test]
    fn hashes_join_a_namespace_that_is_in_use() {
        let before = Layout::parse_file(FILE).unwrap();
        let joined = planned(&before, FILE, "mediabucket:{id/1000}").unwrap();
        let namespace = &joined.layout.namespaces()[0];
        let known = &before.namespaces()[0];
        assert_eq!((namespace.stem, &namespace.placement), (known.stem, &known.placement));
        assert!(namespace.handmade().is_some());
        let names = [*b"!1:media:5", *b":4h9000000"].map(|rest| [name(&joined.layout, "").as_slice(), &rest].concat());
        let is_old = |name: &Vec<u8>| joined.layout.is_former_place(NamespaceIndex(0), name);
        assert!(!names.iter().any(is_old), "no name of keyfold's is old");
        joined.layout.follows(&before).unwrap();
        assert!(joined.layout.settled(&joined.moving).follows(&joined.layout).is_ok());
        let elsewhere = planned(&before, &FILE.replace("64", "32"), "mediabucket:{id/1000}").unwrap_err();
        assert!(elsewhere.contains("and then move the hashes' keys to them with --from"), "{elsewhere}");
    }

    #[test]
    fn names_that_are_something_else_too_are_refused() {
        let none = Layout::default();
        // Hashes that are called as keys are, where no such key lies under its own name.
        let layout = planned(&none, FILE, "media:{id/1000}").unwrap().layout;
        assert!(matches!(layout.locate(b"media:5"), Located::Moving(_)));
        assert_eq!(layout.read_physical(b"media:5"), Physical::Bucket(NamespaceIndex(0)));
        let plain = FILE.replace("bucket = { span = 64 }", "placement = 'plain'");
        for text in [plain, FILE.to_owned() + "field_limit = 10\n"] {
            let refusal = planned(&none, &text, "media:{id/1000}").unwrap_err();
            assert!(refusal.contains("could come to lie where the hash lies"), "{refusal}");
        }
        let both = FILE.to_owned() + USERS;
        let refusal = planned(&none, &both, "b:{id/1000}").unwrap_err();
        assert!(refusal.contains("move one namespace at a time"), "{refusal}");
        let refusal = planned(&none, &both, "user:{id/1000}").unwrap_err();
        assert!(refusal.contains("is a key of `user:{id:int}`"), "{refusal}");
        let moving = planned(&none, FILE, "user:{id/1000}").unwrap().layout;
        let refusal = Layout::merge(Some(&moving), &file(&both)).unwrap_err().to_string();
        assert!(refusal.contains("is a key of `user:{id:int}`"), "{refusal}");
        assert!(moving.plan_fold(&file(USERS)).is_err());
    }

    #[test]
    fn former_is_told_apart() {
        let layout = media();
        let Some(Former { placement, .. }) = &layout.namespaces()[0].former else { panic!("it is moving") };
        assert_eq!(
            placement.line(layout.namespaces()[0].keys.first()),
            "handmade = { keys = \"mediabucket:{id/1000}\", field = \"{id}\", value = \"raw\" }"
        );
    }
}
