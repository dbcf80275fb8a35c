//! Ways of samples to devices, the same for all systems, and the division of work among several GPUs.

pub(crate) mod feeder;
pub(crate) mod fill;
pub(crate) mod maps;
pub(crate) mod parts;
