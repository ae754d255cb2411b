//! Answers as servers write them in RESP2.

pub(super) fn integer(number: i64) -> Vec<u8> {
    format!(":{number}\r\n").into_bytes()
}

pub(super) fn bulk(text: Option<&[u8]>) -> Vec<u8> {
    let Some(text) = text else { return b"$-1\r\n".to_vec() };
    [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}
