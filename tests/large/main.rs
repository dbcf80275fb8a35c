//! Large sizes on a GPU, and random plans for some time.

mod sizes;
mod soak;
#[path = "../support/mod.rs"]
mod support;
