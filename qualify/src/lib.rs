//! Qualification of corrust: whether it computes rightly on a device.
//!
//! - [`oracle`]: plain loops that give the right answers. They share no code with the library.
//! - [`plans`]: random plans of every system, run on a device and compared with the CPU or with the plain loops.
//! - [`requirements`]: the requirements of `corrust qualify`, and how each is verified.
//! - [`checks`]: verdicts on the requirements that a device's answers decide.

pub mod checks;
pub mod oracle;
pub mod plans;
pub mod requirements;
