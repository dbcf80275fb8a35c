//! The header: everything but visibilities.

use rust_hdf5::{
    H5Dataset, H5File, H5Group, H5Type, Hdf5Error, format::messages::datatype::DatatypeMessage,
    types::HBool,
};

use super::number::Number;
use super::products::Products;
use crate::array::{
    file::{Antenna, PhaseCenter, Polarisation},
    sky::Site,
};

/// Header of a file, apart from its columns.
pub(super) struct Header<'a, W> {
    pub(super) telescope: &'a str,
    pub(super) instrument: &'a str,
    pub(super) location: [f64; 3],
    pub(super) antennas: &'a [Antenna],
    pub(super) frequencies: &'a [f64],
    /// Hertz of a channel.
    pub(super) width: W,
    pub(super) dut1: Option<f64>,
    pub(super) center: Option<&'a PhaseCenter>,
    /// Level of compression.
    pub(super) gzip: Option<u8>,
}

impl<W: Fn(usize) -> f64> Header<'_, W> {
    /// Writes it, and makes the datasets that grow.
    pub(super) fn write(
        self,
        hdf5: &H5File,
        site: &Site,
        products: &Products,
        integer: bool,
    ) -> std::result::Result<Columns, Hdf5Error> {
        let header = hdf5.create_group("Header")?;
        let channels = self.frequencies.len();
        let polarisations = products.polarisations.len();
        for (name, value) in [
            ("version", "1.2"),
            ("telescope_name", self.telescope),
            ("instrument", self.instrument),
            ("telescope_frame", "itrs"),
            ("vis_units", "uncalib"),
            ("history", concat!("Written by corrust ", env!("CARGO_PKG_VERSION"), ".")),
        ] {
            text(&header, name, value)?;
        }
        for (name, value) in ["latitude", "longitude", "altitude"].into_iter().zip(self.location) {
            scalar(&header, name, value)?;
        }
        for (name, value) in [
            ("Nants_telescope", self.antennas.len()),
            ("Nfreqs", channels),
            ("Npols", polarisations),
            ("Nspws", 1),
            ("Nphase", 1),
            ("Nfeeds", products.feeds.len()),
        ] {
            scalar(&header, name, value as i64)?;
        }
        scalar(&header, "blts_are_rectangular", HBool::from(true))?;
        scalar(&header, "time_axis_faster_than_bls", HBool::from(false))?;
        if let Some(dut1) = self.dut1 {
            scalar(&header, "dut1", dut1)?;
        }
        let widths: Vec<f64> = (0..channels).map(&self.width).collect();
        list(&header, "freq_array", &[channels], self.frequencies)?;
        list(&header, "channel_width", &[channels], &widths)?;
        list(&header, "spw_array", &[1], &[0_i64])?;
        list(&header, "polarization_array", &[polarisations], &products.numbers())?;

        self.write_antennas(&header, site, products)?;
        self.write_center(&header)?;
        let row = [channels, products.polarisations.len()];
        self.columns(hdf5, &header, &row, integer)
    }

    /// Writes antennas with their feeds, the angles of these, and mounts.
    fn write_antennas(
        &self,
        header: &H5Group,
        site: &Site,
        products: &Products,
    ) -> std::result::Result<(), Hdf5Error> {
        let antennas = self.antennas.len();
        let numbers: Vec<i64> =
            self.antennas.iter().map(|antenna| i64::from(antenna.number)).collect();
        list(header, "antenna_numbers", &[antennas], &numbers)?;
        let names: Vec<&str> = self.antennas.iter().map(|antenna| &antenna.name[..]).collect();
        texts(header, "antenna_names", &[antennas], &names)?;
        let positions: Vec<f64> =
            self.antennas.iter().flat_map(|antenna| site.to_earth(antenna.position)).collect();
        list(header, "antenna_positions", &[antennas, 3], &positions)?;
        let feeds = || (0..antennas).flat_map(|_| &products.feeds);
        let feed = |polarisation: &Polarisation| match polarisation {
            Polarisation::X => ("x", std::f64::consts::FRAC_PI_2),
            Polarisation::Y => ("y", 0.0),
            Polarisation::R => ("r", 0.0),
            Polarisation::L => ("l", 0.0),
        };
        let shape = [antennas, products.feeds.len()];
        texts(header, "feed_array", &shape, &feeds().map(|of| feed(of).0).collect::<Vec<_>>())?;
        list(header, "feed_angle", &shape, &feeds().map(|of| feed(of).1).collect::<Vec<_>>())?;
        texts(header, "mount_type", &[antennas], &vec!["other"; antennas])
    }

    /// Writes the phase centre.
    fn write_center(&self, header: &H5Group) -> std::result::Result<(), Hdf5Error> {
        let catalogue = header.create_group("phase_center_catalog")?.create_group("0")?;
        let (name, kind, frame, [longitude, latitude]) = match self.center {
            None => ("unprojected", "unprojected", "altaz", [0.0, std::f64::consts::FRAC_PI_2]),
            Some(PhaseCenter { name, ra, dec }) => {
                (&name[..], "sidereal", "icrs", [ra, dec].map(|degrees| degrees.to_radians()))
            }
        };
        text(&catalogue, "cat_name", name)?;
        text(&catalogue, "cat_type", kind)?;
        text(&catalogue, "cat_frame", frame)?;
        text(&catalogue, "info_source", "corrust")?;
        scalar(&catalogue, "cat_lon", longitude)?;
        scalar(&catalogue, "cat_lat", latitude)
    }

    /// Makes the datasets that grow, of rows of `[channel][polarisation]`.
    fn columns(
        &self,
        hdf5: &H5File,
        header: &H5Group,
        row: &[usize; 2],
        integer: bool,
    ) -> std::result::Result<Columns, Hdf5Error> {
        let data = hdf5.create_group("Data")?;
        let rows = rows_of_piece(row[0] * row[1] * Number::<i64>::element_size());
        let visibilities = if integer {
            column::<Number<i64>>(&data, "visdata", row, (rows, self.gzip))?
        } else {
            column::<Number<f32>>(&data, "visdata", row, (rows, self.gzip))?
        };
        Ok(Columns {
            visibilities,
            flags: column::<HBool>(&data, "flags", row, (rows, self.gzip))?,
            samples: column::<f32>(&data, "nsamples", row, (rows, self.gzip))?,
            time: column::<f64>(header, "time_array", &[], (COLUMN_ROWS, None))?,
            integration: column::<f64>(header, "integration_time", &[], (COLUMN_ROWS, None))?,
            // Without UT1 readers know it better.
            sidereal_time: match self.dut1 {
                Some(_) => Some(column::<f64>(header, "lst_array", &[], (COLUMN_ROWS, None))?),
                None => None,
            },
            first: column::<i64>(header, "ant_1_array", &[], (COLUMN_ROWS, None))?,
            second: column::<i64>(header, "ant_2_array", &[], (COLUMN_ROWS, None))?,
            uvw: column::<f64>(header, "uvw_array", &[3], (COLUMN_ROWS, None))?,
            center: column::<i64>(header, "phase_center_id_array", &[], (COLUMN_ROWS, None))?,
            ra: column::<f64>(header, "phase_center_app_ra", &[], (COLUMN_ROWS, None))?,
            dec: column::<f64>(header, "phase_center_app_dec", &[], (COLUMN_ROWS, None))?,
            angle: column::<f64>(header, "phase_center_frame_pa", &[], (COLUMN_ROWS, None))?,
        })
    }
}

pub(super) fn scalar<T: H5Type>(
    group: &H5Group,
    name: &str,
    value: T,
) -> std::result::Result<(), Hdf5Error> {
    group.new_dataset::<T>().scalar().create(name)?.write_raw(&[value])
}

pub(super) fn list<T: H5Type>(
    group: &H5Group,
    name: &str,
    shape: &[usize],
    values: &[T],
) -> std::result::Result<(), Hdf5Error> {
    group.new_dataset::<T>().shape(shape).create(name)?.write_raw(values)
}

/// Text of one length, which ends where zeros begin.
pub(super) fn text_type(length: usize) -> DatatypeMessage {
    DatatypeMessage::FixedString { size: length.max(1) as u32, padding: 1, charset: 0 }
}

pub(super) fn text(group: &H5Group, name: &str, value: &str) -> std::result::Result<(), Hdf5Error> {
    let mut bytes = value.as_bytes().to_vec();
    bytes.resize(bytes.len().max(1), 0);
    let dataset = group.new_dataset::<u8>().datatype(text_type(bytes.len())).scalar();
    dataset.create(name)?.write_raw_bytes(&bytes)
}

pub(super) fn texts(
    group: &H5Group,
    name: &str,
    shape: &[usize],
    values: &[&str],
) -> std::result::Result<(), Hdf5Error> {
    let length = values.iter().map(|value| value.len()).max().unwrap_or(0).max(1);
    let mut bytes = Vec::with_capacity(length * values.len());
    for (index, value) in values.iter().enumerate() {
        bytes.extend(value.as_bytes());
        bytes.resize((index + 1) * length, 0);
    }
    let dataset = group.new_dataset::<u8>().datatype(text_type(length)).shape(shape);
    dataset.create(name)?.write_raw_bytes(&bytes)
}

/// The datasets with a row for each baseline of each dump.
pub(super) struct Columns {
    pub(super) visibilities: H5Dataset,
    pub(super) flags: H5Dataset,
    pub(super) samples: H5Dataset,
    pub(super) time: H5Dataset,
    pub(super) integration: H5Dataset,
    pub(super) sidereal_time: Option<H5Dataset>,
    pub(super) first: H5Dataset,
    pub(super) second: H5Dataset,
    pub(super) uvw: H5Dataset,
    pub(super) center: H5Dataset,
    pub(super) ra: H5Dataset,
    pub(super) dec: H5Dataset,
    pub(super) angle: H5Dataset,
}

/// Bytes of visibilities that are written at a time, and that a chunk of them holds.
pub(super) const PIECE_BYTES: usize = 1 << 18;

/// Rows of a chunk, for datasets of one or three numbers a row.
pub(super) const COLUMN_ROWS: usize = 2048;

/// Most bytes of a chunk in HDF5.
pub(super) const MOST_BYTES: usize = u32::MAX as usize;

/// A dataset that grows by rows of shape `row`, `rows` of them to a chunk, which may be compressed.
pub(super) fn column<T: H5Type>(
    group: &H5Group,
    name: &str,
    row: &[usize],
    (rows, gzip): (usize, Option<u8>),
) -> std::result::Result<H5Dataset, Hdf5Error> {
    let shape = [&[0], row].concat();
    let chunk = [&[rows], row].concat();
    let most: Vec<Option<usize>> =
        [None].into_iter().chain(row.iter().copied().map(Some)).collect();
    let dataset = group.new_dataset::<T>().shape(shape).chunk(&chunk).max_shape(&most);
    match gzip {
        None => dataset.create(name),
        Some(level) => dataset.shuffle_deflate(level.into()).create(name),
    }
}

/// Rows of `bytes` bytes that are written at a time.
pub(super) fn rows_of_piece(bytes: usize) -> usize {
    (PIECE_BYTES / bytes.max(1)).max(1)
}
