//! Random clients with caches, behind two keyfolds, and random writers through either and past both: once nothing is written any
//! more, soon every value in every cache is what the server holds.

use keyfold_testkit::differential::{CacheOptions, CacheSides, run_caches};
use keyfold_testkit::found;

use crate::stage::{ALL_WAYS, address, proxy_before};

/// How many commands a run has, at least. `differential --tracking` has more.
const COMMANDS: u64 = 12_000;

#[test]
fn caches_agree_with_the_server_in_the_end() {
    for (seed, binary) in (1..).zip(found()) {
        let server = binary.start(&[]).unwrap();
        let proxies = [proxy_before(&server, ALL_WAYS), proxy_before(&server, ALL_WAYS)];
        let sides = CacheSides { keyfolds: proxies.each_ref().map(address), server: server.address() };
        let options = CacheOptions { seed, commands: COMMANDS, ..CacheOptions::default() };
        match run_caches(&sides, &options, |_| {}) {
            Ok(agreed) => eprintln!("{}, seed {seed}: {agreed:?}", server.name()),
            Err(failure) => panic!("{}, {failure}", server.name()),
        }
    }
}
