//! The layout that lies in a dump among the keys that are folded by it.

use keyfold_core::admin::{COPY_KEY, LAYOUT_KEY};
use keyfold_core::change::{Register, Standing};
use keyfold_core::layout::Layout;
use keyfold_core::placement::name::DATA_PREFIX;
use keyfold_rdb::{DumpError, Value};
use keyfold_server::secrets;

use super::input::{self, AnyDump};
use crate::origin::place::DumpPlace;

/// Whether keyfold may have written this key for its clients: then there is a layout.
pub(super) fn is_folded(key: &[u8]) -> bool {
    key.first() == Some(&DATA_PREFIX) || key == LAYOUT_KEY
}

/// Looks for the layout through the whole dump; none where there is none, or why it can't be used.
pub(super) fn find(place: &DumpPlace) -> anyhow::Result<Result<Option<Layout>, String>> {
    let mut dump = input::open(place)?.dump;
    let mut register = Register::default();
    // What is damaged behind it is said of the walk.
    let _ = read(&mut dump, &mut register);
    Ok(match register.standing(secrets::given()) {
        Standing::InForce(layout) | Standing::Half(layout) => Ok(Some(layout)),
        Standing::Lost(None) => Ok(None),
        Standing::Lost(Some(why)) | Standing::Unclear(why) | Standing::OtherVersion(why) => Err(why),
        Standing::Parted(_) => Err("its two copies differ".to_owned()),
    })
}

fn read(dump: &mut AnyDump, register: &mut Register) -> Result<(), DumpError> {
    while register.layout.is_none() || register.copy.is_none() {
        let Some(key) = dump.next_key()? else { break };
        let half = match key.key.as_slice() {
            LAYOUT_KEY => &mut register.layout,
            COPY_KEY => &mut register.copy,
            _ => continue,
        };
        if let (0, Some(Value::String(text))) = (key.database, dump.value(usize::MAX, &mut |_| ())?) {
            *half = Some(text.head);
        }
    }
    Ok(())
}
