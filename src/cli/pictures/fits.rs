//! Correlation curves with the models that were fitted to them, and residuals below.

use std::{ops::Range, path::Path};

use corrust::{Result, autocorrelate::Curve, fit::Fitted};
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::cli::pictures::plot::{
    COLOURS, GREY, SIZE, Styled, TICKS, decimals, dot, duration, label, mark, save,
};

/// Height of curves; residuals have the rest.
const CURVES: u32 = 480;
const HEIGHT: u32 = 720;

/// Heights of the text at the upper right, and of a line of it.
const TEXT: Range<i32> = 62..CURVES as i32 - 20;
const TEXT_LINE: i32 = 20;

/// Points of a model's line, evenly spaced in the logarithm of the lag.
const STEPS: usize = 400;

/// A fitted curve.
pub struct Drawn<'a> {
    /// Its name.
    pub name: String,
    /// Its points.
    pub curve: &'a Curve,
    /// The fit, and the curve's place among the fit's curves.
    pub fitted: &'a Fitted,
    pub place: usize,
    /// Parameters with their uncertainties, a line of text each.
    pub parameters: Vec<String>,
}

/// Points of a curve that were fitted: lag, value and error.
fn points(Drawn { curve, fitted, place, .. }: &Drawn<'_>) -> Vec<(f64, f64, f64)> {
    let lags = &fitted.lags[*place];
    let errors = curve.errors.iter().copied().chain(std::iter::repeat(f64::NAN));
    let own = curve.lags.iter().zip(&curve.values).zip(errors);
    let own = own.map(|((&lag, &g), error)| (lag, g, error));
    own.filter(|(lag, ..)| lags.binary_search_by(|of| of.total_cmp(lag)).is_ok()).collect()
}

/// Ranges of lags, values and residuals.
fn axes(drawn: &[Drawn<'_>], points: &[Vec<(f64, f64, f64)>]) -> [Range<f64>; 3] {
    let each = || points.iter().flatten();
    let reach = |of: fn(&(f64, f64, f64)) -> f64| {
        each().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let ((first, last), (low, high)) = (reach(|point| point.0), reach(|point| point.1));
    let margin = 0.06 * (high - low).max(1e-9);
    let residuals = drawn.iter().flat_map(|of| &of.fitted.residuals[of.place]);
    let most = residuals.fold(0.0_f64, |most, residual| most.max(residual.abs())).max(1e-12) * 1.1;
    [first / 1.3..last * 1.3, low - margin..high + margin, -most..most]
}

/// Lags and values of the model's line.
fn model(Drawn { fitted, place, .. }: &Drawn<'_>) -> Vec<(f64, f64)> {
    let (best, own) = (fitted.values(*place), &fitted.lags[*place]);
    let ends = [own.first(), own.last()].map(|lag| lag.copied().unwrap_or(1.0).ln());
    let point = |step| {
        let lag = (ends[0] + (ends[1] - ends[0]) * step as f64 / STEPS as f64).exp();
        (lag, fitted.model.g(lag, &best))
    };
    (0..=STEPS).map(point).collect()
}

/// Draws points with their bars, the models as lines, and the residuals; of more curves than there are colours the
/// first ones.
pub fn fits(path: &Path, all: &[Drawn<'_>]) -> Result<()> {
    let drawn = &all[..all.len().min(COLOURS.len())];
    let points: Vec<_> = drawn.iter().map(points).collect();
    let [lags, values, spread] = axes(drawn, &points);
    let weighted = drawn.first().is_some_and(|of| of.fitted.weighted);
    let (value_decimals, spread_decimals) = (decimals(&values), decimals(&spread));
    // Parameters of many curves have no room beside them.
    let lines: usize = drawn.iter().map(|of| 1 + of.parameters.len()).sum();
    let has_room = TEXT.start + lines as i32 * TEXT_LINE <= TEXT.end;
    save(path, (SIZE.0, HEIGHT), |root| {
        let (upper, lower) = root.split_vertically(CURVES);
        let centred = Pos::new(HPos::Center, VPos::Top);
        let of = match all.len() - drawn.len() {
            0 => String::new(),
            _ => format!(", the first {} of {}", drawn.len(), all.len()),
        };
        let title = format!("Correlation of counts, and fits{of}");
        root.draw_text(&title, &label(20).pos(centred), (SIZE.0 as i32 / 2, 18))?;
        let mut chart = ChartBuilder::on(&upper)
            .margin_top(56)
            .margin_right(36)
            .margin_left(14)
            .x_label_area_size(20)
            .y_label_area_size(86)
            .build_cartesian_2d(lags.clone().log_scale(), values.clone())?;
        chart
            .configure_mesh()
            .y_desc("g(τ)")
            .x_label_formatter(&|_| String::new())
            .y_labels(TICKS)
            .y_label_formatter(&|g| format!("{g:.value_decimals$}"))
            .draw_styled(15, 18)?;
        let mut below = ChartBuilder::on(&lower)
            .margin_right(36)
            .margin_bottom(14)
            .margin_left(14)
            .x_label_area_size(56)
            .y_label_area_size(86)
            .build_cartesian_2d(lags.clone().log_scale(), spread.clone())?;
        below
            .configure_mesh()
            .x_desc("lag τ")
            .y_desc(if weighted { "residual / σ" } else { "residual" })
            .x_label_formatter(&|lag| duration(*lag))
            .y_labels(5)
            .y_label_formatter(&|value| format!("{value:.spread_decimals$}"))
            .draw_styled(15, 18)?;
        let zero = [(lags.start, 0.0), (lags.end, 0.0)];
        below.draw_series(LineSeries::new(zero, GREY.stroke_width(1)))?;
        let mut height = TEXT.start;
        let mut write = |text: &str, colour: RGBColor| {
            let style = label(15).color(&colour).pos(Pos::new(HPos::Right, VPos::Top));
            let at = (SIZE.0 as i32 - 44, height);
            height += TEXT_LINE;
            root.draw_text(text, &style, at)
        };
        for (index, (of, points)) in drawn.iter().zip(&points).enumerate() {
            let Drawn { name, fitted, place, parameters, .. } = of;
            let colour = COLOURS[index];
            // A bar may reach beyond the axes, which end at the points.
            let clipped = |g: f64| g.clamp(values.start, values.end);
            let bars = points.iter().filter(|(.., error)| *error > 0.0);
            chart.draw_series(bars.map(|&(lag, g, error)| {
                let ends = [(lag, clipped(g - error)), (lag, clipped(g + error))];
                PathElement::new(ends, colour.mix(0.6).stroke_width(1))
            }))?;
            chart.draw_series(points.iter().map(|&(lag, g, _)| dot((lag, g), 2, mark(index))))?;
            let line = model(of).into_iter().map(|(lag, g)| (lag, clipped(g)));
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
            let own = &fitted.lags[*place];
            let residuals = own.iter().copied().zip(fitted.residuals[*place].iter().copied());
            below.draw_series(residuals.map(|at| dot(at, 2, mark(index))))?;
            write(&format!("{} {name}", if mark(index).1 { "○" } else { "●" }), colour)?;
            for text in parameters.iter().filter(|_| has_room) {
                write(text, GREY)?;
            }
        }
        Ok(())
    })
}
