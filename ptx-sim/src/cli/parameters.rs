//! Parameters of a launch: from options to the packed buffer, and from device memory to files.

use std::path::{Path, PathBuf};

use super::npy::Array;
use super::read;
use crate::memory::Memory;
use crate::program::Parameter;

/// Bytes of a buffer at most.
const MAX_BUFFER: u64 = 1 << 34;

/// One parameter, as the option gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// NumPy file whose elements a buffer holds.
    File(PathBuf),
    /// Buffer whose bytes all have one value.
    Filled {
        /// Bytes of the buffer.
        bytes: u64,
        /// Value of each.
        byte: u8,
    },
    /// Value, little-endian.
    Value(Vec<u8>),
    /// File with the bytes of a struct.
    Bytes(PathBuf),
    /// Fields of a struct, each aligned to its size, up to 8 bytes.
    Fields(Vec<Argument>),
}

impl Argument {
    /// Reads `kind:value`, or several with `+` between: fields of a struct.
    ///
    /// # Errors
    /// One sentence about the option or file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut fields: Vec<String> = Vec::new();
        for part in text.split('+') {
            // A part without a kind belongs to the name of a file.
            match fields.last_mut() {
                Some(last) if !part.contains(':') => *last += &format!("+{part}"),
                _ => fields.push(part.to_owned()),
            }
        }
        match &fields[..] {
            [field] => Self::field(field),
            _ => fields
                .iter()
                .map(|field| Self::field(field))
                .collect::<Result<_, _>>()
                .map(Self::Fields),
        }
    }

    fn field(text: &str) -> Result<Self, String> {
        let Some((kind, value)) = text.split_once(':') else {
            return Err("expected KIND:VALUE, such as buffer:4096 or u32:5".to_owned());
        };
        let bytes = match kind {
            "buffer" => return Self::buffer(value),
            "bytes" => return Ok(Self::Bytes(value.into())),
            "f32" => value.parse::<f32>().map(|v| v.to_le_bytes().to_vec()).ok(),
            "f64" => value.parse::<f64>().map(|v| v.to_le_bytes().to_vec()).ok(),
            _ => {
                let unknown = || {
                    format!("`{kind}`: expected buffer, bytes, u8 to u64, s8 to s64, f32 or f64")
                };
                let bits: u32 =
                    kind.get(1..).and_then(|bits| bits.parse().ok()).ok_or_else(unknown)?;
                if !matches!(bits, 8 | 16 | 32 | 64) {
                    return Err(unknown());
                }
                let (low, high) = match &kind[..1] {
                    "u" => (0, (1_i128 << bits) - 1),
                    "s" => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
                    _ => return Err(unknown()),
                };
                integer(value)
                    .filter(|v| (low..=high).contains(v))
                    .map(|v| v.to_le_bytes()[..bits as usize / 8].to_vec())
            }
        };
        bytes.map(Self::Value).ok_or_else(|| format!("`{value}` is not a value of type {kind}"))
    }

    fn buffer(value: &str) -> Result<Self, String> {
        let (size, fill) = value.split_once(",fill=").map_or((value, None), |(s, f)| (s, Some(f)));
        let Some(bytes) = integer(size) else {
            return match fill {
                None => Ok(Self::File(value.into())),
                Some(_) => Err(format!("`{size}` is not a number of bytes")),
            };
        };
        let bytes = u64::try_from(bytes).ok().filter(|&bytes| bytes <= MAX_BUFFER);
        let bytes = bytes.ok_or_else(|| format!("{size} bytes: a buffer has 0 to {MAX_BUFFER}"))?;
        let byte = match fill {
            None => 0,
            Some(fill) => integer(fill)
                .and_then(|v| u8::try_from(v).ok())
                .ok_or_else(|| format!("`{fill}` is not a byte"))?,
        };
        Ok(Self::Filled { bytes, byte })
    }
}

/// An integer, decimal or after `0x`.
fn integer(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(i128::from),
        None => text.parse().ok(),
    }
}

/// A buffer to be saved: number of its parameter, and file.
#[derive(Debug, Clone)]
pub struct Save {
    parameter: usize,
    file: PathBuf,
}

impl Save {
    /// Reads `N=FILE`.
    ///
    /// # Errors
    /// One sentence about the option or file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (parameter, file) = text.split_once('=').ok_or("expected N=FILE.npy")?;
        let parameter =
            parameter.parse().map_err(|_| format!("`{parameter}` is not a parameter's number"))?;
        Ok(Self { parameter, file: file.into() })
    }
}

/// Device buffer of a parameter.
struct Buffer {
    address: u64,
    bytes: u64,
    /// Header of the NumPy file that it came from.
    header: Option<Vec<u8>>,
}

/// Parameters in device memory.
pub struct Parameters {
    /// The packed buffer that a launch takes.
    pub packed: Vec<u8>,
    buffers: Vec<Option<Buffer>>,
}

impl Parameters {
    /// Allocates and fills the buffers, and packs addresses and values as the entry declares them.
    ///
    /// # Errors
    /// One sentence about the option or file.
    pub fn place(
        arguments: &[Argument],
        declared: &[Parameter],
        memory: &Memory,
    ) -> Result<Self, String> {
        if arguments.len() != declared.len() {
            let names: Vec<String> =
                declared.iter().map(|p| format!("{} ({} bytes)", p.name, p.bytes)).collect();
            return Err(format!(
                "the entry has {} parameters, {} were given: {}",
                declared.len(),
                arguments.len(),
                names.join(", ")
            ));
        }
        let end = declared.last().map_or(0, |p| p.offset + p.bytes);
        let mut placed = Self { packed: vec![0; end as usize], buffers: Vec::new() };
        for (number, (argument, parameter)) in arguments.iter().zip(declared).enumerate() {
            let (value, buffer) = value_of(argument, memory)?;
            if value.len() != parameter.bytes as usize {
                return Err(format!(
                    "parameter {number} ({}) has {} bytes, {} were given",
                    parameter.name,
                    parameter.bytes,
                    value.len()
                ));
            }
            placed.packed[parameter.offset as usize..][..value.len()].copy_from_slice(&value);
            placed.buffers.push(buffer);
        }
        Ok(placed)
    }

    /// Checks that every number names a buffer.
    ///
    /// # Errors
    /// One sentence about the option or file.
    pub fn can_save(&self, saves: &[Save]) -> Result<(), String> {
        saves.iter().try_for_each(|save| self.buffer(save).map(drop))
    }

    fn buffer(&self, save: &Save) -> Result<&Buffer, String> {
        let buffer = self.buffers.get(save.parameter).and_then(Option::as_ref);
        buffer.ok_or_else(|| {
            format!("--save {}: the entry has no buffer of this number", save.parameter)
        })
    }

    /// Writes buffers to their files.
    ///
    /// # Errors
    /// One sentence about the option or file.
    pub fn save(&self, saves: &[Save], memory: &Memory) -> Result<(), String> {
        for save in saves {
            let buffer = self.buffer(save)?;
            let mut data = vec![0; buffer.bytes as usize];
            memory.read(buffer.address, &mut data).map_err(|error| error.to_string())?;
            let array = match &buffer.header {
                Some(header) => Array { header: header.clone(), data },
                None => Array::bytes(data),
            };
            write(&save.file, &[array.header, array.data].concat())?;
        }
        Ok(())
    }
}

/// Bytes of a parameter, and the buffer that they point to, if they do.
fn value_of(argument: &Argument, memory: &Memory) -> Result<(Vec<u8>, Option<Buffer>), String> {
    let (data, header) = match argument {
        Argument::Value(bytes) => return Ok((bytes.clone(), None)),
        Argument::Bytes(file) => return Ok((read(file)?, None)),
        Argument::Fields(fields) => {
            let (mut packed, mut first, mut align) = (Vec::new(), None, 1);
            for field in fields {
                let (value, buffer) = value_of(field, memory)?;
                let size = value.len().clamp(1, 8);
                align = align.max(size);
                packed.resize(packed.len().next_multiple_of(size), 0);
                packed.extend(value);
                first = first.or(buffer);
            }
            packed.resize(packed.len().next_multiple_of(align), 0);
            return Ok((packed, first));
        }
        // Zeros take no memory of the host before something touches them.
        Argument::Filled { bytes, byte: 0 } => {
            let address = memory.alloc_zeros(*bytes);
            let buffer = Buffer { address, bytes: *bytes, header: None };
            return Ok((address.to_le_bytes().to_vec(), Some(buffer)));
        }
        Argument::Filled { bytes, byte } => (vec![*byte; *bytes as usize], None),
        Argument::File(file) => {
            let array = Array::read(read(file)?).map_err(|e| format!("{}: {e}", file.display()))?;
            (array.data, Some(array.header))
        }
    };
    let bytes = data.len() as u64;
    let address = memory.alloc(bytes);
    memory.write(address, &data).map_err(|error| error.to_string())?;
    Ok((address.to_le_bytes().to_vec(), Some(Buffer { address, bytes, header })))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_parameters() {
        let value = |bytes: &[u8]| Ok(Argument::Value(bytes.to_vec()));
        assert_eq!(Argument::parse("u32:5"), value(&[5, 0, 0, 0]));
        assert_eq!(Argument::parse("s16:-2"), value(&[0xfe, 0xff]));
        assert_eq!(Argument::parse("u64:0xffffffffffffffff"), value(&[0xff; 8]));
        assert_eq!(Argument::parse("f32:1"), value(&1_f32.to_le_bytes()));
        assert_eq!(Argument::parse("buffer:64"), Ok(Argument::Filled { bytes: 64, byte: 0 }));
        assert_eq!(
            Argument::parse("buffer:64,fill=0x7f"),
            Ok(Argument::Filled { bytes: 64, byte: 127 })
        );
        assert_eq!(Argument::parse("buffer:x.npy"), Ok(Argument::File("x.npy".into())));
        assert_eq!(Argument::parse("buffer:a+b.npy"), Ok(Argument::File("a+b.npy".into())));
        let memory = Memory::new();
        let fields = Argument::parse("u8:7+buffer:64+u32:5").unwrap();
        let (packed, buffer) = value_of(&fields, &memory).unwrap();
        let address = buffer.unwrap().address.to_le_bytes();
        assert_eq!(packed, [[7, 0, 0, 0, 0, 0, 0, 0], address, [5, 0, 0, 0, 0, 0, 0, 0]].concat());
        assert!(Argument::parse("u8:7+u8:256").is_err());
        for (text, reason) in [
            ("5", "expected KIND:VALUE"),
            ("u8:256", "`256` is not a value of type u8"),
            ("u12:1", "`u12`: expected buffer"),
            ("é:1", "expected buffer"),
            ("s64:x", "`x` is not a value of type s64"),
            ("buffer:-1", "a buffer has 0 to"),
            ("buffer:1,fill=256", "`256` is not a byte"),
            ("buffer:x,fill=1", "`x` is not a number of bytes"),
        ] {
            let said = Argument::parse(text).unwrap_err();
            assert!(said.contains(reason), "{text}: {said}");
        }
        assert!(Save::parse("1").is_err() && Save::parse("x=y").is_err());
    }
}
