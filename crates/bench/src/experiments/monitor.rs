//! Counting in the kernel (statistics mode) against capturing only to count.

use std::process::Command;
use std::time::{Duration, Instant};

use ringtap_lab::Need;

use super::deliver::{at_top_speed, figures_at_top_speed, tcpdump};
use crate::helpers::{captured, capturing, cpu_seconds, float, interrupted, text};
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, READER, Reader, Seen, Stage};

const PACKETS: u32 = 1_500_000;
const QUICK_PACKETS: u32 = 400_000;
const SIZES: [u16; 4] = [64, 256, 512, 1496];
const QUICK_SIZES: [u16; 2] = [64, 1496];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let mut names = vec!["ringtap stat", "ringtap reader"];
    if session.peer("tcpdump").is_some() {
        names.push("tcpdump");
    }
    let bytes = Axis::log("frame without check sequence", "bytes");
    session.figure("Counted packets", bytes, at_top_speed());
    let stage = Stage::new()?;
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    let ringtap = session.ringtap.clone();
    for &size in session.amount(&SIZES[..], &QUICK_SIZES) {
        let load = Load::top(size, packets);
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
fn counted(stage: &Stage, load: Load, command: &mut Command) -> Done<Vec<f64>> {
    let side = &stage.pair.right;
    let device = format!("tcx:{}", side.device);
    command.args(["stat", "-i", &device, "--direction", "in", "--json", ""]);
    let running = capturing(command, side)?;
    let before = cpu_seconds(running.id())?;
    let begun = Instant::now();
    let (sent, _) = stage.run(load, &[], &[READER])?;
    // At least one interval, so that the work of an interval is included.
    let rest = Duration::from_millis(1_100).checked_sub(begun.elapsed());
    std::thread::sleep(rest.unwrap_or_default());
    let processor = cpu_seconds(running.id())? - before;
    let text = text(&interrupted(running)?.stdout);
    let packets = float(text.lines().filter_map(super::stat::total).sum());
    debug_assert!(captured(&text).is_none(), "nothing is captured");
    let seen = Seen {
        packets,
        processor,
        ..Seen::default()
    };
    Ok(figures_at_top_speed(sent, &[seen]))
}
