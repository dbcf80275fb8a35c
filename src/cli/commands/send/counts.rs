//! `corrust send --counts`: counts of photons.

use std::{
    fs::File,
    io::{self, Write},
    net::TcpStream,
};

use corrust::{
    Error, Result,
    format::Recording,
    live::{Endpoints, Packets},
    photons::{self, CountShape},
    run::{Reader, Source},
    simulate::Diffusion,
};

use crate::cli::commands::send::args::{Args, CountArgs};
use crate::cli::terminal::numbers::{count, si};
use crate::cli::terminal::say::{note, tell};

/// Bytes of counts that are simulated, at most.
const SIMULATED: usize = 64 << 20;

/// Sensors whose photons are simulated by themselves.
const DETECTORS: usize = 64;

/// The most bytes of counts in a packet: that of UDP, less the instant's number.
const MOST_BYTES: usize = 65_507 - 8;

/// Receiver of counts.
enum Sink {
    /// Packets to each address in turn, and the instants of a packet.
    Packets(Vec<Packets>, usize, Vec<u8>),
    Plain(Box<dyn Write>, String),
}

impl Sink {
    /// Sends instants, of which `first` is the first one's number.
    fn send(&mut self, shape: &CountShape, first: u64, counts: &[u8]) -> Result<()> {
        match self {
            Self::Packets(sockets, instants, packet) => {
                for (index, counts) in counts.chunks(*instants * shape.bytes()).enumerate() {
                    let number = first + (index * *instants) as u64;
                    packet.clear();
                    packet.extend_from_slice(&number.to_le_bytes());
                    packet.extend_from_slice(counts);
                    sockets[index % sockets.len()].send(packet)?;
                }
                Ok(())
            }
            Self::Plain(stream, name) => {
                stream.write_all(counts).map_err(Error::io(&*name, "write"))
            }
        }
    }
}

impl Args {
    /// Sends counts of `sensors` sensors.
    pub fn send_counts(&self, sensors: usize) -> Result<()> {
        let dwell = self.counts.dwell.0;
        let mut recorded = self.recorded_counts(sensors)?;
        let shape = match &recorded {
            Some(counts) => counts.recording.shape(),
            None => CountShape { sensors, wide: false },
        };
        let simulated = match &recorded {
            Some(_) => Vec::new(),
            None => self.counts.simulated(sensors)?,
        };
        let (mut sink, to) = self.sink(&shape)?;
        // The standard output may be taken by the counts.
        let tell = |line: String| match &self.counts.pipe {
            Some(_) => note(line),
            None => tell(line),
        };
        tell(format!(
            "sending counts of {}, {}B/s, to {to}",
            count(sensors, "sensor"),
            si(shape.bytes() as f64 / dwell)
        ));
        // About a millisecond at a time.
        let step =
            ((1e-3 / dwell) as usize).clamp(1, (1 << 20) / shape.bytes().min(1 << 20)).max(1);
        let step = match &sink {
            Sink::Packets(_, instants, _) => step.next_multiple_of(*instants),
            Sink::Plain(..) => step,
        };
        let repeat = self.repeat.unwrap_or(u64::from(recorded.is_some()));
        let pace = self.pace();
        let (mut first, mut round) = (0, 0);
        loop {
            let mut send = |counts: &[u8]| {
                for counts in counts.chunks(step * shape.bytes()) {
                    sink.send(&shape, first, counts)?;
                    first += (counts.len() / shape.bytes()) as u64;
                    pace.wait(first as f64 * dwell);
                }
                Ok::<_, Error>(())
            };
            match recorded.take() {
                Some(counts) => {
                    let block = ((8 << 20) / shape.bytes()).max(1);
                    let recording: Box<dyn Recording<CountShape>> = counts.recording;
                    let mut source = Reader::over(recording, block);
                    while source.advance()? {
                        source.piece().samples.map_or(Ok(()), &mut send)?;
                    }
                }
                None => send(&simulated)?,
            }
            round += 1;
            if round == repeat {
                break;
            }
            recorded = self.recorded_counts(sensors)?;
        }
        if let Sink::Plain(stream, name) = &mut sink {
            stream.flush().map_err(Error::io(&*name, "write"))?;
        }
        let seconds = pace.begun.elapsed().as_secs_f64();
        tell(format!(
            "sent {} in {seconds:.2} s, {}instants/s, {}B/s",
            count(first, "instant"),
            si(first as f64 / seconds),
            si(first as f64 * shape.bytes() as f64 / seconds)
        ));
        Ok(())
    }

    /// Opens the recording of counts, if there is one.
    fn recorded_counts(&self, sensors: usize) -> Result<Option<photons::Counts>> {
        let Some(path) = self.recording.first() else { return Ok(None) };
        let options = photons::Options { dwell: Some(self.counts.dwell.0), ..Default::default() };
        let counts = photons::open(&self.recording, &options)?;
        let found = counts.recording.shape().sensors;
        if found != sensors {
            let reason = format!("{found} sensors: expected the {sensors} of --counts");
            return Err(Error::file(path, reason));
        }
        Ok(Some(counts))
    }

    /// Opens the receiver of counts; returns it and its name.
    fn sink(&self, shape: &CountShape) -> Result<(Sink, String)> {
        if let Some(tcp) = self.counts.tcp {
            let fault = |error| Error::invalid(format!("--tcp {tcp}: cannot connect: {error}"));
            let stream = TcpStream::connect(tcp).map_err(fault)?;
            return Ok((Sink::Plain(Box::new(stream), tcp.to_string()), tcp.to_string()));
        }
        if let Some(path) = &self.counts.pipe {
            let name = path.display().to_string();
            let stream: Box<dyn Write> = if path.as_os_str() == "/dev/stdout" {
                Box::new(io::stdout().lock())
            } else {
                Box::new(File::options().write(true).open(path).map_err(Error::io(path, "write"))?)
            };
            return Ok((Sink::Plain(stream, name.clone()), name));
        }
        if self.packet > MOST_BYTES || shape.bytes() > MOST_BYTES {
            return Err(Error::invalid(format!(
                "packets of {} bytes, instants of {}: expected at most {MOST_BYTES}",
                self.packet,
                shape.bytes()
            )));
        }
        let addresses = self.to.iter().flat_map(Endpoints::iter);
        let sockets = addresses.map(|to| Packets::new(to, self.stream.interface));
        let instants = (self.packet / shape.bytes()).max(1);
        Ok((Sink::Packets(sockets.collect::<Result<_>>()?, instants, Vec::new()), self.targets()))
    }
}

impl CountArgs {
    /// Counts `[instant][sensor]` of molecules that diffuse.
    fn simulated(&self, sensors: usize) -> Result<Vec<u8>> {
        if !(1..=MOST_BYTES).contains(&sensors) {
            return Err(Error::invalid(format!(
                "--counts {sensors}: expected 1 to {MOST_BYTES} sensors that are simulated"
            )));
        }
        let dwell = self.dwell.0;
        let instants = ((1.0 / dwell) as usize).clamp(1, SIMULATED / sensors);
        let detectors = sensors.min(DETECTORS);
        let diffusion = Diffusion {
            molecules: self.molecules,
            diffusion_time: self.diffusion_time.0,
            brightness: self.brightness.0 * detectors as f64,
            detectors,
            seconds: instants as f64 * dwell,
            ..Diffusion::default()
        };
        diffusion.check()?;
        let mut counts = vec![0_u8; instants * sensors];
        let groups = sensors.div_ceil(DETECTORS);
        diffusion.photons(|photons| {
            for photon in photons {
                let instant = ((photon.time as f64 * 1e-12 / dwell) as usize).min(instants - 1);
                for group in 0..groups {
                    let sensor = group * DETECTORS + usize::from(photon.detector);
                    if sensor < sensors {
                        let later = (instant + group * instants / groups) % instants;
                        let count = &mut counts[later * sensors + sensor];
                        *count = count.saturating_add(1);
                    }
                }
            }
            Ok(())
        })?;
        Ok(counts)
    }
}
