//! What becomes of the layout while a story is told: keys are folded, unfolded, placed otherwise, compressed.

use std::sync::LazyLock;

use keyfold_core::codec::{CodecRule, Kinds};
use keyfold_core::layout::{Layout, LayoutFile, Move};
use keyfold_core::placement::handmade::{Handmade, Packing};

use super::steps::{CODED_LAYOUT, HASHES, KEYS, LAYOUT, OTHER_CODED_LAYOUT, OTHER_LAYOUT};
use crate::coded::{Pair, train};

/// A route, and when its layouts are served.
#[derive(Debug)]
pub(super) struct Journey {
    pub(super) route: &'static Route,
    /// The shares of the steps, of 16, that come before the move begins and before it ends.
    begins: usize,
    ends: usize,
}

/// Three layouts, one after the other.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) name: &'static str,
    /// What an application put into hashes of its own before: see [`HASHES`].
    pub(super) hashes: &'static [[&'static [u8]; 5]],
    pub(super) before: Layout,
    moving: Layout,
    after: Layout,
}

/// Made once: training takes longer than a story.
static ROUTES: LazyLock<Result<Vec<Route>, String>> = LazyLock::new(routes);

impl Journey {
    pub(super) fn drawn(byte: u8) -> Result<Self, String> {
        let routes = ROUTES.as_ref().map_err(String::clone)?;
        let route = &routes[usize::from(byte) % routes.len()];
        let begins = if route.hashes.is_empty() { usize::from(byte >> 2 & 7) } else { 0 };
        Ok(Self { route, begins, ends: 8 + usize::from(byte >> 5) })
    }

    /// The layout that is served from this step on, where it changes there.
    pub(super) fn turn(&self, at: usize, steps: usize) -> Option<&'static Layout> {
        if at == self.begins * steps / 16 {
            Some(&self.route.moving)
        } else if at == self.ends * steps / 16 {
            Some(&self.route.after)
        } else {
            None
        }
    }
}

fn routes() -> Result<Vec<Route>, String> {
    let parse = |text| Layout::parse_file(text).map_err(|error| error.to_string());
    let plain = Layout::default();
    let (folded, coded) = (parse(LAYOUT)?, trained(&parse(CODED_LAYOUT)?, 0));
    let to = |before: &Layout, text| {
        before
            .plan_fold(&LayoutFile::parse(text).map_err(|error| error.to_string())?)
            .map_err(|conflict| conflict.to_string())
    };
    let away = |before: &Layout| {
        let all: Vec<_> = before.iter().map(|(index, _)| index).collect();
        before.plan_unfold(&all).map_err(|conflict| conflict.to_string())
    };
    let routes = vec![
        Route::of("settled", &folded, &to(&folded, LAYOUT)?),
        Route::of("folded", &plain, &to(&plain, LAYOUT)?),
        Route::of("unfolded", &folded, &away(&folded)?),
        Route::of("folded otherwise", &folded, &to(&folded, OTHER_LAYOUT)?),
        Route::out_of_hashes()?,
        Route::of("compressed", &coded, &to(&coded, CODED_LAYOUT)?),
        Route::of("folded and compressed", &plain, &to(&plain, CODED_LAYOUT)?),
        Route::of("unfolded and decompressed", &coded, &away(&coded)?),
        Route::of("compressed otherwise", &coded, &to(&coded, OTHER_CODED_LAYOUT)?),
        Route::of("compressed later", &folded, &to(&folded, CODED_LAYOUT)?),
        Route::of("decompressed", &coded, &to(&coded, LAYOUT)?),
        Route::retrained(coded),
    ];
    routes.iter().flat_map(Route::layouts).try_for_each(check_stored_form)?;
    Ok(routes)
}

impl Route {
    fn of(name: &'static str, before: &Layout, planned: &Move) -> Self {
        let moving = trained(&planned.layout, 0);
        let after = moving.settled(&planned.moving);
        Self { name, hashes: &[], before: before.clone(), moving, after }
    }

    /// The first namespace's keys come out of an application's own hashes, which clients have no keys for before.
    fn out_of_hashes() -> Result<Self, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let mut file = LayoutFile::parse(LAYOUT).map_err(|error| said(&error))?;
        let first = LayoutFile { namespaces: file.namespaces.drain(..1).collect(), cache: file.cache };
        let template = first.namespaces[0].keys.first();
        let rule = Handmade::new(template, "sbucket:{id/4}", "{id}", Packing::Zlib).map_err(|error| said(&error))?;
        let before = Layout::merge(None, &file).map_err(|error| said(&error))?.layout;
        let planned = before.plan_fold_from(&first, &[rule]).map_err(|error| said(&error))?;
        Ok(Self { hashes: &HASHES, ..Self::of("out of hashes", &before, &planned) })
    }

    /// Dictionaries of other values take new slots; and then values are stored as they are.
    fn retrained(before: Layout) -> Self {
        let moving = trained(&before, 1000);
        let raw = moving.iter().map(|(index, namespace)| {
            let mut codecs = namespace.codecs.clone();
            codecs.write_raw();
            (index, codecs)
        });
        let after = moving.with_codecs(raw.collect());
        Self { name: "retrained", hashes: &[], before, moving, after }
    }

    fn layouts(&self) -> [&Layout; 3] {
        [&self.before, &self.moving, &self.after]
    }
}

/// The layout with dictionaries for the codecs that learn, by records of the keys that steps name.
fn trained(layout: &Layout, first: usize) -> Layout {
    let learns = |rule: &CodecRule| matches!(rule.name.as_str(), "zstd" | "fsst");
    let records: Vec<(&[u8], Vec<u8>)> =
        (first..first + 600).map(|number| (KEYS[number % KEYS.len()], record(number))).collect();
    let pairs: Vec<Pair<'_>> = records.iter().map(|(key, value)| (*key, value.as_slice())).collect();
    let (learn, judge) = pairs.split_at(500);
    let trained = train(layout, learn, judge, 1_000_000);
    let dull = trained.namespaces().iter().find(|namespace| {
        learns(&namespace.codec) && namespace.codecs.written().is_none_or(|slot| slot.dictionary.is_none())
    });
    assert!(dull.is_none(), "nothing was learnt for {dull:?}");
    trained
}

fn record(number: usize) -> Vec<u8> {
    let role = ["admin", "editor", "reader"][number % 3];
    let mixed = number * 2_654_435_761 % 1_000_003;
    let active = number.is_multiple_of(2);
    format!(r#"{{"id":{mixed},"name":"User {mixed}","email":"user{mixed}@example.com","role":"{role}","active":{active}}};role={role};"#)
        .into_bytes()
}

/// That a layout comes back from the text that servers hold.
fn check_stored_form(layout: &Layout) -> Result<(), String> {
    let text = layout.to_stored();
    let mut read = Layout::from_stored(&text).map_err(|error| format!("{error}, in\n{text}"))?;
    read.open(&Kinds::default(), &std::collections::BTreeMap::new());
    if read == *layout { Ok(()) } else { Err(format!("read back otherwise:\n{text}")) }
}
