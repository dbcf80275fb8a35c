//! The terminal: labels and colours, quiet and verbose, help in two levels, completions, manual pages, JSON.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::command::{command, corrust, done, refused};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A recording, and a name under which it does not lie.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), "simulate -o rec.npy --inputs 3 --channels 4 --times 100");
    folder
}

const CORRELATE: &str = "correlate rec.npy -o v.npy --device cpu --integrate 30";

#[test]
fn labels_have_colours_on_terminals_alone() {
    let folder = folder();
    let run = |variables: &[(&str, &str)]| {
        let mut command = command(folder.path(), "info none.npy");
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        text(&command.envs(variables.iter().copied()).output().unwrap().stderr)
    };
    assert!(run(&[]).starts_with("error: none.npy: "), "{}", run(&[]));
    let coloured = run(&[("CLICOLOR_FORCE", "1")]);
    assert!(coloured.starts_with("\x1b[31m\x1b[1merror:\x1b[0m none.npy: "), "{coloured:?}");
    done(folder.path(), CORRELATE);
    let said = done(folder.path(), CORRELATE);
    assert!(said.contains("\nwarning: the last 10 of 100 times"), "{said}");
    assert!(said.contains("\nnote: v.npy existed and was replaced\n"), "{said}");
}

/// On a terminal of its own, made by util-linux's `script`, labels have colours unless NO_COLOR is set.
#[cfg(target_os = "linux")]
#[test]
fn no_color_is_obeyed() {
    let folder = folder();
    let program = env!("CARGO_BIN_EXE_corrust");
    let run = |variable: Option<&str>| -> Option<String> {
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{program} info none.npy"), "/dev/null"]);
        script.current_dir(folder.path()).env("TERM", "xterm").env_remove("NO_COLOR");
        script.envs(variable.map(|name| (name, "1")));
        Some(text(&script.output().ok()?.stdout))
    };
    let Some(coloured) = run(None) else {
        eprintln!("skipped: there is no program `script`");
        return;
    };
    assert!(coloured.contains("\x1b[1merror:\x1b[0m"), "{coloured:?}");
    let plain = run(Some("NO_COLOR")).unwrap();
    assert!(plain.contains("error: none.npy") && !plain.contains('\x1b'), "{plain:?}");
}

#[test]
fn quiet_leaves_errors_and_what_was_asked_for() {
    let folder = folder();
    let folder = folder.path();
    assert_eq!(done(folder, &format!("{CORRELATE} -q")), "");
    assert!(folder.join("v.npy").exists());
    assert!(done(folder, "info rec.npy -q").contains("format"));
    assert!(refused(folder, "-q info none.npy").starts_with("error: none.npy"));
    let output = corrust(folder, &format!("{CORRELATE} -v"));
    let details = text(&output.stderr);
    assert!(output.status.success(), "{details}");
    assert!(details.contains("note: corrust ") && details.contains("note: done in "), "{details}");
    assert!(refused(folder, "devices -q -v").contains("cannot be used with"));
}

/// Names of all commands.
fn names() -> Vec<String> {
    let parser = corrust::cli::parser();
    parser.get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// Help as it is on a terminal of 100 columns.
fn help(folder: &Path, arguments: &str) -> String {
    let output = corrust(folder, arguments);
    assert!(output.status.success(), "{arguments}");
    text(&output.stdout)
}

#[test]
fn short_help_is_one_screen_and_long_help_is_all() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let top = help(folder, "-h");
    assert!(top.lines().count() <= 45, "{top}");
    for heading in ["Voltages:", "Photons:", "Live:", "Tools:"] {
        assert!(top.lines().any(|line| line == heading), "{heading} in {top}");
    }
    let parser = corrust::cli::parser();
    for name in names() {
        assert!(top.lines().any(|line| line.starts_with(&format!("  {name} "))), "{name}");
        let short = help(folder, &format!("{name} -h"));
        let lines = short.lines().count();
        assert!(lines <= 52, "{name}: {lines} lines\n{short}");
        assert!(short.contains("Examples:"), "{name}");
        let long = help(folder, &format!("{name} --help"));
        let command = parser.find_subcommand(&name).unwrap();
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            let Some(option) = option.get_long() else { continue };
            assert!(long.contains(&format!("--{option}")), "{name}: --{option}");
        }
    }
    // Options of kernels' authors are where kernels run, on the second level.
    assert!(!help(folder, "correlate -h").contains("--ptx"));
    assert!(help(folder, "correlate --help").contains("--ptx"));
    assert!(!help(folder, "fit --help").contains("--ptx"));
    assert!(refused(folder, "fit g.csv --ptx k.ptx").contains("unexpected argument"));
}

#[test]
fn completions_and_manual_pages_know_all_commands() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = done(folder, &format!("completions {shell}"));
        for name in names() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        assert!(script.contains("van-vleck"), "{shell}");
    }
    assert!(refused(folder, "completions tcsh").contains("tcsh"));
    if let Ok(output) =
        Command::new("bash").args(["-n", "-c"]).arg(done(folder, "completions bash")).output()
    {
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    done(folder, "man pages/man1");
    for name in names() {
        let page = fs::read_to_string(folder.join(format!("pages/man1/corrust-{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH corrust-{name} 1")), "{name}: {page}");
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Examples:"), "{name}");
    }
    let page = fs::read_to_string(folder.join("pages/man1/corrust.1")).unwrap();
    assert!(page.contains("corrust\\-correlate") || page.contains("corrust-correlate"), "{page}");
    assert!(folder.join("pages/man1/corrust-bench-limits.1").exists());
    fs::write(folder.join("file"), "").unwrap();
    assert!(refused(folder, "man file").contains("file: "));
    assert!(refused(folder, "man pages/man1 --no-clobber").contains("corrust"));
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn commands_print_json() {
    let folder = folder();
    let folder = folder.path();
    let devices = json(&corrust(folder, "devices --json"));
    assert_eq!(devices["devices"][0]["device"], "cpu");
    assert!(devices["devices"][0]["kernel"].as_str().unwrap().starts_with("cpu-"), "{devices}");
    let gpus = devices["devices"].as_array().unwrap().iter();
    let gpus = gpus.filter(|it| it["device"].as_str().unwrap().starts_with("cuda")).count();
    assert_eq!(devices["no_gpu"].is_null(), gpus > 0, "{devices}");

    let plan = json(&corrust(folder, "plan --inputs 128 --bandwidth 856MHz --json"));
    assert_eq!(plan["bandwidth_hz"], 856e6);
    assert!(plan["gpus"].as_u64().unwrap() > 0);
    let binding = plan["binds"].as_str().unwrap();
    let loads = plan["loads"].as_array().unwrap();
    let load = loads.iter().find(|load| load["name"] == binding).unwrap();
    // 128 inputs of two bytes a sample.
    let network = loads.iter().find(|load| load["name"] == "network").unwrap();
    assert_eq!(
        (&network["needed"], &network["unit"]),
        (&(128.0 * 856e6 * 2.0).into(), &"B/s".into())
    );
    assert!(load["gpus"].as_f64().unwrap() > 0.0);

    let output = corrust(folder, &format!("{CORRELATE} --json"));
    let done = json(&output);
    for (name, value) in [
        ("inputs", 3),
        ("channels", 4),
        ("times", 90),
        ("times_recorded", 100),
        ("times_per_dump", 30),
        ("dumps", 3),
    ] {
        assert_eq!(done[name], value, "{name}: {done}");
    }
    assert_eq!(done["output"], "v.npy");
    assert_eq!(done["missing"], 0.0);
    assert!(done["samples_per_second"].as_f64().unwrap() > 0.0, "{done}");

    // Summaries of other steps are no part of it.
    let output = corrust(folder, &format!("{CORRELATE} --flag sk --sk-times 30 --json"));
    assert_eq!(json(&output)["dumps"], 3);
    assert!(text(&output.stderr).contains("flagged "), "{}", text(&output.stderr));

    let curve: String = (0..60)
        .map(|point| {
            let lag = 1e-6 * 1.25_f64.powi(point);
            let g = 1.0 + 0.5 / (1.0 + lag / 50e-6) / (1.0 + lag / (25.0 * 50e-6)).sqrt();
            format!("{lag} {g} 0.001\n")
        })
        .collect();
    fs::write(folder.join("g.txt"), curve).unwrap();
    let fit = "fit g.txt --independent";
    let found = json(&corrust(folder, &format!("{fit} --json -o fit.json")));
    let written: Value =
        serde_json::from_slice(&fs::read(folder.join("fit.json")).unwrap()).unwrap();
    assert_eq!(found, written);
    let tau = &found["curves"][0]["parameters"]["tau"];
    assert!((tau["value"].as_f64().unwrap() / 50e-6 - 1.0).abs() < 1e-3, "{tau}");
    assert_eq!(tau["unit"], "s");
    // The same for people: two digits of the uncertainty, and a useful unit.
    let said = crate::support::command::done(folder, fit);
    let line = said.lines().find(|line| line.trim_start().starts_with("tau ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((words[2], words[4]), ("+-", "us"), "{line}");
    let digits = words[3].trim_start_matches(['0', '.']).replace('.', "");
    assert_eq!(digits.len(), 2, "{line}");
    let decimals = |number: &str| number.split_once('.').map_or(0, |(_, after)| after.len());
    assert_eq!(decimals(words[1]), decimals(words[3]), "{line}");
}
