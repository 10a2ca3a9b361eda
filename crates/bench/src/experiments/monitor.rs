//! Counting in the kernel (statistics mode) against capturing only to count.

use std::process::Command;
use std::time::{Duration, Instant};

use ringtap_lab::Need;
use ringtap_lab::process::Running;

use super::deliver::{at_top_speed, figures_at_top_speed, tcpdump};
use crate::helpers::{captured, cpu_seconds, float};
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, LoadPace, READER, Reader, Seen, Stage};

const PACKETS: u32 = 1_500_000;
const QUICK_PACKETS: u32 = 400_000;
const SIZES: [u16; 4] = [64, 256, 512, 1496];
const QUICK_SIZES: [u16; 2] = [64, 1496];
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)])?;
    session.require_cpus(2)?;
    let mut names = vec!["ringtap stat", "ringtap reader"];
    if session.peer("tcpdump").is_some() {
        names.push("tcpdump");
    }
    let bytes = Axis::log("frame without check sequence", "bytes");
    session.figure("Counted packets", bytes, at_top_speed());
    let stage = Stage::new()?;
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    let sizes: &[u16] = session.amount(&SIZES, &QUICK_SIZES);
    let ringtap = session.ringtap.clone();
    for &size in sizes {
        let load = Load {
            size,
            packets,
            pace: LoadPace::Top,
            at_driver: false,
        };
        let title = format!("{size} bytes");
        let reference = names.len() - 1;
        session.case(&title, Some(f64::from(size)), &names, reference, |who| {
            let reader = match who {
                0 => {
                    let mut command = stage.pair.right.namespace.command("taskset");
                    command.args(["-c", &READER.to_string()]).arg(&ringtap);
                    return counted(&stage, load, &mut command);
                }
                1 => Reader::tcx(),
                _ => tcpdump(),
            };
            let (sent, seen) = stage.run(load, &[reader], &[READER])?;
            Ok(figures_at_top_speed(sent, &seen))
        })?;
    }
    Ok(())
}

/// Runs `ringtap stat`, which counts in the kernel; returns its count and its processor time.
fn counted(stage: &Stage, load: Load, command: &mut Command) -> Result<Vec<f64>, String> {
    let side = &stage.pair.right;
    let explain = |error: std::io::Error| error.to_string();
    let device = format!("tcx:{}", side.device);
    command.args(["stat", "-i", &device, "--direction", "in", "--json", ""]);
    let mut running = Running::start_piped(command).map_err(explain)?;
    running.wait_until_capturing(side, LIMIT).map_err(explain)?;
    let before = cpu_seconds(running.id()).map_err(explain)?;
    let begun = Instant::now();
    let (sent, _) = stage.run(load, &[], &[READER])?;
    // At least one interval, so that the work of an interval is included.
    let rest = Duration::from_millis(1_100).checked_sub(begun.elapsed());
    std::thread::sleep(rest.unwrap_or_default());
    let processor = cpu_seconds(running.id()).map_err(explain)? - before;
    running.signal("INT").map_err(explain)?;
    let output = running.wait(LIMIT).map_err(explain)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let packets = float(text.lines().filter_map(super::stat::total).sum());
    debug_assert!(captured(&text).is_none(), "nothing is captured");
    let seen = Seen {
        packets,
        processor,
        ..Seen::default()
    };
    Ok(figures_at_top_speed(sent, &[seen]))
}
