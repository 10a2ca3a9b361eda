//! A soak of `ringtap web`: 200,000 packets a second, 10,000 of which begin a flow, for as long as `--minutes` says.
//!
//! Memory must be flat once the tables of the last minutes are full, which takes 7 minutes; each answer must come in
//! time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_lab::netns::Side;
use ringtap_lab::process::Running;
use serde::Deserialize;

use super::{BROWSERS, MEBIBYTE, get, serving, watch};
use crate::helpers::{LIMIT, cpu_seconds, float, interrupted, started};
use crate::session::{Done, Session};
use crate::stage::Stage;

/// Packets a second that must come at least: of all flows, and of those of one packet.
const RATE: f64 = 200_000.0;
const NEW_RATE: f64 = 10_000.0;
/// Those that the generators are asked for, of flows that stay and of flows of one packet. They leave out what they
/// are late for, which is a tenth beside a server on two processors.
const STEADY: u32 = 220_000;
const NEW: u32 = 11_000;
/// Flows that stay.
const FLOWS: u32 = 1000;
/// Packets that each generator sends together: between them it sleeps, so that the server has its time.
const STEADY_BURST: &str = "440";
const NEW_BURST: &str = "22";
/// Flows of one run of the generator: it has no more.
const FLOWS_A_RUN: u32 = 60_000;
/// How often memory and answers are looked at.
const INTERVAL: Duration = Duration::from_secs(10);
/// Looks until the tables of the last minutes are full: 7 minutes.
const FILLED: usize = 42;
/// Memory may grow by this share from the first third after that to the last.
const GROWTH: f64 = 0.05;
/// The longest that an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
const PATHS: [&str; 5] = [
    "/api/v1/status",
    "/api/v1/series?by=application",
    "/api/v1/top?of=hosts",
    "/api/v1/flows?limit=200",
    "/metrics",
];

#[derive(Deserialize)]
struct Status {
    totals: Totals,
    losses: Vec<Loss>,
}

#[derive(Deserialize)]
struct Totals {
    packets: u64,
    flows: u64,
}

#[derive(Deserialize)]
struct Loss {
    layer: String,
    packets: Option<u64>,
}

/// The state of the server at a time.
#[derive(Clone, Copy)]
struct Look {
    memory: f64,
    slowest: Duration,
}

pub(super) fn run(session: &mut Session, stage: &Stage) -> Done {
    let Some(minutes) = session.minutes.filter(|_| session.wants("soak")) else {
        return Ok(());
    };
    println!(
        "\n== Soak of {minutes} minutes: {STEADY} packets/s of {FLOWS} flows, {NEW} flows/s of one packet"
    );
    let ringtap = session.ringtap.clone();
    let side = &stage.pair.right;
    let mut command = side.namespace.command(&ringtap.to_string_lossy());
    command.args(["web", "--listen", "127.0.0.1:0", "-i", &side.device]);
    let (server, at) = serving(command.args(["--direction", "in"]))?;
    let over = AtomicBool::new(false);
    let time = Duration::from_secs(60 * u64::from(minutes));
    let looks = thread::scope(|scope| {
        for _ in 0..BROWSERS {
            scope.spawn(|| side.run(|| watch(&at, &over)));
        }
        scope.spawn(|| generate(&ringtap, &stage.pair.left, &over));
        let looks = follow(&server, side, &at, time);
        over.store(true, Ordering::Relaxed);
        looks
    });
    let looks = looks?;
    let text = side.run(|| get(&at, "/api/v1/status"))?;
    let body = text.split("\r\n\r\n").nth(1).unwrap_or_default();
    let status: Status = serde_json::from_str(body)?;
    let processor = cpu_seconds(server.id())? / time.as_secs_f64();
    interrupted(server)?;
    judge(session, &looks, &status, (time, processor))
}

/// Looks at the server until the time is over.
fn follow(server: &Running, side: &Side, at: &str, time: Duration) -> Done<Vec<Look>> {
    let begun = Instant::now();
    let mut looks = Vec::new();
    while begun.elapsed() < time {
        thread::sleep(INTERVAL);
        let mut slowest = Duration::ZERO;
        for path in PATHS {
            let asked = Instant::now();
            side.run(|| get(at, path))?;
            slowest = slowest.max(asked.elapsed());
        }
        let memory = resident(server.id())?;
        println!(
            "  {:>5} s  {memory:>7.1} MiB  slowest answer {:>5} ms",
            begun.elapsed().as_secs(),
            slowest.as_millis()
        );
        looks.push(Look { memory, slowest });
    }
    Ok(looks)
}

fn judge(
    session: &mut Session,
    looks: &[Look],
    status: &Status,
    (time, processor): (Duration, f64),
) -> Done {
    let most = |looks: &[Look]| looks.iter().map(|look| look.memory).fold(0.0, f64::max);
    let filled = &looks[FILLED.min(looks.len())..];
    let third = filled.len() / 3;
    let (before, after) = (
        most(&filled[..third]),
        most(&filled[filled.len() - third..]),
    );
    let slowest = looks.iter().map(|look| look.slowest).max();
    let slowest = slowest.unwrap_or_default();
    let seconds = time.as_secs_f64();
    let (packets, flows) = (
        float(status.totals.packets) / seconds,
        float(status.totals.flows) / seconds,
    );
    let losses = status.losses.iter().filter_map(|loss| {
        let count = loss.packets.filter(|&count| count > 0)?;
        Some(format!("{} {count}", loss.layer))
    });
    let losses = losses.collect::<Vec<_>>().join(", ");
    let flat = match third {
        0 => "not judged, the tables are not full before 7 minutes".to_owned(),
        _ => format!("{before:.1} MiB once the tables are full, {after:.1} MiB at the end"),
    };
    session.note(format!(
        "soak of {:.0} minutes: {packets:.0} packets/s and {flows:.0} new flows/s metered; memory {flat}; \
         slowest answer {} ms; {processor:.2} processors; lost: {}",
        seconds / 60.0,
        slowest.as_millis(),
        if losses.is_empty() { "nothing" } else { &losses }
    ));
    if packets < RATE || flows < NEW_RATE {
        session.fail(&format!(
            "soak: {packets:.0} packets/s and {flows:.0} new flows/s came, not {RATE} and {NEW_RATE}"
        ));
    }
    if third > 0 && after > before * (1.0 + GROWTH) {
        session.fail(&format!(
            "soak: memory grows from {before:.1} to {after:.1} MiB"
        ));
    }
    if slowest > ANSWER {
        session.fail(&format!("soak: an answer took {} ms", slowest.as_millis()));
    }
    Ok(())
}

/// Sends flows that stay, and new ones: each run of the generator has others.
fn generate(ringtap: &Path, side: &Side, over: &AtomicBool) {
    let start = |arguments: &[&str]| {
        let mut command = side.namespace.command(&ringtap.to_string_lossy());
        command.args(["gen", "-i", &side.device]).args(arguments);
        started(&mut command)
    };
    let (steady, flows) = (STEADY.to_string(), FLOWS.to_string());
    let lasting = [
        "--port",
        "443",
        "--duration",
        "600m",
        "--burst",
        STEADY_BURST,
    ];
    let options = [&lasting[..], &["--pps", &steady, "--flows", &flows]].concat();
    let other = start(&options).ok();
    let (new, count) = (NEW.to_string(), FLOWS_A_RUN.to_string());
    let mut number = 0_u8;
    while !over.load(Ordering::Relaxed) {
        number = number.wrapping_add(1);
        let source = format!("10.{number}.0.1");
        let port = (1024 + u16::from(number)).to_string();
        let flows = [
            "--pps", &new, "--burst", NEW_BURST, "--flows", &count, "-c", &count,
        ];
        let options = [&flows[..], &["--source", &source, "--port", &port]].concat();
        let Ok(mut run) = start(&options) else {
            break;
        };
        while !run.has_ended() && !over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
        if !run.has_ended() {
            let _ = run.signal("INT");
        }
        let _ = run.wait(LIMIT);
    }
    if let Some(steady) = other {
        let _ = steady.signal("INT");
        let _ = steady.wait(LIMIT);
    }
}

/// Returns the memory of a process without what it maps, which the ring is, in MiB.
fn resident(id: u32) -> Done<f64> {
    let path = format!("/proc/{id}/status");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    let kibibytes = kibibytes.ok_or_else(|| format!("{path}: no RssAnon"))?;
    Ok(float(kibibytes * 1024) / MEBIBYTE)
}
