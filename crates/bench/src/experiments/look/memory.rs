//! Memory beside the flow cache, after millions of flows: `ringtap web` against `ringtap flow` on one file.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use ringtap_lab::pcap;

use super::MEBIBYTE;
use crate::helpers::{LIMIT, float, interrupted, started, succeeded};
use crate::results::Axis;
use crate::session::{Done, Session, told};

const FLOWS: u32 = 10_000_000;
const QUICK_FLOWS: u32 = 200_000;
/// Flows under way at most, in both programs.
const CACHE: &str = "65536";
/// How long the file may take.
const READING: Duration = Duration::from_secs(300);
const CASE: &str = "memory after unique flows";
/// The most that the model may take, in MiB.
const GOAL: f64 = 64.0;

/// Flows a second in the file: all within two minutes, or over a month, in which all steps of time are filled.
const RATES: [(&str, u32); 2] = [("", 100_000), (" over a month", 4)];

pub(super) fn run(session: &mut Session) -> Done {
    if !session.wants(CASE) {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("flows.pcap");
    let flows = session.amount(FLOWS, QUICK_FLOWS);
    let metrics = [("peak memory", "MiB", 1)];
    session.figure("Memory after unique flows", Axis::names("flows"), metrics);
    session.at_most_rounds(1);
    let ringtap = session.ringtap.clone();
    for (time, rate) in RATES {
        write(&file, flows, rate)?;
        let title = format!("{CASE}, {flows} flows{time}");
        let names = ["ringtap web", "ringtap flow"];
        let mut peaks = [0.0; 2];
        let case = session.case(&title, None, &names, 1, |who| {
            let mut command = Command::new(&ringtap);
            match who {
                0 => command.args(["web", "--listen", "127.0.0.1:0"]),
                _ => command.args(["flow", "--biflow", "--tcp", "--top", "0"]),
            };
            command.args(["--flows", CACHE, "-r"]).arg(&file);
            peaks[who] = measure(&mut command, who == 0, flows)?;
            Ok(vec![peaks[who]])
        })?;
        if case.is_none() {
            continue;
        }
        let beside = peaks[0] - peaks[1];
        let reached = told(beside <= GOAL);
        session.note(format!(
            "the model takes {beside:.1} MiB beside the flow cache after {flows} flows{time}; the goal, at most \
             {GOAL:.0} MiB, is {reached}"
        ));
    }
    Ok(())
}

/// Writes a capture of flows of one packet of UDP each, so many a second: 40 hosts with their servers for each
/// thousand flows.
fn write(path: &Path, flows: u32, rate: u32) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&pcap::header(1))?;
    let mut frame = [0_u8; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..38].copy_from_slice(&[
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 0, 192, 0, 2, 1, 0, 0, 0, 53,
    ]);
    frame[39] = 26;
    for flow in 0..flows {
        let [_, a, b, c] = (flow / 25).to_be_bytes();
        frame[27..30].copy_from_slice(&[a, b, c]);
        frame[33] = b;
        frame[34..36].copy_from_slice(&(1024 + flow % 25).to_be_bytes()[2..]);
        let second = 1_700_000_000 + u64::from(flow / rate);
        let micros = u64::from(flow % rate * (1_000_000 / rate));
        pcap::record(&mut file, second * 1_000_000 + micros, 0, &frame)?;
    }
    file.flush()
}

/// Returns the peak of a program that has read the file, in MiB.
fn measure(command: &mut Command, is_web: bool, flows: u32) -> Done<f64> {
    if !is_web {
        let mut running = started(command)?;
        let mut peak = 0.0;
        while !running.has_ended() {
            peak = running.peak_memory().map_or(peak, float);
            thread::sleep(Duration::from_millis(20));
        }
        succeeded(&running.wait(LIMIT)?)?;
        return Ok(peak / MEBIBYTE);
    }
    let (running, address) = super::serving(command)?;
    let expected = format!("\"packets\":{flows},");
    let deadline = std::time::Instant::now() + READING;
    loop {
        let status = super::get(&address, "/api/v1/status")?;
        if status.contains(&expected) {
            break;
        }
        if std::time::Instant::now() > deadline {
            return Err(format!("the file is not read: {status}").into());
        }
        thread::sleep(Duration::from_millis(200));
    }
    for path in ["/api/v1/flows", "/api/v1/top", "/api/v1/hosts", "/metrics"] {
        super::get(&address, path)?;
    }
    let peak = running.peak_memory().map_or(0.0, float) / MEBIBYTE;
    interrupted(running)?;
    Ok(peak)
}
