//! Sequences of string commands on folded keys, by two clients in each other's way, compared with a naive
//! model of a plain server. `KEYFOLD_CASES` sets how many sequences run (2,000).

use keyfold_testkit::model;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

#[test]
fn folded_keys_behave_as_plain_ones() {
    let cases = std::env::var("KEYFOLD_CASES").map_or(2_000, |text| text.parse().unwrap());
    // The model shortens its stories itself, and better than the bytes that they are drawn from could be.
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let tried = TestRunner::new(config)
        .run(&prop::collection::vec(any::<u8>(), 0..400), |bytes| model::check(&bytes).map_err(TestCaseError::fail));
    if let Err(TestError::Fail(why, _)) = tried {
        panic!("{why}");
    }
}
