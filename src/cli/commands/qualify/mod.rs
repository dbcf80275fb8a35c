//! `corrust qualify`.

mod broken;
#[cfg(feature = "serve")]
mod lost;
mod page;
mod report;
mod speed;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use console::Term;
use corrust::{
    Device, Error, Result,
    bench::{BenchDevice, Facts},
    format::PartialFile,
    qualify::{
        checks::{self, Subject},
        requirements::{self, Check, Finding, Requirement, Verdict},
    },
};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::{
    commands::{
        bench::{meter, table},
        qualify::report::{Judged, Report},
    },
    options::{
        given,
        run_files::{Existing, RunFiles, all},
    },
    terminal::say::{is_quiet, say},
};

/// Judge whether corrust computes rightly here, and how fast
///
/// A report has a verdict on each requirement.
///
/// Every kernel of the device is compared with plain loops and with the CPU, random plans run for some time, runs are
/// repeated, commands are killed and starved of disk space, packets are lost, and every benchmark stands beside the
/// nearest record. The report is one page without references to a network, and the same as JSON beside it, which is written
/// anew with each verdict.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Report of an earlier run, JSON, to make a page of: nothing is judged
    #[arg(value_name = "REPORT.json")]
    earlier: Option<PathBuf>,
    /// auto, cuda, cuda:1, cpu or sim
    #[arg(long, default_value_t = Device::Auto)]
    device: Device,
    /// Minutes of the whole run, up to 10080 (a week): random plans come last and take those that are left
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Requirements to decide, by name, as killed,full-disk [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Seed of the first random plan
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Page to write; the report as JSON gets its name with .json
    #[arg(short, long, value_name = "REPORT.html", default_value = "qualification.html")]
    output: PathBuf,
    /// Report of another machine, JSON, to show beside this one
    #[arg(long, value_name = "OTHER.json")]
    compare: Option<PathBuf>,
    /// File to write for an issue of the project, Markdown: what ran where, verdicts, times
    #[arg(long, value_name = "FILE.md")]
    submit: Option<PathBuf>,
    #[command(flatten)]
    existing: Existing,
}

const EXAMPLES: &str = "\
Examples:
  corrust qualify                                   qualification.html and qualification.json
  corrust qualify --device cpu --minutes 1 -o cpu.html
  corrust qualify --only exact-correlate --ptx mine.ptx
  corrust qualify --submit a40.md                   for a GPU of which the project has no figures
  corrust qualify mine.json --compare other.json -o both.html

Exit codes: 0 no requirement failed, 1 one did, 2 bad input.";

impl Args {
    /// Judges the machine, or reads the report of one. The code is 1 if a requirement failed.
    pub fn run(self) -> Result<u8> {
        if !(0.0..=10_080.0).contains(&self.minutes) {
            let found = self.minutes;
            return Err(Error::invalid(format!("--minutes: expected 0 to 10080, found {found}")));
        }
        if self.earlier.is_some() {
            let measuring = ["device", "minutes", "only", "seed"];
            given::warn_unused(
                &measuring,
                "a report that is read judges nothing, expected it without",
            );
        }
        let names: Vec<&str> = requirements::all().iter().map(|each| &*each.id).collect();
        if let Some(unknown) = self.only.iter().find(|name| !names.contains(&&***name)) {
            return Err(Error::invalid(format!(
                "--only {unknown}: expected some of {}",
                names.join(", ")
            )));
        }
        // A report that is read is there already.
        let json = self.earlier.is_none().then(|| self.output.with_extension("json"));
        let files = RunFiles::default().reads(&self.earlier).reads(&self.compare);
        let files = files.writes_as([&self.output], &["html"]).writes(&json);
        files.writes_as(&self.submit, &["md"]).check(self.existing)?;
        let other = self.compare.as_deref().map(Report::read).transpose()?;
        let report = match &self.earlier {
            Some(path) => Report::read(path)?,
            None => self.judge(json.as_deref())?,
        };
        let failed = report.results.iter().any(|each| each.finding.verdict == Verdict::Failed);
        let page = page::page(&report, other.as_ref())?;
        all([
            json.as_ref().map_or(Ok(()), |path| PartialFile::write_json(path, &report)),
            write(&self.output, &page),
            self.submit.as_ref().map_or(Ok(()), |path| write(path, &report.markdown())),
        ])?;
        say(format_args!("\n{}", report.summary()));
        if let Some(path) = &self.submit {
            let json = json.as_ref().or(self.earlier.as_ref()).expect("one of them");
            say(format_args!(
                "{}: the text of an issue; please attach {} to it",
                path.display(),
                json.display()
            ));
        }
        Ok(u8::from(failed))
    }

    /// Decides every requirement, says so, and writes the report so far to `json` each time.
    fn judge(&self, json: Option<&Path>) -> Result<Report> {
        let end = Instant::now() + Duration::from_secs_f64(60.0 * self.minutes);
        let gpu = self.device.gpu()?;
        let place = BenchDevice { gpu, ..BenchDevice::default() };
        let meter = meter(&place);
        let mut report = Report::new(Facts::new(&place, meter.as_ref()), self.minutes, self.seed);
        table::machine(&report.machine);
        let is_gpu = place.gpu.is_some() && !place.simulated();
        let subject = Subject::new(self.device.into(), is_gpu);
        let chosen = |requirement: &&Requirement| {
            self.only.is_empty() || self.only.contains(&requirement.id)
        };
        let mut requirements: Vec<_> = requirements::all().iter().filter(chosen).collect();
        requirements.sort_by_key(|requirement| requirement.check == Check::RandomPlans);
        for requirement in requirements {
            let mut bar = Bar::new(&requirement.id);
            bar.end = end;
            let finding = match requirement.check {
                _ if bar.is_over() => self.stopped(),
                Check::Speed => {
                    let (finding, rows) = speed::check(&place, meter.as_ref(), &bar)?;
                    report.rows = rows;
                    report.predicted = match report.rows.is_empty() {
                        true => Vec::new(),
                        false => speed::predictions(&report.machine.device, &bar)?,
                    };
                    finding
                }
                _ => match self.decide(requirement, &subject, &bar) {
                    Err(Error::Cancelled { .. }) if bar.is_over() => self.stopped(),
                    finding => finding?,
                },
            };
            drop(bar);
            say(format_args!("{:<24} {:<11} {}", requirement.id, finding.verdict, finding.text));
            report.results.push(Judged::new(requirement, finding));
            json.map_or(Ok(()), |path| PartialFile::write_json(path, &report))?;
        }
        Ok(report)
    }

    /// Finding on a requirement for which no time was left.
    fn stopped(&self) -> Finding {
        let text = format!("not decided within --minutes {}", self.minutes);
        Finding::new(Verdict::NotDecided, text)
    }

    /// Decides a requirement on what is computed.
    fn decide(&self, requirement: &Requirement, subject: &Subject, bar: &Bar) -> Result<Finding> {
        let seen = |what: &str| {
            bar.says(what);
            if bar.is_over() { Err(Error::Cancelled { done: 0, times: 0 }) } else { Ok(()) }
        };
        match (requirement.check, requirement.system) {
            (Check::Kernels, Some(system)) => checks::kernels(subject, system, seen),
            (Check::RandomPlans, _) => {
                // It ends by itself.
                let time = bar.end.saturating_duration_since(Instant::now());
                checks::random_plans(subject, self.seed, time, |what| {
                    bar.says(what);
                    Ok(())
                })
            }
            (Check::Repeats, _) => checks::repeats(subject, seen),
            (Check::Kill, _) => broken::killed(),
            (Check::Disk, _) => broken::full_disk(),
            #[cfg(feature = "serve")]
            (Check::Loss, _) => lost::lost_packets(self.device),
            #[cfg(not(feature = "serve"))]
            (Check::Loss, _) => {
                let text = "this build of corrust has no corrust serve";
                Ok(Finding::new(Verdict::NotDecided, text))
            }
            (Check::Kernels, None) | (Check::Speed, _) => {
                Err(Error::invalid(format!("requirement {}: names no system", requirement.id)))
            }
        }
    }
}

/// Writes a text as a file, whole or not at all.
fn write(path: &std::path::Path, text: &str) -> Result<()> {
    let mut file = PartialFile::create(path)?;
    file.append(text.as_bytes())?;
    file.finish()
}

/// A line on a terminal that says what is being judged, and the end of the time for it.
struct Bar {
    line: ProgressBar,
    end: Instant,
}

impl Bar {
    fn new(requirement: &str) -> Self {
        let style = ProgressStyle::with_template("{prefix}: {wide_msg}").expect("well-formed");
        let style = if Term::stderr().size().1 < 40 {
            ProgressStyle::with_template("{prefix}").expect("well-formed")
        } else {
            style
        };
        let bar = if is_quiet() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let bar = bar.with_style(style).with_prefix(requirement.to_owned());
        bar.tick();
        // A week more than the longest run.
        Self { line: bar, end: Instant::now() + Duration::from_secs(14 * 86_400) }
    }

    /// Returns whether the time is over.
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn says(&self, what: &str) {
        self.line.set_message(what.to_owned());
        self.line.tick();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}
