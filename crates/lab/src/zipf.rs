//! Ranks by Zipf's law: rank k comes up in proportion to 1/k^s.
//!
//! Drawn by rejection-inversion (W. Hörmann and G. Derflinger, 1996), which takes no table and rejects hardly anything:
//! a point under the integral of x^-s is inverted and rounded to a rank, and kept if it is under that rank's bar.

use keyfold_survey::random::Random;

/// Ranks 1 to `ranks`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    ranks: f64,
    skew: f64,
    /// The integral, at both ends.
    low: f64,
    high: f64,
    /// Points so near above a rank are always under its bar.
    sure: f64,
}

impl Zipf {
    /// `skew` is above 0.
    pub(crate) fn new(ranks: u32, skew: f64) -> Self {
        let mut zipf = Self { ranks: f64::from(ranks.max(1)), skew, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.ranks + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and the number of ranks")]
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let at = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(at);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.sure || at >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u32;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.skew)
    }

    /// The integral of the weight, from 1. At a skew of 1 it is the logarithm.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.skew;
        if power == 0.0 { x.ln() } else { (power * x.ln()).exp_m1() / power }
    }

    fn inverse(&self, integral: f64) -> f64 {
        let power = 1.0 - self.skew;
        if power == 0.0 { integral.exp() } else { ((power * integral).ln_1p() / power).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_up_as_often_as_the_law_says() {
        const DRAWS: u32 = 400_000;
        for (ranks, skew) in [(50, 0.8), (1000, 0.9), (1000, 1.0), (1000, 1.1), (20, 2.5), (1, 1.0)] {
            let (zipf, mut random) = (Zipf::new(ranks, skew), Random::new(3));
            let mut seen = vec![0_u32; ranks as usize + 1];
            (0..DRAWS).for_each(|_| seen[zipf.draw(&mut random) as usize] += 1);
            assert_eq!(seen[0], 0);
            let total: f64 = (1..=ranks).map(|rank| f64::from(rank).powf(-skew)).sum();
            for rank in (1..=ranks).filter(|rank| *rank <= 10 || rank.is_multiple_of(97)) {
                let expected = f64::from(rank).powf(-skew) / total * f64::from(DRAWS);
                let off = f64::from(seen[rank as usize]) - expected;
                // Five deviations: one false alarm in a million.
                assert!(off.abs() < 5.0 * expected.sqrt().max(1.0), "rank {rank} of {ranks} at {skew}: {off}");
            }
        }
    }
}
