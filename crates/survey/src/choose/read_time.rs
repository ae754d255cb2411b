//! What a read costs a server: measured, and interpolated between what was measured.
//!
//! A listpack is searched from its start, so that a read takes longer the more entries there are before the
//! one that is asked for, and the more bytes these have. `read_times.tsv` has the server's own times; `docs/plan.md`
//! says how they came about.

use std::sync::LazyLock;

use keyfold_core::memory::{Family, Server};

/// Written by `scripts/read-times`.
const MEASURED: &str = include_str!("read_times.tsv");
/// An integer of 31 bits in a listpack (`packed.rs` of the core's memory model), which the table writes as 0.
const INTEGER_BYTES: f64 = 5.0;

/// What fields are; a listpack compares them at different speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Integers.
    Int,
    /// Any bytes.
    Bytes,
}

/// A server's times.
#[derive(Clone, Debug)]
pub struct ReadTimes {
    /// GET of a plain key, by the value's bytes.
    plain: Vec<(f64, f64)>,
    /// For each of a value's bytes: HGET by the bucket's entries.
    int_fields: Vec<(f64, Vec<(f64, f64)>)>,
    bytes_fields: Vec<(f64, Vec<(f64, f64)>)>,
}

impl ReadTimes {
    /// Those of this server, or of the nearest of its family that was measured: the newest before it, or else
    /// the oldest.
    pub fn of(server: Server) -> Self {
        let measured = || ROWS.iter().map(|row| row.server).filter(|other| other.family == server.family);
        let nearest = measured().filter(|other| *other <= server).max().or(measured().min()).unwrap_or(server);
        let rows: Vec<_> = ROWS.iter().filter(|row| row.server == nearest).collect();
        let plain = rows.iter().filter(|row| row.entries == 0.0 && row.field == FieldKind::Int);
        let curves = |field: FieldKind| {
            let mut curves: Vec<(f64, Vec<(f64, f64)>)> = Vec::new();
            for row in rows.iter().filter(|row| row.field == field && row.entries > 0.0) {
                match curves.iter_mut().find(|(value_bytes, _)| *value_bytes == row.value_bytes) {
                    Some((_, curve)) => curve.push((row.entries, row.us)),
                    None => curves.push((row.value_bytes, vec![(row.entries, row.us)])),
                }
            }
            curves
        };
        Self {
            plain: plain.map(|row| (row.value_bytes, row.us)).collect(),
            int_fields: curves(FieldKind::Int),
            bytes_fields: curves(FieldKind::Bytes),
        }
    }

    /// Microseconds for a GET of a key of its own, with a value of so many bytes.
    pub fn plain_us(&self, value_bytes: f64) -> f64 {
        interpolate(&self.plain, value_bytes)
    }

    /// Microseconds for an HGET from a bucket of so many entries, with values of so many bytes.
    pub fn bucket_us(&self, field: FieldKind, entries: f64, value_bytes: f64) -> f64 {
        let curves = if field == FieldKind::Int { &self.int_fields } else { &self.bytes_fields };
        let by_value: Vec<_> = curves.iter().map(|(bytes, curve)| (*bytes, interpolate(curve, entries))).collect();
        interpolate(&by_value, value_bytes)
    }
}

/// Between two points on the line, before the first the first, after the last on the last line.
fn interpolate(points: &[(f64, f64)], x: f64) -> f64 {
    let Some(&first) = points.first() else { return 0.0 };
    if x <= first.0 || points.len() < 2 {
        return first.1;
    }
    let after = points.iter().position(|point| point.0 >= x).unwrap_or(points.len() - 1).max(1);
    let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
    // Beyond the last point a line that falls would be noise gone on with.
    let rise = if x > x1 { (y1 - y0).max(0.0) } else { y1 - y0 };
    y1 - rise * (x1 - x) / (x1 - x0)
}

/// One line of the table.
struct Row {
    server: Server,
    field: FieldKind,
    value_bytes: f64,
    entries: f64,
    us: f64,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| MEASURED.lines().filter_map(parse).collect());

fn parse(line: &str) -> Option<Row> {
    let mut cells = line.split('\t');
    let (name, field) = (cells.next()?, cells.next()?);
    let (family, version) = name.split_once(' ')?;
    let family = if family == "redis" { Family::Redis } else { Family::Valkey };
    let (major, minor) = version.split_once('.')?;
    let version = keyfold_core::memory::Version { major: major.parse().ok()?, minor: minor.parse().ok()? };
    let field = if field == "int" { FieldKind::Int } else { FieldKind::Bytes };
    let mut numbers = cells.map(str::parse::<f64>);
    let value_bytes = numbers.next()?.ok()?;
    let value_bytes = if value_bytes == 0.0 { INTEGER_BYTES } else { value_bytes };
    let (entries, us) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(Row { server: Server { family, version }, field, value_bytes, entries, us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = MEASURED.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(ROWS.len(), lines);
        assert!(ROWS.iter().all(|row| row.us > 0.0));
    }

    #[test]
    fn more_entries_and_longer_values_take_longer() {
        for server in [Server::redis(7, 0), Server::redis(8, 0), Server::valkey(9, 1)] {
            let times = ReadTimes::of(server);
            let us = |entries, bytes| times.bucket_us(FieldKind::Int, entries, bytes);
            assert!(us(512.0, 5.0) > 2.0 * us(64.0, 5.0), "{server}");
            assert!(us(128.0, 1500.0) > us(128.0, 5.0), "{server}");
            assert!(us(1000.0, 5.0) > us(512.0, 5.0), "{server}");
            assert!(times.plain_us(5.0) < us(512.0, 5.0), "{server}");
        }
    }

    #[test]
    fn an_unknown_version_takes_the_nearest() {
        let us = |server| ReadTimes::of(server).bucket_us(FieldKind::Bytes, 100.0, 24.0);
        assert_eq!(us(Server::redis(6, 2)), us(Server::redis(7, 0)));
        assert_eq!(us(Server::redis(7, 2)), us(Server::redis(7, 0)));
        assert_eq!(us(Server::valkey(10, 0)), us(Server::valkey(9, 1)));
    }

    #[test]
    fn lines_between_points() {
        let points = [(1.0, 1.0), (2.0, 3.0)];
        assert_eq!([0.0, 1.0, 1.5, 2.0, 3.0].map(|x| interpolate(&points, x)), [1.0, 1.0, 2.0, 3.0, 5.0]);
        assert_eq!(interpolate(&[(1.0, 3.0), (2.0, 2.5)], 5.0), 2.5);
        assert_eq!(interpolate(&[], 1.0), 0.0);
    }
}
