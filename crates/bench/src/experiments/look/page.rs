//! The page: its size, and in Chromium the time until the first paint and from packets to the page.

use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringtap_lab::process::Running;
use ringtap_lab::{Need, page_folder};
use serde::Deserialize;

use super::{LIMIT, address, get};
use crate::helpers::float;
use crate::results::{Axis, Metric};
use crate::session::{Done, Session};
use crate::stage::{Load, LoadPace, Stage};

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
    let metrics = vec![
        Metric::new("first paint", "ms", 0),
        Metric::new("first figures", "ms", 0),
        Metric::new("from packets to the page", "ms", 0),
        Metric::new("page, not compressed", "kB", 1),
    ];
    session.figure("The page", Axis::names("browser"), metrics);
    let ringtap = session.ringtap.clone();
    let mut worst = [0.0_f64; 2];
    session.case(CASE, None, &["ringtap web"], 0, |_| {
        let mut command = stage
            .pair
            .right
            .namespace
            .command(&ringtap.to_string_lossy());
        command.args([
            "web",
            "--listen",
            "127.0.0.1:0",
            "-i",
            &stage.pair.right.device,
        ]);
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

fn measure(stage: &Stage, command: &mut std::process::Command) -> Result<Vec<f64>, String> {
    let explain = |error: std::io::Error| error.to_string();
    let side = &stage.pair.right;
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = Running::start(command.stderr(Stdio::piped())).map_err(explain)?;
    server
        .wait_until_told("serving on http://", LIMIT)
        .map_err(explain)?;
    let at = address(&server.said());
    let mut size = 0;
    for file in ["/", "/app.js", "/app.css", "/icon.svg"] {
        size += side.run(|| get(&at, file))?.len();
    }
    let mut browser = side.namespace.command("node");
    browser
        .arg(page_folder().join("tests/paint.mjs"))
        .args([&format!("http://{at}"), BROWSER])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut browser = Running::start(browser.stderr(Stdio::piped())).map_err(explain)?;
    browser.wait_until_told("ready", LIMIT).map_err(explain)?;
    let said = browser.said();
    let times = said
        .lines()
        .find_map(|line| serde_json::from_str::<Times>(line).ok());
    let times = times.ok_or_else(|| format!("no times: {said}"))?;
    let load = Load {
        size: 64,
        packets: 1000,
        pace: LoadPace::Top,
        at_driver: false,
    };
    let sent = SystemTime::now();
    stage.run(load, &[], &[])?;
    browser.wait_until_told("changed", LIMIT).map_err(explain)?;
    let said = browser.said();
    let changed = said
        .split("changed ")
        .nth(1)
        .and_then(|rest| rest.split(';').next());
    let changed: u64 = changed
        .and_then(|text| text.trim().parse().ok())
        .ok_or("the page did not change")?;
    let sent = sent.duration_since(UNIX_EPOCH).unwrap_or_default();
    let took = Duration::from_millis(changed).saturating_sub(sent);
    browser.wait(LIMIT).map_err(explain)?;
    server.signal("INT").map_err(explain)?;
    server.wait(LIMIT).map_err(explain)?;
    let page = float(size as u64) / 1000.0;
    Ok(vec![
        times.paint,
        times.figures,
        took.as_secs_f64() * 1000.0,
        page,
    ])
}
