//! The conformance list: scripted conversations with every option and error of every command that keyfold
//! answers, run against a plain server and a subject, the replies compared byte for byte.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `pool` | key names by number over each template, and the layout |
//! | `script` | how the tables are written |
//! | `run` | runs a case on both sides |
//! | the others | one table for each family of commands |

mod bits;
mod compressible;
mod connection;
mod counters;
mod expiry;
mod functions;
mod keyspace;
mod later;
mod library_scripts;
mod other_types;
pub(crate) mod pool;
mod pubsub;
mod run;
mod script;
mod strings;
mod transactions;
mod user_scripts;

pub use pool::{CODED_LAYOUT, LAYOUT, POOLS, Pool};
pub use run::{Difference, Protocol, run, run_all};
pub(crate) use run::{count_touched, exists};

/// A conversation, from an empty server on.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// For messages and to choose it.
    pub name: &'static str,
    /// Its steps, as the module `script` reads them.
    pub script: &'static str,
}

/// Every table: the family, and its cases.
pub const FAMILIES: &[(&str, &[Case])] = &[
    ("strings", strings::CASES),
    ("counters", counters::CASES),
    ("bits", bits::CASES),
    ("compressible", compressible::CASES),
    ("expiry", expiry::CASES),
    ("later commands", later::CASES),
    ("keyspace", keyspace::CASES),
    ("transactions", transactions::CASES),
    ("other types", other_types::CASES),
    ("user scripts", user_scripts::CASES),
    ("library scripts", library_scripts::CASES),
    ("functions", functions::CASES),
    ("pubsub", pubsub::CASES),
    ("connection", connection::CASES),
];

/// A row of a table.
const fn case(name: &'static str, script: &'static str) -> Case {
    Case { name, script }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_reads() {
        for (family, cases) in FAMILIES {
            for case in *cases {
                let steps =
                    script::parse(case.script).unwrap_or_else(|error| panic!("{family}, {}: {error}", case.name));
                assert!(!steps.is_empty(), "{family}, {}", case.name);
            }
        }
    }
}
