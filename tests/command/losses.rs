//! Samples that are missing of some inputs alone: counts, planes, values of few bits, and the sentences about them.

use std::{fs, path::Path};

use command::done;
use ndarray::{Array2, Array3, Array4, Array5, s};

use crate::support::command;

/// Times of a frame and of all, and bytes of a frame.
const FRAME: u64 = 4000;
const TIMES: u64 = 80_000;
const BYTES: usize = 8032;

/// Times that an input misses: a frame of the first one, seven of the second.
const LOST: [std::ops::Range<u64>; 2] = [5 * FRAME..6 * FRAME, 3 * FRAME..10 * FRAME];

/// Writes `scan.vdif`, a channel of two threads, each without its own frames.
fn record(folder: &Path) {
    let simulate = "simulate --raw -o all.vdif --encoding vdif-8-complex --inputs 2 --rate 1MHz";
    done(folder, &format!("{simulate} --times {TIMES}"));
    let all = fs::read(folder.join("all.vdif")).unwrap();
    let word = |frame: &[u8], word: usize| {
        u32::from_le_bytes(frame[4 * word..4 * word + 4].try_into().unwrap())
    };
    let kept = |frame: &&[u8]| {
        let (number, thread) = (word(frame, 1) & 0xff_ffff, word(frame, 3) >> 16 & 0x3ff);
        !LOST[thread as usize].contains(&(u64::from(number) * FRAME))
    };
    assert_eq!(all.len(), 40 * BYTES);
    let frames: Vec<_> = all.chunks_exact(BYTES).filter(kept).collect();
    assert_eq!(frames.len(), 32);
    fs::write(folder.join("scan.vdif"), frames.concat()).unwrap();
}

/// Times that both of two inputs have, where each misses whole blocks of `unit` times that hold a lost one.
fn valid(unit: u64, i: usize, j: usize) -> u64 {
    let whole = |range: &std::ops::Range<u64>| {
        range.start / unit * unit..range.end.next_multiple_of(unit).min(TIMES)
    };
    let lost = [i, j].map(|input| whole(&LOST[input]));
    (0..TIMES).filter(|time| lost.iter().all(|lost| !lost.contains(time))).count() as u64
}

const BASELINES: [(usize, usize); 3] = [(0, 0), (1, 0), (1, 1)];

#[test]
fn inputs_that_are_lost_separately_are_counted_separately() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    record(folder);
    let expected = BASELINES.map(|(i, j)| valid(1, i, j)).to_vec();
    assert_eq!(expected, [76_000, 52_000, 52_000]);

    let said = done(folder, "correlate scan.vdif -o v.npy --counts c.npy --device cpu");
    assert!(said.contains("20.0 % of the samples are missing (20.0 % lost)"), "{said}");
    let counts: Array3<u64> = ndarray_npy::read_npy(folder.join("c.npy")).unwrap();
    assert_eq!(counts.dim(), (1, 1, 3));
    assert_eq!(counts.iter().copied().collect::<Vec<_>>(), expected);

    // The same of a plan, whose beams say what is missing, and powers need no array.
    let weights = Array5::from_elem((1, 1, 1, 2, 2), 1_i8);
    ndarray_npy::write_npy(folder.join("w.npy"), &weights).unwrap();
    ndarray_npy::write_npy(folder.join("s.npy"), &Array3::from_elem((1, 1, 1), 2_i32)).unwrap();
    let plan = "[input]\nfiles = [\"scan.vdif\"]\ndevice = \"cpu\"\n\
         [[visibilities]]\noutput = \"ov.npy\"\ncounts = \"oc.npy\"\n\
         [[power]]\noutput = \"op.npy\"\nintegrate = 100\n\
         [[beams]]\nweights = \"w.npy\"\nshifts = \"s.npy\"\noutput = \"ob.npy\"\n";
    fs::write(folder.join("plan.toml"), plan).unwrap();
    let said = done(folder, "observe plan.toml");
    let sentence = "of all that was read, 20.0 % of the samples are missing (20.0 % lost)";
    assert!(said.contains(sentence), "{said}");
    let planned: Array3<u64> = ndarray_npy::read_npy(folder.join("oc.npy")).unwrap();
    assert_eq!(planned, counts);

    for (chosen, sentence) in
        [("", "20.0 % of"), ("--input 0", "5.00 % of"), ("--input 1", "35.0 % of")]
    {
        let said = done(folder, &format!("filterbank scan.vdif -o p.npy --integrate 100 {chosen}"));
        assert!(said.contains(&format!("{sentence} the samples are missing")), "{chosen}: {said}");
        if chosen.is_empty() {
            let [ours, theirs] =
                ["p.npy", "op.npy"].map(|name| fs::read(folder.join(name)).unwrap());
            assert!(ours == theirs);
        }
    }
    let beams = "--channelise 16 --level --rate 1MHz --weights w16.npy --shifts s16.npy -o b.npy";
    let weights = Array5::from_elem((16, 1, 1, 2, 2), 1_i8);
    ndarray_npy::write_npy(folder.join("w16.npy"), &weights).unwrap();
    ndarray_npy::write_npy(folder.join("s16.npy"), &Array3::from_elem((16, 1, 1), 2_i32)).unwrap();
    let said = done(folder, &format!("beamform scan.vdif {beams} --device cpu"));
    assert!(
        said.contains(" % of the samples are missing (20.") && said.contains("lost)"),
        "{said}"
    );
}

/// Words of planes miss the inputs that are lost, not the others; plain values, which have no place for it, are noise there, and a
/// line says so.
#[test]
fn quantised_recordings_miss_what_they_missed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    record(folder);
    let expected = BASELINES.map(|(i, j)| valid(128, i, j)).to_vec();
    assert_eq!(expected, [75_904, 51_840, 51_840]);
    let said = done(folder, "quantise scan.vdif -o b.npy --bits 1 --planes --device cpu");
    assert!(said.contains("220 of 625 words of 128 times miss some of them in an input"), "{said}");
    done(folder, "correlate b.npy -o v.npy --counts c.npy --device cpu");
    let counts: Array2<u64> = ndarray_npy::read_npy(folder.join("c.npy")).unwrap();
    assert_eq!(counts.iter().copied().collect::<Vec<_>>(), expected);

    for (kind, name) in [("", "few.npy"), ("--pack", "packed.npy")] {
        let said = done(folder, &format!("quantise scan.vdif -o {name} --bits 3 {kind}"));
        assert!(
            said.contains("20.0 % of the samples are missing (20.0 % lost) and become 0 or -1"),
            "{said}"
        );
        let said = done(folder, &format!("correlate {name} -o {name}.v.npy --device cpu"));
        assert!(said.contains("4 V - 2 T"), "{said}");
    }
    let read = |name: &str| -> Array4<i64> {
        ndarray_npy::read_npy(folder.join(format!("{name}.v.npy"))).unwrap()
    };
    let sums = read("few.npy");
    assert_eq!(sums, read("packed.npy"));
    // The sum of levels, by the sentence, but for their means, which are near 0.
    let few: Array3<u8> = ndarray_npy::read_npy(folder.join("few.npy")).unwrap();
    let level = |nibble: u8| i64::from(2 * (nibble as i8 >> 4) + 1);
    assert_eq!(few.dim(), (1, 2, TIMES as usize));
    let levels = |input: usize| {
        let row = few.slice(s![0, input, ..]);
        row.into_iter().map(|&v| [level(v), level(v << 4)])
    };
    let product = levels(1).zip(levels(0)).map(|(a, b)| a[0] * b[0] + a[1] * b[1]).sum::<i64>();
    let means = [0, 1].map(|input| levels(input).map(|level| level[0] + level[1]).sum::<i64>());
    let [times, means] = [TIMES as i64, means[0] + means[1]];
    assert_eq!(4 * sums[[0, 0, 1, 0]] - 2 * times + means, product);
    assert!(2 * means.abs() < times, "{means}");
}
