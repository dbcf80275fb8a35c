//! NumPy's `.npy` files: a header in text, then the elements (NumPy Enhancement Proposal 1).

/// First bytes of a file, before the version.
const MAGIC: &[u8] = b"\x93NUMPY";
/// Headers are padded to a multiple of this, in bytes.
const ALIGN: usize = 64;

/// Array of a file: the header as it stands there, magic included, and the bytes of the elements.
#[derive(Debug, PartialEq, Eq)]
pub struct Array {
    pub header: Vec<u8>,
    pub data: Vec<u8>,
}

impl Array {
    /// Splits a file.
    pub fn read(mut file: Vec<u8>) -> Result<Self, String> {
        if !file.starts_with(MAGIC) || file.len() < 12 {
            return Err("not a NumPy file".to_owned());
        }
        let (first, length): (usize, usize) = match file[6] {
            1 => (10, usize::from(u16::from_le_bytes([file[8], file[9]]))),
            _ => (12, u32::from_le_bytes([file[8], file[9], file[10], file[11]]) as usize),
        };
        let header = file.get(first..first.saturating_add(length));
        let header = header.ok_or("the header of the NumPy file is cut off")?;
        let expected = size(&String::from_utf8_lossy(header))
            .ok_or("the header of the NumPy file names no plain type and shape")?;
        let data = file.split_off(first + length);
        if data.len() as u64 != expected {
            return Err(format!(
                "{} bytes of elements, but the header says {expected}",
                data.len()
            ));
        }
        Ok(Self { header: file, data })
    }

    /// Array of bytes.
    pub fn bytes(data: Vec<u8>) -> Self {
        let fields =
            format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}", data.len());
        let padded = (10 + fields.len() + 1).next_multiple_of(ALIGN) - 10;
        let mut header = [MAGIC, &[1, 0], &(padded as u16).to_le_bytes()].concat();
        header.extend(format!("{fields:<width$}\n", width = padded - 1).bytes());
        Self { header, data }
    }
}

/// Bytes of all elements, by the fields of a header.
fn size(header: &str) -> Option<u64> {
    let (_, descr) = header.split_once("'descr':")?;
    let descr = descr.trim_start().strip_prefix('\'')?.split('\'').next()?;
    let digits = descr.trim_start_matches(|c: char| !c.is_ascii_digit());
    let width: u64 = digits.parse().ok()?;
    let (_, shape) = header.split_once("'shape':")?;
    let shape = shape.trim_start().strip_prefix('(')?.split(')').next()?;
    let mut extents = shape.split(',').map(str::trim).filter(|part| !part.is_empty());
    extents.try_fold(width, |bytes, extent| bytes.checked_mul(extent.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back() {
        let array = Array::bytes(vec![1, 2, 3]);
        assert!(array.header.len().is_multiple_of(ALIGN));
        let file = [&array.header[..], &array.data].concat();
        assert_eq!(Array::read(file.clone()).unwrap(), array);
        let text = String::from_utf8_lossy(&array.header).into_owned();
        assert_eq!(size(&text.replace("|u1", "<f4").replace("(3,)", "(5, 7)")), Some(140));
        assert_eq!(size(&text.replace("(3,)", "()")), Some(1));
        assert_eq!(size(&text.replace("'|u1'", "[('a', '<f4')]")), None);
        for (wrong, reason) in [
            (file[..file.len() - 1].to_vec(), "2 bytes of elements, but the header says 3"),
            (file[..20].to_vec(), "cut off"),
            (b"PK".to_vec(), "not a NumPy file"),
        ] {
            assert!(Array::read(wrong).unwrap_err().contains(reason), "{reason}");
        }
    }
}
