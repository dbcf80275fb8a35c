//! The program that runs in the kernel for every packet of an interface, its maps, and its attachment.

use std::{
    io,
    net::SocketAddrV4,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use super::{
    datagram::{ETHERNET, FRAGMENT, IPV4, OF_IPV4, OF_UDP, PLAIN, UDP},
    interface::Mode,
};

/// Commands of the system call `bpf`.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

/// Kinds of maps: a table by keys, and sockets of queues.
const HASH: u32 = 1;
const SOCKETS: u32 = 17;

/// Kind of programs, and of their attachments, that see packets first.
const XDP: u32 = 6;
const TO_XDP: u32 = 37;

/// The program takes packets of several buffers.
const HAS_FRAGMENTS: u32 = 1 << 5;

/// Attachment to the system's own code, and to the driver's.
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;

/// The program's answer that passes a packet to the system (`XDP_PASS`).
const PASS: i32 = 2;

/// Functions that programs call.
const LOOK_UP: i32 = 1;
const REDIRECT: i32 = 51;

/// Key of the table of addresses that are listened to: as it stands in packets. Address 0 is any.
fn key(address: SocketAddrV4) -> [u8; 8] {
    let [a, b, c, d] = address.ip().octets();
    let [high, low] = address.port().to_be_bytes();
    [a, b, c, d, high, low, 0, 0]
}

/// Instructions, and jumps of which the aim is not known yet.
#[derive(Default)]
struct Assembler {
    code: Vec<[u8; 8]>,
    passing: Vec<usize>,
    taking: Vec<usize>,
}

/// Registers: the result of calls, their arguments, one that calls keep, and the end of the stack.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R6: u8 = 6;
const STACK: u8 = 10;

impl Assembler {
    fn add(&mut self, operation: u8, [to, from]: [u8; 2], offset: i16, value: i32) -> &mut Self {
        let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
        let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), value.to_ne_bytes());
        self.code.push([operation, registers, a, b, c, d, e, f]);
        self
    }

    fn copy(&mut self, to: u8, from: u8) -> &mut Self {
        self.add(0xbf, [to, from], 0, 0)
    }

    fn set(&mut self, to: u8, value: i32) -> &mut Self {
        self.add(0xb7, [to, 0], 0, value)
    }

    fn plus(&mut self, to: u8, value: i32) -> &mut Self {
        self.add(0x07, [to, 0], 0, value)
    }

    fn and(&mut self, to: u8, value: u16) -> &mut Self {
        self.add(0x57, [to, 0], 0, value.into())
    }

    fn load8(&mut self, to: u8, from: u8, offset: usize) -> &mut Self {
        self.add(0x71, [to, from], offset as i16, 0)
    }

    fn load16(&mut self, to: u8, from: u8, offset: usize) -> &mut Self {
        self.add(0x69, [to, from], offset as i16, 0)
    }

    fn load32(&mut self, to: u8, from: u8, offset: usize) -> &mut Self {
        self.add(0x61, [to, from], offset as i16, 0)
    }

    /// Stores 32 bits on the stack.
    fn push32(&mut self, from: u8, offset: i16) -> &mut Self {
        self.add(0x63, [STACK, from], offset, 0)
    }

    /// Stores 16 bits on the stack.
    fn push16(&mut self, from: u8, offset: i16) -> &mut Self {
        self.add(0x6b, [STACK, from], offset, 0)
    }

    fn map(&mut self, to: u8, map: &OwnedFd) -> &mut Self {
        // A value of 64 bits that is a descriptor of a map.
        self.add(0x18, [to, 1], 0, map.as_raw_fd()).add(0, [0; 2], 0, 0)
    }

    fn call(&mut self, function: i32) -> &mut Self {
        self.add(0x85, [0; 2], 0, function)
    }

    fn pass_unless(&mut self, register: u8, value: u16) -> &mut Self {
        self.passing.push(self.code.len());
        self.add(0x55, [register, 0], 0, value.into())
    }

    fn pass_if_above(&mut self, register: u8, other: u8) -> &mut Self {
        self.passing.push(self.code.len());
        self.add(0x2d, [register, other], 0, 0)
    }

    fn pass_if_zero(&mut self, register: u8) -> &mut Self {
        self.passing.push(self.code.len());
        self.add(0x15, [register, 0], 0, 0)
    }

    fn take_unless_zero(&mut self, register: u8) -> &mut Self {
        self.taking.push(self.code.len());
        self.add(0x55, [register, 0], 0, 0)
    }

    fn end(&mut self) -> &mut Self {
        self.add(0x95, [0; 2], 0, 0)
    }

    /// Points the jumps of a list at the next instruction.
    fn here(code: &mut [[u8; 8]], jumps: &[usize]) {
        let here = code.len();
        for &jump in jumps {
            let [a, b] = ((here - jump - 1) as i16).to_ne_bytes();
            code[jump][2..4].copy_from_slice(&[a, b]);
        }
    }
}

/// Instructions that hand packets to an address in `table` to the socket of their queue, with the answer `without` where
/// there is none, and let all others pass.
fn assemble(table: &OwnedFd, sockets: &OwnedFd, without: i32) -> Vec<[u8; 8]> {
    let mut program = Assembler::default();
    program
        .copy(R6, R1)
        // The packet's first byte, and the one after its last.
        .load32(R2, R1, 0)
        .load32(R3, R1, 4)
        .copy(R4, R2)
        .plus(R4, (ETHERNET + IPV4 + UDP) as i32)
        .pass_if_above(R4, R3)
        .load16(R4, R2, ETHERNET - 2)
        .pass_unless(R4, OF_IPV4.to_be())
        .load8(R4, R2, ETHERNET)
        .pass_unless(R4, PLAIN.into())
        .load8(R4, R2, ETHERNET + 9)
        .pass_unless(R4, OF_UDP.into())
        .load16(R4, R2, ETHERNET + 6)
        .and(R4, FRAGMENT.to_be())
        .pass_unless(R4, 0)
        // The key: address and port.
        .load32(R4, R2, ETHERNET + 16)
        .push32(R4, -8)
        .set(R4, 0)
        .push32(R4, -4)
        .load16(R4, R2, ETHERNET + IPV4 + 2)
        .push16(R4, -4);
    program.map(R1, table).copy(R2, STACK).plus(R2, -8).call(LOOK_UP).take_unless_zero(R0);
    // Any address of the port.
    program.set(R4, 0).push32(R4, -8);
    program.map(R1, table).copy(R2, STACK).plus(R2, -8).call(LOOK_UP).pass_if_zero(R0);
    Assembler::here(&mut program.code, &program.taking);
    // To the socket of the packet's queue.
    program.map(R1, sockets).load32(R2, R6, 16).set(R3, without).call(REDIRECT).end();
    Assembler::here(&mut program.code, &program.passing);
    program.set(R0, PASS).end();
    program.code
}

/// Makes a system call `bpf`.
fn bpf<T>(command: libc::c_long, arguments: &T) -> io::Result<libc::c_int> {
    let size = size_of::<T>();
    // SAFETY: the arguments live until the call returns, and are as long as said; what they point to does, too.
    match unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(arguments), size) } {
        found @ 0.. => Ok(found as libc::c_int),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a system call `bpf` that returns a descriptor.
fn opened<T>(command: libc::c_long, arguments: &T) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is new and has no other owner.
    bpf(command, arguments).map(|opened| unsafe { OwnedFd::from_raw_fd(opened) })
}

#[repr(C)]
struct MapArguments {
    kind: u32,
    key_size: u32,
    value_size: u32,
    most: u32,
    flags: u32,
}

fn map(kind: u32, key_size: u32, most: u32) -> io::Result<OwnedFd> {
    opened(MAP_CREATE, &MapArguments { kind, key_size, value_size: 4, most, flags: 0 })
}

#[repr(C)]
struct UpdateArguments {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Writes a value of four bytes to a map.
fn update<K>(map: &OwnedFd, key: &K, value: u32) -> io::Result<()> {
    let value = &raw const value;
    let arguments = UpdateArguments {
        map: map.as_raw_fd() as u32,
        unused: 0,
        key: std::ptr::from_ref(key).expose_provenance() as u64,
        value: value.expose_provenance() as u64,
        flags: 0,
    };
    bpf(MAP_UPDATE, &arguments).map(drop)
}

#[repr(C)]
struct ProgramArguments {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attached_to: u32,
}

fn load(code: &[[u8; 8]], flags: u32) -> io::Result<OwnedFd> {
    let arguments = ProgramArguments {
        kind: XDP,
        instructions: code.len() as u32,
        code: code.as_ptr().expose_provenance() as u64,
        license: c"MIT".as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        version: 0,
        flags,
        name: *b"corrust\0\0\0\0\0\0\0\0\0",
        interface: 0,
        attached_to: TO_XDP,
    };
    opened(PROGRAM_LOAD, &arguments)
}

#[repr(C)]
struct LinkArguments {
    program: u32,
    interface: u32,
    attached_to: u32,
    flags: u32,
}

/// A program that is attached to an interface while this lives: the system detaches it with the last descriptor, however
/// the process ends.
pub(super) struct Attached {
    _link: OwnedFd,
    sockets: OwnedFd,
    /// Whether the driver runs it.
    pub native: bool,
}

/// Failure, and the action that failed.
pub(super) type Failed = (&'static str, io::Error);

/// Longest time, and the interval, to ask again where something is in use: the system takes some time to release the
/// resources of a process that has just ended.
const PATIENCE: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(10);

/// Asks the system again while it says that something is in use, for a second.
///
/// # Errors
/// The system's.
pub(super) fn patiently<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < PATIENCE =>
            {
                std::thread::sleep(AGAIN);
            }
            asked => return asked,
        }
    }
}

impl Attached {
    /// Attaches the program to the interface of an index, which has at most `queues` queues, for packets to these addresses.
    ///
    /// # Errors
    /// The system's.
    pub fn to(
        interface: u32,
        queues: u32,
        mode: Mode,
        addresses: &[SocketAddrV4],
    ) -> Result<Self, Failed> {
        let failed = |action| move |error| (action, error);
        let table = map(HASH, 8, addresses.len().max(1) as u32);
        let table = table.map_err(failed("make a table for the kernel"))?;
        for &address in addresses {
            update(&table, &key(address), 1).map_err(failed("fill a table of the kernel"))?;
        }
        let sockets = map(SOCKETS, 4, queues).map_err(failed("make a table for the kernel"))?;
        let code = assemble(&table, &sockets, PASS);
        // Older systems know no packets of several buffers.
        let program = load(&code, HAS_FRAGMENTS).or_else(|_| load(&code, 0));
        let program = program.map_err(failed("load a program into the kernel"))?;
        let link = |flags| {
            let program = program.as_raw_fd() as u32;
            let arguments = LinkArguments { program, interface, attached_to: TO_XDP, flags };
            patiently(|| opened(LINK_CREATE, &arguments))
        };
        let (link, native) = match mode {
            Mode::Native => (link(NATIVE), true),
            Mode::Generic => (link(GENERIC), false),
            Mode::Auto => match link(NATIVE) {
                Err(error) if !matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EPERM)) => {
                    (link(GENERIC), false)
                }
                linked => (linked, true),
            },
        };
        let link = link.map_err(failed("attach a program to the interface"))?;
        Ok(Self { _link: link, sockets, native })
    }

    /// Redirects packets of a queue to a socket.
    ///
    /// # Errors
    /// The system's.
    pub fn send_to(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        update(&self.sockets, &queue, socket.as_raw_fd() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdp::Datagram;

    const RUN: libc::c_long = 10;
    const DROP: i32 = 1;

    #[repr(C)]
    #[derive(Default)]
    struct RunArguments {
        program: u32,
        answer: u32,
        bytes: u32,
        bytes_out: u32,
        data: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        context: [u32; 2],
        contexts: [u64; 2],
        rest: [u32; 4],
    }

    /// The kernel's answer to a frame.
    fn run(program: &OwnedFd, frame: &[u8]) -> i32 {
        let mut arguments = RunArguments {
            program: program.as_raw_fd() as u32,
            bytes: frame.len() as u32,
            data: frame.as_ptr().expose_provenance() as u64,
            repeat: 1,
            ..RunArguments::default()
        };
        let (arguments, bytes) = (&raw mut arguments, size_of::<RunArguments>());
        // SAFETY: the arguments and the frame live until the call returns.
        assert_eq!(unsafe { libc::syscall(libc::SYS_bpf, RUN, arguments, bytes) }, 0);
        // SAFETY: the call has returned.
        unsafe { (*arguments).answer as i32 }
    }

    /// The kernel runs the program on frames of changed bytes: those are taken whose fields say so by plain comparison, and all
    /// that the parser understands among them.
    #[test]
    fn the_kernel_takes_what_is_listened_to() {
        let listened: [SocketAddrV4; 3] =
            ["10.0.0.1:7148", "239.1.2.3:7149", "0.0.0.0:9000"].map(|text| text.parse().unwrap());
        let made = map(HASH, 8, 3).and_then(|table| Ok((table, map(SOCKETS, 4, 1)?)));
        let (table, sockets) = match made {
            Ok(maps) => maps,
            Err(reason) => {
                eprintln!("skipped: needs the right to load programs into the kernel: {reason}");
                return;
            }
        };
        listened.iter().for_each(|&address| update(&table, &key(address), 1).unwrap());
        let code = assemble(&table, &sockets, DROP);
        let program = load(&code, 0).unwrap();
        let mut number = 1_u64;
        let mut random = |below: usize| {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (number >> 33) as usize % below
        };
        let addresses = [[10, 0, 0, 1], [10, 0, 0, 2], [239, 1, 2, 3], [0; 4]];
        let (mut taken, mut understood) = (0, 0);
        for round in 0..20_000 {
            let mut frame = vec![0_u8; 14 + random(90)];
            frame.resize(frame.len().max(if round % 8 == 0 { 14 } else { 42 }), 0);
            let length = frame.len() - 14;
            let mut put = |at: usize, bytes: &[u8]| {
                if let Some(place) = frame.get_mut(at..at + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            };
            put(12, &[8, 0, 0x45, 0, 0, length as u8, 0, 0, 0x40, 0, 64, 17]);
            put(30, &addresses[random(4)]);
            put(36, &[7148_u16, 7149, 9000, 9001][random(4)].to_be_bytes());
            put(38, &[0, length.saturating_sub(20) as u8]);
            if random(3) == 0 {
                let at = 12 + random(28);
                put(at, &[random(256) as u8]);
            }
            let field = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let says = frame.len() >= 42
                && field(12) == 0x800
                && frame[14] == 0x45
                && frame[23] == 17
                && field(20) & 0x3fff == 0
                && listened.iter().any(|address| {
                    let ip = address.ip().octets();
                    (ip == [0; 4] || ip == frame[30..34]) && address.port() == field(36)
                });
            let answer = run(&program, &frame);
            assert_eq!(answer, if says { DROP } else { PASS }, "{frame:02x?}");
            taken += usize::from(says);
            if let Some(Datagram { to: (ip, port), .. }) = Datagram::parse(&frame) {
                let is_listened = listened.iter().any(|address| {
                    let known = address.ip().to_bits();
                    (known == 0 || known == ip) && address.port() == port
                });
                assert_eq!(is_listened, says, "{frame:02x?}");
                understood += usize::from(says);
            }
        }
        assert!(taken > understood && understood > 1000, "{taken}, {understood}");
    }
}
