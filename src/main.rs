//! The command `corrust`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
