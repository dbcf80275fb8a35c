//! The device and the kernel of a correlation.

use corrust::{Devices, correlate::Kernel};

/// Device and kernel of a correlation.
#[derive(Clone, Debug, clap::Args)]
pub struct DeviceOptions {
    /// Device: auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim; cuda:0,cuda:1, cuda:all or sim,sim:
    /// several GPUs share the channels
    #[arg(long, default_value_t, help_heading = "Device")]
    pub device: Devices,
    #[arg(long, default_value_t = Kernel::Auto, help = kernels(), help_heading = "Device", hide_short_help = true)]
    pub kernel: Kernel,
}

fn kernels() -> String {
    let names: Vec<_> = Kernel::ALL[1..].iter().map(|kernel| kernel.name()).collect();
    format!("auto (the quickest for the recording on the device), {}", names.join(", "))
}
