//! `corrust completions`.

use std::io::Write;

use clap::Command;
use clap_complete::Shell;
use corrust::Result;

use crate::cli::terminal::say::record_error;

/// Print a script that completes commands and options in a shell
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Shell that is to complete them
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  corrust completions bash > ~/.local/share/bash-completion/completions/corrust
  corrust completions zsh > ~/.zfunc/_corrust
  corrust completions fish > ~/.config/fish/completions/corrust.fish";

impl Args {
    /// Prints the script for a program.
    pub fn run(self, mut program: Command) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "corrust", &mut script);
        record_error(std::io::stdout().write_all(&script));
        Ok(())
    }
}
