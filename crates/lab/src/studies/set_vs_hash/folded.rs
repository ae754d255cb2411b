//! The same members in a set that keyfold keeps, added one by one through it: in one value as long as they are few, then in parts.

use anyhow::Context;
use keyfold_core::collection;
use keyfold_core::layout::Layout;

use super::curve::{Curve, Point, index};
use super::form::Collection;
use crate::bench::Bench;
use crate::folding::{Folding, Words};
use crate::options::Options;

/// With room for the 32 members that may lie in one value, which the server's limit has to have too.
pub(super) const VALUE_LIMIT: u64 = 1024;
/// Where the plot of small ones ends.
pub(super) const SMALL: u64 = 1100;
const LAYOUT: &str = "[[namespace]]\nkeys = \"members:{id:int}\"\ntype = \"set\"\nbucket = { span = 16 }\n";
pub(super) const KEY: &[u8] = b"members:1";
/// Its members are written and removed before: enough of them that they lie in several parts.
const FIRST_KEY: &[u8] = b"members:2";
const FIRST: u64 = 300;

/// Puts the layout in force.
pub(super) fn begin(bench: &mut Bench<'_>, members: &[Vec<u8>]) -> anyhow::Result<Folding> {
    let layout = Layout::parse_file(&format!("{LAYOUT}value_limit = {VALUE_LIMIT}\n")).context("the study's layout")?;
    let first: Vec<_> =
        members.iter().take(index(FIRST)).map(|member| Collection::Folded.add(FIRST_KEY, member)).collect();
    Folding::begin(bench, &layout, &first)
}

pub(super) fn measure(bench: &mut Bench<'_>, members: &[Vec<u8>], options: &Options) -> anyhow::Result<Curve> {
    let (model, folding) = (bench.model()?, begin(bench, members)?);
    let mut set = collection::Set::default();
    let mut points = Vec::new();
    let mut progress = bench.progress("set-vs-hash: folded", members.len() as u64);
    for size in sizes(members.len() as u64, options.is_quick()) {
        let new = &members[set.len()..index(size)];
        let commands: Vec<Words> = new.iter().map(|member| Collection::Folded.add(KEY, member)).collect();
        folding.write(bench, &commands)?;
        new.iter().for_each(|member| _ = set.insert(member.clone()));
        let whole = collection::Collection::Set(set.clone());
        let (weight, predicted) = folding.weigh(bench, &model, [(KEY, &whole)])?;
        points.push(Point { members: size, measured: weight.bytes, predicted });
        progress.advance(new.len());
    }
    folding.end(bench)?;
    Ok(Curve { kind: Collection::Folded, points })
}

/// At how many members the memory is read: one by one while they are one value, then in steps, as keyfold is stopped each time.
fn sizes(most: u64, is_quick: bool) -> Vec<u64> {
    let coarser = if is_quick { 10 } else { 1 };
    let one_value = (1..=40).step_by(coarser);
    let steps = (40..1000).step_by(20 * coarser).chain((1000..10_000).step_by(200 * coarser));
    let mut sizes: Vec<u64> = one_value.chain(steps).chain((10_000..most).step_by(1000)).collect();
    sizes.extend([32, 33, 100, 512, 513, 1000, SMALL, 10_000, most]);
    sizes.retain(|size| *size <= most);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_and_have_those_that_are_compared() {
        for (most, is_quick) in [(1000, true), (10_000, true), (50_000, false)] {
            let sizes = sizes(most, is_quick);
            assert!(sizes.is_sorted_by(|one, next| one < next) && sizes.last() == Some(&most));
            assert!([1, 32, 33, 512, 1000].iter().all(|size| sizes.contains(size)));
        }
    }
}
