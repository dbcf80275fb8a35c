//! Pictures: canvases, charts, fringes.

pub mod canvas;
pub mod chart;
pub mod fits;
pub mod fringes;
pub mod heat;
pub mod maps;
pub mod measured;
pub mod plot;
pub mod powers;
