//! Stored values: any bytes decode or are refused, what decodes has one canonical form that is no longer,
//! and every value and expiry comes back from its own.
#![no_main]

use keyfold_core::frame::{Body, Frame, encode, encode_spill, write_coded_head};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    canonical_form(data);
    if let Some((expiry, value)) = data.split_first_chunk::<8>() {
        comes_back(value, Some(i64::from_le_bytes(*expiry)));
        // In the range of the short form, too.
        comes_back(value, Some(i64::from_le_bytes(*expiry) >> 22));
    }
    comes_back(data, None);
});

fn canonical_form(stored: &[u8]) {
    let Ok(frame) = Frame::decode(stored) else { return };
    let mut canonical = Vec::new();
    match frame.body {
        Body::Raw(bytes) => encode(bytes, frame.expires_at_ms, &mut canonical),
        Body::Integer(number) => encode(number.to_string().as_bytes(), frame.expires_at_ms, &mut canonical),
        Body::Spill { nonce, slot } => encode_spill(nonce, slot, frame.expires_at_ms, &mut canonical),
        Body::Coded { slot, payload } => encode_coded(slot, payload, frame.expires_at_ms, &mut canonical),
        body @ Body::Parts { .. } => body.encode(frame.expires_at_ms, &mut canonical),
    }
    let again = Frame::decode(&canonical).expect("what was encoded decodes");
    assert_eq!(again.expires_at_ms, frame.expires_at_ms);
    assert_eq!(value(&again.body), value(&frame.body));
    // An integer without expiry is its text, which may be longer than a frame that nothing writes.
    if frame.expires_at_ms.is_some() || !matches!(frame.body, Body::Integer(_)) {
        assert!(canonical.len() <= stored.len(), "{} is shorter", stored.escape_ascii());
    }
    let mut twice = Vec::new();
    match again.body {
        Body::Spill { nonce, slot } => encode_spill(nonce, slot, again.expires_at_ms, &mut twice),
        Body::Coded { slot, payload } => encode_coded(slot, payload, again.expires_at_ms, &mut twice),
        body @ Body::Parts { .. } => body.encode(again.expires_at_ms, &mut twice),
        body => encode(&value(&body), again.expires_at_ms, &mut twice),
    }
    assert_eq!(twice, canonical, "a canonical form is its own");
}

fn encode_coded(slot: u8, payload: &[u8], expires_at_ms: Option<i64>, out: &mut Vec<u8>) {
    write_coded_head(slot, expires_at_ms, out);
    out.extend_from_slice(payload);
}

fn comes_back(bytes: &[u8], expires_at_ms: Option<i64>) {
    let mut stored = Vec::new();
    encode(bytes, expires_at_ms, &mut stored);
    let frame = Frame::decode(&stored).expect("what was encoded decodes");
    assert_eq!(frame.expires_at_ms, expires_at_ms);
    assert_eq!(value(&frame.body), bytes);
}

fn value(body: &Body<'_>) -> Vec<u8> {
    match body {
        Body::Raw(bytes) => bytes.to_vec(),
        Body::Integer(number) => number.to_string().into_bytes(),
        Body::Spill { nonce, slot } => [&nonce.to_be_bytes()[..], slot.as_slice()].concat(),
        Body::Coded { slot, payload } => [&[*slot][..], payload].concat(),
        Body::Parts { nonce, header } => [&nonce.to_be_bytes()[..], header].concat(),
    }
}
