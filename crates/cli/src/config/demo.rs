//! `keyfold demo`: flags and files to data sets, each with the layout that folds it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_lab::data_sets::records::{self, DataSet};
use keyfold_lab::data_sets::{layouts, seeded};

use crate::flags::demo::DemoFlags;
use crate::layout::file;

/// Records of each data set of the story: all lie on one server.
const STORY_RECORDS: usize = 150_000;

/// Records of each data set that the demo makes up: enough that the server's fixed costs don't show, and few
/// enough that all is over within a minute.
const SEEDED_RECORDS: usize = 200_000;

/// All that a demo takes.
pub(crate) struct Demo {
    pub(crate) sets: Vec<(DataSet, Layout)>,
    pub(crate) server: Option<PathBuf>,
    /// The story is that of a cluster.
    pub(crate) cluster: bool,
    /// Where the story's page goes; none where the sets are measured apart.
    pub(crate) story: Option<PathBuf>,
    /// Where what was measured is drawn.
    pub(crate) plot: Option<PathBuf>,
    pub(crate) json: bool,
}

pub(crate) fn resolve(flags: DemoFlags) -> anyhow::Result<Demo> {
    let given = match &flags.layout {
        Some(path) => Some(file::alone(&file::read(path)?)?),
        None => None,
    };
    let sets = if flags.data.is_empty() {
        let made_up = if flags.measure { SEEDED_RECORDS } else { STORY_RECORDS };
        let records = flags.records.map_or(made_up, Into::into);
        seeded::sets(records).into_iter().map(|(set, text)| Ok((set, Layout::parse_file(&text)?))).collect()
    } else {
        let limit = flags.records.map_or(usize::MAX, Into::into);
        flags.data.iter().map(|path| from_file(path, limit, given.is_some())).collect::<anyhow::Result<Vec<_>>>()
    };
    let sets = sets?.into_iter().map(|(set, layout)| (set, given.clone().unwrap_or(layout))).collect();
    let story = (!flags.measure).then_some(flags.html);
    Ok(Demo { sets, server: flags.server, cluster: flags.cluster, story, plot: flags.plot, json: flags.json })
}

/// The records of a file, and the layout for them unless one is given.
fn from_file(path: &Path, limit: usize, given: bool) -> anyhow::Result<(DataSet, Layout)> {
    let set = records::read(path, limit).with_context(|| format!("can't read records from {}", path.display()))?;
    if given {
        return Ok((set, Layout::default()));
    }
    let text = layouts::bundled(&set.name).map_or_else(|| layouts::derive(&set), str::to_owned);
    let layout = Layout::parse_file(&text).with_context(|| format!("the layout derived for {}:\n{text}", set.name))?;
    Ok((set, layout))
}
