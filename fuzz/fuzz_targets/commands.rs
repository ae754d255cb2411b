//! Sequences of string commands on folded keys answer as a naive model of a plain server does, and leave the
//! same behind. See `keyfold_testkit::model`.
#![no_main]

use keyfold_testkit::model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(why) = model::check(data) {
        panic!("{why}");
    }
});
