//! Writes the digests of the shipped kernels' machine code: `digest PTX_FOLDER DIGEST_FOLDER [FILE...]`. With files of PTX,
//! such as `sm_80/correlate_widen.ptx`, only these are assembled, and other kernels stay as their digests have them.
//! ptxas and nvdisasm are those that the variables `PTXAS` and `NVDISASM` name, or of the path.

use std::{collections::BTreeMap, env, error::Error, fs, path::Path};

use ptx_model::code::{assemble, digest, undigest};

/// Architectures, and the folders whose kernels are assembled for them; sm_89 takes the digest of sm_86.
const ARCHS: [(&str, &[&str]); 3] =
    [("sm_80", &["sm_80"]), ("sm_86", &["sm_80"]), ("sm_90a", &["sm_80", "sm_90a"])];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [ptx, out, changed @ ..] = &arguments[..] else {
        return Err("usage: digest PTX_FOLDER DIGEST_FOLDER [FILE...]".into());
    };
    for (arch, folders) in ARCHS {
        let path = Path::new(out).join(arch);
        let mut known = match changed.is_empty() {
            true => BTreeMap::new(),
            false => undigest(&fs::read(&path)?).ok_or(format!("{}: no digest", path.display()))?,
        };
        let (mut kernels, mut assembled) = (BTreeMap::new(), 0);
        for folder in folders {
            for file in fs::read_dir(Path::new(ptx).join(folder))? {
                let file = file?.path();
                let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let is_changed = changed.iter().any(|path| file.ends_with(path));
                if !is_changed && let Some(code) = known.remove(&name) {
                    kernels.insert(name, code);
                    continue;
                }
                let text = fs::read_to_string(file)?;
                kernels.extend(assemble(&text, arch)?.ok_or("ptxas or nvdisasm is not found")?);
                assembled += 1;
            }
        }
        let bytes = digest(&kernels);
        println!("{arch}: {assembled} of {} kernels, {} bytes", kernels.len(), bytes.len());
        fs::write(path, bytes)?;
    }
    Ok(())
}
