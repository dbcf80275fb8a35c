//! Lists of devices on the command line.

use std::{fs, path::Path};

use crate::support::command;

/// The files of two and three simulators equal the files of one.
#[test]
fn the_command_line_takes_lists() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    command::done(folder, "simulate -o scan.npy --inputs 5 --channels 4 --times 90");
    let counts: Vec<u8> = (0..7 * 300).map(|index| (index * index % 251) as u8).collect();
    npy(&folder.join("counts.npy"), "|u1", "(300, 7)", &counts);
    let mut expected: Option<[Vec<u8>; 2]> = None;
    for device in ["cpu", "sim", "sim,sim", "sim,sim,sim"] {
        let said = command::done(folder, &format!("correlate scan.npy -o v.npy --device {device}"));
        let named = ["CPU", "simulator", "2 x simulator", "3 x simulator"];
        assert!(named.iter().any(|name| said.contains(name)), "{said}");
        let options = "--groups 4 --lags 8 --device";
        command::done(folder, &format!("autocorrelate counts.npy -o g.npy {options} {device}"));
        let found = ["v.npy", "g.npy"].map(|file| fs::read(folder.join(file)).unwrap());
        let expected = expected.get_or_insert_with(|| found.clone());
        assert!(*expected == found, "{device}");
    }
    for (device, expected) in [
        ("cpu,cuda", "cpu is not one of several GPUs"),
        ("sim,cuda", "simulators and CUDA devices"),
        ("cuda:1,cuda:1", "cuda:1 twice"),
    ] {
        let arguments = format!("correlate scan.npy -o no.npy --device {device}");
        let output = command::corrust(folder, &arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected) && text.lines().count() == 1, "{text}");
        assert!(!folder.join("no.npy").exists());
    }
}

/// Channels of raw voltages, and subchannels of them, that several GPUs share out.
#[test]
fn several_gpus_share_channels_of_raw_voltages() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    command::done(folder, "simulate --raw -o raw.npy --inputs 2 --times 3000 --rate 8MHz");
    command::done(folder, "simulate -o other.npy --inputs 2 --channels 16 --times 8 --sources 1");
    command::done(folder, "weights other.json -o w.npy --shifts s.npy --pointing 0,0,1 --shift 9");
    let mut expected: Option<[Vec<u8>; 3]> = None;
    for device in ["sim", "sim,sim", "sim,sim,sim"] {
        let fx = format!("--channelise 8 --level --upchannelise 2 --device {device}");
        command::done(folder, &format!("correlate raw.npy -o v.npy --integrate 50 {fx} --flag sk"));
        let beams = "beamform raw.npy --weights w.npy --shifts s.npy -o b.npy";
        command::done(folder, &format!("{beams} {fx}"));
        let plan = format!(
            "[input]\nfiles = [\"raw.npy\"]\ndevice = \"{device}\"\n\
             channelise = {{ channels = 8, level = true }}\n\
             [[visibilities]]\noutput = \"o.npy\"\nintegrate = 100\n\
             [[spectra]]\noutput = \"p.npy\"\n"
        );
        fs::write(folder.join("plan.toml"), plan).unwrap();
        command::done(folder, "observe plan.toml");
        let found = ["v.npy", "b.npy", "o.npy"].map(|file| fs::read(folder.join(file)).unwrap());
        let expected = expected.get_or_insert_with(|| found.clone());
        assert!(*expected == found, "{device}");
    }
}

/// Writes a NumPy file.
fn npy(path: &Path, dtype: &str, shape: &str, bytes: &[u8]) {
    let header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    fs::write(path, file).unwrap();
}
