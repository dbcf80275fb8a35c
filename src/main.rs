//! The command `corrust`.

fn main() -> std::process::ExitCode {
    corrust::cli::run(std::env::args_os()).into()
}
