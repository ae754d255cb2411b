//! The server's own copy of the layout.

use anyhow::bail;
use keyfold_core::admin::{COPY_KEY, LAYOUT_KEY};
use keyfold_core::change::{Register, Standing};
use keyfold_core::layout::Layout;

use super::dictionaries;
use crate::connection::Server;
use crate::secrets;

/// What the server holds: the text, and the layout it is. None where it holds none.
pub struct Stored {
    /// As it lies under its key.
    pub text: String,
    /// What it says, with its codecs open.
    pub layout: Layout,
}

/// The register with its copy. Leaves the connection in database 0.
pub fn register(server: &mut Server) -> anyhow::Result<Register> {
    server.select(0)?;
    let (layout, copy) = server.ask(&[b"MGET", LAYOUT_KEY, COPY_KEY])?;
    Ok(Register { layout, copy })
}

/// Reads the server's layout. Leaves the connection in database 0.
pub fn read(server: &mut Server) -> anyhow::Result<Option<Stored>> {
    let register = register(server)?;
    read_from(&register, server)
}

/// The same of a register that was read.
pub(super) fn read_from(register: &Register, server: &mut Server) -> anyhow::Result<Option<Stored>> {
    let recover = format!("`keyfold layout recover {}` says what is there, and restores it", server.address());
    let layout = match register.standing(secrets::given()) {
        Standing::InForce(layout) | Standing::Half(layout) => layout,
        Standing::Lost(None) => return Ok(None),
        Standing::Lost(Some(why)) => bail!("the server's own layout can't be read: {why}; {recover}"),
        Standing::Parted(_) => bail!(
            "the server's keyfold:{{home}}:layout and keyfold:{{home}}:layout:copy differ: one of them was changed past keyfold; {recover}"
        ),
        Standing::Unclear(why) => {
            bail!("the server's keyfold:{{home}}:layout and keyfold:{{home}}:layout:copy differ: {why}; {recover}")
        }
        Standing::OtherVersion(why) => {
            bail!(
                "another version of keyfold wrote the server's layout, or it takes a secret; it is left as it is: {why}"
            )
        }
    };
    let text = layout.to_stored();
    let layout = dictionaries::open(server, layout)?;
    Ok(Some(Stored { text, layout }))
}
