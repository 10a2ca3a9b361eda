//! Charts: a figure as an SVG drawing, one panel for each metric, with axes, units, spreads and the
//! caption.
//!
//! Over numbers, lines; over names, bars. Medians are drawn, the whole range as a thin line over them.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::results::{Case, Figure, Metric, Scale};
use crate::sample::Sample;

/// Width of a drawing; panels of lines share it by two.
const WIDTH: u32 = 1160;
const LINES_HEIGHT: u32 = 360;
const LINE: u32 = 18;
const BAR: u32 = 16;
const AXIS: u32 = 64;
/// Characters of a caption's line.
const COLUMNS: usize = 165;
const FONT: &str = "sans-serif";
const COLOURS: [RGBColor; 8] = [
    RGBColor(200, 60, 30),
    RGBColor(30, 90, 180),
    RGBColor(20, 140, 90),
    RGBColor(130, 130, 130),
    RGBColor(150, 90, 170),
    RGBColor(220, 150, 20),
    RGBColor(20, 160, 180),
    RGBColor(90, 60, 20),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a figure.
///
/// # Errors
/// The drawing library's, as a sentence.
pub fn svg(figure: &Figure, caption: &str) -> Result<String, String> {
    let names = contenders(figure);
    let caption = wrapped(caption, COLUMNS);
    let panels = heights(figure);
    let body: u32 = panels.iter().sum();
    let foot = LINE * u32::try_from(caption.len()).unwrap_or(1) + 12;
    let head = 2 * LINE + 24;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, head + body + foot));
        let root = root.into_drawing_area();
        root.fill(&WHITE).map_err(sentence)?;
        let (top, rest) = root.split_vertically(head);
        let (middle, bottom) = rest.split_vertically(body);
        heading(&top, &figure.title, &names)?;
        draw_panels(&middle, figure, &names, &panels)?;
        for (line, y) in caption.iter().zip((4..).step_by(LINE as usize)) {
            write_text(&bottom, line, (16, y), 13)?;
        }
        root.present().map_err(sentence)?;
    }
    Ok(described(&text, &figure.title, &caption.join(" ")))
}

/// The contenders of all cases, each once, in the order in which they come.
fn contenders(figure: &Figure) -> Vec<&str> {
    let mut names = Vec::new();
    for contender in figure.cases.iter().flat_map(|case| &case.contenders) {
        if !names.contains(&contender.name.as_str()) {
            names.push(contender.name.as_str());
        }
    }
    names
}

/// Of each row of panels: two panels of lines, or one of bars.
fn heights(figure: &Figure) -> Vec<u32> {
    let metrics = figure.metrics.len();
    if figure.x.scale == Scale::Names {
        let bars: usize = figure.cases.iter().map(|case| case.contenders.len()).sum();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX / 1024);
        let height = AXIS + 24 + BAR * count(bars) + LINE * count(figure.cases.len());
        return vec![height; metrics];
    }
    vec![LINES_HEIGHT; metrics.div_ceil(2)]
}

fn heading(area: &Area<'_>, title: &str, names: &[&str]) -> Result<(), String> {
    write_text(area, title, (16, 10), 18)?;
    let mut x = 16;
    for (name, colour) in names.iter().zip(COLOURS.iter().cycle()) {
        let mark = [(x, 40), (x + 12, 52)];
        area.draw(&Rectangle::new(mark, colour.filled()))
            .map_err(sentence)?;
        write_text(area, name, (x + 17, 39), 14)?;
        x += 38 + 8 * i32::try_from(name.chars().count()).unwrap_or(0);
    }
    Ok(())
}

fn draw_panels(
    area: &Area<'_>,
    figure: &Figure,
    names: &[&str],
    heights: &[u32],
) -> Result<(), String> {
    let bars = figure.x.scale == Scale::Names;
    let mut rest = area.clone();
    let mut metrics = figure.metrics.iter().enumerate();
    for &height in heights {
        let (row, below) = rest.split_vertically(height);
        rest = below;
        if bars {
            let Some((at, metric)) = metrics.next() else {
                break;
            };
            draw_bars(&row, figure, names, at, metric)?;
            continue;
        }
        let (left, right) = row.split_horizontally(WIDTH / 2);
        for panel in [left, right] {
            if let Some((at, metric)) = metrics.next() {
                draw_lines(&panel, figure, names, at, metric)?;
            }
        }
    }
    Ok(())
}

/// The end of a value axis: a little more than the greatest value, and never nothing.
fn top(figure: &Figure, metric: usize) -> f64 {
    let samples = figure.cases.iter().flat_map(|case| &case.contenders);
    let most = samples.filter_map(|contender| contender.samples.get(metric));
    let most = most.map(Sample::most).fold(0.0, f64::max);
    if most > 0.0 { most * 1.08 } else { 1.0 }
}

fn draw_lines(
    area: &Area<'_>,
    figure: &Figure,
    names: &[&str],
    at: usize,
    metric: &Metric,
) -> Result<(), String> {
    let across = Across::of(figure);
    let mut chart = ChartBuilder::on(area)
        .caption(metric.label(), (FONT, 15))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(across, 0.0..top(figure, at))
        .map_err(sentence)?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_desc(figure.x.label())
        .y_desc(metric.label())
        .y_label_formatter(&|&y| short(y))
        .draw()
        .map_err(sentence)?;
    for (&name, colour) in names.iter().zip(COLOURS.iter().cycle()) {
        let values: Vec<(f64, &Sample)> = figure
            .cases
            .iter()
            .filter_map(|case| Some((case.x, case.contender(name)?.samples.get(at)?)))
            .collect();
        let line = values.iter().map(|(x, sample)| (*x, sample.median()));
        let line = LineSeries::new(line, colour.stroke_width(2)).point_size(3);
        chart.draw_series(line).map_err(sentence)?;
        let spreads = values.iter().map(|(x, sample)| {
            let ends = vec![(*x, sample.least()), (*x, sample.most())];
            PathElement::new(ends, colour.stroke_width(1))
        });
        chart.draw_series(spreads).map_err(sentence)?;
    }
    Ok(())
}

/// A horizontal axis with a mark at each case.
struct Across {
    cases: Vec<f64>,
    range: Range<f64>,
    log: bool,
}

impl Across {
    fn of(figure: &Figure) -> Self {
        let log = figure.x.scale == Scale::Log;
        let mut cases: Vec<f64> = figure.cases.iter().map(|case| case.x).collect();
        cases.sort_by(f64::total_cmp);
        cases.dedup();
        let mut axis = Self {
            cases,
            range: 0.0..1.0,
            log,
        };
        let ends = (axis.cases.first(), axis.cases.last());
        if let (Some(&first), Some(&last)) = ends {
            let (first, last) = (axis.place(first), axis.place(last));
            let margin = ((last - first) * 0.04).max(0.01);
            axis.range = first - margin..last + margin;
        }
        axis
    }

    /// Where a number lies before the range is laid over pixels.
    fn place(&self, x: f64) -> f64 {
        if self.log { x.max(1e-9).log10() } else { x }
    }
}

impl Ranged for Across {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (self.place(*value) - self.range.start) / (self.range.end - self.range.start);
        let pixels = f64::from(limit.1 - limit.0) * share;
        #[expect(clippy::cast_possible_truncation, reason = "pixels of a drawing")]
        let pixels = pixels.round() as i32;
        limit.0 + pixels
    }

    /// Marks that would stand too close to the one before are left out.
    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        let apart = (self.range.end - self.range.start) / 14.0;
        let mut marks: Vec<f64> = Vec::new();
        for &case in &self.cases {
            let near = |mark: &f64| self.place(case) - self.place(*mark) < apart;
            if !marks.last().is_some_and(near) {
                marks.push(case);
            }
        }
        marks
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Across {
    fn format_ext(&self, value: &f64) -> String {
        short(*value)
    }
}

fn draw_bars(
    area: &Area<'_>,
    figure: &Figure,
    names: &[&str],
    at: usize,
    metric: &Metric,
) -> Result<(), String> {
    let rows: u32 = figure.cases.iter().map(rows_of).sum();
    let most = top(figure, at);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .build_cartesian_2d(0.0..most, f64::from(rows.max(1))..0.0)
        .map_err(sentence)?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc(metric.label())
        .x_label_formatter(&|&x| short(x))
        .draw()
        .map_err(sentence)?;
    let mut y = 0.0;
    for case in &figure.cases {
        let title = Text::new(case.title.clone(), (most * 0.002, y + 1.0), (FONT, 13));
        chart.draw_series([title]).map_err(sentence)?;
        y += f64::from(LINE);
        for contender in &case.contenders {
            let place = names.iter().position(|name| *name == contender.name);
            let colour = COLOURS[place.unwrap_or_default() % COLOURS.len()];
            let sample = &contender.samples[at];
            let (above, below) = (y + 2.0, y + f64::from(BAR) - 2.0);
            let bar = Rectangle::new([(0.0, above), (sample.median(), below)], colour.filled());
            chart.draw_series([bar]).map_err(sentence)?;
            let middle = f64::midpoint(above, below);
            let spread = vec![(sample.least(), middle), (sample.most(), middle)];
            let spread = PathElement::new(spread, BLACK.stroke_width(1));
            chart.draw_series([spread]).map_err(sentence)?;
            y += f64::from(BAR);
        }
    }
    Ok(())
}

fn rows_of(case: &Case) -> u32 {
    LINE + BAR * u32::try_from(case.contenders.len()).unwrap_or_default()
}

fn write_text(area: &Area<'_>, text: &str, at: (i32, i32), size: i32) -> Result<(), String> {
    let style = (FONT, size).into_font().color(&BLACK);
    area.draw_text(text, &style, at).map_err(sentence)
}

fn sentence(error: impl Display) -> String {
    format!("the drawing: {error}")
}

/// A number as an axis shows it: without digits that say nothing.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if !(1e-9..100.0).contains(&size) => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Lines of so many characters at most, broken at spaces.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut();
        let fits = |line: &String| line.chars().count() + word.chars().count() < columns;
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if fits(line) => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The drawing with a title and a description for readers that see no pictures.
fn described(svg: &str, title: &str, caption: &str) -> String {
    let (title, caption) = (escaped(title), escaped(caption));
    match svg
        .find("<svg")
        .and_then(|at| Some(at + svg[at..].find('>')? + 1))
    {
        Some(end) => {
            let (begin, rest) = svg.split_at(end);
            format!("{begin}\n<title>{title}</title>\n<desc>{caption}</desc>{rest}")
        }
        None => svg.to_owned(),
    }
}

/// Text for XML and HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{short, svg, wrapped};
    use crate::results::sample_results;

    #[test]
    fn a_drawing_has_axes_units_contenders_and_the_caption() {
        let results = sample_results("tap");
        for figure in &results.figures {
            let drawing = svg(figure, &results.caption).expect("drawn");
            let document = roxmltree::Document::parse(&drawing).expect("well-formed");
            let texts: Vec<String> = document
                .descendants()
                .filter(|node| node.tag_name().name() == "text")
                .map(|node| node.text().unwrap_or_default().trim().to_owned())
                .collect();
            let has = |text: &str| texts.iter().any(|shown| shown.contains(text));
            for text in [
                "rate [million packets/s]",
                "lost [packets]",
                "ringtap",
                "a third",
            ] {
                assert!(has(text), "{text} in {texts:?}");
            }
            assert!(has("this is another"), "{texts:?}");
            assert!(has("1500"), "{texts:?}");
            let title = document
                .descendants()
                .find(|node| node.tag_name().name() == "title");
            assert_eq!(
                title.and_then(|title| title.text()),
                Some(figure.title.as_str())
            );
        }
        let over_sizes = svg(&results.figures[0], "").expect("drawn");
        assert!(over_sizes.contains("frame [bytes]"));
    }

    #[test]
    fn numbers_of_axes_are_short() {
        let shown = [0.0, 0.125, 1.5, 12.0, 150.0, 70_000.0].map(short);
        assert_eq!(shown, ["0", "0.125", "1.5", "12", "150", "70000"]);
    }

    #[test]
    fn captions_are_wrapped_at_spaces() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("", 8), [""]);
    }
}
