//! Readers and writers before one server, which check every answer.

use std::time::Instant;

use keyfold_lab::data_sets::records::Record;
use keyfold_server::Target;

use super::super::clients::{self, Answers, CLIENTS, Client, Write};
use super::super::threads::{Stop, Threads};

/// Commands a second of all of them.
pub(crate) const RATE: u32 = 4000;

/// A load under way.
pub(crate) struct Load(Threads<Answers>);

impl Load {
    /// Begins with the keys of `records`, which hold what they say.
    pub(crate) fn start(target: &Target, records: Vec<Record>, started: Instant) -> anyhow::Result<Self> {
        let shares = clients::shares(records, |at, _| at % CLIENTS);
        clients::start(target, shares, RATE, started, run).map(Self)
    }

    /// Ends it.
    pub(crate) fn stop(self) -> anyhow::Result<Answers> {
        self.0.stop().map(Answers::of_all)
    }
}

fn run(mut client: Client, stop: &Stop) -> anyhow::Result<Answers> {
    let mut answers = Answers::default();
    while !stop.is_asked() && !client.records.is_empty() {
        let due = client.schedule.wait();
        let at = client.draw_key();
        let right = if client.draw_write() { write(&mut client, at) } else { read(&mut client, at) };
        if let Err(error) = right {
            answers.note_wrong(format!("{error:#}"));
        }
        answers.samples.push(client.schedule.sample(due));
    }
    answers.records = client.records;
    Ok(answers)
}

fn read(client: &mut Client, at: usize) -> anyhow::Result<()> {
    let Record { key, value, .. } = &client.records[at];
    let found: Option<Vec<u8>> = client.server.ask(&[b"GET", key])?;
    anyhow::ensure!(found.as_ref() == Some(value), "GET {} answered {found:?}", key.escape_ascii());
    Ok(())
}

/// The key's time to live stays.
fn write(client: &mut Client, at: usize) -> anyhow::Result<()> {
    let write = client.plan_write(at);
    let Record { key, value, .. } = &mut client.records[at];
    match write {
        Write::Count(number) => {
            let counted: i64 = client.server.ask(&[b"INCR", key])?;
            *value = counted.to_string().into_bytes();
            anyhow::ensure!(counted == number, "INCR {} answered {counted}", key.escape_ascii());
        }
        Write::Replace(next) => {
            client.server.ask::<()>(&[b"SET", key, &next, b"KEEPTTL"])?;
            *value = next;
        }
    }
    Ok(())
}
