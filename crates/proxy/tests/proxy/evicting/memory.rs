//! Memory stays at the mark, whatever is written, and follows it.

use keyfold_testkit::found;

use super::{Cached, MB, WAYS, cached, change, set_max, write};
use crate::stage::eventually;

/// Memory settles no more than a hundredth above its mark.
fn settles(stage: &Cached, mark: u64) {
    eventually("memory is at its mark", || stage.counted() <= mark + mark / 100);
}

#[test]
fn memory_stays_at_the_mark_while_keys_are_written_beyond_it() {
    for binary in found() {
        let stage = cached(&binary, WAYS, 6 * MB);
        let mut wire = stage.connect();
        let mut most = 0;
        for round in 0..80 {
            for kind in ["user", "cart", "zip", "own"] {
                write(&mut wire, kind, round * 250..(round + 1) * 250, if round % 5 == 0 { 300 } else { 60 });
            }
            most = most.max(stage.counted());
        }
        stage.assert_server_kept_out();
        assert!(stage.evicted() > 10_000, "{} {}", binary.name(), stage.evicted());
        // The server's tables are made anew as they grow, which comes in steps.
        assert!(most < stage.mark + stage.mark / 10, "{} {most} of {}", binary.name(), stage.mark);
        settles(&stage, stage.mark);
        // Room isn't wasted either.
        assert!(stage.counted() > stage.mark - stage.mark / 10, "{} of {}", stage.counted(), stage.mark);
        assert_eq!(stage.proxy.cache().refused(), 0);
    }
}

#[test]
fn memory_follows_a_mark_that_is_lowered_and_raised_and_no_write_is_refused() {
    let stage = cached(found().last().unwrap(), WAYS, 12 * MB);
    let mut wire = stage.connect();
    write(&mut wire, "user", 0..60_000, 60);
    let half = stage.empty + 6 * MB;
    change(&stage, WAYS, &half.to_string());
    write(&mut wire, "user", 0..30_000, 60);
    settles(&stage, half);
    change(&stage, WAYS, "50%");
    for mark in [stage.empty + 3 * MB, stage.empty + 9 * MB, stage.empty + 2 * MB] {
        set_max(&stage.server, mark * 2);
        write(&mut wire, "user", 0..30_000, 60);
        settles(&stage, mark);
    }
    assert_eq!(stage.proxy.cache().refused(), 0);
    stage.assert_server_kept_out();
}
