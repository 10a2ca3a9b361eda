//! Profiles as stacked bars: a bar for each, a stripe for each component.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::Report;
use crate::{COMPONENTS, Error, Result};

const SIZE: (u32, u32) = (1100, 640);
/// Space for the legend, on the right.
const LEGEND: u32 = 240;
const COLOURS: [RGBColor; COMPONENTS.len()] = [
    RGBColor(90, 90, 100),
    RGBColor(150, 150, 160),
    RGBColor(30, 90, 180),
    RGBColor(200, 60, 30),
    RGBColor(220, 150, 30),
    RGBColor(20, 140, 90),
    RGBColor(150, 90, 170),
    RGBColor(100, 180, 220),
    RGBColor(190, 200, 120),
];
const UNEXPLAINED: RGBColor = RGBColor(230, 230, 230);
/// A stripe of less than this share of the highest bar has no room for its number.
const ROOM: f64 = 0.035;
/// Half the width of a bar, in bars.
const HALF: f64 = 0.32;

/// A bar: what it is called, and its profile.
pub type Bar<'a> = (String, &'a Report);

/// Draws profiles side by side, in nanoseconds per packet, as SVG.
///
/// # Errors
/// The chart cannot be drawn.
pub fn draw(bars: &[Bar<'_>], caption: &str) -> Result<String> {
    let mut text = String::new();
    draw_into(&mut text, bars, caption).map_err(|error| Error::Chart(error.to_string()))?;
    Ok(text)
}

/// [`draw`] into a file.
///
/// # Errors
/// As there; the file cannot be written.
pub fn write(path: &Path, bars: &[Bar<'_>], caption: &str) -> Result<()> {
    let text = draw(bars, caption)?;
    std::fs::write(path, text).map_err(|error| Error::Chart(format!("{}: {error}", path.display())))
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw_into(text: &mut String, bars: &[Bar<'_>], caption: &str) -> Drawn {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(|error| error.to_string())?;
    let (left, right) = area.split_horizontally(SIZE.0 - LEGEND);
    legend(&right).map_err(|error| error.to_string())?;
    stacks(&left, bars, caption).map_err(|error| error.to_string())?;
    area.present().map_err(|error| error.to_string())?;
    drop((left, right));
    drop(area);
    Ok(())
}

fn stacks(area: &Area<'_>, bars: &[Bar<'_>], caption: &str) -> Drawn {
    let highest = bars
        .iter()
        .map(|(_, report)| report.total.ns)
        .fold(1.0, f64::max);
    let count = u32::try_from(bars.len().max(1))?;
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..f64::from(count) - 0.5, 0.0..highest * 1.12)?;
    let name = |x: &f64| {
        let at = x.round();
        let bar = bars
            .iter()
            .zip(0_u32..)
            .find(|(_, number)| f64::from(*number) == at);
        bar.filter(|_| (x - at).abs() < 0.01)
            .map_or_else(String::new, |((name, _), _)| name.clone())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(bars.len().max(1) * 2 + 1)
        .x_label_formatter(&name)
        .x_desc("engine or run")
        .y_desc("nanoseconds per packet")
        .label_style(("sans-serif", 15))
        .draw()?;
    for ((_, report), number) in bars.iter().zip(0_u32..) {
        let middle = f64::from(number);
        let mut top = 0.0;
        for (ns, colour) in stripes(report) {
            let corners = [(middle - HALF, top), (middle + HALF, top + ns)];
            chart.draw_series([Rectangle::new(corners, colour.filled())])?;
            if ns > highest * ROOM {
                let style = ("sans-serif", 14)
                    .into_font()
                    .color(&BLACK)
                    .pos(Pos::new(HPos::Center, VPos::Center));
                let label = Text::new(format!("{ns:.0}"), (middle, top + ns / 2.0), style);
                chart.draw_series([label])?;
            }
            top += ns;
        }
        let style = ("sans-serif", 16)
            .into_font()
            .color(&BLACK)
            .pos(Pos::new(HPos::Center, VPos::Bottom));
        let total = format!(
            "{:.0} ns, {:.0} cycles",
            report.total.ns, report.total.cycles
        );
        chart.draw_series([Text::new(total, (middle, top + highest * 0.01), style)])?;
    }
    Ok(())
}

/// Heights and colours, from below.
fn stripes(report: &Report) -> impl Iterator<Item = (f64, RGBColor)> {
    let known = COMPONENTS.into_iter().zip(COLOURS);
    let known =
        known.filter_map(|(component, colour)| Some((report.ns(component)?.max(0.0), colour)));
    known.chain([(report.unexplained.ns, UNEXPLAINED)])
}

fn legend(area: &Area<'_>) -> Drawn {
    let named = COMPONENTS
        .iter()
        .map(|component| component.title())
        .zip(COLOURS);
    let all: Vec<_> = named.chain([("unexplained", UNEXPLAINED)]).collect();
    // In the order of the stripes, the highest first.
    for ((title, colour), row) in all.iter().rev().zip(0_i32..) {
        let top = 60 + row * 26;
        area.draw(&Rectangle::new([(6, top), (24, top + 16)], colour.filled()))?;
        area.draw(&Rectangle::new([(6, top), (24, top + 16)], BLACK.mix(0.4)))?;
        area.draw(&Text::new(*title, (32, top + 2), ("sans-serif", 15)))?;
    }
    Ok(())
}
