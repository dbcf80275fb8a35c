//! A kernel as the host launches it: entry, target, block, and the macros that declare kernels and their parameters.

use core::marker::PhantomData;

/// The PTX module that holds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any GPU of compute capability 8.0 or later.
    Sm80,
    /// Hopper only (compute capability 9.0).
    Sm90a,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 2] = [Self::Sm80, Self::Sm90a];

    /// The compiler's name of the target.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm90a => "sm_90a",
        }
    }
}

/// A field of a parameter struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in the struct.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u32,
}

/// A struct that `parameters!` declares.
pub trait Parameters: Copy {
    /// Its fields, without gaps between them.
    const FIELDS: &'static [Field];
}

/// A kernel, without the type of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the PTX entry.
    pub name: &'static str,
    /// Module that holds it.
    pub target: Target,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of one multiprocessor that the register budget must allow.
    pub min_blocks: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Blocks of a cluster, which reach each other's shared memory; the grid is a multiple of it. 1: no clusters.
    pub cluster: u32,
    /// Most wavefronts of shared memory that a statement takes for each that it would take without bank conflicts, in
    /// any launch. 1: no conflicts.
    pub conflicts: u32,
    /// Most sectors of global memory that a load takes for each that its bytes would fill side by side, in any launch.
    pub sectors: u32,
    /// Fields of the parameters.
    pub fields: &'static [Field],
}

/// Most threads of a block.
const MOST_THREADS: u32 = 1024;
/// Most threads of a multiprocessor.
const MOST_RESIDENT: u32 = 2048;
/// Most bytes of dynamic shared memory of a block, on Hopper.
const MOST_SHARED: u32 = 227 << 10;
/// Most blocks of a cluster that every GPU with clusters has.
const MOST_CLUSTER: u32 = 8;

/// Sectors of a load in place of one where nothing is declared: an access of any address is one more than its bytes fill.
const SECTORS: u32 = 2;

/// A kernel that takes `P`.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<P> {
    /// The kernel without its parameter type.
    pub entry: Entry,
    parameters: PhantomData<fn(P)>,
}

impl<P: Parameters> Kernel<P> {
    /// Describes a kernel of [`Target::Sm80`] with no dynamic shared memory.
    pub const fn new(name: &'static str, threads: u32) -> Self {
        assert!(threads >= 1 && threads <= MOST_THREADS, "a block has 1 to 1024 threads");
        let entry = Entry {
            name,
            target: Target::Sm80,
            threads,
            min_blocks: 1,
            shared_bytes: 0,
            cluster: 1,
            conflicts: 1,
            sectors: SECTORS,
            fields: P::FIELDS,
        };
        Self { entry, parameters: PhantomData }
    }
}

impl<P> Kernel<P> {
    /// The kernel without its parameter type.
    pub const fn entry(&self) -> Entry {
        self.entry
    }

    /// The same kernel in the module of `target`.
    pub const fn target(mut self, target: Target) -> Self {
        self.entry.target = target;
        self
    }

    /// The same kernel with registers for `blocks` blocks on a multiprocessor.
    pub const fn min_blocks(mut self, blocks: u32) -> Self {
        assert!(
            blocks >= 1 && self.entry.threads * blocks <= MOST_RESIDENT,
            "a multiprocessor holds 2048 threads of min_blocks"
        );
        self.entry.min_blocks = blocks;
        self
    }

    /// The same kernel in blocks of `threads` threads, as many as it is declared with or fewer.
    pub const fn threads(mut self, threads: u32) -> Self {
        self.entry.threads = threads;
        self
    }

    /// The same kernel in clusters of `blocks` blocks.
    pub const fn cluster(mut self, blocks: u32) -> Self {
        assert!(blocks >= 1 && blocks <= MOST_CLUSTER, "a cluster has 1 to 8 blocks");
        self.entry.cluster = blocks;
        self
    }

    /// The same kernel, of which a statement takes up to `ways` wavefronts of shared memory in place of one.
    pub const fn conflicts(mut self, ways: u32) -> Self {
        self.entry.conflicts = ways;
        self
    }

    /// The same kernel, of which a load takes up to `times` the sectors of global memory that its bytes would fill.
    pub const fn sectors(mut self, times: u32) -> Self {
        self.entry.sectors = times;
        self
    }

    /// The same kernel with `bytes` of dynamic shared memory.
    pub const fn shared_bytes(mut self, bytes: u32) -> Self {
        assert!(bytes <= MOST_SHARED, "a block has 227 KiB of dynamic shared memory at most");
        self.entry.shared_bytes = bytes;
        self
    }
}

/// Declares kernels: a list's name, then constants that have an entry, each with its documentation. A kernel
/// that is not declared here is not built.
macro_rules! kernels {
    ($list:ident: $($(#[$attribute:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $(
            $(#[$attribute])*
            pub const $name: $type = $value;
        )*
        const $list: &[Entry] = &[$($name.entry()),*];
    };
}
pub(crate) use kernels;

/// Derives what parameter structs need: plain bytes on the host. A struct with gaps between its fields is refused by its
/// name.
macro_rules! parameters {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $($(#[$of_field:meta])* $shown:vis $field:ident: $type:ty,)*
    }) => {
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
        $visibility struct $name { $($(#[$of_field])* $shown $field: $type,)* }

        impl crate::abi::entry::Parameters for $name {
            const FIELDS: &'static [crate::abi::entry::Field] = &[
                $(crate::abi::entry::Field {
                    name: stringify!($field),
                    bytes: size_of::<$type>() as u32,
                },)*
            ];
        }

        const _: () = assert!(
            size_of::<$name>() == 0 $(+ size_of::<$type>())*,
            concat!("parameters ", stringify!($name), " have a gap: fill it with a field `reserved`")
        );
    };
}
pub(crate) use parameters;
