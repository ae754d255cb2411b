//! Fewer operations that still differ: delta debugging (Zeller, Hildebrandt 2002), chunks removed.

use std::time::{Duration, Instant};

use super::generate::Op;
use super::replay::Mismatch;

/// Keeps on removing what is not needed for a difference, until nothing can go or the time is up. `differs`
/// plays operations and says where they differ, if they do; only a difference at the same command counts.
pub(super) fn shrink(
    ops: &[Op],
    mismatch: &Mismatch,
    within: Duration,
    mut differs: impl FnMut(&[Op]) -> Option<Mismatch>,
) -> (Vec<Op>, Mismatch) {
    let deadline = Instant::now() + within;
    let name = |ops: &[Op], mismatch: &Mismatch| ops.get(mismatch.index).map(|op| op.args[0].to_ascii_uppercase());
    let wanted = name(ops, mismatch);
    let mut try_ops = |ops: &[Op]| {
        let found = differs(ops)?;
        (name(ops, &found) == wanted).then(|| (ops[..=found.index.min(ops.len() - 1)].to_vec(), found))
    };
    let mut least = (ops[..=mismatch.index].to_vec(), mismatch.clone());
    // Without pipelines it is easier to read, where it still differs.
    let unpiped: Vec<Op> = least.0.iter().map(|op| Op { read: true, ..op.clone() }).collect();
    if let Some(found) = try_ops(&unpiped) {
        least = found;
    }
    let mut chunk = least.0.len().div_ceil(2);
    while chunk > 0 && Instant::now() < deadline {
        let mut end = least.0.len();
        let mut removed = false;
        while end > 0 && Instant::now() < deadline {
            let start = end.saturating_sub(chunk);
            let rest = [&least.0[..start], &least.0[end..]].concat();
            if let Some(found) = (!rest.is_empty()).then(|| try_ops(&rest)).flatten() {
                least = found;
                removed = true;
            }
            end = start.min(least.0.len());
        }
        chunk = if removed && chunk == 1 { 1 } else { chunk / 2 };
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_left() {
        let ops: Vec<Op> = (0..500_u32).map(|number| Op::new(vec![number.to_string().into_bytes()])).collect();
        let differs = |ops: &[Op]| {
            let at = |name: &[u8]| ops.iter().position(|op| op.args[0] == name);
            let index = at(b"400")?;
            (at(b"17")? < index && at(b"399").is_some()).then(|| Mismatch {
                index,
                plain: String::new(),
                subject: String::new(),
            })
        };
        let mismatch = differs(&ops).unwrap();
        let (least, _) = shrink(&ops, &mismatch, Duration::from_secs(10), differs);
        let names: Vec<_> = least.iter().map(|op| op.args[0].clone()).collect();
        assert_eq!(names, [b"17".to_vec(), b"399".to_vec(), b"400".to_vec()]);
    }
}
