//! The way to a GPU of samples for several products, and of spectra to the host.

use std::sync::Arc;

use corrust_host::{
    Layout, Result, Samples,
    device::{Buffer, Gpu, Stream},
    samples::{Memory, Missing, Strides},
};

use super::source::{Head, Piece, Source, Wants};

/// Samples that are brought to the GPU of all products once; and to the host where one wants them there.
pub struct Bring<'a> {
    source: Box<dyn Source + 'a>,
    gpu: Arc<dyn Gpu>,
    /// Room on the GPU; none of several GPUs, which fetch their own shares.
    room: Option<Buffer>,
    /// Samples of a GPU in host memory, if they are wanted there.
    host: Option<Vec<u8>>,
    missing: Vec<Missing>,
}

impl<'a> Bring<'a> {
    /// Copies samples of `source` to the only one of some GPUs, unless they are there already. Of several GPUs the first may have
    /// them; without any they stay where they are.
    ///
    /// # Errors
    /// The device's own.
    pub fn to(gpus: &[Arc<dyn Gpu>], source: impl Source + 'a) -> Result<Box<dyn Source + 'a>> {
        let Some(gpu) = gpus.first() else { return Ok(Box::new(source)) };
        let room = if gpus.len() == 1 { Some(Buffer::new(gpu, 0)?) } else { None };
        let (gpu, source) = (gpu.clone(), Box::new(source));
        Ok(Box::new(Self { source, gpu, room, host: None, missing: Vec::new() }))
    }
}

impl Source for Bring<'_> {
    fn head(&self) -> &Head {
        self.source.head()
    }

    fn begin(&mut self, wants: &Wants) {
        self.host = wants.host.then(Vec::new);
        self.source.begin(wants);
    }

    fn advance(&mut self) -> Result<bool> {
        if !self.source.advance()? {
            return Ok(false);
        }
        let Some(samples) = self.source.piece().samples else { return Ok(true) };
        self.missing.clear();
        self.missing.extend(samples.gaps());
        match (samples.memory(), &mut self.room, &mut self.host) {
            (Memory::Host(bytes), Some(room), _) => {
                room.reserve(bytes.len())?;
                room.upload(Stream::default(), bytes)?;
            }
            (Memory::Device(_), _, Some(host)) => {
                *host = samples.gather_from(&self.gpu, layout(&samples))?;
            }
            (Memory::Host(_), None, _) | (Memory::Device(_), _, None) => {}
        }
        Ok(true)
    }

    fn piece(&self) -> Piece<Samples<'_>> {
        let piece = self.source.piece();
        let Some(found) = piece.samples else { return piece };
        match (found.memory(), &self.room, &self.host) {
            (Memory::Host(bytes), Some(room), _) => {
                let slice = room.slice().part(0..bytes.len());
                let near =
                    Samples::strided(slice, found.element(), found.extents(), found.strides())
                        .expect("samples lie as they do in host memory");
                let near = match found.is_zeroed() {
                    true => near.missing_zeroed(&self.missing),
                    false => near.missing(&self.missing),
                };
                Piece { samples: Some(near), ..piece }
            }
            (Memory::Device(_), _, Some(host)) => {
                let (extents, layout) = (found.extents(), layout(&found));
                let host = Samples::dense(host[..].into(), found.element(), layout, extents);
                Piece { host: Some(host.missing(&self.missing)), ..piece }
            }
            (Memory::Host(_), None, _) | (Memory::Device(_), _, None) => piece,
        }
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        self.source.clipped()
    }
}

/// The order of samples whose times lie beside each other, or not.
pub(super) fn layout(samples: &Samples<'_>) -> Layout {
    let Strides { time, input, .. } = samples.strides();
    if time < input { Layout::Cnt } else { Layout::Tcn }
}
