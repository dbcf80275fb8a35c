//! The F-engine on a GPU.

mod backend;
mod choose;
mod seam;
mod view;

pub(super) use backend::GpuBackend;
