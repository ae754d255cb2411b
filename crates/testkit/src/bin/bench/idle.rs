//! What idle connections cost the proxy, in a process of its own, and that ten thousand work.

use std::thread;
use std::time::Duration;

use keyfold_lab::{Cell, Table};
use keyfold_testkit::{Binary, Wire};

use crate::options::Options;
use crate::proxy::Proxy;
use crate::report::Report;

const LAYOUT: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 128 }\n";

/// Connections, and what the proxy may hold with them.
const STEPS: [(usize, Option<u64>); 3] = [(1, None), (1_000, Some(60_000_000)), (10_000, None)];

/// Long enough for the proxy to give back what idle connections need not hold.
const REST: Duration = Duration::from_secs(3);

/// Opens connections, has each answer PING, SET and GET, and reads the proxy's memory while they idle.
pub(crate) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let server = binary.start(&[])?;
    let proxy = Proxy::start(&server, LAYOUT)?;
    let mut table = Table::titled(
        "idle connections, the proxy's resident memory",
        &["connections", "resident, kB", "goal", "bytes a connection", "answer PING"],
    );
    let mut wires: Vec<Wire> = Vec::new();
    let mut first = 0;
    for (connections, goal_bytes) in STEPS {
        if options.quick && connections > 1_000 {
            break;
        }
        while wires.len() < connections {
            wires.push(proxy.connect()?);
            let (wire, id) = (wires.len() - 1, wires.len());
            use_once(&mut wires[wire], id)?;
        }
        thread::sleep(REST);
        let resident = proxy.resident_bytes()?;
        if first == 0 {
            first = resident;
        }
        let mut answered = 0;
        for wire in &mut wires {
            answered += u64::from(wire.call(&[b"PING"])? == b"+PONG\r\n");
        }
        let each = resident.saturating_sub(first) / connections as u64;
        table.row(vec![
            Cell::Whole(connections as u64),
            Cell::Whole(resident / 1000),
            goal_bytes.map_or("".into(), |goal| {
                let verdict = if resident < goal { "met" } else { "missed" };
                format!("< 60 MB: {verdict}").into()
            }),
            if connections == 1 { Cell::Nothing } else { Cell::Whole(each) },
            Cell::Whole(answered),
        ]);
        anyhow::ensure!(answered == connections as u64, "only {answered} of {connections} answered");
    }
    report.add(&binary.name(), &table);
    Ok(())
}

/// A connection that has been used, as idle ones have.
fn use_once(wire: &mut Wire, id: usize) -> anyhow::Result<()> {
    let key = format!("user:{id}");
    let set = wire.call(&[b"SET", key.as_bytes(), b"12345"])?;
    let get = wire.call(&[b"GET", key.as_bytes()])?;
    anyhow::ensure!(set == b"+OK\r\n" && get == b"$5\r\n12345\r\n", "{key} is not what was written");
    Ok(())
}
