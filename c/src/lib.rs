//! The C interface of corrust (docs/c.md): `include/corrust.h` is made of this crate by cbindgen.
//!
//! A function checks what it is given, works with a plan of `corrust_host`, and returns a [`border::Status`]; none
//! panics or aborts on bad input. A handle may be used by one thread at a time, whichever; different handles by
//! different threads at once.

// The interface's documentation is the header's; what is safe is said there in C's terms.
#![allow(clippy::missing_safety_doc, reason = "the header says it once for all functions")]

mod autocorrelate;
mod beamform;
mod border;
mod buffer;
mod channelise;
mod correlate;
mod memory;
mod observe;
