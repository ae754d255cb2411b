//! Commands that look at members, answered from a packed collection as it lies. Each answers as its function does; what isn't
//! answered here is that function's, with the collection taken apart.

use crate::collection::{CollectionKind, PackedView};
use crate::command::Id;
use crate::members::count;
use crate::resp::Answer;

/// Answers the command; false, and nothing written, where it takes more than a look.
pub(super) fn glance(id: Id, args: &[&[u8]], view: &PackedView<'_>, answer: &mut Answer<'_>) -> bool {
    let (Some(named), kind) = (args.get(2..), view.kind()) else { return false };
    match (kind, id, named) {
        (CollectionKind::Set, Id::Scard, []) | (CollectionKind::Hash, Id::Hlen, []) => {
            answer.integer(count(view.len()));
        }
        (CollectionKind::Set, Id::Sismember, [member]) | (CollectionKind::Hash, Id::Hexists, [member]) => {
            answer.integer(i64::from(view.contains(member)));
        }
        (CollectionKind::Set, Id::Smismember, members) => {
            answer.array(members.len());
            members.iter().for_each(|member| answer.integer(i64::from(view.contains(member))));
        }
        (CollectionKind::Set, Id::Smembers, []) => {
            answer.set(view.len());
            view.all().for_each(|member| answer.bulk(&member));
        }
        (CollectionKind::Hash, Id::Hget, [field]) => answer_value(view, field, answer),
        (CollectionKind::Hash, Id::Hmget, fields) => {
            answer.array(fields.len());
            fields.iter().for_each(|field| answer_value(view, field, answer));
        }
        (CollectionKind::Hash, Id::Hgetall, []) => {
            answer.map(view.len());
            view.all().for_each(|text| answer.bulk(&text));
        }
        (CollectionKind::Hash, Id::Hstrlen, [field]) => {
            answer.integer(count(view.value(field).map_or(0, |value| value.len())));
        }
        _ => return false,
    }
    true
}

fn answer_value(view: &PackedView<'_>, field: &[u8], answer: &mut Answer<'_>) {
    match view.value(field) {
        Some(value) => answer.bulk(&value),
        None => answer.nil(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collection::{Collection, Field};
    use crate::dialect::Dialect;
    use crate::members::lookup;
    use crate::resp::Protocol;
    use crate::string::{Call, Collected, Held, Space};

    const ON_SETS: [(Id, &str, usize); 4] = [
        (Id::Scard, "scard", 0),
        (Id::Sismember, "sismember", 1),
        (Id::Smismember, "smismember", 3),
        (Id::Smembers, "smembers", 0),
    ];
    const ON_HASHES: [(Id, &str, usize); 6] = [
        (Id::Hlen, "hlen", 0),
        (Id::Hget, "hget", 1),
        (Id::Hexists, "hexists", 1),
        (Id::Hstrlen, "hstrlen", 1),
        (Id::Hmget, "hmget", 3),
        (Id::Hgetall, "hgetall", 0),
    ];

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..4),
            any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            (-60..60_i64).prop_map(|number| number.to_string().into_bytes()),
            "0?[0-9]{1,2}".prop_map(String::into_bytes),
            Just(vec![b'x'; 200]),
        ]
    }

    /// What the command's own function answers.
    fn worked_out(name: &str, args: &[&[u8]], collection: &Collection, protocol: Protocol) -> Vec<u8> {
        let (mut space, mut out) = (Space::new(1), Vec::new());
        let collection = Collection::unpack(&collection.packed()).unwrap();
        space.load(b"k", Held::Collection(Collected { collection, expires_at_ms: None }));
        let run = lookup(name.as_bytes()).unwrap();
        run(&Call { args, dialect: Dialect::default() }, &mut space, &mut Answer::new(&mut out, protocol)).unwrap();
        out
    }

    proptest! {
        #[test]
        fn it_answers_as_the_command_does(
            members in prop::collection::vec(text(), 1..30),
            integers in prop::collection::vec(any::<i64>(), 1..30),
            asked in prop::collection::vec(text(), 3),
            known in prop::collection::vec(any::<prop::sample::Index>(), 3),
        ) {
            let integers: Vec<Vec<u8>> = integers.iter().map(|it| it.to_string().into_bytes()).collect();
            let field = |name: &Vec<u8>| (name.clone(), Field { value: name.repeat(2), expires_at_ms: None });
            let collections = [
                Collection::Set(members.iter().cloned().collect()),
                Collection::Set(integers.iter().cloned().collect()),
                Collection::Hash(members.iter().map(field).collect()),
            ];
            for collection in collections {
                let packed = collection.packed();
                let view = PackedView::of(&packed).unwrap();
                let all: Vec<Vec<u8>> = view.all().map(std::borrow::Cow::into_owned).collect();
                let commands = match collection.kind() {
                    CollectionKind::Set => &ON_SETS[..],
                    CollectionKind::Hash => &ON_HASHES[..],
                };
                for protocol in [Protocol::Resp2, Protocol::Resp3] {
                    for (id, name, named) in commands {
                        for texts in [asked.clone(), known.iter().map(|at| at.get(&all).clone()).collect()] {
                            let mut args: Vec<&[u8]> = vec![name.as_bytes(), b"k"];
                            args.extend(texts.iter().take(*named).map(Vec::as_slice));
                            let mut out = Vec::new();
                            prop_assert!(glance(*id, &args, &view, &mut Answer::new(&mut out, protocol)), "{name}");
                            prop_assert_eq!(out, worked_out(name, &args, &collection, protocol), "{}", name);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_takes_more_than_a_look_is_left_alone() {
        let mut out = Vec::new();
        let field = |expires_at_ms| (b"f".to_vec(), Field { value: b"v".to_vec(), expires_at_ms });
        let [lasting, expiring] =
            [None, Some(7)].map(|at| Collection::Hash([field(at)].into_iter().collect()).packed());
        assert!(PackedView::of(&expiring).is_none());
        for broken in
            [&b""[..], b"?", b"\x40\x05abc", b"\x42\x01f", b"\x41\x01x", b"\x40\x01a\x01a", b"\x42\x01f\x01v\x01f\x01w"]
        {
            assert!(PackedView::of(broken).is_none(), "{}", broken.escape_ascii());
        }
        let view = PackedView::of(&lasting).unwrap();
        let mut answer = Answer::new(&mut out, Protocol::Resp2);
        for (id, args) in [(Id::Sismember, &[&b"sismember"[..], b"k", b"f"][..]), (Id::Hscan, &[b"hscan", b"k", b"0"])]
        {
            assert!(!glance(id, args, &view, &mut answer));
        }
        assert!(out.is_empty());
    }
}
