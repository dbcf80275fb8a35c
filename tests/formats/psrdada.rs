//! Rings of PSRDADA, read and written beside plain code of their layout, written down here a second time, and beside PSRDADA's own
//! library where the environment variable PSRDADA names its sources.

use std::{
    ffi::c_void,
    fs,
    path::{Path, PathBuf},
    ptr,
    sync::Barrier,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use corrust::{
    Encoding,
    format::{self, Block, Options, dada, guppi},
};

/// Control of a ring, as `ipcbuf.h` declares it.
#[repr(C)]
struct Sync {
    semkey_connect: i32,
    semkey_data: [i32; 8],
    nbufs: u64,
    bufsz: u64,
    w_buf_next: u64,
    w_buf_curr: u64,
    w_state: i32,
    w_xfer: u64,
    r_bufs: [u64; 8],
    r_states: [i32; 8],
    r_xfers: [u64; 8],
    n_readers: u32,
    s_buf: [u64; 8],
    s_byte: [u64; 8],
    eod: [u8; 8],
    e_buf: [u64; 8],
    e_byte: [u64; 8],
    on_device_id: i32,
}

/// Semaphores of a reader.
const SODACK: u16 = 0;
const EODACK: u16 = 1;
const FULL: u16 = 2;
const CLEAR: u16 = 3;
const CONN: u16 = 4;

/// Bytes of a header.
const HEADER: usize = 4096;

/// A number of control, read or written.
macro_rules! get {
    ($ring:expr, $($field:tt)+) => {{
        let sync: *const Sync = $ring.sync;
        // SAFETY: the segment is attached until the ring is dropped.
        unsafe { ptr::addr_of!((*sync).$($field)+).read_volatile() }
    }};
}
macro_rules! set {
    ($ring:expr, $value:expr, $($field:tt)+) => {{
        let (sync, value): (*mut Sync, _) = ($ring.sync, $value);
        // SAFETY: as above.
        unsafe { ptr::addr_of_mut!((*sync).$($field)+).write_volatile(value) }
    }};
}

/// A segment of a key that nothing has; [`None`] where something has.
fn segment(key: i32, bytes: usize) -> Option<(i32, *mut c_void)> {
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
    // SAFETY: calls whose results are checked; the system chooses the address.
    unsafe {
        let id = libc::shmget(key, bytes, flags);
        let start = (id >= 0).then(|| libc::shmat(id, ptr::null(), 0))?;
        assert!(start as isize != -1);
        Some((id, start))
    }
}

fn semaphores(key: i32, count: i32) -> i32 {
    // SAFETY: a call without pointers.
    let id = unsafe { libc::semget(key, count, libc::IPC_CREAT | libc::IPC_EXCL | 0o600) };
    assert!(id >= 0, "semaphores");
    id
}

fn add(id: i32, number: u16, by: i16) {
    let mut operation = libc::sembuf { sem_num: number, sem_op: by, sem_flg: 0 };
    // SAFETY: one operation.
    assert_eq!(unsafe { libc::semop(id, &mut operation, 1) }, 0, "semaphore {number} by {by}");
}

fn value(id: i32, number: u16) -> i32 {
    // SAFETY: a call without pointers.
    unsafe { libc::semctl(id, number.into(), libc::GETVAL) }
}

/// A ring that a test makes, and removes.
struct Ring {
    key: i32,
    sync: *mut Sync,
    blocks: Vec<*mut u8>,
    connect: i32,
    data: Vec<i32>,
    memory: Vec<(i32, *mut c_void)>,
}

// SAFETY: shared memory, whose order semaphores keep.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl std::marker::Sync for Ring {}

impl Ring {
    /// A ring of a key, unless something has it.
    fn make(key: i32, blocks: usize, bytes: usize, readers: usize) -> Option<Self> {
        let control = size_of::<Sync>() + 5 * blocks;
        let (id, start) = segment(key, control)?;
        let mut next = key;
        let mut other = || {
            next = next.wrapping_add(1 << 16);
            next
        };
        let mut memory = vec![(id, start)];
        let connect = other();
        let data: Vec<i32> = (0..readers).map(|_| other()).collect();
        let keys: Vec<i32> = (0..blocks).map(|_| other()).collect();
        for (block, &key) in keys.iter().enumerate() {
            memory.push(segment(key, bytes).expect("keys of the ring's own"));
            let place = size_of::<Sync>() + blocks + 4 * block;
            // SAFETY: within the segment of control.
            unsafe { start.cast::<u8>().add(place).cast::<i32>().write_unaligned(key) };
        }
        let starts = memory[1..].iter().map(|&(_, start)| start.cast()).collect();
        let (sync, sets) = (start.cast(), data.iter().map(|&key| semaphores(key, 5)).collect());
        let connections = semaphores(connect, 2);
        let ring = Self { key, sync, blocks: starts, connect: connections, data: sets, memory };
        set!(ring, connect, semkey_connect);
        for (reader, &key) in data.iter().enumerate() {
            set!(ring, key, semkey_data[reader]);
        }
        set!(ring, blocks as u64, nbufs);
        set!(ring, bytes as u64, bufsz);
        set!(ring, readers as u32, n_readers);
        set!(ring, [1; 8], eod);
        set!(ring, -1, on_device_id);
        add(ring.connect, 0, 1);
        add(ring.connect, 1, readers as i16);
        for &set in &ring.data {
            add(set, SODACK, 8);
            add(set, EODACK, 8);
            add(set, CONN, 1);
        }
        Some(ring)
    }

    fn count(&self, block: u64) -> *mut u8 {
        let block = block as usize % self.blocks.len();
        // SAFETY: within the segment of control.
        unsafe { self.sync.cast::<u8>().add(size_of::<Sync>() + block) }
    }

    fn all(&self, semaphore: u16, by: i16) {
        self.data.iter().for_each(|&set| add(set, semaphore, by));
    }

    /// The next block that is to be written, free.
    fn next(&self) -> usize {
        let block = get!(self, w_buf_next);
        // SAFETY: a byte of control.
        while unsafe { self.count(block).read_volatile() } > 0 {
            self.all(CLEAR, -1);
            // SAFETY: as above.
            unsafe { *self.count(block) -= 1 };
        }
        set!(self, block + 1, w_buf_next);
        block as usize % self.blocks.len()
    }

    fn start(&self, byte: u64) {
        if get!(self, w_state) == 0 {
            self.all(SODACK, -1);
            let transfer = get!(self, w_xfer) as usize % 8;
            set!(self, get!(self, w_buf_curr), s_buf[transfer]);
            set!(self, byte, s_byte[transfer]);
            if get!(self, w_buf_curr) == 0 {
                set!(self, 0, eod[transfer]);
            }
            set!(self, 3, w_state);
        }
    }

    fn filled(&self) {
        let block = get!(self, w_buf_curr);
        // SAFETY: a byte of control.
        unsafe { *self.count(block) += 1 };
        set!(self, block + 1, w_buf_curr);
        self.all(FULL, 1);
    }

    fn end(&self, byte: usize) {
        let transfer = get!(self, w_xfer) as usize % 8;
        self.all(EODACK, -1);
        set!(self, get!(self, w_buf_curr), e_buf[transfer]);
        set!(self, byte as u64, e_byte[transfer]);
        set!(self, 1, eod[transfer]);
        set!(self, get!(self, w_xfer) + 1, w_xfer);
        set!(self, 0, w_state);
        self.filled();
    }

    fn put(&self, block: usize, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= get!(self, bufsz) as usize);
        // SAFETY: within the block.
        unsafe {
            self.blocks[block].add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Writes data that begins at byte `first` of its first block; `is_late`, the last block's end is known only after it.
    fn write(&self, data: &[u8], first: usize, is_late: bool) {
        let whole = get!(self, bufsz) as usize;
        let (mut data, mut at) = (data, first);
        self.start(first as u64);
        loop {
            let block = self.next();
            let count = data.len().min(whole - at);
            self.put(block, at, &data[..count]);
            data = &data[count..];
            if data.is_empty() && !(is_late && at + count == whole) {
                return self.end(at + count);
            }
            self.filled();
            at = 0;
        }
    }

    /// Reads a transfer as a reader.
    fn read(&self, reader: usize, is_header: bool) -> Vec<u8> {
        let whole = get!(self, bufsz);
        let mut found = Vec::new();
        loop {
            add(self.data[reader], FULL, -1);
            let transfer = get!(self, r_xfers[reader]) as usize % 8;
            let mut first = 0;
            if get!(self, r_states[reader]) == 0 {
                set!(self, 6, r_states[reader]);
                set!(self, get!(self, s_buf[transfer]), r_bufs[reader]);
                first = get!(self, s_byte[transfer]);
                add(self.data[reader], SODACK, 1);
            }
            let block = get!(self, r_bufs[reader]);
            let is_last = get!(self, eod[transfer]) == 1 && block == get!(self, e_buf[transfer]);
            let end = if is_last { get!(self, e_byte[transfer]) } else { whole };
            let from = self.blocks[block as usize % self.blocks.len()];
            // SAFETY: within the block.
            found.extend_from_slice(unsafe {
                std::slice::from_raw_parts(from.add(first as usize), (end - first) as usize)
            });
            add(self.data[reader], CLEAR, 1);
            if is_last {
                set!(self, 0, r_states[reader]);
                set!(self, get!(self, r_xfers[reader]) + 1, r_xfers[reader]);
                add(self.data[reader], EODACK, 1);
                return found;
            }
            set!(self, block + 1, r_bufs[reader]);
            if is_header {
                return found;
            }
        }
    }

    /// Removes it from the system; who is connected keeps the memory, not the semaphores.
    fn remove(&self) {
        // SAFETY: calls without pointers.
        unsafe {
            for &(id, _) in &self.memory {
                libc::shmctl(id, libc::IPC_RMID, ptr::null_mut());
            }
            for &set in self.data.iter().chain([&self.connect]) {
                libc::semctl(set, 0, libc::IPC_RMID);
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.remove();
        for &(_, start) in &self.memory {
            // SAFETY: attached here, and not used any more.
            unsafe { libc::shmdt(start) };
        }
    }
}

/// Keys of which two in a row are free.
fn keys() -> impl Iterator<Item = i32> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id() << 6;
    (0..1 << 15).map(move |_| {
        let key = first.wrapping_add(2 * NEXT.fetch_add(1, Ordering::Relaxed));
        // The rest of a ring's keys are this and more in the upper half.
        (0x0100_0000 | key & 0xfffe) as i32
    })
}

/// Rings of headers and of samples.
struct Rings {
    headers: Ring,
    samples: Ring,
}

impl Rings {
    fn make(blocks: usize, bytes: usize, readers: usize) -> Self {
        let of = |key| {
            let samples = Ring::make(key, blocks, bytes, readers)?;
            Some(Self { headers: Ring::make(key + 1, 3, HEADER, readers)?, samples })
        };
        keys().find_map(of).expect("free keys")
    }

    fn name(&self) -> String {
        format!("dada:{:x}", self.samples.key)
    }

    /// Hands on a DADA file, a header and samples.
    fn write(&self, file: &[u8], first: usize, is_late: bool) {
        self.headers.start(0);
        let block = self.headers.next();
        self.headers.put(block, 0, &file[..HEADER]);
        self.headers.filled();
        self.samples.write(&file[HEADER..], first, is_late);
    }
}

/// A DADA file of two inputs.
fn file(bytes: usize, seed: usize) -> Vec<u8> {
    let cards = "HDR_SIZE 4096\nNBIT 8\nNDIM 2\nNPOL 2\nNCHAN 1\nTSAMP 0.5\nUTC_START 2013-07-02-01:37:40\n";
    let mut file = format!("{cards}SOURCE s{seed}\n").into_bytes();
    file.resize(HEADER, 0);
    file.extend((0..bytes).map(|at| (at * 167 + at / 251 + seed) as u8));
    file
}

/// Samples of a recording, in blocks of `cut` times.
fn samples(path: impl AsRef<Path>, cut: usize) -> Vec<u8> {
    let mut recording = format::open_raw(&[path], Options::default()).unwrap();
    let (mut found, mut block) = (Vec::new(), Block::new());
    while recording.read_block(cut, &mut block).unwrap() > 0 {
        assert!(block.missing.is_empty());
        found.extend_from_slice(&block.samples);
    }
    found
}

/// Bytes of a recording, the first byte of its first block, and whether its end is known only after a whole block.
type Transfer = (usize, usize, bool);

#[test]
fn a_ring_is_read_as_its_file_would_be() {
    // Blocks, their bytes, readers and recordings.
    let cases: [(usize, usize, usize, &[Transfer]); 4] = [
        (4, 4096, 1, &[(40_000, 0, false), (400, 0, false), (4096 * 9, 0, true)]),
        (1, 1000, 1, &[(4000, 0, false), (4000, 0, true), (4, 996, true), (8, 996, false)]),
        (3, 1004, 3, &[(100_400, 12, false); 20]),
        (2, 1 << 20, 2, &[(5 << 20, 1 << 19, false), (0, 77, false), (4, 0, false)]),
    ];
    for (blocks, bytes, readers, recordings) in cases {
        let rings = Rings::make(blocks, bytes, readers);
        let name = rings.name();
        // Readers are not told apart by the ring: none goes on to a recording that another has not begun.
        let together = Barrier::new(readers);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..readers)
                .map(|reader| {
                    let (name, together) = (&name, &together);
                    scope.spawn(move || {
                        let read = |_| {
                            together.wait();
                            let found = samples(name, 64 << (2 * reader));
                            together.wait();
                            found
                        };
                        recordings.iter().map(read).collect::<Vec<_>>()
                    })
                })
                .collect();
            for (seed, &(length, first, is_late)) in recordings.iter().enumerate() {
                rings.write(&file(length, seed), first, is_late);
            }
            for reader in readers {
                for (seed, found) in reader.join().unwrap().iter().enumerate() {
                    let expected = &file(recordings[seed].0, seed)[HEADER..];
                    assert!(found == expected, "recording {seed} of {blocks} blocks of {bytes}");
                }
            }
        });
        // All is given back.
        for ring in [&rings.headers, &rings.samples] {
            assert_eq!((value(ring.connect, 0), value(ring.connect, 1)), (1, readers as i32));
            for &set in &ring.data {
                assert_eq!((value(set, CONN), value(set, FULL)), (1, 0));
            }
        }
    }
}

#[test]
fn what_a_reader_leaves_is_passed_over() {
    let rings = Rings::make(8, 1000, 1);
    rings.write(&file(6000, 0), 0, false);
    // Of the whole recording where none of it was read.
    let recording = format::open_raw(&[rings.name()], Options::default()).unwrap();
    assert_eq!(recording.times(), u64::MAX);
    drop(recording);
    {
        let mut recording = format::open_raw(&[rings.name()], Options::default()).unwrap();
        let mut block = Block::new();
        assert_eq!(recording.read_block(300, &mut block).unwrap(), 300);
        assert_eq!(block.samples[..], file(1200, 0)[HEADER..]);
    }
    thread::scope(|scope| {
        let reader = scope.spawn(|| samples(rings.name(), 100));
        rings.write(&file(10_000, 1), 0, false);
        assert!(reader.join().unwrap() == file(10_000, 1)[HEADER..]);
    });
}

/// The sentence in which a ring is refused.
fn refusal(name: impl AsRef<Path>) -> String {
    let error = format::open_raw(&[name], Options::default()).err().expect("a refusal");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text:?} is one sentence");
    text
}

#[test]
fn what_is_no_ring_is_refused() {
    for (name, expected) in [
        ("dada:", "key \"\": expected hexadecimal digits, as in dada:4a4a"),
        ("dada:xyz", "key \"xyz\": expected hexadecimal digits"),
        ("dada:0", "key \"0\": expected"),
        ("dada:ffffffff", "expected"),
        ("dada:00fffffe", "no shared memory of key fffffe: expected a ring of PSRDADA"),
    ] {
        let text = refusal(name);
        assert!(text.contains(expected), "{text:?} says {expected:?}");
    }
    let rings = Rings::make(2, 1000, 1);
    let told = |expected: &str| {
        let text = refusal(rings.name());
        assert!(text.contains(expected), "{text:?} says {expected:?}");
        assert_eq!(value(rings.samples.connect, 1), 1, "{expected}: the place is given back");
    };
    let (sync, key) = (&rings.samples, rings.samples.key);
    for blocks in [0, 1, 3, u64::MAX] {
        set!(sync, blocks, nbufs);
        told(&format!("under key {key:x}"));
    }
    set!(sync, 2, nbufs);
    for (bytes, expected) in [(0, "expected 0"), (999, "block 0 of 1000 bytes: expected 999")] {
        set!(sync, bytes, bufsz);
        told(expected);
    }
    set!(sync, u64::MAX, bufsz);
    told("block 0 of 1000 bytes");
    set!(sync, 1000, bufsz);
    set!(sync, 1, on_device_id);
    told("blocks in memory of GPU 1: expected a ring in the host's");
    set!(sync, -1, on_device_id);
    for readers in [0, 9, u32::MAX] {
        set!(sync, readers, n_readers);
        told(&format!("{readers} readers: expected a ring of 1 to 8"));
    }
    set!(sync, 1, n_readers);
    add(rings.samples.connect, 1, -1);
    let text = refusal(rings.name());
    assert!(text.contains("its 1 readers are connected"), "{text}");
    add(rings.samples.connect, 1, 1);

    // Headers.
    for (from, to, expected) in [
        ("HDR_SIZE 4096", "", "no HDR_SIZE in its header"),
        ("HDR_SIZE 4096", "HDR_SIZE 4097", "HDR_SIZE: expected 1 to 4096"),
        ("NBIT 8", "NBIT 4", "NBIT 4: expected 8, 16 or 32"),
        ("NBIT 8", "", "no NBIT in its DADA header"),
    ] {
        let whole = file(100, 0);
        let header = String::from_utf8(whole[..HEADER].to_vec()).unwrap().replace(from, to);
        let mut changed = header.into_bytes();
        changed.resize(HEADER, 0);
        changed.extend_from_slice(&whole[HEADER..]);
        rings.write(&changed, 0, false);
        told(expected);
        // It stays for others to read.
        assert_eq!(rings.headers.read(0, true), changed[..HEADER]);
        assert_eq!(rings.samples.read(0, false), changed[HEADER..]);
    }
    // Ends of data beyond the block.
    rings.headers.start(0);
    let block = rings.headers.next();
    rings.headers.put(block, 0, &file(0, 0));
    rings.headers.filled();
    let drained = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut recording = format::open_raw(&[rings.name()], Options::default()).unwrap();
            recording.read_block(10, &mut Block::new()).unwrap_err().to_string()
        });
        rings.samples.start(0);
        rings.samples.next();
        rings.samples.end(1001);
        reader.join().unwrap()
    });
    assert!(drained.contains("expected them within 1000"), "{drained}");
}

#[test]
fn a_ring_that_is_removed_ends_the_wait() {
    let rings = Rings::make(2, 1000, 1);
    thread::scope(|scope| {
        let reader = scope.spawn(|| refusal(rings.name()));
        while value(rings.samples.connect, 1) > 0 {
            thread::yield_now();
        }
        rings.headers.remove();
        let text = reader.join().unwrap();
        assert!(text.contains(": cannot read: Identifier removed"), "{text}");
    });
}

/// A beam of three channels of two polarisations.
fn description() -> guppi::Description {
    guppi::Description {
        telescope: None,
        source: None,
        start: "2026-03-01T12:00:00.25Z".parse().unwrap(),
        interval: 1e-5,
        first_channel: 1e9,
        channel_width: 1e5,
        channels: 3,
        polarisations: 2,
        encoding: Encoding::Ci8,
        times: u64::MAX,
    }
}

#[test]
fn what_is_written_to_a_ring_is_what_a_file_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.dada");
    let rings = Rings::make(3, 1000, 2);
    // [channel][polarisation][time], in pieces, and 5 times of zeros; 12 bytes a time, so that 245 end with a block.
    for (times, is_finished) in [(1000, true), (245, true), (0, true), (100, false), (1000, true)] {
        let pieces = [times / 3, times - times / 3];
        let piece =
            |of: usize| -> Vec<u8> { (0..12 * of).map(|at| (at * 31 + of) as u8).collect() };
        let write = |path: &Path, is_finished: bool| {
            let mut writer = dada::Writer::create(path, &description()).unwrap();
            for of in pieces {
                writer.append(&piece(of)).unwrap();
            }
            writer.append_missing(5).unwrap();
            if is_finished {
                writer.finish().unwrap();
            }
        };
        write(&path, true);
        let expected = fs::read(&path).unwrap();
        let name = PathBuf::from(rings.name());
        let found = thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let rings = &rings;
                    scope.spawn(move || {
                        let header = rings.headers.read(reader, true);
                        [header, rings.samples.read(reader, false)].concat()
                    })
                })
                .collect();
            write(&name, is_finished);
            readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
        });
        for found in found {
            assert!(found == expected, "{times} times");
        }
    }
    for ring in [&rings.headers, &rings.samples] {
        assert_eq!(value(ring.connect, 0), 1, "the writer's place is given back");
    }
    let refused = || dada::Writer::create(rings.name(), &description()).unwrap_err().to_string();
    set!(rings.samples, 3, w_state);
    assert!(refused().contains("a writer has left it in the midst of a recording"));
    set!(rings.samples, 0, w_state);
    add(rings.headers.connect, 0, -1);
    assert!(refused().contains("another writes to it"));
    add(rings.headers.connect, 0, 1);
    set!(rings.headers, 100, bufsz);
    assert!(refused().contains("block 0 of 4096 bytes"));
    set!(rings.headers, HEADER as u64, bufsz);
    let short = keys()
        .find_map(|key| Some((Ring::make(key, 1, 8, 1)?, Ring::make(key + 1, 1, 100, 1)?)))
        .unwrap();
    let name = format!("dada:{:x}", short.0.key);
    let text = dada::Writer::create(name, &description()).unwrap_err().to_string();
    assert!(text.contains("headers of 100 bytes: expected at least"), "{text}");
}

#[cfg(feature = "cli")]
mod programs {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::support::command::{command, done, refused};

    #[test]
    fn commands_read_rings_and_write_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        // All of a recording fits.
        let rings = Rings::make(4, 1 << 17, 1);
        let name = rings.name();
        let scan = file(400_000, 3);
        fs::write(folder.join("scan.dada"), &scan).unwrap();
        let spectra = "--channelise 16 --level --integrate 500 --device cpu -o";
        for (run, of_file) in [
            (
                format!("correlate {name} {spectra} a.npy"),
                format!("correlate scan.dada {spectra} b.npy"),
            ),
            (
                format!("channelise {name} --channels 16 --level -o a.npy"),
                "channelise scan.dada --channels 16 --level -o b.npy".to_owned(),
            ),
        ] {
            let started = command(folder, &run).stderr(Stdio::piped()).spawn().unwrap();
            rings.write(&scan, 0, false);
            let output = started.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            done(folder, &of_file);
            assert!(
                fs::read(folder.join("a.npy")).unwrap() == fs::read(folder.join("b.npy")).unwrap()
            );
        }
        let plan = format!(
            "[input]\nfiles = [\"{name}\"]\ndevice = \"cpu\"\nchannelise = {{ channels = 16, level = true }}\n\
             [[visibilities]]\noutput = \"v.npy\"\nintegrate = 500\n\
             [[kurtosis]]\noutput = \"p.npy\"\ntimes = 64\n[[spectra]]\noutput = \"s.npy\"\n"
        );
        fs::write(folder.join("ring.toml"), &plan).unwrap();
        fs::write(
            folder.join("file.toml"),
            plan.replace(&name, "scan.dada").replace(".npy", "-of-file.npy"),
        )
        .unwrap();
        let started = command(folder, "observe ring.toml").stderr(Stdio::piped()).spawn().unwrap();
        rings.write(&scan, 0, false);
        let output = started.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        done(folder, "observe file.toml");
        for product in ["v", "p", "s"] {
            let [found, expected] = ["", "-of-file"]
                .map(|of| fs::read(folder.join(format!("{product}{of}.npy"))).unwrap());
            assert!(found == expected, "{product}");
        }

        let text = refused(folder, "correlate dada:00fffffe -o a.npy");
        assert!(text.contains("no shared memory of key fffffe"), "{text}");
        let text = refused(folder, &format!("channelise scan.dada --channels 16 -o {name}"));
        assert!(text.contains("is a ring of PSRDADA, which beams go to"), "{text}");

        done(folder, "simulate -o e.npy --inputs 4 --channels 4 --times 5000");
        let array = r#"{"positions": [[0, 0, 0], [14, 0, 0], [0, 14, 0], [14, 14, 0]], "frequencies": [150e6, 151e6, 152e6, 153e6],
            "pointings": [[0, 0, 1], [0.1, 0, 0.995]], "start": "2026-03-01T12:00:00Z", "sample_time": 1e-6}"#;
        fs::write(folder.join("array.json"), array).unwrap();
        done(folder, "weights array.json -o a.npy --shifts s.npy");
        let beams = "beamform e.npy --weights a.npy --shifts s.npy --array array.json --output-encoding ci8 --device cpu";
        done(folder, &format!("{beams} -o x.dada"));
        let text = refused(folder, &format!("{beams} -o {name}"));
        assert!(text.contains("2 beams to a ring: expected --beam of one"), "{text}");
        for beam in 0..2 {
            done(folder, &format!("{beams} -o {name} --beam {beam}"));
            let found = [rings.headers.read(0, true), rings.samples.read(0, false)].concat();
            let expected = fs::read(folder.join(format!("x.{beam}.dada"))).unwrap();
            assert!(found == expected, "beam {beam}");
        }
    }

    #[test]
    fn the_library_of_psrdada_reads_and_writes_the_same() {
        let Some(sources) = std::env::var_os("PSRDADA").map(PathBuf::from) else {
            eprintln!("skipped: PSRDADA names no folder of its sources");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("config.h"), "").unwrap();
        let program = folder.join("psrdada");
        let of_library = [
            "ascii_header",
            "dada_hdu",
            "diff_time",
            "ipcbuf",
            "ipcio",
            "ipcutil",
            "multilog",
            "tmutil",
        ];
        let built = Command::new("cc")
            .args(["-w", "-O1", "-I"])
            .arg(folder)
            .arg("-I")
            .arg(sources.join("src"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats/psrdada.c"))
            .args(of_library.map(|name| sources.join(format!("src/{name}.c"))))
            .arg("-o")
            .arg(&program)
            .args(["-lpthread", "-lm"])
            .status();
        assert!(built.unwrap().success(), "builds");
        let library = |arguments: &str| {
            let mut command = Command::new(&program);
            command.args(arguments.split(' ')).current_dir(folder);
            command
        };
        let run = |arguments: &str| assert!(library(arguments).status().unwrap().success());
        // Keys that no ring of these tests has, whose upper half is not nought.
        let key = format!("{:x}", keys().next().unwrap() & 0xfffe);
        let name = format!("dada:{key}");
        run(&format!("make {key} 4 10000 1"));
        for length in [400_000, 40_000, 4, 123_456] {
            let scan = file(length, length);
            fs::write(folder.join("scan.dada"), &scan).unwrap();
            let mut writer = library(&format!("write {key} scan.dada")).spawn().unwrap();
            assert!(samples(&name, 1000) == scan[HEADER..], "{length} bytes");
            assert!(writer.wait().unwrap().success());

            let mut reader = library(&format!("read {key} found.dada")).spawn().unwrap();
            let mut writer = dada::Writer::create(&name, &description()).unwrap();
            let mut file = dada::Writer::create(folder.join("x.dada"), &description()).unwrap();
            for times in [1, length / 12] {
                let piece: Vec<u8> = (0..12 * times).map(|at| (at * 31 + at / 256) as u8).collect();
                writer.append(&piece).unwrap();
                file.append(&piece).unwrap();
            }
            writer.finish().unwrap();
            file.finish().unwrap();
            assert!(reader.wait().unwrap().success());
            let [found, expected] =
                ["found.dada", "x.dada"].map(|name| fs::read(folder.join(name)).unwrap());
            assert!(found == expected, "{length} bytes");
        }
        run(&format!("remove {key}"));
    }
}
