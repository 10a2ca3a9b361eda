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
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ringtap_lab::Need;
use ringtap_lab::process::Running;
use serde::Deserialize;

use crate::helpers::{LIMIT, cpu_seconds, float, interrupted, last_object, started, text};
use crate::results::Axis;
use crate::session::{Done, Session, judge_least};
use crate::stage::{Load, READER, Stage};

const PACKETS: u32 = 3_000_000;
const QUICK_PACKETS: u32 = 400_000;
const BROWSERS: usize = 3;
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
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let metrics = [
        ("metered", "million packets/s", 2),
        ("processor time", "ns/packet", 0),
        ("peak memory", "MiB", 1),
    ];
    session.figure("Live traffic metered", Axis::names("browsers"), metrics);
    let stage = Stage::new()?;
    let ringtap = session.ringtap.clone();
    let load = Load::top(64, session.amount(PACKETS, QUICK_PACKETS));
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
fn measure(stage: &Stage, load: Load, command: &mut Command, is_web: bool) -> Done<Vec<f64>> {
    let side = &stage.pair.right;
    let device = format!("tcx:{}", side.device);
    command.args(["-i", &device, "--direction", "in", "--json-stats"]);
    let (mut running, address) = if is_web {
        let (running, address) = serving(command)?;
        (running, Some(address))
    } else {
        (started(command)?, None)
    };
    running.wait_until_capturing(side, LIMIT)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..BROWSERS {
            if let Some(address) = &address {
                scope.spawn(|| side.run(|| watch(address, &over)));
            }
        }
        thread::sleep(SETTLED);
        let before = cpu_seconds(running.id())?;
        let sent = stage.run(load, &[], &[READER]);
        thread::sleep(SETTLED);
        let processor = cpu_seconds(running.id())? - before;
        let memory = running.peak_memory().map_or(0.0, float) / MEBIBYTE;
        over.store(true, Ordering::Relaxed);
        let said = text(&interrupted(running)?.stderr);
        let summary: Summary = last_object(&said).ok_or_else(|| format!("no summary: {said}"))?;
        let packets = float(summary.packets);
        let (sent, _) = sent?;
        Ok(vec![
            packets / sent.seconds / 1e6,
            processor * 1e9 / packets.max(1.0),
            memory,
        ])
    })
}

/// Starts a server, and returns it with the address that it has printed.
fn serving(command: &mut Command) -> Done<(Running, String)> {
    let mut server = started(command)?;
    server.wait_until_told("serving on http://", LIMIT)?;
    let said = server.said();
    let rest = said.split("http://").nth(1).unwrap_or_default();
    let address = rest.split('/').next().unwrap_or_default();
    Ok((server, address.to_owned()))
}

/// Asks for a path; returns the answer with its header.
fn get(address: &str, path: &str) -> Done<String> {
    let explain = |error: std::io::Error| format!("{path}: {error}");
    let mut stream = TcpStream::connect(address).map_err(explain)?;
    stream.set_read_timeout(Some(LIMIT)).map_err(explain)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(explain)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(explain)?;
    let answer = text(&answer);
    match answer.split(' ').nth(1) {
        Some("200") => Ok(answer),
        _ => Err(format!("{path}: {answer}").into()),
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
