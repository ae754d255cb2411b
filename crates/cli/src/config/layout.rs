//! What `keyfold layout` is to do: files are read here.

use std::path::{Path, PathBuf};

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
    Show(ShowFlags),
    Push(Push),
    Recover(Recover),
}

pub(crate) struct Push {
    pub(crate) target: Target,
    pub(crate) file: LayoutFile,
    pub(crate) key_check: KeyCheck,
    pub(crate) flags: PushFlags,
}

pub(crate) struct Recover {
    pub(crate) target: Target,
    /// What the user knows of the layout.
    pub(crate) given: Option<Given>,
    pub(crate) flags: RecoverFlags,
}

pub(crate) fn resolve(command: LayoutCommand) -> anyhow::Result<LayoutTask> {
    Ok(match command {
        LayoutCommand::Check(CheckFlags { file: path, json, .. }) => {
            let layout = file::alone(&file::read(&path)?)?;
            LayoutTask::Check { path, layout, json }
        }
        LayoutCommand::Show(flags) => LayoutTask::Show(flags),
        LayoutCommand::Push(flags) => LayoutTask::Push(Push {
            target: target::resolve(&flags.upstream),
            file: file::read(&flags.file)?,
            key_check: if flags.skip_key_check { KeyCheck::Skip } else { KeyCheck::Look },
            flags,
        }),
        LayoutCommand::Recover(flags) => LayoutTask::Recover(Recover {
            target: target::resolve(&flags.upstream),
            given: flags.layout.as_deref().map(read_given).transpose()?,
            flags,
        }),
    })
}

/// A layout's file, or the stored form.
fn read_given(path: &Path) -> anyhow::Result<Given> {
    let text = file::text(path)?;
    if let Ok(layout) = Layout::from_stored_with(&text, secrets::given()) {
        return Ok(Given::Stored(Box::new(layout)));
    }
    file::parse(&file::name(path), &text).map(Given::File)
}
