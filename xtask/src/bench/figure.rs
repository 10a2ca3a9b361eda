//! The figure of a sweep: packets per second, and bits per second, over the size of frames.

use std::path::Path;

use plotters::prelude::*;

/// What one contender reached: packets per second by bytes of a frame.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) points: Vec<(usize, f64)>,
}

const SIZE: (u32, u32) = (1200, 520);
const COLOURS: [RGBColor; 6] = [
    RGBColor(200, 60, 30),
    RGBColor(30, 90, 180),
    RGBColor(90, 170, 220),
    RGBColor(20, 140, 90),
    RGBColor(130, 130, 130),
    RGBColor(150, 90, 170),
];

/// Draws both figures side by side into an SVG file.
pub(super) fn draw(path: &Path, lines: &[Line]) -> Result<(), String> {
    let explain = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(|error| explain(&error))?;
    let (left, right) = area.split_horizontally(SIZE.0 / 2);
    let packets = |_: usize, rate: f64| rate / 1e6;
    #[expect(clippy::cast_precision_loss, reason = "bytes of a frame")]
    let bits = |size: usize, rate: f64| rate * size as f64 * 8e-6;
    panel(&left, "million packets per second", lines, packets).map_err(|error| explain(&error))?;
    panel(&right, "Mbit/s", lines, bits).map_err(|error| explain(&error))?;
    area.present().map_err(|error| explain(&error))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn panel<'a>(
    area: &Area<'a>,
    title: &str,
    lines: &[Line],
    value: impl Fn(usize, f64) -> f64,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    let all = lines.iter().flat_map(|line| &line.points);
    let most = all.fold(0.0, |most: f64, &(size, rate)| most.max(value(size, rate)));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0_usize..1_600, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("bytes of a frame, without the frame check sequence")
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS) {
        let points = line
            .points
            .iter()
            .map(|&(size, rate)| (size, value(size, rate)));
        let series = LineSeries::new(points, colour.stroke_width(2)).point_size(3);
        let mark =
            move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2));
        chart.draw_series(series)?.label(line.name).legend(mark);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()
}

#[cfg(test)]
mod tests {
    use super::{Line, draw};

    #[test]
    fn a_figure_names_its_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("figure.svg");
        let line = |name, rate| Line {
            name,
            points: vec![(60, rate), (1514, rate / 3.0)],
        };
        draw(&path, &[line("first", 5e6), line("second", 1e6)]).expect("drawn");
        let text = std::fs::read_to_string(path).expect("written");
        for expected in ["<svg", "first", "second", "Mbit/s", "million packets"] {
            assert!(text.contains(expected), "{expected}");
        }
    }
}
