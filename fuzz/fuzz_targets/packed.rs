//! Sets and hashes as one value: any bytes are one or are refused, and what is one comes back from its own packed form.
#![no_main]

use keyfold_core::collection::Collection;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok((collection, expires_at_ms)) = Collection::read_stored(data, Some(1)) else { return };
    let (packed, until) = collection.stored(expires_at_ms);
    let again = Collection::read_stored(&packed, until).expect("what was packed is read");
    assert_eq!(again, (collection, expires_at_ms), "{}", packed.escape_ascii());
});
