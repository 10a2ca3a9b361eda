//! The cost of an idle capture, against tcpdump.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ringtap_lab::Need;
use ringtap_lab::netns::VethPair;
use ringtap_lab::process::Running;

use crate::helpers::{cpu_seconds, interrupted};
use crate::results::Axis;
use crate::session::{Done, Session, Side};

/// The cost of opening the capture has passed after this time.
const SETTLED: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(3);
const QUICK_WATCHED: Duration = Duration::from_secs(2);

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root], 1)?;
    let tcpdump = session.needed_peer("tcpdump")?;
    let share = [("processor time", "of 10,000", 2)];
    session.figure("A capture without packets", Axis::names("options"), share);
    let ringtap = session.ringtap.clone();
    let watched = session.amount(WATCHED, QUICK_WATCHED);
    let pair = VethPair::new();
    for options in [&[][..], &["--immediate"]] {
        let case = format!("no packets for {watched:?} {}", options.join(" "));
        session.versus(&case, "tcpdump", |side| {
            let mut command = match side {
                Side::Ringtap => command(&pair, &ringtap, &["dump"], options),
                Side::Peer if options.is_empty() => command(&pair, &tcpdump, &[], &[]),
                Side::Peer => command(&pair, &tcpdump, &[], &["--immediate-mode"]),
            };
            measure(&mut command, watched)
        })?;
    }
    Ok(())
}

fn command(pair: &VethPair, program: &Path, first: &[&str], options: &[&str]) -> Command {
    let mut command = pair.right.namespace.command(&program.to_string_lossy());
    command.args(first).args(["-i", &pair.right.device]);
    command
        .args(["-Z", "root", "-w", "/dev/null"])
        .args(options);
    command
}

/// Returns the share of a processor that a capture takes, in parts of ten thousand.
fn measure(command: &mut Command, watched: Duration) -> Done<Vec<f64>> {
    let mut running = Running::start_piped(command)?;
    std::thread::sleep(SETTLED);
    if running.has_ended() {
        return Err("the capture did not start".into());
    }
    let (begun, before) = (Instant::now(), cpu_seconds(running.id())?);
    std::thread::sleep(watched);
    let used = cpu_seconds(running.id())? - before;
    let share = 10_000.0 * used / begun.elapsed().as_secs_f64();
    interrupted(running)?;
    Ok(vec![share])
}
