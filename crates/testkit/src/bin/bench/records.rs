//! Records to measure with: made up from their number.

use keyfold_lab::data_sets::records::Record;
use keyfold_testkit::random::Random;

/// `set-allBooksBelongToUser:1000000` and on, each a number of 31 bits.
pub(crate) fn books(number: u64) -> Record {
    let value = Random::nth(number) >> 33;
    Record {
        key: format!("set-allBooksBelongToUser:{}", 1_000_000 + number).into_bytes(),
        value: value.to_string().into_bytes(),
        expires_in_ms: None,
    }
}

/// The same, each expiring between one and two days from now.
pub(crate) fn books_with_ttl(number: u64) -> Record {
    Record { expires_in_ms: Some(1000 * (86_400 + Random::nth(!number) % 86_400)), ..books(number) }
}

/// `sess:` and a uuid of version 4, each 24 letters.
pub(crate) fn sessions(number: u64) -> Record {
    let (high, low) = (Random::nth(number * 4 + 1), Random::nth(number * 4 + 2));
    let high = high & !0xf000 | 0x4000;
    let low = low & (u64::MAX >> 2) | 1 << 63;
    let key = format!(
        "sess:{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    );
    let letter = |at: u64| b'a' + u8::try_from(Random::nth(number * 4 + 3 + (at << 32)) % 26).unwrap_or(0);
    Record { key: key.into_bytes(), value: (0..24).map(letter).collect(), expires_in_ms: None }
}
