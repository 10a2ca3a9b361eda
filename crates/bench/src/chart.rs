//! Charts: a figure as an SVG drawing, one panel for each metric, with axes, units, spreads and the
//! caption.
//!
//! Numbers are drawn as lines, names as bars, with their medians and the whole range as a thin
//! line.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use ringtap_chart::{Area, Error, FONT, LINE, Sheet, WIDTH, number};

use crate::results::{Case, Figure, Scale};
use crate::sample::Sample;

const LINES_HEIGHT: u32 = 360;
const BAR: u32 = 16;
/// The space between the bars of a case and the name of the next, in pixels.
const GAP: u32 = 8;
const AXIS: u32 = 64;
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

/// Draws a figure.
///
/// # Errors
/// Returns the error of the drawing library.
pub fn svg(figure: &Figure, caption: &str) -> Result<String, Error> {
    let names = contenders(figure);
    let colours = COLOURS.into_iter().cycle();
    let legend: Vec<(&str, RGBColor)> = names.iter().copied().zip(colours).collect();
    let panels = heights(figure);
    let sheet = Sheet {
        title: &figure.title,
        legend: &legend,
        caption,
    };
    sheet.draw(panels.iter().sum(), |body| {
        draw_panels(body, figure, &names, &panels)
    })
}

/// Returns the contenders of all cases, each once, in their order.
fn contenders(figure: &Figure) -> Vec<&str> {
    let mut names = Vec::new();
    for contender in figure.cases.iter().flat_map(|case| &case.contenders) {
        if !names.contains(&contender.name.as_str()) {
            names.push(contender.name.as_str());
        }
    }
    names
}

/// Returns the height of each row of panels: two panels of lines, or one of bars.
fn heights(figure: &Figure) -> Vec<u32> {
    let metrics = figure.metrics.len();
    if figure.x.scale == Scale::Names {
        let bars: usize = figure.cases.iter().map(|case| case.contenders.len()).sum();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX / 1024);
        let height = AXIS + 24 + BAR * count(bars) + (LINE + GAP) * count(figure.cases.len());
        return vec![height; metrics];
    }
    vec![LINES_HEIGHT; metrics.div_ceil(2)]
}

fn draw_panels(
    area: &Area<'_>,
    figure: &Figure,
    names: &[&str],
    heights: &[u32],
) -> Result<(), Error> {
    let bars = figure.x.scale == Scale::Names;
    let mut rest = area.clone();
    let mut metrics = 0..figure.metrics.len();
    for &height in heights {
        let (row, below) = rest.split_vertically(height);
        rest = below;
        if bars {
            let Some(at) = metrics.next() else {
                break;
            };
            draw_bars(&row, figure, names, at)?;
            continue;
        }
        let (left, right) = row.split_horizontally(WIDTH / 2);
        for (panel, at) in [left, right].iter().zip(&mut metrics) {
            draw_lines(panel, figure, names, at)?;
        }
    }
    Ok(())
}

/// Returns the end of a value axis: a little more than the greatest value, and never 0.
fn top(figure: &Figure, metric: usize) -> f64 {
    let samples = figure.cases.iter().flat_map(|case| &case.contenders);
    let most = samples.filter_map(|contender| contender.samples.get(metric));
    let most = most.map(Sample::most).fold(0.0, f64::max);
    if most > 0.0 { most * 1.08 } else { 1.0 }
}

fn draw_lines(area: &Area<'_>, figure: &Figure, names: &[&str], at: usize) -> Result<(), Error> {
    let metric = &figure.metrics[at];
    let across = Across::of(figure);
    let mut chart = ChartBuilder::on(area)
        .caption(metric.label(), (FONT, 15))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(across, 0.0..top(figure, at))
        .map_err(Error::new)?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_desc(figure.x.label())
        .y_desc(metric.label())
        .y_label_formatter(&|&y| number(y))
        .draw()
        .map_err(Error::new)?;
    for (&name, colour) in names.iter().zip(COLOURS.iter().cycle()) {
        let values = figure.cases.iter();
        let values =
            values.filter_map(|case| Some((case.x, case.contender(name)?.samples.get(at)?)));
        let values: Vec<(f64, &Sample)> = values.collect();
        let line = values.iter().map(|(x, sample)| (*x, sample.median()));
        let line = LineSeries::new(line, colour.stroke_width(2)).point_size(3);
        chart.draw_series(line).map_err(Error::new)?;
        let spreads = values.iter().map(|(x, sample)| {
            let ends = vec![(*x, sample.least()), (*x, sample.most())];
            PathElement::new(ends, colour.stroke_width(1))
        });
        chart.draw_series(spreads).map_err(Error::new)?;
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

    /// Returns the place of a number before the range is scaled to pixels.
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

    /// Leaves out marks that are too close to the one before.
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
        number(*value)
    }
}

fn draw_bars(area: &Area<'_>, figure: &Figure, names: &[&str], at: usize) -> Result<(), Error> {
    let metric = &figure.metrics[at];
    let rows: u32 = figure.cases.iter().map(rows_of).sum();
    let most = top(figure, at);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .build_cartesian_2d(0.0..most, f64::from(rows.max(1))..0.0)
        .map_err(Error::new)?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc(metric.label())
        .x_label_formatter(&|&x| number(x))
        .draw()
        .map_err(Error::new)?;
    let mut y = 0.0;
    for case in &figure.cases {
        let title = Text::new(case.title.clone(), (most * 0.002, y + 1.0), (FONT, 13));
        chart.draw_series([title]).map_err(Error::new)?;
        y += f64::from(LINE);
        for contender in &case.contenders {
            let place = names.iter().position(|name| *name == contender.name);
            let colour = COLOURS[place.unwrap_or_default() % COLOURS.len()];
            let sample = &contender.samples[at];
            let (above, below) = (y + 2.0, y + f64::from(BAR) - 2.0);
            let bar = Rectangle::new([(0.0, above), (sample.median(), below)], colour.filled());
            chart.draw_series([bar]).map_err(Error::new)?;
            let middle = f64::midpoint(above, below);
            let spread = vec![(sample.least(), middle), (sample.most(), middle)];
            let spread = PathElement::new(spread, BLACK.stroke_width(1));
            chart.draw_series([spread]).map_err(Error::new)?;
            // The number behind it, which is useful even for an empty bar.
            let value = format!("{:.*}", metric.digits, sample.median());
            let end = (sample.most() + most * 0.004, middle);
            let value = Text::new(value, end, value_style());
            chart.draw_series([value]).map_err(Error::new)?;
            y += f64::from(BAR);
        }
        y += f64::from(GAP);
    }
    Ok(())
}

fn value_style() -> TextStyle<'static> {
    let style = (FONT, 11).into_font().color(&BLACK);
    style.pos(Pos::new(HPos::Left, VPos::Center))
}

fn rows_of(case: &Case) -> u32 {
    LINE + GAP + BAR * u32::try_from(case.contenders.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::svg;
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
            // A number of an axis, or a name.
            assert!(has("1,500") || has("1500 bytes"), "{texts:?}");
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
}
