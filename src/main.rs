//! The command `corrust`.

mod commit;

fn main() -> std::process::ExitCode {
    corrust::bench::built_from(commit::COMMIT, commit::COMPILER);
    corrust::cli::run(std::env::args_os()).into()
}
