//! How much memory is to be freed, by what a server says of its own, and when it is to be asked next.

/// Keys leave from this far below the mark on, in parts of it: what comes meanwhile has room.
const MARGIN: u64 = 400;

/// From this far above the mark on, in parts of it, writes wait for what leaves, until memory is no more than so far above.
const CROWDED: u64 = 100;
const CROWDED_NO_MORE: u64 = 200;
/// So many parts of the mark may be written in a second even then: it may be another keyfold that removes.
const TRICKLE: u64 = 80;

/// From this far above the mark on, in parts of it, writes are refused where nothing leaves for a while.
const TOO_FAR: u64 = 100;
/// And from this far on where more comes than leaves.
const MUCH_TOO_FAR: u64 = 25;
/// So long, in microseconds, where nothing leaves, and where more comes though clients wait; and over so many looks: on a busy
/// machine one may come late. What sinks meanwhile is given as long again: a mark that was lowered takes its time.
const TOO_LONG_US: u64 = 250_000;
const MUCH_TOO_LONG_US: u64 = 1_000_000;
const TOO_MANY_LOOKS: u32 = 8;

/// How long the server isn't asked at most, and at least, in microseconds.
const LONGEST_REST_US: u64 = 100_000;
const SHORTEST_REST_US: u64 = 500;

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// So many bytes are to be freed.
    pub free_bytes: u64,
    /// Where nothing is to be freed: when the server is to be asked again, in microseconds.
    pub rest_us: u64,
    /// Where nothing is to be freed: it is to be asked sooner where more than so many bytes are written. Where it is crowded: so
    /// many may be written until it is asked next.
    pub allowance: u64,
    /// Writes are to wait for room.
    pub is_crowded: bool,
    /// Writes are to be refused.
    pub is_full: bool,
}

/// The least that was counted for a while.
#[derive(Clone, Copy, Debug)]
struct Least {
    counted: u64,
    at_us: u64,
    /// Looks since then.
    looks: u32,
}

/// Watches one server's memory.
#[derive(Clone, Debug)]
pub struct Governor {
    mark: u64,
    /// What was counted last, and when.
    last: Option<(u64, u64)>,
    is_crowded: bool,
    /// How fast memory grows while nothing is freed, in bytes a second.
    growth: f64,
    /// The least that was counted since memory is too far above the mark.
    least_above: Option<Least>,
    /// When it was heard last that something was freed.
    freed_us: Option<u64>,
}

impl Governor {
    /// For a server whose keys may take so many bytes.
    pub fn new(mark: u64) -> Self {
        Self { mark, last: None, is_crowded: false, growth: 0.0, least_above: None, freed_us: None }
    }

    /// Up to where it may go.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// Goes by another mark from now on.
    pub fn set_mark(&mut self, mark: u64) {
        self.mark = mark;
    }

    /// What is to be done, as the server counts so many bytes now, of which `freed` were freed since it was asked last.
    pub fn look(&mut self, counted: u64, freed: u64, now_us: u64) -> Order {
        let mut room = 0;
        if let Some((before, at_us)) = self.last.replace((counted, now_us)) {
            room = self.room(freed.max(before.saturating_sub(counted)), now_us.saturating_sub(at_us));
            #[expect(clippy::cast_precision_loss, reason = "a rate needs no precision")]
            let (grown, passed) =
                ((counted + freed).saturating_sub(before) as f64, now_us.saturating_sub(at_us) as f64);
            if passed > 0.0 {
                // What grows suddenly is believed at once, what ceases to grow after some looks.
                let growth = grown / passed * 1e6;
                self.growth = growth.max(self.growth.midpoint(growth));
            }
        }
        let is_full = self.is_full(counted, freed, now_us);
        let part = if self.is_crowded { CROWDED_NO_MORE } else { CROWDED };
        self.is_crowded = counted > self.mark.saturating_add(self.mark / part);
        let is_crowded = self.is_crowded;
        let low = self.mark - self.mark / MARGIN;
        if counted > low {
            return Order {
                free_bytes: counted - low + self.grows_within(SHORTEST_REST_US),
                rest_us: 0,
                allowance: room,
                is_crowded,
                is_full,
            };
        }
        let room = self.mark - counted;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "clamped"
        )]
        let until_half = (room as f64 / 2.0 / self.growth.max(1.0) * 1e6).min(1e9) as u64;
        let rest_us = until_half.clamp(SHORTEST_REST_US, LONGEST_REST_US);
        Order { free_bytes: 0, rest_us, allowance: room / 2, is_crowded, is_full }
    }

    /// What may be written where it is crowded, as so much left meanwhile: less than that, as what is written takes more than its
    /// bytes.
    fn room(&self, left: u64, passed_us: u64) -> u64 {
        let trickle = u128::from(self.mark / TRICKLE) * u128::from(passed_us) / 1_000_000;
        left / 2 + u64::try_from(trickle).unwrap_or(u64::MAX).min(self.mark / TRICKLE)
    }

    /// Whether writes are refused: nothing leaves though memory is too far above the mark, or too little.
    fn is_full(&mut self, counted: u64, freed: u64, now_us: u64) -> bool {
        let is_beyond = |part: u64| counted > self.mark.saturating_add(self.mark / part);
        let lasts = |since_us: u64, long_us: u64| now_us.saturating_sub(since_us) > long_us;
        if freed > 0 {
            self.freed_us = Some(now_us);
        }
        let least = match self.least_above {
            Some(least) if counted >= least.counted => Least { looks: least.looks.saturating_add(1), ..least },
            _ => Least { counted, at_us: now_us, looks: 0 },
        };
        self.least_above = is_beyond(TOO_FAR).then_some(least);
        let nothing_leaves = self.freed_us.is_none_or(|at_us| lasts(at_us, TOO_LONG_US));
        self.least_above.is_some_and(|least| {
            let does_not_sink = |long_us| lasts(least.at_us, long_us) && least.looks >= TOO_MANY_LOOKS;
            nothing_leaves && does_not_sink(TOO_LONG_US) || is_beyond(MUCH_TOO_FAR) && does_not_sink(MUCH_TOO_LONG_US)
        })
    }

    fn grows_within(&self, us: u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "positive"
        )]
        let bytes = (self.growth * us as f64 / 1e6) as u64;
        bytes.min(self.mark / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: u64 = 100_000_000;

    #[test]
    fn far_below_the_mark_the_server_is_left_alone() {
        let mut governor = Governor::new(MARK);
        let order = governor.look(10_000_000, 0, 1_000);
        assert_eq!(order, Order { free_bytes: 0, rest_us: LONGEST_REST_US, allowance: 45_000_000, ..Order::default() });
    }

    #[test]
    fn the_nearer_the_mark_and_the_faster_it_grows_the_sooner_it_is_asked() {
        let mut governor = Governor::new(MARK);
        governor.look(98_000_000, 0, 0);
        // 10 MB a second: half of 1 MB is full in 50 ms.
        let order = governor.look(99_000_000, 0, 100_000);
        assert_eq!((order.free_bytes, order.rest_us), (0, 50_000));
        let order = governor.look(99_700_000, 0, 110_000);
        assert!(order.rest_us < 3_000, "{order:?}");
    }

    #[test]
    fn what_is_over_is_freed_with_what_comes_meanwhile() {
        let mut governor = Governor::new(MARK);
        governor.look(99_000_000, 0, 0);
        let order = governor.look(100_000_000, 0, 100_000);
        assert!((250_000..260_000).contains(&order.free_bytes) && !order.is_full, "{order:?}");
        // Freed as fast as written: it grows all the same.
        let order = governor.look(100_000_000, 1_000_000, 200_000);
        assert!(order.free_bytes >= 255_000, "{order:?}");
    }

    #[test]
    fn above_the_mark_as_much_may_be_written_as_leaves() {
        let mut governor = Governor::new(MARK);
        governor.look(100_900_000, 0, 0);
        let order = governor.look(101_100_000, 40_000, 1_000);
        assert_eq!((order.is_crowded, order.allowance), (true, 20_000 + 1_250));
        // Another one removes.
        let order = governor.look(100_700_000, 0, 2_000);
        assert_eq!((order.is_crowded, order.allowance), (true, 200_000 + 1_250), "until it is half as far above");
        let order = governor.look(100_700_000, 0, 1_000_002_000);
        assert_eq!((order.is_crowded, order.allowance), (true, MARK / TRICKLE));
        assert!(!governor.look(100_400_000, 0, 1_000_003_000).is_crowded);
        assert!(!governor.look(100_900_000, 0, 1_000_004_000).is_crowded);
    }

    #[test]
    fn writes_are_refused_where_nothing_else_helps_for_a_while() {
        let mut governor = Governor::new(MARK);
        assert!((0..=8).all(|at| !governor.look(101_500_000, 0, at * 30_000).is_full));
        assert!(governor.look(101_500_000, 0, 270_000).is_full);
        assert!(!governor.look(100_900_000, 0, 280_000).is_full);
    }

    #[test]
    fn a_look_that_comes_late_tells_nothing() {
        let mut governor = Governor::new(MARK);
        assert!((0..8).all(|at| !governor.look(106_000_000, 10_000, at * 1_000_000).is_full));
        assert!(governor.look(106_000_000, 10_000, 8_000_000).is_full);
    }

    #[test]
    fn writes_go_on_while_a_mark_that_was_lowered_is_approached() {
        let mut governor = Governor::new(MARK);
        governor.look(99_000_000, 0, 0);
        governor.set_mark(MARK / 2);
        for at in 1..40 {
            assert!(!governor.look(99_000_000 - at * 1_000_000, 2_000_000, at * 100_000).is_full, "{at}");
        }
        // More comes from here on than leaves.
        let full = |order: Order| order.is_full;
        assert!((0..8).all(|at| !full(governor.look(60_500_000, 1_000, 4_000_000 + at * 120_000))));
        assert!(full(governor.look(61_000_000, 1_000, 5_000_000)));
        assert!(!full(governor.look(59_900_000, 1_000, 5_100_000)));
    }

    #[test]
    fn a_little_above_the_mark_writes_go_on_where_anything_leaves() {
        let mut governor = Governor::new(MARK);
        let full = |order: Order| order.is_full;
        assert!((0..20).all(|at| !full(governor.look(102_000_000, 10_000, at * 100_000))));
        assert!(full(governor.look(104_500_000, 10_000, 2_000_000)));
        assert!((0..8).all(|at| !full(governor.look(102_000_000, 0, 2_100_000 + at * 10_000))));
        assert!(full(governor.look(102_000_000, 0, 2_400_000)));
    }

    #[test]
    fn a_mark_of_nothing_frees_all() {
        let mut governor = Governor::new(0);
        assert_eq!(governor.look(5_000, 0, 0).free_bytes, 5_000);
        governor.set_mark(u64::MAX);
        assert_eq!(governor.look(5_000, 0, 1).free_bytes, 0);
    }
}
