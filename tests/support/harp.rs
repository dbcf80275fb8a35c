//! Headers of PT2, PT3, HT2 and HT3, which share no code with the reader.

/// Formats: the number of their records' kind in PTU, and the ending of a file's name.
pub const FORMATS: [(u32, &str); 6] = [
    (0x0001_0203, "pt2"),
    (0x0001_0303, "pt3"),
    (0x0001_0204, "ht2"),
    (0x0001_0304, "ht3"),
    (0x0101_0204, "ht2"),
    (0x0101_0304, "ht3"),
];

/// Writes values one after the other.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn text(&mut self, text: &str, length: usize) {
        let mut field = vec![0; length];
        field[..text.len()].copy_from_slice(text.as_bytes());
        self.0.extend(field);
    }

    fn ints(&mut self, values: &[i32]) {
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn real(&mut self, value: f64) {
        self.0.extend(value.to_le_bytes());
    }
}

/// The header of a file of `count` records: pulses a second, seconds of a unit of microtimes, an image's header of
/// `words` words.
pub fn header(kind: u32, rate: i32, microtime: f64, count: usize, words: i32) -> Vec<u8> {
    let pico = kind & 0xff == 3;
    let mode = if kind & 0xff00 == 0x0300 { 3 } else { 2 };
    let mut bytes = Bytes::default();
    bytes.text(if pico { "PicoHarp 300" } else { "HydraHarp" }, 16);
    bytes.text(if pico || kind >> 24 == 1 { "2.0" } else { "1.0" }, 6);
    bytes.text("corrust's tests", 18);
    bytes.text("1.0", 12);
    bytes.text("01/02/24 12:00:00", 18);
    bytes.text("\r\n", 2);
    bytes.text("a comment", 256);
    // Curves, bits of a record.
    bytes.ints(&[1, 32]);
    if pico {
        // Routing channels, boards, active curve, modes, range, offset, duration and display.
        bytes.ints(&[4, 1, 0, mode, 0, 0, 0, 1000, 0, 0, 0, 0, 0, 0, 0, 0]);
    } else {
        // Active curve, modes, binning.
        bytes.ints(&[0, mode, 0, 0]);
        bytes.real(microtime * 1e12);
        bytes.ints(&[0, 1000, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    // Curves that are shown, parameters, repetition and script.
    bytes.ints(&[0; 16 + 9 + 4 + 5]);
    bytes.text("hardware", 16);
    bytes.text("1.0", 8);
    if pico {
        // Serial number, divider and thresholds.
        bytes.ints(&[1, 1, 0, 0, 0, 0]);
        bytes.0.extend((microtime as f32 * 1e9).to_le_bytes());
        // Router; devices; rates; why it ended; records.
        bytes.ints(&[0; 2 + 4 * 6 + 3]);
        bytes.ints(&[rate, 0, 0, 0, count as i32, words]);
    } else {
        // Serial number, modules.
        bytes.ints(&[1, 1]);
        bytes.ints(&[0; 20]);
        bytes.real(1.0);
        // Inputs that are enabled, and that there are: 3.
        bytes.ints(&[7, 0, 3, 0, 0, 0, 1, 0, 0, 0]);
        bytes.ints(&[9; 15]);
        bytes.ints(&[rate, 0, 0, words]);
        bytes.0.extend((count as u64).to_le_bytes());
    }
    bytes.ints(&vec![5; words as usize]);
    bytes.0
}
