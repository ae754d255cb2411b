//! Layouts as `keyfold plan` and `keyfold layout` show them.

use keyfold_core::layout::{Layout, Namespace};
use keyfold_report::room::Room;
use keyfold_report::table::{Column, render};
use serde_json::{Value, json};

/// The namespaces of a layout.
pub(crate) fn namespaces(layout: &Layout, room: Room) -> String {
    let heads = [
        Column::word("names").rank(3),
        Column::name("keys"),
        Column::sentence("placement"),
        Column::number("value limit").rank(1),
        Column::number("field limit").rank(2),
    ];
    let rows = layout.namespaces().iter().map(|namespace| {
        vec![
            namespace.names().unwrap_or_else(|| "–".to_owned()),
            namespace.keys.to_string(),
            namespace.line(),
            namespace.value_limit.to_string(),
            namespace.field_limit.to_string(),
        ]
    });
    render(&heads, rows, room)
}

/// The namespaces of a layout as JSON.
pub(crate) fn namespaces_json(layout: &Layout) -> Value {
    let namespace = |namespace: &Namespace| {
        json!({
            "names": namespace.names(),
            "keys": namespace.keys.source(),
            "placement": namespace.line(),
            "value_limit": namespace.value_limit,
            "field_limit": namespace.field_limit,
        })
    };
    layout.namespaces().iter().map(namespace).collect()
}

/// The moves that have not come to their end, a line for each namespace.
pub(crate) fn open_moves(layout: &Layout) -> Vec<String> {
    let open = layout.moving().filter_map(|namespace| {
        let former = &namespace.former.as_ref()?.placement;
        let (from, is_handmade) = (former.line(namespace.keys.first()), former.handmade().is_some());
        let (keys, to) = (&namespace.keys, namespace.line());
        // Hashes of an application's own are not made again.
        let ends = match is_handmade {
            true => "`keyfold fold --from` ends it, as it was begun",
            false => "`keyfold fold` ends it and `keyfold unfold` takes it back",
        };
        Some(format!(
            "a move of {keys} from {from} to {to} is open: its keys lie in both, as far as it came; unless one is at it, {ends}"
        ))
    });
    open.collect()
}
