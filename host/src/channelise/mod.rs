//! The F-engine: raw voltages to spectra.
//!
//! `X_i[m][k] = g_i[k] exp(2 pi j phi_i[m][k]) sum over n < K P of h[n] x_i[m D + n - s_i[m]]
//! exp(-2 pi j k (m D + n) / K)`: a polyphase filter bank, with delays of whole samples `s` and turns `phi` for
//! the rest.
//!
//! [`Channeliser`] is the plan: it checks shapes, finds where each spectrum is taken from and which are
//! missing, and hands the samples to a backend. The order of every f32 operation is fixed
//! ([`corrust_gpu::abi::channelise`]), so that all backends give the same bits.

pub(crate) mod backend;
pub(crate) mod cpu;
pub(crate) mod delays;
pub(crate) mod engine;
pub(crate) mod gpu;
pub(crate) mod places;
pub(crate) mod plan;
pub(crate) mod prototype;
pub(crate) mod response;
pub(crate) mod shape;
pub(crate) mod spectra;

pub use crate::kernels::channelise::Kernel;
pub use delays::DelayModel;
pub use engine::Engine;
pub use places::MAX_DELAY_SAMPLES;
pub use plan::{Builder, Channeliser};
pub use prototype::{Window, prototype};
pub use response::Response;
pub use shape::{MAX_TAPS, RESIDUES, Shape, SpectrumEncoding};
pub use spectra::{Spectra, SpectraMut};
