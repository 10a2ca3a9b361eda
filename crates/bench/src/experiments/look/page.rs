//! The page: its size, and in Chromium the time until the first paint and from packets to the page.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringtap_lab::{Need, page_folder};
use serde::Deserialize;

use super::{get, serving};
use crate::helpers::{LIMIT, float, interrupted, last_object, started};
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, Stage};

const CASE: &str = "the page in a browser";
const BROWSER: &str = "/usr/bin/chromium";
/// The goals in milliseconds.
const PAINT: f64 = 1000.0;
const UPDATE: f64 = 1200.0;

#[derive(Deserialize)]
struct Times {
    paint: f64,
    figures: f64,
}

pub(super) fn run(session: &mut Session, stage: &Stage) -> Done {
    if !session.wants(CASE) {
        return Ok(());
    }
    let needs = [Need::PagePackages, Need::Tool("chromium")];
    if let Some(reason) = needs.iter().find_map(Need::unmet) {
        session.note(format!("{CASE}: left out: {reason}"));
        return Ok(());
    }
    let metrics = [
        ("first paint", "ms", 0),
        ("first figures", "ms", 0),
        ("from packets to the page", "ms", 0),
        ("page, not compressed", "kB", 1),
    ];
    session.figure("The page", Axis::names("browser"), metrics);
    let ringtap = session.ringtap.clone();
    let mut worst = [0.0_f64; 2];
    session.case(CASE, None, &["ringtap web"], 0, |_| {
        let side = &stage.pair.right;
        let mut command = side.namespace.command(&ringtap.to_string_lossy());
        command.args(["web", "--listen", "127.0.0.1:0", "-i", &side.device]);
        let values = measure(stage, &mut command)?;
        worst = [worst[0].max(values[0]), worst[1].max(values[2])];
        Ok(values)
    })?;
    session.note(format!(
        "the slowest first paint took {:.0} ms (goal {PAINT:.0}), the slowest update {:.0} ms (goal {UPDATE:.0})",
        worst[0], worst[1]
    ));
    Ok(())
}

fn measure(stage: &Stage, command: &mut std::process::Command) -> Done<Vec<f64>> {
    let side = &stage.pair.right;
    let (server, at) = serving(command)?;
    let mut size = 0;
    for file in ["/", "/app.js", "/app.css", "/icon.svg"] {
        size += side.run(|| get(&at, file))?.len();
    }
    let mut browser = side.namespace.command("node");
    browser.arg(page_folder().join("tests/paint.mjs"));
    let mut browser = started(browser.args([&format!("http://{at}"), BROWSER]))?;
    browser.wait_until_told("ready", LIMIT)?;
    let said = browser.said();
    let times: Times = last_object(&said).ok_or_else(|| format!("no times: {said}"))?;
    let sent = SystemTime::now();
    stage.run(Load::top(64, 1000), &[], &[])?;
    browser.wait_until_told("changed", LIMIT)?;
    let said = browser.said();
    let changed = said.split("changed ").nth(1);
    let changed = changed.and_then(|rest| rest.split(';').next()?.trim().parse().ok());
    let changed: u64 = changed.ok_or("the page did not change")?;
    let sent = sent.duration_since(UNIX_EPOCH).unwrap_or_default();
    let took = Duration::from_millis(changed).saturating_sub(sent);
    browser.wait(LIMIT)?;
    interrupted(server)?;
    let page = float(size as u64) / 1000.0;
    Ok(vec![
        times.paint,
        times.figures,
        took.as_secs_f64() * 1000.0,
        page,
    ])
}
