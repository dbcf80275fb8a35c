//! Canvas of plots: a picture of lines (SVG) or of pixels (PNG).

use std::io;

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
        // The finest line that is drawn smoothly has an area.
        Points(self).draw_path([fine(from), fine(to)], &Broad(style))
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
        Points(self).draw_path(path.into_iter().map(fine), &Broad(style))
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
