//! `ringtap web` with three browsers, against `ringtap flow` that meters the same.
//!
//! Frames are made in the kernel at top speed. Both meter both directions and TCP; the web server additionally feeds
//! its model and sends events to three clients. Memory is the peak of the process, with the meter's reserved
//! flows, as far as they were used. Further cases: memory after millions of flows, times of the page in a browser, the
//! cost of `ringtap top` without traffic, and, only where minutes are given for it, a soak.

mod idle;
mod memory;
mod page;
mod soak;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ringtap_lab::Need;
use ringtap_lab::process::Running;
use serde::Deserialize;

use crate::helpers::{cpu_seconds, float, last_object};
use crate::results::{Axis, Metric};
use crate::session::{Done, Session, judge_least};
use crate::stage::{Load, LoadPace, READER, Stage};

const PACKETS: u32 = 3_000_000;
const QUICK_PACKETS: u32 = 400_000;
const BROWSERS: usize = 3;
const LIMIT: Duration = Duration::from_secs(30);
/// How long packets in the ring are waited for, and a browser for an event.
const SETTLED: Duration = Duration::from_millis(500);
/// The share of flow's rate that is to be kept.
const KEPT: f64 = 0.95;
const MEBIBYTE: f64 = 1_048_576.0;

/// The summary of both programs.
#[derive(Deserialize)]
struct Summary {
    packets: u64,
}

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)])?;
    session.require_cpus(2)?;
    let metrics = vec![
        Metric::new("metered", "million packets/s", 2),
        Metric::new("processor time", "ns/packet", 0),
        Metric::new("peak memory", "MiB", 1),
    ];
    session.figure("Live traffic metered", Axis::names("browsers"), metrics);
    let stage = Stage::new()?;
    let ringtap = session.ringtap.clone();
    let load = Load {
        size: 64,
        packets: session.amount(PACKETS, QUICK_PACKETS),
        pace: LoadPace::Top,
        at_driver: false,
    };
    let names = ["ringtap web", "ringtap flow"];
    let title = format!("64 bytes, {BROWSERS} browsers");
    let case = session.case(&title, None, &names, 1, |who| {
        let mut command = stage.pair.right.namespace.command("taskset");
        command.args(["-c", &READER.to_string()]).arg(&ringtap);
        match who {
            0 => command.args(["web", "--listen", "127.0.0.1:0"]),
            _ => command.args(["flow", "--biflow", "--tcp", "--top", "0", "-s", "512"]),
        };
        measure(&stage, load, &mut command, who == 0)
    })?;
    judge_least("of flow's rate", KEPT, case.as_ref(), 0, 0);
    memory::run(session)?;
    page::run(session, &stage)?;
    idle::run(session, &stage)?;
    soak::run(session, &stage)
}

/// Meters a load; with browsers or without.
fn measure(
    stage: &Stage,
    load: Load,
    command: &mut Command,
    is_web: bool,
) -> Result<Vec<f64>, String> {
    let side = &stage.pair.right;
    let explain = |error: std::io::Error| error.to_string();
    let device = format!("tcx:{}", side.device);
    command.args(["-i", &device, "--direction", "in", "--json-stats"]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut running = Running::start(command.stderr(Stdio::piped())).map_err(explain)?;
    running.wait_until_capturing(side, LIMIT).map_err(explain)?;
    let address = match is_web {
        true => {
            running
                .wait_until_told("serving on http://", LIMIT)
                .map_err(explain)?;
            Some(address(&running.said()))
        }
        false => None,
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..BROWSERS {
            if let Some(address) = &address {
                scope.spawn(|| side.run(|| watch(address, &over)));
            }
        }
        thread::sleep(SETTLED);
        let before = cpu_seconds(running.id()).map_err(explain)?;
        let sent = stage.run(load, &[], &[READER]);
        thread::sleep(SETTLED);
        let processor = cpu_seconds(running.id()).map_err(explain)? - before;
        let memory = running.peak_memory().map_or(0.0, float) / MEBIBYTE;
        over.store(true, Ordering::Relaxed);
        running.signal("INT").map_err(explain)?;
        let output = running.wait(LIMIT).map_err(explain)?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let summary: Summary = last_object(&text).ok_or_else(|| format!("no summary: {text}"))?;
        let packets = float(summary.packets);
        let (sent, _) = sent?;
        Ok(vec![
            packets / sent.seconds / 1e6,
            processor * 1e9 / packets.max(1.0),
            memory,
        ])
    })
}

/// Returns the address that a server has printed.
fn address(said: &str) -> String {
    let rest = said.split("http://").nth(1).unwrap_or_default();
    rest.split('/').next().unwrap_or_default().to_owned()
}

/// Asks for a path; returns the answer with its header.
fn get(address: &str, path: &str) -> Result<String, String> {
    let explain = |error: std::io::Error| format!("{path}: {error}");
    let mut stream = TcpStream::connect(address).map_err(explain)?;
    stream.set_read_timeout(Some(LIMIT)).map_err(explain)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(explain)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(explain)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.split(' ').nth(1) {
        Some("200") => Ok(answer),
        _ => Err(format!("{path}: {answer}")),
    }
}

/// Reads events as a browser does, until the load is over.
fn watch(address: &str, over: &AtomicBool) {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return;
    };
    let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let prepared = stream
        .set_read_timeout(Some(SETTLED))
        .and_then(|()| stream.write_all(request.as_bytes()));
    let mut buffer = [0; 16 << 10];
    while prepared.is_ok() && !over.load(Ordering::Relaxed) {
        // Without an event for a while it goes on.
        if let Ok(0) = stream.read(&mut buffer) {
            return;
        }
    }
}
