//! Bank conflicts of the kernels that have run on simulators.

use corrust_gpu::abi::ENTRIES;
use corrust_host::device;

/// Panics if a statement of a kernel that ran on device `sim` had more bank conflicts than the kernel's declaration
/// states.
pub fn check() {
    let mut worse = Vec::new();
    for (name, report) in device::reports() {
        let entry = ENTRIES.iter().find(|entry| entry.name == name).expect("a kernel of ours");
        let ways = |counts: &ptx_sim::Counts| counts.wavefronts.div_ceil(counts.ideal_wavefronts);
        let worst = report.bank_conflicts().max_by_key(|site| ways(&site.counts));
        if let Some(site) = worst.filter(|site| ways(&site.counts) > u64::from(entry.conflicts)) {
            worse.push(format!(
                "{name}, PTX line {}, `{}`: {} wavefronts of shared memory where {} would do without bank conflicts: \
                 expected {} times as many at most, as gpu/src/abi declares (`conflicts`)",
                site.line,
                site.text,
                site.counts.wavefronts,
                site.counts.ideal_wavefronts,
                entry.conflicts
            ));
        }
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}
