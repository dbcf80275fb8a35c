//! Help in two levels: `-h` is one screen, `--help` has every option and example.

use std::fmt::Write;

use clap::{Command, builder::StyledStr};

/// Commands by what people have, in the order of the help.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Voltages",
        &[
            "channelise",
            "upchannelise",
            "correlate",
            "beamform",
            "filterbank",
            "observe",
            "quantise",
            "weights",
            "delays",
        ],
    ),
    ("Photons", &["autocorrelate", "fit", "images"]),
    ("Live", &["serve", "send"]),
    (
        "Tools",
        &[
            "info",
            "plot",
            "demo",
            "simulate",
            "plan",
            "devices",
            "bench",
            "qualify",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// Examples of a command that its first level shows.
const SHOWN: usize = 3;

const HELP: &str = "Print this message, or the help of a command";

const MORE: &str = "\
corrust COMMAND -h is one screen on a command, corrust COMMAND --help all of its options, with examples.";

const EXAMPLES: &str = "\
Examples:
  corrust demo                                      see it work, with a plot
  corrust devices                                   what it can run on
  corrust info scan.vdif                            what a recording is, and what it lacks
  corrust correlate scan.raw -o visibilities.npy    a GUPPI RAW recording
  corrust autocorrelate counts.npy -o g.npy         photon counts, multi-tau
  corrust autocorrelate x.ptu -o g.npy --plot g.svg photons of PicoQuant's (FCS)
  corrust fit g.csv -o fit.json                     a diffusion time, with its uncertainty
  corrust images cells.tif --brightness maps.npy    number and brightness, RICS, two-time correlation
  corrust bench                                     how quick it is, against what the chip can do
  corrust qualify                                   whether it computes rightly on this machine
  corrust plan --inputs 128 --bandwidth 856MHz      how many GPUs an array needs
  corrust help correlate                            options and more examples

Exit codes: 0 done, 1 slower (bench --against) or a requirement failed (qualify), 2 bad input or arguments (one sentence says what), 130 interrupted.";

/// The program with its commands in groups, and with examples on both levels of each command's help.
pub fn arranged(command: Command) -> Command {
    let command = command.mut_subcommands(|command| with_examples(in_brief(command)));
    let list = list(&command);
    let header = command.get_styles().get_header();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    );
    command
        .help_template(StyledStr::from(template))
        .after_help(MORE)
        .after_long_help(format!("{MORE}\n\n{EXAMPLES}"))
}

/// Headings, names and first lines of the commands.
fn list(command: &Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{header}{heading}:{header:#}");
        for name in names {
            let about = match command.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None if *name == "help" => HELP.to_owned(),
                // A command that this build lacks.
                None => continue,
            };
            let _ = writeln!(text, "  {literal}{name:<14}{literal:#}{about}");
        }
        text.push('\n');
    }
    text
}

/// A command whose first level of help has the options in brief.
fn in_brief(command: Command) -> Command {
    command.mut_subcommands(in_brief).mut_args(|option| {
        let Some(help) = option.get_help().map(StyledStr::to_string) else { return option };
        let long = option.get_long_help().cloned().unwrap_or_else(|| help.clone().into());
        option.help(brief(&help)).long_help(long)
    })
}

/// The beginning of a text that is longer than a line: up to a semicolon, else a colon, and the default at its end.
fn brief(text: &str) -> String {
    /// Letters of a line beside the options' names; a text of fewer than the least says nothing.
    const LINE: usize = 72;
    const LEAST: usize = 20;
    if text.len() <= LINE {
        return text.to_owned();
    }
    let (words, default) = match text.rfind(" [default: ") {
        Some(at) if text.ends_with(']') => text.split_at(at),
        _ => (text, ""),
    };
    let cut = |words: &str, mark: &str| match words.find(mark) {
        Some(at) if at >= LEAST && words.len() > LINE => words[..at].to_owned(),
        _ => words.to_owned(),
    };
    cut(&cut(words, "; "), ": ") + default
}

/// A command whose first level of help has some of the examples of the second.
fn with_examples(command: Command) -> Command {
    let Some(all) = command.get_after_long_help().map(StyledStr::to_string) else { return command };
    let examples = all.lines().skip_while(|line| *line != "Examples:").skip(1);
    let whole = |line: &&str| line.starts_with("  corrust ") && !line.ends_with('\\');
    let shown: Vec<&str> = examples.filter(whole).take(SHOWN).collect();
    let name = command.get_name();
    let shown = shown.join("\n");
    let text = format!("Examples:\n{shown}\n\nAll options: corrust {name} --help");
    command.after_help(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Command;

    use super::{GROUPS, brief};

    #[test]
    fn long_texts_are_cut_at_their_marks() {
        let text = "Number of channels to make of a recording: from 0 Hz up without the Nyquist channel for real ones";
        assert_eq!(brief(text), "Number of channels to make of a recording");
        let text = "Device: auto (the first GPU, else the CPU), cuda or cpu; cuda:0,cuda:1 are several GPUs [default: x]";
        assert_eq!(
            brief(text),
            "Device: auto (the first GPU, else the CPU), cuda or cpu [default: x]"
        );
        assert_eq!(brief("Seconds; or none"), "Seconds; or none");
    }

    #[test]
    fn every_command_is_in_one_group() {
        let parser = crate::cli::parser();
        let all = parser.get_subcommands().map(Command::get_name);
        let all: BTreeSet<&str> = all.chain(["help"]).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let once: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(once.len(), grouped.len());
        assert!(all.is_subset(&once), "{all:?}");
    }
}
