//! Writing records over a connection, reading them back, and what they cost the server.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use keyfold_core::resp::write_command;
use keyfold_testkit::{Server, Wire};

use crate::records::Record;

const PIPELINE: usize = 500;

/// Writes all records.
pub(crate) fn write(wire: &mut Wire, records: impl Iterator<Item = Record>) -> anyhow::Result<()> {
    let mut batch = Vec::new();
    let mut waiting = 0;
    for record in records {
        match record.ttl_s {
            Some(ttl) => {
                write_command(&mut batch, &[b"SET", &record.key, &record.value, b"EX", ttl.to_string().as_bytes()]);
            }
            None => write_command(&mut batch, &[b"SET", &record.key, &record.value]),
        }
        waiting += 1;
        if waiting == PIPELINE {
            confirm(wire, &mut batch, &mut waiting)?;
        }
    }
    confirm(wire, &mut batch, &mut waiting)
}

fn confirm(wire: &mut Wire, batch: &mut Vec<u8>, waiting: &mut usize) -> anyhow::Result<()> {
    wire.send_bytes(batch)?;
    batch.clear();
    for _ in 0..std::mem::take(waiting) {
        let reply = wire.reply()?;
        anyhow::ensure!(reply == b"+OK\r\n", "SET answers {}", reply.escape_ascii());
    }
    Ok(())
}

/// Reads all records back and compares, byte for byte; where they expire, that they will.
pub(crate) fn verify(wire: &mut Wire, records: impl Iterator<Item = Record>) -> anyhow::Result<()> {
    let mut records = records.peekable();
    while records.peek().is_some() {
        let chunk: Vec<Record> = records.by_ref().take(PIPELINE).collect();
        let mut batch = Vec::new();
        for record in &chunk {
            write_command(&mut batch, &[b"GET", &record.key]);
            if record.ttl_s.is_some() {
                write_command(&mut batch, &[b"TTL", &record.key]);
            }
        }
        wire.send_bytes(&batch)?;
        for record in &chunk {
            let mut expected = format!("${}\r\n", record.value.len()).into_bytes();
            expected.extend_from_slice(&record.value);
            expected.extend_from_slice(b"\r\n");
            let reply = wire.reply()?;
            anyhow::ensure!(reply == expected, "{} came back otherwise", record.key.escape_ascii());
            if let Some(ttl) = record.ttl_s {
                let reply = wire.reply()?;
                let left = str::from_utf8(reply.get(1..).unwrap_or_default())?.trim().parse::<u64>();
                let left = left.with_context(|| format!("TTL answers {}", reply.escape_ascii()))?;
                anyhow::ensure!(left <= ttl && left + 600 > ttl, "TTL {left} of {ttl}");
            }
        }
    }
    Ok(())
}

/// The server's `used_memory` in bytes, once it stands still: nobody else is connected, and what is freed in
/// the background is.
pub(crate) fn used_memory(server: &Server) -> anyhow::Result<u64> {
    let mut wire = server.connect()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut last = Vec::new();
    loop {
        last.push(info_number(&mut wire, "memory", "used_memory")?);
        let steady = last.len() > 4 && last[last.len() - 4..].windows(2).all(|pair| pair[0].abs_diff(pair[1]) < 512);
        if steady || Instant::now() > deadline {
            return last.pop().context("it was asked");
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn info_number(wire: &mut Wire, section: &str, field: &str) -> anyhow::Result<u64> {
    let reply = wire.call(&[b"INFO", section.as_bytes()])?;
    let text = String::from_utf8_lossy(&reply).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned));
    value.and_then(|value| value.trim().parse().ok()).with_context(|| format!("INFO {section} has no {field}"))
}

/// How many keys the server holds.
pub(crate) fn key_count(server: &Server) -> anyhow::Result<u64> {
    let reply = server.connect()?.call(&[b"DBSIZE"])?;
    Ok(str::from_utf8(reply.get(1..).unwrap_or_default())?.trim().parse()?)
}
