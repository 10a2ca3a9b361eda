//! The sheet for charts: a title, a legend, room for the chart itself, and a caption, as SVG that
//! is accessible to screen readers.
//!
//! It is the common part of the drawings of `ringtap bench` and `ringtap profile`. The crate draws
//! no axes or series: the caller draws them into the room with plotters.
#![forbid(unsafe_code)]

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;

/// The width of every sheet, in pixels.
pub const WIDTH: u32 = 1160;
/// The font of all text.
pub const FONT: &str = "sans-serif";
/// The height of a line of text, in pixels.
pub const LINE: u32 = 18;
/// The area to draw on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The size of the legend's and the caption's text, in pixels.
const SMALL: i32 = 14;
const TITLE: i32 = 18;
/// The left edge of all text, in pixels.
const LEFT: i32 = 16;
/// The approximate width of a letter of small text, in pixels.
const LETTER: i32 = 8;
/// The width of a mark with the space around it and behind its name, in pixels.
const MARK: i32 = 38;
/// The number of characters in a line of the caption.
const COLUMNS: usize = 180;

/// An error of the drawing library.
#[derive(Debug, thiserror::Error)]
#[error("the drawing: {0}")]
pub struct Error(String);

impl Error {
    /// Converts the error of a plotters call.
    #[must_use]
    pub fn new(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

/// The parts around a chart.
#[derive(Clone, Copy, Debug)]
pub struct Sheet<'a> {
    /// The title.
    pub title: &'a str,
    /// Colours with their meanings.
    pub legend: &'a [(&'a str, RGBColor)],
    /// The caption, which is broken into lines here.
    pub caption: &'a str,
}

impl Sheet<'_> {
    /// Draws the sheet. The closure draws the body into the room of the given height.
    ///
    /// # Errors
    /// Returns the error of the drawing library.
    pub fn draw(
        &self,
        height: u32,
        body: impl FnOnce(&Area<'_>) -> Result<(), Error>,
    ) -> Result<String, Error> {
        let caption = wrapped(self.caption, COLUMNS);
        let legend = self.rows();
        let lines = |count: usize| LINE * u32::try_from(count).unwrap_or(1);
        let head = 50 + lines(legend.len());
        let foot = lines(caption.len()) + 12;
        let mut text = String::new();
        {
            let root = SVGBackend::with_string(&mut text, (WIDTH, head + height + foot));
            let root = root.into_drawing_area();
            root.fill(&WHITE).map_err(Error::new)?;
            let (top, rest) = root.split_vertically(head);
            let (middle, bottom) = rest.split_vertically(height);
            write_text(&top, self.title, (LEFT, 10), TITLE)?;
            draw_legend(&top, &legend)?;
            body(&middle)?;
            for (line, y) in caption.iter().zip((4..).step_by(LINE as usize)) {
                write_text(&bottom, line, (LEFT, y), 13)?;
            }
            root.present().map_err(Error::new)?;
        }
        Ok(described(&text, self.title, self.caption))
    }

    /// Returns the legend by rows, each entry with its offset.
    fn rows(&self) -> Vec<Vec<(i32, &str, RGBColor)>> {
        let width = i32::try_from(WIDTH).unwrap_or(i32::MAX) - LEFT;
        let mut rows: Vec<Vec<(i32, &str, RGBColor)>> = Vec::new();
        let mut x = width;
        for &(name, colour) in self.legend {
            let wide = MARK + LETTER * i32::try_from(name.chars().count()).unwrap_or(0);
            if x + wide > width {
                rows.push(Vec::new());
                x = LEFT;
            }
            if let Some(row) = rows.last_mut() {
                row.push((x, name, colour));
            }
            x += wide;
        }
        rows
    }
}

fn draw_legend(area: &Area<'_>, rows: &[Vec<(i32, &str, RGBColor)>]) -> Result<(), Error> {
    for (row, y) in rows.iter().zip((40..).step_by(LINE as usize)) {
        for &(x, name, colour) in row {
            let mark = [(x, y), (x + 12, y + 12)];
            let square = Rectangle::new(mark, colour.filled());
            area.draw(&square).map_err(Error::new)?;
            // Pale colours get an edge.
            let edge = Rectangle::new(mark, BLACK.mix(0.3));
            area.draw(&edge).map_err(Error::new)?;
            write_text(area, name, (x + 17, y - 1), SMALL)?;
        }
    }
    Ok(())
}

/// Writes a line of black text; `at` is its upper left corner, in pixels.
///
/// # Errors
/// Returns the error of the drawing library.
pub fn write_text(area: &Area<'_>, text: &str, at: (i32, i32), pixels: i32) -> Result<(), Error> {
    let style = (FONT, pixels).into_font().color(&BLACK);
    area.draw_text(text, &style, at).map_err(Error::new)
}

/// Returns a number as text for an axis, without trailing zeros, with separators of thousands.
#[must_use]
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if !(1e-9..100.0).contains(&size) => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match text.split_once('.') {
        Some((whole, fraction)) => match fraction.trim_end_matches('0') {
            "" => whole.to_owned(),
            fraction => format!("{whole}.{fraction}"),
        },
        None => with_commas(&text),
    }
}

fn with_commas(whole: &str) -> String {
    let digits = whole.trim_start_matches('-').len();
    let mut text = String::new();
    for (at, character) in whole.chars().rev().enumerate() {
        if at > 0 && at % 3 == 0 && at < digits {
            text.push(',');
        }
        text.push(character);
    }
    text.chars().rev().collect()
}

/// Breaks text at spaces into lines of fewer than `columns` characters.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let wide = |line: &str| line.chars().count() + word.chars().count();
        match lines.last_mut() {
            Some(line) if wide(line) < columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Adds a title and a description for screen readers to the drawing.
fn described(svg: &str, title: &str, caption: &str) -> String {
    let (title, caption) = (escaped(title), escaped(caption));
    let head_ends = |at: usize| Some(at + svg[at..].find('>')? + 1);
    match svg.find("<svg").and_then(head_ends) {
        Some(end) => {
            let (begin, rest) = svg.split_at(end);
            format!("{begin}\n<title>{title}</title>\n<desc>{caption}</desc>{rest}")
        }
        None => svg.to_owned(),
    }
}

/// Escapes text for XML and HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_has_title_legend_and_caption() {
        let names: Vec<String> = (0..12).map(|at| format!("contender <{at}>")).collect();
        let legend: Vec<(&str, RGBColor)> = names.iter().map(|name| (name.as_str(), RED)).collect();
        let sheet = Sheet {
            title: "one & two",
            legend: &legend,
            caption: &"a caption that is long ".repeat(20),
        };
        let drawing = sheet
            .draw(100, |area| write_text(area, "the body", (0, 0), 12))
            .expect("drawn");
        let document = roxmltree::Document::parse(&drawing).expect("well-formed");
        let texts: Vec<&str> = document
            .descendants()
            .filter(|node| node.tag_name().name() == "text")
            .map(|node| node.text().unwrap_or_default().trim())
            .collect();
        for text in ["one & two", "contender <0>", "contender <11>", "the body"] {
            assert!(texts.contains(&text), "{text} in {texts:?}");
        }
        let captions = texts.iter().filter(|text| text.contains("caption")).count();
        assert!(captions > 1, "{texts:?}");
        let tag = |name: &str| {
            let found = document
                .descendants()
                .find(|node| node.tag_name().name() == name);
            found.and_then(|node| node.text()).map(str::trim)
        };
        assert_eq!(tag("title"), Some("one & two"));
        assert!(tag("desc").is_some_and(|text| text.ends_with("is long")));
        // No entry exceeds the right edge.
        let right = sheet.rows().into_iter().flatten();
        let letters = |name: &str| i32::try_from(name.len()).expect("few");
        let right = right.map(|(x, name, _)| x + LETTER * letters(name));
        let right = right.max().and_then(|right| u32::try_from(right).ok());
        assert!(right < Some(WIDTH), "the legend is broken");
        assert!(sheet.rows().len() > 1);
    }

    #[test]
    fn numbers_of_axes_are_short() {
        let shown = [0.0, 0.125, 1.5, 12.0, 150.0, 70_000.0, -1_234_567.0].map(number);
        assert_eq!(
            shown,
            ["0", "0.125", "1.5", "12", "150", "70,000", "-1,234,567"]
        );
    }

    #[test]
    fn captions_are_wrapped_at_spaces() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("", 8), [""; 0]);
    }
}
