//! Writes the digests of the shipped kernels' machine code: `digest PTX_FOLDER DIGEST_FOLDER`.
//! ptxas and nvdisasm are those that the variables `PTXAS` and `NVDISASM` name, or of the path.

use std::{collections::BTreeMap, env, error::Error, fs, path::Path};

use ptx_model::code::{assemble, digest};

/// Architectures, and the folders whose kernels are assembled for them; sm_89 takes the digest of sm_86.
const ARCHS: [(&str, &[&str]); 3] =
    [("sm_80", &["sm_80"]), ("sm_86", &["sm_80"]), ("sm_90a", &["sm_80", "sm_90a"])];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [ptx, out] = &arguments[..] else {
        return Err("usage: digest PTX_FOLDER DIGEST_FOLDER".into());
    };
    for (arch, folders) in ARCHS {
        let mut kernels = BTreeMap::new();
        for folder in folders {
            for file in fs::read_dir(Path::new(ptx).join(folder))? {
                let text = fs::read_to_string(file?.path())?;
                let made = assemble(&text, arch)?.ok_or("ptxas or nvdisasm is not found")?;
                kernels.extend(made);
            }
        }
        let bytes = digest(&kernels);
        println!("{arch}: {} kernels, {} bytes", kernels.len(), bytes.len());
        fs::write(Path::new(out).join(arch), bytes)?;
    }
    Ok(())
}
