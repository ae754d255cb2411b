//! Dumps of any size are read in bounded memory: made key by key, and never stored.

use std::fs;
use std::io::{BufWriter, Write};
use std::process::{Child, ChildStdin, Stdio};

use serde_json::Value;

use super::command;

/// What the process may take.
const MOST_KILOBYTES: u64 = 200_000;

/// A dump on its way into a process.
struct Sent {
    child: Child,
    input: BufWriter<ChildStdin>,
}

impl Sent {
    fn begin(keys: u32) -> Self {
        let mut child = command(&["-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = BufWriter::with_capacity(1 << 20, child.stdin.take().unwrap());
        input.write_all(b"REDIS0011\xfa\x09redis-ver\x057.2.4\xfe\x00\xfb\x80").unwrap();
        input.write_all(&keys.to_be_bytes()).unwrap();
        input.write_all(b"\x00").unwrap();
        Self { child, input }
    }

    fn length(&mut self, len: u64) {
        match u8::try_from(len) {
            Ok(short @ ..=63) => self.input.write_all(&[short]).unwrap(),
            _ => {
                self.input.write_all(&[0x81]).unwrap();
                self.input.write_all(&len.to_be_bytes()).unwrap();
            }
        }
    }

    /// A string under a key.
    fn string(&mut self, key: &str, value: &[u8], times: u64) {
        self.input.write_all(&[0]).unwrap();
        self.length(key.len() as u64);
        self.input.write_all(key.as_bytes()).unwrap();
        self.length(value.len() as u64 * times);
        (0..times).for_each(|_| self.input.write_all(value).unwrap());
    }

    /// What the process took at most, in kilobytes, and what it says.
    fn end(mut self) -> (u64, Value) {
        self.input.flush().unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
        self.input.write_all(b"\xff\0\0\0\0\0\0\0\0").unwrap();
        drop(self.input);
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success());
        (peak, serde_json::from_slice(&output.stdout).unwrap())
    }
}

#[test]
fn values_larger_than_the_memory_that_is_taken_go_by() {
    let mut sent = Sent::begin(301);
    let mebibyte = vec![b'x'; 1 << 20];
    sent.string("huge", &mebibyte, 300);
    (0..300).for_each(|i| sent.string(&format!("large:{i}"), &mebibyte, 1));
    let (peak, report) = sent.end();
    assert!(peak < MOST_KILOBYTES, "{peak} kB");
    assert_eq!((&report["walk"]["keys"], &report["walk"]["complete"]), (&301.into(), &true.into()));
    assert_eq!(report["families"][1]["value_bytes"]["max"], 300 << 20);
}

/// `make analyze-stream`: the time and the resident size of the process, which must stay below 200 MB.
#[test]
#[ignore = "takes minutes; run by `make analyze-stream`"]
fn fifty_million_keys_take_less_than_200_mb() {
    const KEYS: u32 = 50_000_000;
    let started = std::time::Instant::now();
    let mut sent = Sent::begin(KEYS);
    for i in 0..u64::from(KEYS) {
        let n = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let key = match i % 5 {
            0 => format!("user:{}:logins", n % 1_000_000_000),
            1 => format!("session:{n:012x}-4000-8000-{i:012x}"),
            2 => format!("cart:{n:016x}"),
            3 => format!("feed:{}:{}", n % 5000, i),
            _ => format!("order:{i:012}"),
        };
        sent.string(&key, b"twenty-four letters long", 1);
    }
    let (peak, report) = sent.end();
    println!("{KEYS} keys in {:.0} s; peak resident size {peak} kB", started.elapsed().as_secs_f64());
    assert!(peak < MOST_KILOBYTES, "{peak} kB");
    assert_eq!(report["walk"]["keys"], KEYS);
}
