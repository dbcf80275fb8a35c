//! Kernels of a crate in Rust, for tests: compiled to PTX by the rustc that runs the tests, then launched here.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::Error,
    machine::{Launch, launch},
    memory::Memory,
    module::Module,
    report::Report,
};

/// Variable that gives cargo another folder of the standard library's sources than the toolchain's.
const SOURCE_ROOT: &str = "__CARGO_TESTS_ONLY_SRC_ROOT";
/// Target of rustc for NVIDIA's GPUs.
const TRIPLE: &str = "nvptx64-nvidia-cuda";
/// Line of the PTX after which declarations may stand.
const HEADER: &str = ".address_size 64";

/// Crate whose library has kernels, and how it is compiled to PTX.
///
/// The compiler is the stable rustc that compiles the tests, with its unstable features switched on. It needs the sources
/// of `core`: of the component `rust-src`, or in a folder `.rust-src/library` beside the crate or above it.
///
/// ```no_run
/// use ptx_sim::RustKernels;
///
/// let kernels = RustKernels::new(env!("CARGO_MANIFEST_DIR")).compile()?;
/// let done = kernels
///     .launch("add")
///     .grid(2)
///     .block(128)
///     .buffer(&[1.0f32; 200])
///     .buffer(&[2.0f32; 200])
///     .value(200u32)
///     .run()?;
/// assert_eq!(done.buffer::<f32>(1), [3.0; 200]);
/// # Ok::<(), ptx_sim::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RustKernels {
    package: PathBuf,
    chip: String,
    ptx_version: u32,
    flags: Vec<String>,
    threads: Vec<(String, u32)>,
    builds: Option<PathBuf>,
}

impl RustKernels {
    /// Kernels of the crate in the folder `package`, for `sm_80` and PTX 7.1.
    pub fn new(package: impl Into<PathBuf>) -> Self {
        Self {
            package: package.into(),
            chip: "sm_80".to_owned(),
            ptx_version: 71,
            flags: Vec::new(),
            threads: Vec::new(),
            builds: None,
        }
    }

    /// Architecture and version of PTX: `target("sm_90a", 80)` is PTX 8.0.
    #[must_use]
    pub fn target(mut self, chip: &str, ptx_version: u32) -> Self {
        (self.chip, self.ptx_version) = (chip.to_owned(), ptx_version);
        self
    }

    /// A further argument of rustc, for the crate and what it depends on: `--cfg=short`.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Most threads of a block of the kernel `entry` (`.maxntid`; `__launch_bounds__` in CUDA C), which Rust cannot say: the
    /// assembler gives them as many registers as there are, and no launch may have more.
    #[must_use]
    pub fn max_threads(mut self, entry: &str, threads: u32) -> Self {
        self.threads.push((entry.to_owned(), threads));
        self
    }

    /// Folder of what is built, in place of `ptx/` in the target folder of the running test.
    #[must_use]
    pub fn builds(mut self, folder: impl Into<PathBuf>) -> Self {
        self.builds = Some(folder.into());
        self
    }

    /// Compiles the library of the crate and decodes its kernels. Where nothing changed, that takes as long as cargo takes to
    /// see it.
    ///
    /// The PTX is optimised, has the lines of the sources, and declares `dynamic_shared`, the block's dynamic shared memory,
    /// aligned to 1024 bytes, unless the crate does. It is left in `CRATE/CHIP/kernels.ptx` of the folder of what is built, for a
    /// program that launches it on a GPU.
    ///
    /// # Errors
    /// [`Error::Build`] with the sources of `core` that are missing or with the compiler's messages; [`Error::Syntax`] and
    /// [`Error::Unsupported`] where the simulator cannot run the PTX of any kernel.
    pub fn compile(&self) -> Result<Kernels, Error> {
        Kernels::from_ptx(self.build().map_err(Error::Build)?)
    }

    fn build(&self) -> Result<String, String> {
        let package = fs::canonicalize(&self.package)
            .map_err(|error| format!("{}: {error}", self.package.display()))?;
        let core = core_sources(&package)?;
        let builds = match &self.builds {
            Some(folder) => folder.clone(),
            None => default_builds()?,
        };
        let name = package.file_name().map(|name| name.to_string_lossy().into_owned());
        let builds = builds.join(name.unwrap_or_default()).join(&self.chip);
        let failed = |path: &Path, error: &std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&builds).map_err(|error| failed(&builds, &error))?;
        let builds = fs::canonicalize(&builds).map_err(|error| failed(&builds, &error))?;
        // Tests run side by side, and each may ask.
        let lock = builds.join("lock");
        let lock = File::create(&lock)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| failed(&lock, &error))?;
        let compiled = builds.join("compiled.s");
        let mut emit = OsString::from("asm=");
        emit.push(&compiled);
        let mut command = Command::new(program("CARGO", "cargo"));
        for (name, _) in env::vars_os() {
            if is_of_build(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        let mut flags = vec![
            format!("-Ctarget-cpu={}", self.chip),
            format!("-Ctarget-feature=+ptx{}", self.ptx_version),
            // The PTX is taken from the compiler; there is nothing to link.
            "-Clinker=true".to_owned(),
        ];
        flags.extend_from_slice(&self.flags);
        command
            .args(["rustc", "--quiet", "--lib", "--release", "--crate-type", "cdylib"])
            .args(["--target", TRIPLE, "-Zbuild-std=core", "--manifest-path"])
            .arg(package.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&builds)
            .args(["--", "--emit"])
            .arg(emit)
            .env("RUSTC_BOOTSTRAP", "1")
            .env(SOURCE_ROOT, core)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
            .env("CARGO_PROFILE_RELEASE_LTO", "fat")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
            .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "line-directives-only");
        let output = command.output().map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "compiling {} for {} failed:\n{}",
                package.display(),
                self.chip,
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        let text = fs::read_to_string(&compiled).map_err(|error| failed(&compiled, &error))?;
        let bounded = self
            .threads
            .iter()
            .try_fold(text, |text, (entry, threads)| with_max_threads(&text, entry, *threads));
        let text = bounded.map(with_dynamic_shared)?;
        let ptx = builds.join("kernels.ptx");
        fs::write(&ptx, &text).map_err(|error| failed(&ptx, &error))?;
        drop(lock);
        Ok(text)
    }
}

/// Decoded kernels, ready to be launched.
#[derive(Debug)]
pub struct Kernels {
    text: String,
    module: Module,
}

impl Kernels {
    /// Decodes the kernels of a PTX module.
    ///
    /// # Errors
    /// [`Error::Syntax`] and [`Error::Unsupported`] where the simulator cannot run the PTX of any kernel.
    pub fn from_ptx(text: impl Into<String>) -> Result<Self, Error> {
        let text = text.into();
        let module = Module::parse(&text)?;
        if let Some((_, error)) = module.refused().next() {
            return Err(error.clone());
        }
        Ok(Self { text, module })
    }

    /// Their PTX.
    pub fn ptx(&self) -> &str {
        &self.text
    }

    /// Their module, for [`launch`](crate::launch()) and [`sample`](crate::sample).
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Begins a launch of the kernel `entry`: one block of 32 threads until told otherwise.
    pub fn launch<'a>(&'a self, entry: &'a str) -> Run<'a> {
        Run {
            kernels: self,
            entry,
            grid: [1, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            memory: Memory::new(),
            parameters: Vec::new(),
            buffers: Vec::new(),
        }
    }
}

/// Launch that is being described; parameters come in the kernel's order.
#[derive(Debug)]
#[must_use = "`run` launches it"]
pub struct Run<'a> {
    kernels: &'a Kernels,
    entry: &'a str,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    memory: Memory,
    parameters: Vec<Vec<u8>>,
    buffers: Vec<(u64, Result<usize, Error>)>,
}

impl Run<'_> {
    /// Blocks along x.
    pub fn grid(self, blocks: u32) -> Self {
        self.grid_3d([blocks, 1, 1])
    }

    /// Blocks along x, y, z.
    pub fn grid_3d(mut self, blocks: [u32; 3]) -> Self {
        self.grid = blocks;
        self
    }

    /// Threads of a block along x.
    pub fn block(self, threads: u32) -> Self {
        self.block_3d([threads, 1, 1])
    }

    /// Threads of a block along x, y, z.
    pub fn block_3d(mut self, threads: [u32; 3]) -> Self {
        self.block = threads;
        self
    }

    /// Bytes of dynamic shared memory of a block.
    pub fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// Parameter that points to a copy of these numbers in device memory. A kernel may change them:
    /// [`Done::buffer`].
    pub fn buffer<T: Number>(mut self, numbers: &[T]) -> Self {
        let bytes = bytes_of(numbers);
        let address = self.memory.alloc(bytes.len() as u64);
        let written = self.memory.write(address, &bytes).map(|()| bytes.len());
        self.buffers.push((address, written));
        self.value(address)
    }

    /// Device memory of the launch, for data that a parameter does not point to directly: a table of pointers, or a
    /// [`TensorMap`](crate::TensorMap) of a tensor. Their addresses are parameters by [`Self::value`].
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Parameter that is a number.
    pub fn value<T: Number>(mut self, number: T) -> Self {
        self.parameters.push(bytes_of(&[number]));
        self
    }

    /// Runs the launch with every check.
    ///
    /// # Errors
    /// [`Error::Launch`] for a kernel that is not there, parameters that are not its own, or a launch that no GPU takes;
    /// [`Error::Fault`] for the first mistake that is found, with the line of the source.
    pub fn run(self) -> Result<Done, Error> {
        let params = self
            .pack()
            .map_err(|message| Error::Launch { entry: self.entry.to_owned(), message })?;
        for (_, written) in &self.buffers {
            written.clone()?;
        }
        let report = launch(
            &self.kernels.module,
            &self.memory,
            Launch {
                entry: self.entry,
                grid: self.grid,
                block: self.block,
                shared_bytes: self.shared_bytes,
                params: &params,
                ..Launch::default()
            },
        )?;
        let mut buffers = Vec::with_capacity(self.buffers.len());
        for (address, length) in self.buffers {
            let mut bytes = vec![0; length?];
            self.memory.read(address, &mut bytes)?;
            buffers.push(bytes);
        }
        Ok(Done { report, buffers })
    }

    /// The parameters as the entry lays them out.
    fn pack(&self) -> Result<Vec<u8>, String> {
        let mut entries = self.kernels.module.entries();
        let Some(entry) = entries.find(|entry| entry.name == self.entry) else {
            let names: Vec<&str> = self.kernels.module.entries().map(|entry| entry.name).collect();
            return Err(format!("no such kernel: the crate has {}", names.join(", ")));
        };
        if entry.params.len() != self.parameters.len() {
            return Err(format!(
                "{} parameters, expected {}",
                self.parameters.len(),
                entry.params.len()
            ));
        }
        let mut packed = vec![0; entry.param_bytes as usize];
        for (index, (place, bytes)) in entry.params.iter().zip(&self.parameters).enumerate() {
            if bytes.len() != place.bytes as usize {
                return Err(format!(
                    "parameter {index} has {} bytes, expected {}",
                    bytes.len(),
                    place.bytes
                ));
            }
            packed[place.offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Ok(packed)
    }
}

/// Launch that ran to its end without a finding.
#[derive(Debug)]
pub struct Done {
    /// Counts of what the kernel did.
    pub report: Report,
    buffers: Vec<Vec<u8>>,
}

impl Done {
    /// Numbers that the kernel left in buffer `index`, from 0 in the order of the parameters, values not counted.
    ///
    /// # Panics
    /// If there is no such buffer, or if it is not whole numbers of type `T`.
    pub fn buffer<T: Number>(&self, index: usize) -> Vec<T> {
        let (numbers, rest) = split(&self.buffers[index]);
        assert!(rest.is_empty(), "buffer {index} has {} bytes beyond whole numbers", rest.len());
        numbers
    }
}

/// Number that kernels take and leave: integers of 8 to 64 bits, f32 and f64.
pub trait Number: Copy + sealed::Bytes {}

mod sealed {
    /// Numbers as bytes, little-endian as on a GPU.
    pub trait Bytes: Sized {
        const BYTES: usize;
        fn put(self, bytes: &mut Vec<u8>);
        fn get(bytes: &[u8]) -> Self;
    }
}

macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Number for $type {}

        impl sealed::Bytes for $type {
            const BYTES: usize = size_of::<Self>();

            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn get(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many as there are"))
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 }

fn bytes_of<T: Number>(numbers: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(numbers.len() * T::BYTES);
    numbers.iter().for_each(|number| number.put(&mut bytes));
    bytes
}

/// Whole numbers, and the bytes that are left.
fn split<T: Number>(bytes: &[u8]) -> (Vec<T>, &[u8]) {
    let chunks = bytes.chunks_exact(T::BYTES);
    let rest = chunks.remainder();
    (chunks.map(T::get).collect(), rest)
}

/// Program that a variable names, which cargo sets for tests.
fn program(variable: &str, name: &str) -> OsString {
    env::var_os(variable).unwrap_or_else(|| name.into())
}

/// Whether a variable belongs to the build of the host's program.
fn is_of_build(name: &str) -> bool {
    name.starts_with("CARGO_") && name != "CARGO_HOME"
        || name.starts_with("RUSTC") && name != "RUSTC"
        || ["RUSTFLAGS", "RUSTDOCFLAGS", "TARGET", "HOST", "OUT_DIR"].contains(&name)
}

/// Folder `ptx` in the target folder of the running program, which is `target/PROFILE/deps/NAME`.
fn default_builds() -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("the running program: {error}"))?;
    let target = own.ancestors().nth(3).unwrap_or(&own);
    Ok(target.join("ptx"))
}

/// The folder `library` of the standard library's sources.
fn core_sources(package: &Path) -> Result<PathBuf, String> {
    let sysroot = Command::new(program("RUSTC", "rustc"))
        .args(["--print", "sysroot"])
        .current_dir(package)
        .output()
        .map_err(|error| format!("rustc --print sysroot: {error}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    let above = package.ancestors().map(|folder| folder.join(".rust-src/library"));
    env::var_os(SOURCE_ROOT)
        .map(PathBuf::from)
        .into_iter()
        .chain([sysroot.join("lib/rustlib/src/rust/library")])
        .chain(above)
        .find(|library| library.join("core/src/lib.rs").is_file())
        .ok_or_else(|| {
            "the sources of core, needed to compile kernels, are missing: run `rustup component add rust-src`".to_owned()
        })
}

/// The text with the most threads of a block of one entry.
fn with_max_threads(text: &str, entry: &str, threads: u32) -> Result<String, String> {
    let head = format!(".entry {entry}(");
    let body = text.find(&head).and_then(|at| Some(at + text[at..].find('{')?));
    let body = body.ok_or_else(|| format!("no kernel {entry}, whose threads are bounded"))?;
    Ok(format!("{}.maxntid {threads}, 1, 1\n{}", &text[..body], &text[body..]))
}

/// The text with a declaration of `dynamic_shared`, if it has none.
fn with_dynamic_shared(text: String) -> String {
    const DECLARATION: &str = ".extern .shared .align 1024 .b8 dynamic_shared[];";
    let declares = |line: &str| line.contains(".extern") && line.contains(" dynamic_shared");
    if text.lines().any(declares) {
        return text;
    }
    text.replacen(HEADER, &format!("{HEADER}\n{DECLARATION}"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "
.version 7.1
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 data, .param .u32 value) {
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}";

    fn kernels() -> Kernels {
        Kernels::from_ptx(with_dynamic_shared(PTX.to_owned())).unwrap()
    }

    #[test]
    fn parameters_are_packed_and_buffers_come_back() {
        let kernels = kernels();
        let done = kernels.launch("fill").buffer(&[0i32; 40]).value(-7i32).run().unwrap();
        let numbers: Vec<i32> = done.buffer(0);
        assert_eq!((&numbers[..32], &numbers[32..]), (&[-7; 32][..], &[0; 8][..]));
        assert_eq!(done.buffer::<u8>(0).len(), 160);
        assert_eq!((done.report.total().bytes, done.report.total().sectors), (128, 4));
    }

    #[test]
    fn launches_that_do_not_fit_are_refused_with_a_sentence() {
        let kernels = kernels();
        let refused = |run: Run| run.run().unwrap_err().to_string();
        assert_eq!(
            refused(kernels.launch("fil").value(1u32)),
            "launch of fil: no such kernel: the crate has fill"
        );
        assert_eq!(
            refused(kernels.launch("fill").value(1u64)),
            "launch of fill: 1 parameters, expected 2"
        );
        assert_eq!(
            refused(kernels.launch("fill").buffer(&[0u8; 128]).value(1u64)),
            "launch of fill: parameter 1 has 8 bytes, expected 4"
        );
        let beyond = kernels.launch("fill").buffer(&[0u8; 124]).value(1u32).run();
        assert!(matches!(beyond, Err(Error::Fault(fault)) if fault.lane == Some(31)));
    }

    #[test]
    fn dynamic_shared_memory_is_declared_once() {
        let once = with_dynamic_shared(PTX.to_owned());
        assert_eq!(once.matches("dynamic_shared").count(), 1);
        assert_eq!(with_dynamic_shared(once.clone()), once);
    }

    #[test]
    fn threads_of_a_block_are_bounded() {
        let kernels = Kernels::from_ptx(with_max_threads(PTX, "fill", 64).unwrap()).unwrap();
        let run =
            |threads| kernels.launch("fill").block(threads).buffer(&[0u32; 96]).value(1u32).run();
        assert!(run(64).is_ok());
        assert!(matches!(run(96), Err(Error::Launch { .. })));
        assert!(with_max_threads(PTX, "fil", 64).is_err());
    }

    #[test]
    fn a_folder_without_a_crate_is_answered_with_its_name() {
        let error = RustKernels::new("no/such/folder").compile().unwrap_err().to_string();
        assert!(error.starts_with("no/such/folder: "), "{error}");
    }
}
