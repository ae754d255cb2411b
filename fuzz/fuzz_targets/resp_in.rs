//! Requests and replies are read the same however they are split, and end where another reader says they do.
#![no_main]

use keyfold_core::resp::{ProtocolError, Read, Reply, ReplyScanner, RequestReader, write_command};
use libfuzzer_sys::fuzz_target;
use redis_protocol::{resp2, resp3};

type Requests = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fuzz_target!(|data: &[u8]| {
    requests(data);
    reply(data);
});

fn requests(data: &[u8]) {
    let whole = read_requests(data, usize::MAX);
    for step in [1, 2, 3, 7, 1 + data.len() / 2] {
        assert_eq!(read_requests(data, step), whole, "in pieces of {step} bytes");
    }
    for args in &whole.0 {
        let mut wire = Vec::new();
        write_command(&mut wire, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let (again, error) = read_requests(&wire, usize::MAX);
        assert_eq!((again.as_slice(), error), (std::slice::from_ref(args), None));
    }
}

/// All requests in `data`, which comes in pieces of so many bytes, and the error that ended them.
fn read_requests(data: &[u8], step: usize) -> Requests {
    let mut reader = RequestReader::default();
    let mut requests = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < data.len() {
        end = end.saturating_add(step).min(data.len());
        loop {
            let input = &data[start..end];
            match reader.read(input) {
                Ok(Read::Incomplete) => break,
                Ok(Read::Nothing(len)) => start += len,
                Ok(Read::Request(len)) => {
                    assert!(len > 0 && len <= input.len());
                    requests.push(reader.args(input).iter().map(|arg| arg.to_vec()).collect());
                    start += len;
                }
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fn reply(data: &[u8]) {
    let whole = ReplyScanner::default().scan(data);
    let mut scanner = ReplyScanner::default();
    let pieces = (0..=data.len()).map(|end| scanner.scan(&data[..end])).find(|found| *found != Ok(None));
    assert_eq!(pieces.unwrap_or(Ok(None)), whole);
    let Ok(Some(end)) = whole else { return };
    elements(&data[..end]);
    if let Ok(Some((_, len))) = resp2::decode::decode(data) {
        assert_eq!(len, end, "RESP2: {}", data[..len.max(end)].escape_ascii());
    }
    if let Ok(Some((_, len))) = resp3::decode::complete::decode(data) {
        assert_eq!(len, end, "RESP3: {}", data[..len.max(end)].escape_ascii());
    }
}

/// The elements of an aggregate are all of it but its head.
fn elements(reply: &[u8]) {
    let head = reply.windows(2).position(|pair| pair == b"\r\n").map_or(0, |end| end + 2);
    let (Ok(Reply::Array(mut parts)), Some(b'*' | b'~' | b'>')) = (Reply::parse(reply), reply.first()) else { return };
    let mut bytes = head;
    while let Some(part) = parts.next_raw() {
        bytes += part.len();
        let _ = Reply::parse(part);
    }
    assert_eq!(bytes, reply.len());
}
