//! How long answers took, and when.

use std::time::{Duration, Instant};

/// Answers of one client, or of several, in order of time.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// When the command should have been sent, and how long its answer took from then.
    answers: Vec<(Instant, Duration)>,
}

impl Latencies {
    /// Adds one.
    pub fn add(&mut self, due: Instant, took: Duration) {
        self.answers.push((due, took));
    }

    /// Adds another client's.
    pub fn extend(&mut self, other: &Self) {
        self.answers.extend(&other.answers);
    }

    /// Those of commands that were due in this time.
    #[must_use]
    pub fn between(&self, from: Instant, to: Instant) -> Self {
        Self { answers: self.answers.iter().filter(|(due, _)| (from..to).contains(due)).copied().collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// The time within which so many of a thousand answers came; zero without answers.
    pub fn quantile(&self, permille: usize) -> Duration {
        let mut took: Vec<Duration> = self.answers.iter().map(|(_, took)| *took).collect();
        took.sort_unstable();
        let at = took.len() * permille / 1000;
        took.get(at.min(took.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// The longest.
    pub fn longest(&self) -> Duration {
        self.answers.iter().map(|(_, took)| *took).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_hundred() {
        let (start, mut all) = (Instant::now(), Latencies::default());
        for ms in 1..=100 {
            all.add(start + Duration::from_millis(ms), Duration::from_millis(ms));
        }
        assert_eq!((all.quantile(500), all.quantile(990)), (Duration::from_millis(51), Duration::from_millis(100)));
        assert_eq!(all.quantile(1000), all.longest());
        let some = all.between(start, start + Duration::from_millis(11));
        assert_eq!((some.len(), some.longest()), (10, Duration::from_millis(10)));
        assert_eq!(Latencies::default().quantile(990), Duration::ZERO);
    }
}
