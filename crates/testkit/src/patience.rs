//! Waiting for what several servers agree on between themselves, and telling what was missing where it never came.

use std::thread;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What was waited for did not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("waited {} s for {what}, in vain: {missing}", .waited.as_secs())]
pub struct Impatient {
    /// What was waited for.
    pub what: String,
    /// How long.
    pub waited: Duration,
    /// What the last look found missing.
    pub missing: String,
}

/// Looks until there is something, at most for as long as `patience` says. A look that finds nothing says what is
/// missing. There is always a last look after the time is up, so that a process that was itself stopped for long is
/// not impatient at once.
///
/// # Errors
/// Where nothing comes in time.
pub fn wait_for<T>(
    what: &str,
    patience: Duration,
    mut look: impl FnMut() -> Result<T, String>,
) -> Result<T, Impatient> {
    let start = Instant::now();
    loop {
        let is_last = start.elapsed() >= patience;
        match look() {
            Ok(found) => return Ok(found),
            Err(missing) if is_last => {
                return Err(Impatient { what: what.to_owned(), waited: start.elapsed(), missing });
            }
            Err(_) => thread::sleep(LOOK_AGAIN_AFTER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_what_comes() {
        let mut looks = 0;
        let found = wait_for("the third look", Duration::from_secs(60), || {
            looks += 1;
            if looks == 3 { Ok(looks) } else { Err("not yet".to_owned()) }
        });
        assert_eq!(found, Ok(3));
    }

    #[test]
    fn it_tells_what_was_missing() {
        let error = wait_for::<()>("rain", Duration::ZERO, || Err("a cloud".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "waited 0 s for rain, in vain: a cloud");
    }
}
