//! `corrust man`.

use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use corrust::{Error, Result, format::PartialFile};

use crate::cli::{
    options::run_files::{Existing, RunFiles},
    terminal::say::tell,
};

/// Write manual pages of all commands, for packages
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Folder for corrust.1, corrust-correlate.1 and so on; it is made where it is not there
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    existing: Existing,
}

const EXAMPLES: &str = "\
Examples:
  corrust man ~/.local/share/man/man1";

impl Args {
    /// Writes the pages of a program.
    pub fn run(self, mut program: Command) -> Result<()> {
        std::fs::create_dir_all(&self.folder).map_err(Error::io(&self.folder, "write"))?;
        program.build();
        let mut pages = Vec::new();
        pages_of(&program, program.get_name(), &mut pages);
        let named = |name: &str| self.folder.join(format!("{name}.1"));
        let paths: Vec<PathBuf> = pages.iter().map(|(name, _)| named(name)).collect();
        RunFiles::default().writes(&paths).check(self.existing)?;
        for (path, (name, command)) in paths.iter().zip(pages) {
            let mut page = Vec::new();
            let title = Man::new(command.display_name(&name)).title(&name);
            title.render(&mut page).expect("memory takes all that is written");
            let mut file = PartialFile::create(path)?;
            file.append(&page)?;
            file.finish()?;
        }
        tell(format_args!("wrote {} pages: {}", paths.len(), self.folder.display()));
        Ok(())
    }
}

/// Adds a command and all below it, with the names of their pages.
fn pages_of(command: &Command, name: &str, pages: &mut Vec<(String, Command)>) {
    pages.push((name.to_owned(), command.clone()));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        pages_of(below, &format!("{name}-{}", below.get_name()), pages);
    }
}
