//! The letters of drawings: plotters measures text by them, and paints it where the drawing is one of pixels.
//!
//! They come with the program, so that a drawing looks alike on every machine and none of the system's is needed. The
//! crate that they come from holds fonts and neither code nor dependencies.

use std::sync::Once;

use plotters::style::{FontStyle, register_font};

static REGISTERED: Once = Once::new();

/// Makes the letters known to plotters as its `sans-serif`. Call before anything is drawn.
pub(crate) fn register() {
    REGISTERED.call_once(|| {
        let known = register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
        debug_assert!(known.is_ok(), "a font that comes with the program");
    });
}
