//! A capture beside programs that compute, with different measures for it: none, real-time
//! priority, busy polling, a processor of its own, threaded NAPI.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringtap_capture::CaptureOptions;
use ringtap_lab::Need;
use ringtap_sys::sched::set_affinity;

use super::delay;
use crate::helpers::text;
use crate::results::Axis;
use crate::session::{Done, Session, Stop};
use crate::stage::{Load, LoadPace, READER, Reader, SENDER, Stage, own_options};

const RATE: u32 = 300_000;
const SIZE: u16 = 64;
/// The number of packets whose delay is measured, one every 2 ms.
const DELAYS: usize = 300;
const QUICK_DELAYS: usize = 100;
const FIFO: u8 = 50;

/// The measures for the capture.
struct Way {
    name: &'static str,
    options: CaptureOptions,
    /// Whether other programs keep off the reader's processor.
    alone: bool,
    threaded: bool,
}

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let metrics = [
        ("lost", "%", 2),
        ("median delay", "µs", 0),
        ("99 % of delays are below", "µs", 0),
        ("reader's processor", "%", 1),
    ];
    let title = "A capture of 300,000 packets/s beside programs that compute";
    session.figure(title, Axis::names("hook"), metrics);
    let stage = Stage::new()?;
    let mut ways = ways();
    if let Err(reason) = threaded(&stage, false).map_err(Stop::reason) {
        session.note(format!("threaded NAPI is left out: {reason}"));
        ways.retain(|way| !way.threaded);
    }
    let names: Vec<&str> = ways.iter().map(|way| way.name).collect();
    let load = Load {
        pace: LoadPace::Rate(RATE),
        // Through the driver's poll, which can be a thread.
        at_driver: true,
        ..Load::top(SIZE, session.amount(RATE, RATE / 2))
    };
    let delays = session.amount(DELAYS, QUICK_DELAYS);
    let title = "tap at tcx, a program on each processor";
    session.case(title, None, &names, 0, |who| {
        let way = &ways[who];
        if way.threaded {
            threaded(&stage, true)?;
        }
        let values = measured(&stage, load, way, delays);
        if way.threaded {
            threaded(&stage, false)?;
        }
        values
    })?;
    Ok(())
}

fn ways() -> Vec<Way> {
    let way = |name, options| Way {
        name,
        options,
        alone: false,
        threaded: false,
    };
    let immediate = || own_options().immediate(true);
    vec![
        way("nothing", immediate()),
        way("SCHED_FIFO", immediate().priority(Some(FIFO))),
        way(
            "busy polling",
            immediate().busy_poll(Some(Duration::from_millis(50))),
        ),
        way(
            "SCHED_FIFO and busy polling",
            immediate()
                .priority(Some(FIFO))
                .busy_poll(Some(Duration::from_millis(1))),
        ),
        Way {
            alone: true,
            ..way("a processor of its own", immediate())
        },
        Way {
            threaded: true,
            ..way("threaded NAPI", immediate())
        },
    ]
}

fn measured(stage: &Stage, load: Load, way: &Way, delays: usize) -> Done<Vec<f64>> {
    let taken: &[usize] = if way.alone {
        &[SENDER]
    } else {
        &[SENDER, READER]
    };
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for &cpu in taken {
            let end = &end;
            scope.spawn(move || {
                if set_affinity(&[cpu]).is_ok() {
                    while !end.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            });
        }
        let values = both(stage, load, way, delays);
        end.store(true, Ordering::Relaxed);
        values
    })
}

/// Measures the loss at the rate, then the delay of single packets.
fn both(stage: &Stage, load: Load, way: &Way, delays: usize) -> Done<Vec<f64>> {
    let reader = Reader::library("tcx", way.options.clone());
    let (sent, seen) = stage.run(load, &[reader], &[READER])?;
    let seen = seen.first().copied().unwrap_or_default();
    let options = way.options.clone().cpus(vec![READER]);
    let mut delays = delay::own(&stage.pair, &options, delays)?;
    delays.sort_unstable();
    let at = |percent: usize| delays[(delays.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    Ok(vec![
        100.0 * (1.0 - (seen.packets / sent.packets).min(1.0)),
        at(50),
        at(99),
        100.0 * seen.processor / sent.seconds,
    ])
}

/// Lets a kernel thread receive instead of an interrupt (`/sys/class/net/DEV/threaded`, Linux 5.12). To see
/// the namespace's devices, sysfs is mounted in it, privately.
fn threaded(stage: &Stage, on: bool) -> Done {
    let side = &stage.pair.right;
    let script = format!(
        "mount -t sysfs none /sys && echo {} > /sys/class/net/{}/threaded",
        u8::from(on),
        side.device
    );
    let mut command = side.namespace.command("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(text(&output.stderr).trim().into())
}
