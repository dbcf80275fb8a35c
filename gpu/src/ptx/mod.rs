//! The PTX of every kernel, each a module of its own so that the driver compiles nothing else: output of
//! `build.rs`, or the text shipped in `gpu/ptx` when the sources' hashes match `gpu/ptx/manifest.txt`. Programs
//! carry it compressed, and unpack a kernel when it is first asked for.

extern crate std;

use std::{string::String, sync::OnceLock};

use miniz_oxide::inflate::decompress_to_vec;

use crate::abi::{ENTRIES, Entry};

mod split;

pub use split::split;

/// Every kernel, by name.
static KERNELS: [Kernel; ENTRIES.len()] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

struct Kernel {
    name: &'static str,
    /// File that the build took it from, in the project's folder.
    file: &'static str,
    /// The module as a raw deflate stream.
    packed: &'static [u8],
    text: OnceLock<String>,
}

impl Kernel {
    const fn new(name: &'static str, file: &'static str, packed: &'static [u8]) -> Self {
        Self { name, file, packed, text: OnceLock::new() }
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let text = decompress_to_vec(self.packed).expect("build.rs compressed it");
            String::from_utf8(text).expect("PTX is text")
        })
    }
}

/// The module of one kernel.
///
/// # Panics
/// When the entry is none of [`ENTRIES`].
pub fn of_entry(entry: &Entry) -> &'static str {
    kernel(entry).text()
}

/// File that holds the module of one kernel, in the folder of the project that was built.
///
/// # Panics
/// When the entry is none of [`ENTRIES`].
pub fn file_of(entry: &Entry) -> &'static str {
    kernel(entry).file
}

fn kernel(entry: &Entry) -> &'static Kernel {
    match KERNELS.binary_search_by_key(&entry.name, |kernel| kernel.name) {
        Ok(index) => &KERNELS[index],
        Err(_) => panic!("{} is no kernel of this crate", entry.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Target, autocorrelate, channelise};

    #[test]
    fn a_module_of_one_entry_has_that_entry_alone() {
        for entry in ENTRIES {
            let module = of_entry(entry);
            assert_eq!(module.matches(".entry").count(), 1, "{}", entry.name);
            assert_eq!(module.matches('{').count(), module.matches('}').count());
            assert!(module.starts_with(".version"), "{}", entry.name);
            assert!(!module.contains("//"), "{}", entry.name);
        }
    }

    #[test]
    fn a_module_of_several_kernels_is_taken_apart() {
        let [first, second, ..] = ENTRIES else { panic!("there are kernels") };
        let [one, two] = [of_entry(first), of_entry(second)];
        let body = two.find(".visible").expect("a kernel");
        let whole: String = [one, &two[body..]].concat();
        let parts = split(&whole);
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[0].0, parts[0].1.as_str()), (first.name, one));
        assert_eq!(parts[1].0, second.name);
        assert!(parts[1].1.ends_with(&two[body..]));
    }

    #[test]
    fn a_kernel_has_the_variables_that_it_names() {
        let module = "// by hand\n.version 7.1\n.target sm_80\n.address_size 64\n\n\
                      .global .align 4 .b8 mine[4] = {1, 2, 3, 4};\n\
                      .global .align 4 .b8 yours[4];\n\
                      .func help()\n{\n\tret;\n}\n\
                      .visible .entry a()\n{\n\tmov.u64 %rd1, mine;\n\tret;\n}\n\
                      .entry b(\n\t.param .u64 b_param_0\n)\n{\n\tret;\n}\n";
        let parts = split(module);
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[0].0, parts[1].0), ("a", "b"));
        assert!(parts[0].1.starts_with(".version 7.1\n.target sm_80\n.address_size 64\n.global"));
        assert!(parts[0].1.contains("mine[4]") && !parts[0].1.contains("yours"));
        assert!(!parts[1].1.contains(".global"));
        assert!(parts.iter().all(|(_, text)| text.contains("help()")));
    }

    #[test]
    fn every_kernel_fits_the_gpus_that_it_is_for() {
        for (index, entry) in ENTRIES.iter().enumerate() {
            // The least that a GPU of the target has: 8.6 and 8.9, and 9.0. One kernel is for those with
            // as much as 8.0 has, some are for those with as much as 9.0; the host takes another where there is less.
            let large = entry.name == autocorrelate::COUNTS.entry.name;
            let split = channelise::SPLIT_OF
                .iter()
                .any(|(_, kernels)| kernels.iter().any(|kernel| kernel.entry.name == entry.name));
            let (shared_bytes, threads) = match entry.target {
                Target::Sm80 if large => (163 << 10, 1536),
                Target::Sm80 if split => (227 << 10, 1536),
                Target::Sm80 => (99 << 10, 1536),
                Target::Sm90a => (227 << 10, 2048),
            };
            assert!(entry.shared_bytes <= shared_bytes, "{entry:?}");
            assert!(entry.threads * entry.min_blocks <= threads, "{entry:?}");
            assert!(entry.threads <= 1024 && entry.threads % 32 == 0, "{entry:?}");
            assert!(ENTRIES[..index].iter().all(|other| other.name != entry.name), "{entry:?}");
        }
    }
}
