//! Correlation curves of other programs, in text: two or three columns, PyCorrFit's `.csv`, ALV's `.asc`, Zeiss ConfoCor's `.fcs`,
//! Correlator.com's `.sin`.
//!
//! | file | begins with | lags | values | curves |
//! |---|---|---|---|---|
//! | columns | numbers, or a line of headings; comments `#` | s | `g`, standard error if there is a third column | 1 |
//! | ALV-5000, ALV-6000, ALV-7004 | `ALV-` | ms | `g - 1`, of a single curve with `"StandardDeviation"` | the columns of `"Correlation"` that are not all 0 |
//! | ConfoCor 2 and 3 | `Carl Zeiss ConfoCor` | s | `g` | each `CorrelationArray` that is not empty |
//! | PyCorrFit's CSV, as of `corrust autocorrelate --pycorrfit` | `# Channel (tau [s])` somewhere | s | `g - 1`, the weights as standard errors; no traces | 1 |
//! | Correlator.com | `[` somewhere, `[CorrelationFunction]` | s | `g`, 0 where nothing was measured | the columns |
//!
//! All of them become `g`, which is 1 at lags at which there is no correlation.

use std::path::Path;

use corrust_host::{Error, Result, autocorrelate::Curve, text::read_most};

use super::npy::header::MAGIC;

/// Bytes of a file, at most.
const MOST: u64 = 64 << 20;

/// Lags of a curve, curves of a file, and numbers of all curves together, at most.
const MOST_LAGS: usize = 1 << 16;
const MOST_CURVES: usize = 1 << 10;
const MOST_NUMBERS: usize = 1 << 22;

/// First section of Correlator.com's curves.
const SIN: &str = "[CorrelationFunction]";

/// Start of the headings of PyCorrFit's columns, and of those of a trace after them.
const PYCORRFIT: &str = "# Channel (tau [s])";
const TRACE: &str = "# BEGIN";

/// A line of a file, and its number from 1 on.
type Line<'a> = (usize, &'a str);

/// Rows of numbers, lag first.
type Rows = Vec<Vec<f64>>;

/// Reads the curves of a file, with their names; lags in seconds, ascending, and `g`.
///
/// ```no_run
/// for (name, curve) in corrust_recordings::formats::curves::read("ALV.asc".as_ref())? {
///     println!("{name}: {} lags", curve.lags.len());
/// }
/// # Ok::<(), corrust_host::Error>(())
/// ```
///
/// # Errors
/// [`Error::File`] for a file that is none of these, is damaged, or has more than 64 MiB, 65,536 lags of a curve or 1024 curves; [`Error::Io`].
pub fn read(path: &Path) -> Result<Vec<(String, Curve)>> {
    of(path, &read_most(path, MOST)?)
}

/// [`read`] of the bytes of a file, whose path errors say.
///
/// # Errors
/// As for [`read`].
pub fn of(path: &Path, bytes: &[u8]) -> Result<Vec<(String, Curve)>> {
    if bytes.len() as u64 > MOST {
        return Err(Error::file(path, format!("too long: expected at most {MOST} bytes")));
    }
    if bytes.starts_with(MAGIC) {
        let reason = "a NumPy file: expected a table of curves in text, as corrust autocorrelate --curves g.csv writes it";
        return Err(Error::file(path, reason));
    }
    // Headers have letters of any encoding.
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let file = File { path, lines: (1..).zip(text.lines().map(str::trim)).collect() };
    let curves = if text.starts_with("ALV-") {
        file.alv()?
    } else if text.starts_with("Carl Zeiss ConfoCor") {
        file.zeiss()?
    } else if file.lines.iter().any(|(_, line)| line.eq_ignore_ascii_case(SIN)) {
        file.sin()?
    } else if file.lines.iter().any(|(_, line)| line.starts_with(PYCORRFIT)) {
        file.pycorrfit()?
    } else {
        file.columns()?
    };
    let lags: usize = curves.iter().map(|(_, curve)| curve.lags.len()).sum();
    if curves.len() > MOST_CURVES || lags > MOST_NUMBERS {
        let reason = format!(
            "{} curves of {lags} lags in all: expected at most {MOST_CURVES}, of {MOST_NUMBERS} lags",
            curves.len()
        );
        return Err(Error::file(path, reason));
    }
    curves.into_iter().map(|(name, curve)| Ok((name, file.checked(curve)?))).collect()
}

/// The numbers of a line, parted by white space, commas or semicolons; nothing where there is something else, or no number.
fn numbers(line: &str) -> Option<Vec<f64>> {
    let parted = |letter: char| letter.is_whitespace() || [',', ';'].contains(&letter);
    let parts = line.split(parted).filter(|part| !part.is_empty());
    let numbers: Option<Vec<f64>> = parts.map(|part| part.parse().ok()).collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

/// A heading as the name of a curve.
fn named(heading: &str) -> String {
    let words = heading.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// Curves of the columns after the first, with names for them. Points that are NaN are left out.
fn parted(rows: &Rows, names: &[String]) -> Vec<(String, Curve)> {
    let of = |(column, name): (usize, &String)| {
        let points = rows.iter().map(|row| (row[0], row[column])).filter(|(_, g)| !g.is_nan());
        let (lags, values) = points.unzip();
        (name.clone(), Curve { lags, values, errors: Vec::new() })
    };
    (1..).zip(names).map(of).collect()
}

/// Names for `curves` curves without names.
fn counted(curves: usize) -> Vec<String> {
    match curves {
        1 => vec!["curve".to_owned()],
        curves => (1..=curves).map(|curve| format!("curve_{curve}")).collect(),
    }
}

/// A file of text.
struct File<'a> {
    path: &'a Path,
    lines: Vec<Line<'a>>,
}

impl File<'_> {
    fn fault<T>(&self, reason: String) -> Result<T> {
        Err(Error::file(self.path, reason))
    }

    /// Refuses a line.
    fn unexpected<T>(&self, (number, line): Line<'_>, expected: &str) -> Result<T> {
        let shown: String = line.chars().take(40).collect();
        self.fault(format!("line {number} is \"{}\": expected {expected}", shown.escape_debug()))
    }

    /// The rows of numbers from a line on, as many in each, up to a line of something else.
    fn rows(&self, start: usize) -> Result<Rows> {
        let mut rows = Rows::new();
        for &(number, line) in self.lines.get(start..).unwrap_or_default() {
            let Some(row) = numbers(line) else { break };
            let columns = rows.first().map_or(row.len().max(2), Vec::len);
            if row.len() != columns {
                let expected = match rows.is_empty() {
                    true => "a lag and one value or more".to_owned(),
                    false => format!("{columns} numbers, as in the line before"),
                };
                return self.unexpected((number, line), &expected);
            }
            if row.len() > MOST_CURVES
                || rows.len() == MOST_LAGS
                || rows.len() * columns > MOST_NUMBERS
            {
                return self.fault(format!(
                    "more than {} lags of {} curves at line {number}: expected at most {MOST_LAGS} of {MOST_CURVES}",
                    rows.len(),
                    row.len() - 1
                ));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// A curve whose lags ascend.
    fn checked(&self, curve: Curve) -> Result<Curve> {
        if curve.lags.is_empty() {
            return self.fault("a curve without a value: expected lags with values".into());
        }
        let Curve { lags, values, errors } = &curve;
        if let Some(lag) = lags.iter().find(|lag| !(0.0..f64::INFINITY).contains(*lag)) {
            return self.fault(format!("a lag of {lag} s: expected lags of 0 s or more"));
        }
        if let Some(pair) = lags.windows(2).find(|pair| pair[0] >= pair[1]) {
            return self.fault(format!(
                "a lag of {:e} s after {:e} s: expected lags that ascend",
                pair[1], pair[0]
            ));
        }
        if let Some(value) = values.iter().chain(errors).find(|value| value.is_infinite()) {
            return self.fault(format!("a value of {value}: expected finite ones, or nan"));
        }
        Ok(curve)
    }

    /// Lag, value and, if there is a third column, standard error.
    fn columns(&self) -> Result<Vec<(String, Curve)>> {
        if self.lines.first().is_some_and(|(_, line)| line.starts_with("##JCAMP-DX")) {
            return self
                .fault("JCAMP-DX, which is not read: expected the program's own text".to_owned());
        }
        let comment = |line: &str| line.is_empty() || line.starts_with(['#', '%']);
        let lines = self.lines.iter().copied().filter(|(_, line)| !comment(line)).collect();
        let own = File { path: self.path, lines };
        let expected = "a table of curves (\"lag_seconds,mean\", as of corrust autocorrelate --curves), lags in seconds and values, or a \
                        file of ALV (.asc), ConfoCor (.fcs) or Correlator.com (.sin)";
        let Some(&first) = own.lines.first() else {
            return self.fault(format!("no line of numbers: expected {expected}"));
        };
        // A line of headings may be first.
        let start = usize::from(numbers(first.1).is_none());
        let rows = own.rows(start)?;
        if rows.is_empty() {
            return own.unexpected(first, expected);
        }
        if let Some(&line) = own.lines.get(start + rows.len()) {
            return own.unexpected(line, "numbers");
        }
        let columns = rows[0].len();
        if columns > 3 {
            let what = "a lag, a value and its standard error at the most";
            return own.unexpected(own.lines[start], what);
        }
        let with_value: Vec<&Vec<f64>> = rows.iter().filter(|row| !row[1].is_nan()).collect();
        let column = |column: usize| with_value.iter().map(|row| row[column]).collect();
        let errors = if columns == 3 { column(2) } else { Vec::new() };
        Ok(vec![("curve".to_owned(), Curve { lags: column(0), values: column(1), errors })])
    }

    /// Lag, `g - 1` and, if there are five columns, a weight in the last, of the lines before a trace.
    fn pycorrfit(&self) -> Result<Vec<(String, Curve)>> {
        let lines = self.lines.iter().copied();
        let own = lines.take_while(|(_, line)| !line.starts_with(TRACE));
        let lines = own.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
        let own = File { path: self.path, lines };
        let rows = own.rows(0)?;
        if let Some(&line) = own.lines.get(rows.len()) {
            return own.unexpected(line, "numbers");
        }
        let column = |column: usize| rows.iter().map(|row| row[column]).collect();
        let errors =
            if rows.first().is_some_and(|row| row.len() == 5) { column(4) } else { Vec::new() };
        let values = rows.iter().map(|row| row[1] + 1.0).collect();
        Ok(vec![("curve".to_owned(), Curve { lags: column(0), values, errors })])
    }

    /// Curves of ALV's correlators.
    fn alv(&self) -> Result<Vec<(String, Curve)>> {
        let section = |name: &str| {
            let is = |(_, line): &Line<'_>| {
                let line = line.trim_matches('"');
                line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            };
            self.lines.iter().position(is)
        };
        let Some(heading) = section("Correlation") else {
            return self.fault("no section \"Correlation\": expected one in a file of ALV".into());
        };
        // Of several runs a line of headings follows, tabs between them.
        let mut start = heading + 1;
        let mut headings = Vec::new();
        if let Some(&(_, line)) = self.lines.get(start).filter(|(_, line)| numbers(line).is_none())
        {
            headings = line.split('\t').skip(1).map(named).filter(|it| !it.is_empty()).collect();
            start += 1;
        }
        let mut rows = self.rows(start)?;
        let Some(curves) = rows.first().map(|row| row.len() - 1) else {
            return self.fault("no lags in \"Correlation\": expected some in a file of ALV".into());
        };
        for row in &mut rows {
            row[0] *= 1e-3;
            row[1..].iter_mut().for_each(|value| *value += 1.0);
        }
        let names = if headings.len() == curves { headings } else { counted(curves) };
        let mut curves = parted(&rows, &names);
        // Drops curves of unused channels.
        curves.retain(|(_, curve)| curve.values.iter().any(|&g| g != 1.0));
        if let ([(_, curve)], Some(errors)) = (&mut curves[..], section("StandardDeviation")) {
            let errors = self.rows(errors + 1)?;
            if errors.len() == curve.lags.len() {
                curve.errors = errors.iter().map(|row| row[1]).collect();
            }
        }
        match curves.is_empty() {
            true => self.fault("a correlation of zeros alone: expected a curve".into()),
            false => Ok(curves),
        }
    }

    /// Curves of Zeiss' ConfoCor.
    fn zeiss(&self) -> Result<Vec<(String, Curve)>> {
        let (mut curves, mut names) = (Vec::new(), Vec::<String>::new());
        let (mut channel, mut place) = (String::new(), 0);
        while let Some(&(number, line)) = self.lines.get(place) {
            place += 1;
            let Some((key, value)) = line.split_once('=') else { continue };
            let value = value.trim();
            match key.trim() {
                "Channel" => channel = of_detectors(value),
                key @ ("CorrelationArray" | "CountRateArray") => {
                    let mut size = value.split_whitespace().map(str::parse::<usize>);
                    let (Some(Ok(count)), Some(Ok(columns))) = (size.next(), size.next()) else {
                        return self.unexpected((number, line), "numbers of rows and columns");
                    };
                    if key == "CountRateArray" || count == 0 {
                        place = place.saturating_add(count);
                        continue;
                    }
                    let rows = self.rows(place)?;
                    if rows.len() != count || rows[0].len() != columns {
                        let found = rows.len();
                        return self.unexpected(
                            (number, line),
                            &format!("as many rows and columns as follow, {found} rows"),
                        );
                    }
                    place += count;
                    let before = names.iter().filter(|&name| *name == channel).count();
                    names.push(channel.clone());
                    let name = match before {
                        0 => channel.clone(),
                        before => format!("{channel}_{}", before + 1),
                    };
                    curves.extend(parted(&rows, &[name]));
                }
                _ => {}
            }
        }
        match curves.is_empty() {
            true => self.fault(
                "no CorrelationArray that is not empty: expected one in a file of ConfoCor".into(),
            ),
            false => Ok(curves),
        }
    }

    /// Curves of Correlator.com's correlators.
    fn sin(&self) -> Result<Vec<(String, Curve)>> {
        let is_section = |(_, line): &Line<'_>| line.eq_ignore_ascii_case(SIN);
        let start = self.lines.iter().position(is_section).map_or(0, |place| place + 1);
        let rows = self.rows(start)?;
        let Some(curves) = rows.first().map(|row| row.len() - 1) else {
            return self
                .fault(format!("no lags in {SIN}: expected some in a file of Correlator.com"));
        };
        let mode = self.lines.iter().find_map(|(_, line)| {
            let (key, value) = line.split_once('=')?;
            key.trim().eq_ignore_ascii_case("mode").then_some(value)
        });
        // Channels of each curve, or words.
        let channels = mode.and_then(numbers).filter(|channels| channels.len() == 2 * curves);
        let names = match channels {
            Some(channels) => {
                channels.chunks(2).map(|pair| format!("{}_{}", pair[0], pair[1])).collect()
            }
            None => counted(curves),
        };
        let mut curves = parted(&rows, &names);
        for (_, Curve { lags, values, .. }) in &mut curves {
            let measured: Vec<bool> = values.iter().map(|&g| g != 0.0).collect();
            let mut keep = measured.iter();
            lags.retain(|_| *keep.next().unwrap_or(&false));
            values.retain(|&g| g != 0.0);
        }
        Ok(curves)
    }
}

/// Name of the curve of one detector, or of two, by ConfoCor's words for a channel.
fn of_detectors(channel: &str) -> String {
    let words: Vec<&str> = channel.split_whitespace().collect();
    let detectors = words.iter().filter(|word| word.chars().any(|letter| letter.is_ascii_digit()));
    let detectors = detectors.map(|word| named(word)).collect::<Vec<_>>().join("_");
    match (channel.starts_with("Auto"), channel.starts_with("Cross")) {
        (true, _) => format!("auto_{detectors}"),
        (_, true) => format!("cross_{detectors}"),
        _ => named(channel),
    }
}
