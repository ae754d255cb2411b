//! What `keyfold layout` is to do: files are read here.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use keyfold_core::codec::Kinds;
use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_server::Target;
use keyfold_server::secrets;

use super::target;
use crate::flags::layout::{CheckFlags, LayoutCommand, PushFlags, RecoverFlags, ShowFlags};
use crate::layout::evidence::Given;
use crate::layout::file;
use crate::moving::KeyCheck;

pub(crate) enum LayoutTask {
    Check { path: PathBuf, layout: Layout, json: bool },
    Show { target: Target, form: Form },
    Push(Push),
    Recover(Recover),
}

/// How a layout is shown.
pub(crate) enum Form {
    Table,
    /// As a file to change.
    File,
    /// As the server holds it.
    Toml,
    Json,
}

pub(crate) struct Push {
    pub(crate) target: Target,
    pub(crate) file: LayoutFile,
    pub(crate) key_check: KeyCheck,
    pub(crate) assumed: Vec<(String, u64)>,
    pub(crate) json: bool,
}

pub(crate) struct Recover {
    pub(crate) target: Target,
    /// What the user knows of the layout.
    pub(crate) given: Option<Given>,
    pub(crate) dry_run: bool,
    pub(crate) max_ops: Option<NonZero<u32>>,
    pub(crate) json: bool,
}

pub(crate) fn resolve(command: LayoutCommand) -> anyhow::Result<LayoutTask> {
    Ok(match command {
        LayoutCommand::Check(CheckFlags { file: path, json }) => {
            let layout = file::alone(&file::read(&path)?)?;
            LayoutTask::Check { path, layout, json }
        }
        LayoutCommand::Show(ShowFlags { upstream, file, toml, json }) => {
            let form = match (file, toml, json) {
                (true, ..) => Form::File,
                (_, true, _) => Form::Toml,
                (.., true) => Form::Json,
                _ => Form::Table,
            };
            LayoutTask::Show { target: target::resolve(upstream), form }
        }
        LayoutCommand::Push(PushFlags { file, upstream, skip_key_check, settings, json }) => LayoutTask::Push(Push {
            target: target::resolve(upstream),
            file: file::read(&file)?,
            key_check: if skip_key_check { KeyCheck::Skip } else { KeyCheck::Look },
            assumed: settings.assume,
            json,
        }),
        LayoutCommand::Recover(RecoverFlags { upstream, layout, dry_run, pace, json }) => {
            LayoutTask::Recover(Recover {
                target: target::resolve(upstream),
                given: layout.as_deref().map(read_given).transpose()?,
                dry_run,
                max_ops: pace.max_ops,
                json,
            })
        }
    })
}

/// A layout's file, or the stored form.
fn read_given(path: &Path) -> anyhow::Result<Given> {
    let text = fs::read_to_string(path).with_context(|| format!("can't read the layout {}", path.display()))?;
    if let Ok(layout) = Layout::from_stored_with(&text, secrets::given()) {
        return Ok(Given::Stored(Box::new(layout)));
    }
    let parsed = LayoutFile::parse_with(&text, &Kinds::default(), secrets::given());
    parsed.map(Given::File).map_err(|error| anyhow!("{}", file::show(&path.display().to_string(), &text, &error)))
}
