//! Profiles as stacked bars: one bar per profile, one stripe per component.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use ringtap_chart::{Area, Error as Drawing, FONT, Sheet, number};

use crate::report::Report;
use crate::{COMPONENTS, Component, Error, Result};

const HEIGHT: u32 = 600;
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
/// A stripe with a smaller share of the highest bar has no room for its number.
const ROOM: f64 = 0.035;
/// The caption of every chart.
const CAPTION: &str = "What each component of the way costs a packet of the interface, from the wire (below) to the \
                       application (above); cycles are ticks of the processor's clock. Degioanni and others (2003, \
                       figures 6 and 9) drew the same of WinPcap: 5,680 cycles before they optimised, 3,164 after.";
/// Half the width of a bar, relative to the distance between bars.
const HALF: f64 = 0.32;

/// A bar: its name and its profile.
pub type Bar<'a> = (String, &'a Report);

/// Draws profiles side by side, in nanoseconds per packet, as SVG.
///
/// # Errors
/// Returns an error if the chart cannot be drawn.
pub fn draw(bars: &[Bar<'_>], title: &str) -> Result<String> {
    let named = COMPONENTS.map(Component::title).into_iter().zip(COLOURS);
    let legend: Vec<(&str, RGBColor)> = named.chain([("unexplained", UNEXPLAINED)]).collect();
    let sheet = Sheet {
        title,
        legend: &legend,
        caption: CAPTION,
    };
    let drawn = sheet.draw(HEIGHT, |area| stacks(area, bars));
    drawn.map_err(|error| Error::Chart(error.to_string()))
}

fn stacks(area: &Area<'_>, bars: &[Bar<'_>]) -> std::result::Result<(), Drawing> {
    let highest = bars
        .iter()
        .map(|(_, report)| report.total.ns)
        .fold(1.0, f64::max);
    let count = u32::try_from(bars.len().max(1)).map_err(Drawing::new)?;
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..f64::from(count) - 0.5, 0.0..highest * 1.12)
        .map_err(Drawing::new)?;
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
        .max_light_lines(1)
        .x_labels(bars.len().max(1) * 2 + 1)
        .x_label_formatter(&name)
        .x_desc("engine or run")
        .y_desc("cost of a packet [ns]")
        .y_label_formatter(&|&y| number(y))
        .label_style((FONT, 15))
        .draw()
        .map_err(Drawing::new)?;
    for ((_, report), number) in bars.iter().zip(0_u32..) {
        let middle = f64::from(number);
        let mut top = 0.0;
        for (ns, colour) in stripes(report) {
            let corners = [(middle - HALF, top), (middle + HALF, top + ns)];
            let stripe = Rectangle::new(corners, colour.filled());
            chart.draw_series([stripe]).map_err(Drawing::new)?;
            if ns > highest * ROOM {
                let at = (middle, top + ns / 2.0);
                let style = (FONT, 14).into_font().color(&readable_on(colour));
                let style = style.pos(Pos::new(HPos::Center, VPos::Center));
                let label = Text::new(format!("{ns:.0}"), at, style);
                chart.draw_series([label]).map_err(Drawing::new)?;
            }
            top += ns;
        }
        let (ns, cycles) = (report.total.ns, report.total.cycles);
        let at = (middle, top + highest * 0.01);
        let style = (FONT, 16).into_font().color(&BLACK);
        let style = style.pos(Pos::new(HPos::Center, VPos::Bottom));
        let total = Text::new(format!("{ns:.0} ns, {cycles:.0} cycles"), at, style);
        chart.draw_series([total]).map_err(Drawing::new)?;
    }
    Ok(())
}

/// Returns black, or white if black is unreadable on the colour.
fn readable_on(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let light = 3 * u32::from(red) + 6 * u32::from(green) + u32::from(blue);
    if light < 1_100 { WHITE } else { BLACK }
}

/// Returns heights and colours, from the bottom.
fn stripes(report: &Report) -> impl Iterator<Item = (f64, RGBColor)> {
    let known = COMPONENTS.into_iter().zip(COLOURS);
    let known =
        known.filter_map(|(component, colour)| Some((report.ns(component)?.max(0.0), colour)));
    known.chain([(report.unexplained.ns, UNEXPLAINED)])
}
