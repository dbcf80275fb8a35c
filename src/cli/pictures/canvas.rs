//! Canvas of plots: a picture of lines (SVG) or of pixels (PNG).

use std::{io, ops::RangeInclusive};

use plotters::{
    backend::SVGBackend,
    style::{FontStyle, register_font},
};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

/// The font of all text: in an SVG the first of these that the viewer has, in a PNG DejaVu Sans, by which
/// both are laid out.
pub const FONT: &str = "Helvetica, Arial, DejaVu Sans, sans-serif";

/// Points to a pixel's side: a line's edge shows as grey.
const FINE: u32 = 3;

type Drawn<T = ()> = Result<T, DrawingErrorKind<io::Error>>;

/// A picture in the making.
pub enum Canvas<'a> {
    Svg(SVGBackend<'a>),
    Png(&'a mut Pixels),
}

impl<'a> Canvas<'a> {
    /// A picture of lines, of that width and height in pixels, whose text goes to `text`.
    pub fn svg(text: &'a mut String, size: (u32, u32)) -> Self {
        register();
        Self::Svg(SVGBackend::with_string(text, size))
    }

    /// A picture of pixels.
    pub fn png(pixels: &'a mut Pixels) -> Self {
        register();
        Self::Png(pixels)
    }
}

fn register() {
    // The font is one that can be read: the tests draw with it.
    let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
}

/// Calls the same method of either picture.
macro_rules! both {
    ($canvas:expr, $picture:ident => $draw:expr) => {
        match $canvas {
            Canvas::Svg($picture) => $draw,
            Canvas::Png($picture) => $draw,
        }
    };
}

impl DrawingBackend for Canvas<'_> {
    type ErrorType = io::Error;

    fn get_size(&self) -> (u32, u32) {
        both!(self, picture => picture.get_size())
    }

    fn ensure_prepared(&mut self) -> Drawn {
        both!(self, picture => picture.ensure_prepared())
    }

    fn present(&mut self) -> Drawn {
        both!(self, picture => picture.present())
    }

    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> Drawn {
        both!(self, picture => picture.draw_pixel(point, colour))
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        both!(self, picture => picture.draw_line(from, to, style))
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        both!(self, picture => picture.draw_rect(from, to, style, fill))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        both!(self, picture => picture.draw_path(path, style))
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        both!(self, picture => picture.draw_circle(centre, radius, style, fill))
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        both!(self, picture => picture.fill_polygon(corners, style))
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        both!(self, picture => picture.draw_text(text, style, at))
    }
}

/// A picture of pixels, kept as points [`FINE`] to a pixel's side.
pub struct Pixels {
    size: (u32, u32),
    /// Red, green and blue of every point, row by row.
    points: Vec<[u8; 3]>,
}

impl Pixels {
    /// A white picture, of that width and height in pixels.
    pub fn new(size: (u32, u32)) -> Self {
        let points = (size.0 * FINE) as usize * (size.1 * FINE) as usize;
        Self { size, points: vec![[255; 3]; points] }
    }

    /// The bytes of the PNG file.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let (width, height) = self.size;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let pixels: Vec<u8> = pixels.flat_map(|(x, y)| self.mean(x, y)).collect();
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()?;
        Ok(bytes)
    }

    /// The mean of a pixel's points.
    fn mean(&self, x: u32, y: u32) -> [u8; 3] {
        let mut sums = [0; 3];
        for row in y * FINE..(y + 1) * FINE {
            let first = (row * self.size.0 * FINE + x * FINE) as usize;
            for point in &self.points[first..first + FINE as usize] {
                for (sum, &value) in sums.iter_mut().zip(point) {
                    *sum += u32::from(value);
                }
            }
        }
        sums.map(|sum| ((sum + FINE * FINE / 2) / (FINE * FINE)) as u8)
    }
}

fn fine((x, y): BackendCoord) -> BackendCoord {
    (x * FINE as i32, y * FINE as i32)
}

/// Shapes are drawn in points; text, smooth by itself, in pixels.
impl DrawingBackend for Pixels {
    type ErrorType = io::Error;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> Drawn {
        let (left, top) = fine(point);
        let side = 0..FINE as i32;
        for (x, y) in side.clone().flat_map(|y| side.clone().map(move |x| (left + x, top + y))) {
            Points(self).draw_pixel((x, y), colour)?;
        }
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        if fill {
            return Points(self).draw_rect(fine(from), fine(to), style, true);
        }
        let corners = [from, (to.0, from.1), to, (from.0, to.1), from];
        corners.windows(2).try_for_each(|ends| self.draw_line(ends[0], ends[1], style))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let middle = FINE as i32 / 2;
        let middle_of = |(x, y): BackendCoord| (f64::from(x + middle), f64::from(y + middle));
        let path: Vec<(f64, f64)> = path.into_iter().map(fine).map(middle_of).collect();
        let radius = f64::from(style.stroke_width() * FINE) / 2.0;
        for (y, xs) in stroke(&path, radius) {
            xs.into_iter().try_for_each(|x| Points(self).draw_pixel((x, y), style.color()))?;
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        Points(self).draw_circle(fine(centre), radius * FINE, &Broad(style), fill)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        Points(self).fill_polygon(corners.into_iter().map(fine), style)
    }
}

/// Points of a line of an even width, rounded at its ends and bends: their rows and ranges of columns, none of them twice.
fn stroke(path: &[(f64, f64)], radius: f64) -> Vec<(i32, RangeInclusive<i32>)> {
    let mut spans: Vec<(i32, RangeInclusive<i32>)> = Vec::new();
    for ends in path.windows(2) {
        let ((x, y), (to_x, to_y)) = (ends[0], ends[1]);
        let length = (to_x - x).hypot(to_y - y);
        let (along_x, along_y) = match length > 0.0 {
            true => ((to_x - x) / length, (to_y - y) / length),
            false => (1.0, 0.0),
        };
        for row in (y.min(to_y) - radius).ceil() as i32..=(y.max(to_y) + radius).floor() as i32 {
            // Half a circle around either end, and the rectangle between them: together they are convex.
            let circle = |(x, y): (f64, f64)| {
                let half = (radius * radius - (f64::from(row) - y).powi(2)).sqrt();
                (!half.is_nan()).then_some((x - half, x + half))
            };
            let down = f64::from(row) - y;
            let within = |slope: f64, at_start: f64, low: f64, high: f64| match slope == 0.0 {
                true if (low..=high).contains(&at_start) => (f64::NEG_INFINITY, f64::INFINITY),
                true => (f64::INFINITY, f64::NEG_INFINITY),
                false => {
                    let ends = [(low - at_start) / slope, (high - at_start) / slope];
                    (x + ends[0].min(ends[1]), x + ends[0].max(ends[1]))
                }
            };
            let beside = within(along_y, -down * along_x, -radius, radius);
            let between = within(along_x, down * along_y, 0.0, length);
            let rectangle = (beside.0.max(between.0), beside.1.min(between.1));
            let parts = [circle(ends[0]), circle(ends[1]), Some(rectangle)].into_iter().flatten();
            let (from, to) = parts
                .filter(|(from, to)| from <= to)
                .fold((f64::INFINITY, f64::NEG_INFINITY), |all, part| {
                    (all.0.min(part.0), all.1.max(part.1))
                });
            let (from, to) = (from.ceil() as i32, to.floor() as i32);
            if from <= to {
                spans.push((row, from..=to));
            }
        }
    }
    spans.sort_by_key(|(row, xs)| (*row, *xs.start()));
    spans.dedup_by(|(row, xs), (row_before, before)| {
        let meets = row == row_before && *xs.start() <= before.end() + 1;
        if meets {
            *before = *before.start()..=*before.end().max(xs.end());
        }
        meets
    });
    spans
}

/// A style whose lines have as many points as its pixels have.
struct Broad<'a, S>(&'a S);

impl<S: BackendStyle> BackendStyle for Broad<'_, S> {
    fn color(&self) -> BackendColor {
        self.0.color()
    }

    fn stroke_width(&self) -> u32 {
        self.0.stroke_width() * FINE
    }
}

/// The points of a picture.
struct Points<'a>(&'a mut Pixels);

impl DrawingBackend for Points<'_> {
    type ErrorType = io::Error;

    fn get_size(&self) -> (u32, u32) {
        (self.0.size.0 * FINE, self.0.size.1 * FINE)
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, colour: BackendColor) -> Drawn {
        let (width, height) = self.get_size();
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return Ok(()) };
        if x < width && y < height {
            let point = &mut self.0.points[(y * width + x) as usize];
            let (red, green, blue) = colour.rgb;
            for (below, above) in point.iter_mut().zip([red, green, blue]) {
                let mixed = f64::from(*below)
                    + (f64::from(above) - f64::from(*below)) * colour.alpha.clamp(0.0, 1.0);
                *below = mixed.round() as u8;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line covers the points that are at most its radius away from it, each once.
    #[test]
    fn a_line_is_as_wide_everywhere() {
        for to in [(40.0, 0.0), (0.0, -40.0), (40.0, 40.0), (-40.0, 7.0), (3.0, 31.0), (0.0, 0.0)] {
            let path = [(50.0, 50.0), (50.0 + to.0, 50.0 + to.1), (90.0, 60.0)];
            for radius in [1.5, 4.5] {
                let distance = |x: f64, y: f64| {
                    let from_segment = |ends: &[(f64, f64)]| {
                        let (across, down) = (ends[1].0 - ends[0].0, ends[1].1 - ends[0].1);
                        let squared = across * across + down * down;
                        let part = ((x - ends[0].0) * across + (y - ends[0].1) * down) / squared;
                        let part = if squared > 0.0 { part.clamp(0.0, 1.0) } else { 0.0 };
                        (x - ends[0].0 - part * across).hypot(y - ends[0].1 - part * down)
                    };
                    path.windows(2).map(from_segment).fold(f64::INFINITY, f64::min)
                };
                let mut found = std::collections::BTreeSet::new();
                for (y, xs) in stroke(&path, radius) {
                    xs.for_each(|x| assert!(found.insert((x, y)), "{x} {y} twice"));
                }
                for (x, y) in (0..110).flat_map(|y| (0..110).map(move |x| (x, y))) {
                    let away = distance(f64::from(x), f64::from(y)) - radius;
                    let is_drawn = found.contains(&(x, y));
                    assert!(
                        away.abs() < 1e-9 || is_drawn == (away < 0.0),
                        "{to:?} {radius}: {x} {y}"
                    );
                }
            }
        }
    }
}
