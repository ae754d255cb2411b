//! What folding does to a server that evicts: as it was measured, and where it was.
//!
//! Servers evict whole keys, and a bucket is one. Folding lets more objects into the same memory, and has the server
//! choose by the bucket what stays. `keyfold lab run hit-ratio` measures which of the two weighs more; what it found is
//! `MEASURED`, and docs/lab.md has the rest.

/// How a server that has a limit of memory makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The longest unused of all keys (`allkeys-lru`, Valkey's and Redis's later kin).
    LeastRecent,
    /// The least often used of all keys (`allkeys-lfu`).
    LeastFrequent,
    /// Any keys (`allkeys-random`).
    Random,
    /// Only keys that have an expiry on the server (`volatile-*`), which buckets have not.
    Expiring,
}

/// What caches of one kind found when folded, less what plain keys found, in points.
#[derive(Clone, Copy, Debug)]
struct Measured {
    eviction: Eviction,
    /// How many times as many objects fit.
    ratio: f64,
    value_bytes: u64,
    /// At 16 and at 128 entries to a bucket, with room for 5 % and for 20 % of the plain keys.
    of_16: [f64; 2],
    of_128: [f64; 2],
}

/// Redis 7.0.15, requests by Zipf's law with exponent 0.9 for 20,000 objects, which share buckets by chance.
const MEASURED: [Measured; 4] = [
    measured(Eviction::LeastRecent, 3.0, 32, [5.6, 13.2], [10.8, 16.2]),
    measured(Eviction::LeastRecent, 1.3, 200, [-0.5, 0.0], [-0.8, -0.2]),
    measured(Eviction::LeastFrequent, 3.0, 32, [-7.9, 5.6], [-16.1, 6.0]),
    measured(Eviction::LeastFrequent, 1.3, 200, [-17.4, -13.1], [-28.8, -21.7]),
];

const fn measured(eviction: Eviction, ratio: f64, value_bytes: u64, of_16: [f64; 2], of_128: [f64; 2]) -> Measured {
    Measured { eviction, ratio, value_bytes, of_16, of_128 }
}

impl Eviction {
    /// By the server's `maxmemory-policy`; none where nothing is evicted.
    pub fn of(maxmemory_bytes: u64, policy: &str) -> Option<Self> {
        match policy {
            _ if maxmemory_bytes == 0 => None,
            "allkeys-lru" | "allkeys-lrm" => Some(Self::LeastRecent),
            "allkeys-lfu" => Some(Self::LeastFrequent),
            "allkeys-random" => Some(Self::Random),
            _ => policy.starts_with("volatile-").then_some(Self::Expiring),
        }
    }

    /// What is to be known of a plan by which `ratio` times as many keys fit.
    pub fn note(self, ratio: f64) -> String {
        match self {
            Self::Expiring => {
                "the server evicts only keys that have an expiry of their own (volatile-*), and buckets have \
                               none: folded keys are never evicted, and writes fail once the memory is full"
                    .to_owned()
            }
            Self::Random => {
                "the server evicts whole keys by chance (allkeys-random), and a bucket is one; what its caches \
                             find then was not measured: `keyfold lab run hit-ratio` has the other policies"
                    .to_owned()
            }
            Self::LeastRecent => self.found(ratio, "allkeys-lru"),
            Self::LeastFrequent => {
                let recent = Self::LeastRecent.nearest(ratio).map_or([0.0; 2], |measured| measured.of_128);
                let (tight, roomy) = (points(recent[0]), points(recent[1]));
                format!(
                    "{}; under allkeys-lru, with 128 a bucket, {tight} and {roomy}",
                    self.found(ratio, "allkeys-lfu")
                )
            }
        }
    }

    /// Whether buckets of few entries found more than those of many, with the less of room.
    pub fn wants_few_entries(self, ratio: f64) -> bool {
        self.nearest(ratio).is_some_and(|measured| measured.of_16[0] > measured.of_128[0])
    }

    fn nearest(self, ratio: f64) -> Option<&'static Measured> {
        let own = MEASURED.iter().filter(|measured| measured.eviction == self);
        let far = |measured: &Measured| (measured.ratio / ratio.max(0.01)).ln().abs();
        own.min_by(|one, other| far(one).total_cmp(&far(other)))
    }

    fn found(self, ratio: f64, policy: &str) -> String {
        let Some(Measured { ratio: there, value_bytes, of_16, of_128, .. }) = self.nearest(ratio) else {
            return String::new();
        };
        format!(
            "the server evicts whole keys ({policy}), and a bucket is one: where folding fits {there} times as many keys, as \
             with values of {value_bytes} bytes (here {ratio:.1}), a cache with room for 5 % of the plain keys had a hit \
             ratio {} with 128 entries a bucket and {} with 16, one with room for 20 % {} and {} (`keyfold lab run \
             hit-ratio`, Redis 7.0.15, Zipf 0.9)",
            points(of_128[0]),
            points(of_16[0]),
            points(of_128[1]),
            points(of_16[1]),
        )
    }
}

/// `4.7 points higher`.
fn points(gain: f64) -> String {
    format!("{:.1} points {}", gain.abs(), if gain < 0.0 { "lower" } else { "higher" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_limit_or_a_policy_evicts_nothing() {
        assert_eq!(Eviction::of(0, "allkeys-lru"), None);
        assert_eq!(Eviction::of(1, "noeviction"), None);
        assert_eq!(Eviction::of(1, "allkeys-lfu"), Some(Eviction::LeastFrequent));
        assert_eq!(Eviction::of(1, "volatile-ttl"), Some(Eviction::Expiring));
    }

    #[test]
    fn the_nearest_measurement_counts() {
        let note = Eviction::LeastRecent.note(1.3);
        assert!(note.contains("values of 200 bytes (here 1.3)") && note.contains("allkeys-lru"), "{note}");
        assert!(Eviction::LeastFrequent.note(4.0).contains("values of 32 bytes (here 4.0)"));
        assert!(Eviction::Expiring.note(4.0).contains("never evicted"));
        assert_eq!([points(-1.25), points(0.3)], ["1.2 points lower", "0.3 points higher"]);
    }
}
