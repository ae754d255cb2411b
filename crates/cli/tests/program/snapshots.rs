//! What keyfold prints: help, and what it says of wrong layouts and wrong command lines.
//!
//! After a change that is meant: `TRYCMD=overwrite cargo test -p keyfold --test program snapshots`.

#[test]
fn printed() {
    trycmd::TestCases::new().env("NO_COLOR", "1").env("COLUMNS", "100").case("tests/snapshots/*.trycmd");
}
