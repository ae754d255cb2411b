//! Tables: which columns there are, how much each matters, and what rows are sorted by.

use std::cmp::Ordering;

use keyfold_report::number::{bytes, count, decimals};
use keyfold_report::table::Column;

use super::figures::{duration, percent};
use super::names::width;
use super::view::{NamespaceRow, SourceRow, View};

/// What isn't known.
const NONE: &str = "–";

/// A name is never shown in less room than this, where other columns can give it; on a wide screen in no less than three
/// tenths of it.
const LEAST_NAME: usize = 16;

/// Between two columns.
pub(super) const GAP: usize = 2;

/// A table whose first column is a name.
pub(super) struct Grid {
    pub(super) heads: Vec<&'static str>,
    /// By how much each matters; the first is always shown.
    importance: Vec<usize>,
    pub(super) rows: Vec<Vec<String>>,
}

keyfold_core::named! {
    /// What is said of a namespace beside its name, in the order of the columns.
    pub(super) enum By {
        Rate = "cmd/s",
        Saved = "saved",
        Hits = "hits",
        Keys = "keys",
        Fill = "a bucket",
        Packed = "packed",
        Reads = "reads",
        Found = "found",
        Misses = "misses",
        Writes = "writes",
        Spills = "spills",
    }
}

/// How rows are sorted: none is by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) by: Option<By>,
    /// The least first.
    pub(super) ascending: bool,
}

impl Default for Sort {
    fn default() -> Self {
        Self { by: Some(By::Rate), ascending: false }
    }
}

impl Sort {
    /// By the column so many further to the right.
    pub(super) fn moved(self, right: bool) -> Self {
        let all = By::ALL.len() + 1;
        let at = self.by.map_or(0, |by| by as usize + 1);
        let next = if right { (at + 1) % all } else { (at + all - 1) % all };
        let by = next.checked_sub(1).map(|index| By::ALL[index]);
        Self { by, ascending: by.is_none() }
    }

    /// The name of the column.
    pub(super) fn name(self) -> &'static str {
        self.by.map_or("keys of", By::name)
    }
}

impl By {
    /// From 0, which matters most.
    fn importance(self) -> usize {
        match self {
            Self::Rate => 0,
            Self::Saved => 1,
            Self::Hits => 2,
            Self::Keys => 3,
            Self::Writes => 4,
            Self::Reads => 5,
            Self::Fill => 6,
            Self::Misses => 7,
            Self::Packed => 8,
            Self::Spills => 9,
            Self::Found => 10,
        }
    }

    fn number(self, row: &NamespaceRow) -> Option<f64> {
        match self {
            Self::Rate => row.per_second,
            Self::Saved => row.saved_bytes,
            Self::Hits => row.hit_ratio(),
            Self::Keys => row.count,
            Self::Fill => row.fill(),
            Self::Packed => row.packed(),
            Self::Reads => Some(row.reads as f64),
            Self::Found => Some(row.hits as f64),
            Self::Misses => Some(row.misses as f64),
            Self::Writes => Some(row.writes as f64),
            Self::Spills => Some(row.spills as f64),
        }
    }

    fn text(self, row: &NamespaceRow) -> String {
        match self {
            Self::Reads => return count(row.reads),
            Self::Found => return count(row.hits),
            Self::Misses => return count(row.misses),
            Self::Writes => return count(row.writes),
            Self::Spills => return count(row.spills),
            _ => {}
        }
        let Some(number) = self.number(row) else { return NONE.to_owned() };
        match self {
            Self::Saved => bytes(number),
            Self::Hits | Self::Packed => percent(number),
            Self::Fill => decimals(number, 1),
            _ => decimals(number, 0),
        }
    }
}

/// The namespaces of a view, sorted.
pub(super) fn namespaces(view: &View, sort: Sort) -> Grid {
    let mut rows: Vec<&NamespaceRow> = view.namespaces.iter().collect();
    rows.sort_by(|one, other| {
        let by_number = sort.by.map_or(Ordering::Equal, |by| {
            let number = |row| by.number(row).unwrap_or(f64::NEG_INFINITY);
            number(one).total_cmp(&number(other))
        });
        let (number, name) = (by_number, one.keys.cmp(&other.keys));
        match (sort.by, sort.ascending) {
            (None, false) => name.reverse(),
            (None, true) => name,
            (Some(_), true) => number.then(name),
            (Some(_), false) => number.reverse().then(name),
        }
    });
    let row = |row: &NamespaceRow| {
        let moving = if row.is_moving { " (moving)" } else { "" };
        let name = format!("{}{moving}", row.keys);
        std::iter::once(name).chain(By::ALL.map(|by| by.text(row))).collect()
    };
    Grid {
        heads: std::iter::once("keys of").chain(By::ALL.map(By::name)).collect(),
        importance: By::ALL.map(By::importance).to_vec(),
        rows: rows.into_iter().map(row).collect(),
    }
}

/// The keyfolds and servers of a view.
pub(super) fn sources(view: &View) -> Grid {
    let known = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let row = |row: &SourceRow| {
        let traffic = &row.traffic;
        vec![
            row.name.clone(),
            row.state.clone(),
            known(traffic.per_second.map(|rate| decimals(rate, 0))),
            known(traffic.p50_us.map(duration)),
            known(traffic.p99_us.map(duration)),
            known(traffic.hit_ratio.map(percent)),
            known(row.saved_bytes.map(bytes)),
            known(row.clients.map(count)),
            known(row.requests.map(count)),
        ]
    };
    Grid {
        heads: vec!["keyfold or server", "state", "cmd/s", "p50", "p99", "hits", "saved", "clients", "requests"],
        importance: vec![1, 0, 5, 2, 4, 3, 6, 7],
        rows: view.sources.iter().map(row).collect(),
    }
}

impl Grid {
    /// As the columns of a table of text.
    pub(super) fn columns(&self) -> impl Iterator<Item = Column<'static>> {
        self.heads.iter().enumerate().map(|(at, head)| match at.checked_sub(1).map(|at| self.importance[at]) {
            None => Column::name(head),
            Some(importance) => {
                // Here 0 is what matters most; of a table's columns it is what never goes.
                let rank = u8::try_from(importance + 1).unwrap_or(u8::MAX);
                if *head == "state" { Column::word(head).rank(rank) } else { Column::number(head).rank(rank) }
            }
        })
    }

    /// Which columns are shown within so much room, with the width of each: those that matter least are left out first,
    /// and the name takes what is left.
    pub(super) fn fit(&self, room: usize) -> Vec<(usize, usize)> {
        let widest = |column: usize| {
            let cells = self.rows.iter().map(|row| width(&row[column]));
            cells.chain([width(self.heads[column])]).max().unwrap_or(0)
        };
        let name = widest(0);
        let mut order: Vec<usize> = (1..self.heads.len()).collect();
        order.sort_by_key(|column| self.importance[column - 1]);
        let (mut shown, mut taken) = (vec![], name.min(LEAST_NAME.max(room * 3 / 10)));
        for column in order {
            let more = widest(column) + GAP;
            if taken + more > room {
                break;
            }
            taken += more;
            shown.push((column, widest(column)));
        }
        shown.sort_unstable();
        let others: usize = shown.iter().map(|(_, width)| width + GAP).sum();
        shown.insert(0, (0, name.min(room.saturating_sub(others))));
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_to_sort_by_goes_round_both_ways() {
        let (mut right, mut left) = (Sort::default(), Sort::default());
        let mut seen = Vec::new();
        for _ in 0..=By::ALL.len() {
            seen.push(right.by);
            right = right.moved(true);
            left = left.moved(false);
        }
        assert_eq!((right, left), (Sort::default(), Sort::default()));
        seen.dedup();
        assert_eq!(seen.len(), By::ALL.len() + 1);
    }

    #[test]
    fn each_column_matters_otherwise() {
        let mut importance = By::ALL.map(By::importance);
        importance.sort_unstable();
        assert!(importance.iter().enumerate().all(|(index, one)| index == *one));
    }
}
