//! GPUs, disks, memory and inputs that fail.

mod broken;
mod failing_gpu;
mod hostile;
#[path = "../support/mod.rs"]
mod support;
