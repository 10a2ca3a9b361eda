//! Keeping to a file's times, against tcpreplay: the error of the gaps between packets, measured by
//! a program at the receiving driver.

use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_lab::Need;
use ringtap_lab::netns::VethPair;
use ringtap_lab::traffic::{Sizes, Traffic, XdpRecord};
use ringtap_sys::sched::set_affinity;

use crate::helpers::{LIMIT, started, succeeded};
use crate::results::Axis;
use crate::session::{Done, Session, Side};

/// Gaps in nanoseconds, and the number of packets in the file.
const CASES: [(u64, u64); 3] = [(1_000_000, 2_000), (100_000, 20_000), (10_000, 100_000)];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Tool("taskset")], 2)?;
    session.needed_peer("tcpreplay")?;
    let metrics = [
        ("median error of a gap", "µs", 3),
        ("99 % of errors are below", "µs", 3),
        ("time of the whole", "s", 4),
    ];
    session.figure("A file replayed by its times", Axis::names("gaps"), metrics);
    set_affinity(&[1]).map_err(|error| format!("two processors are needed: {error}"))?;
    let folder = tempfile::tempdir()?;
    for (gap, packets) in CASES {
        let packets = if session.quick { packets / 4 } else { packets };
        let file = folder.path().join(format!("{gap}.pcap"));
        let traffic = Traffic {
            packets,
            sizes: Sizes::Fixed(100),
            interval: gap,
            ..Traffic::default()
        };
        traffic.write_file(&file)?;
        let bench = Bench {
            pair: VethPair::new(),
            ringtap: session.ringtap.clone(),
            file,
            gap,
            packets,
        };
        let case = format!("gaps of {} µs, {packets} packets", gap / 1_000);
        session.versus(&case, "tcpreplay", |side| bench.measure(side))?;
    }
    Ok(())
}

struct Bench {
    pair: VethPair,
    ringtap: PathBuf,
    file: PathBuf,
    gap: u64,
    packets: u64,
}

impl Bench {
    fn measure(&self, side: Side) -> Done<Vec<f64>> {
        let capacity = u32::try_from(self.packets).unwrap_or(u32::MAX);
        let record = XdpRecord::on(&self.pair.right, capacity)?;
        succeeded(&started(&mut self.command(side, &self.file))?.wait(LIMIT)?)?;
        let stamps = record.stamps()?;
        if stamps.len() as u64 != self.packets {
            return Err(format!("{} of {} packets came", stamps.len(), self.packets).into());
        }
        Ok(figures(&stamps, self.gap))
    }

    fn command(&self, side: Side, file: &Path) -> Command {
        let device = &self.pair.left.device;
        let mut command = self.pair.left.namespace.command("taskset");
        command.args(["-c", "0"]);
        match side {
            Side::Ringtap => command
                .arg(&self.ringtap)
                .args(["send", "-i", device, "-r"]),
            Side::Peer => command.args(["tcpreplay", "-q", "-i", device, "-K"]),
        };
        command.arg(file);
        command
    }
}

/// Returns median and 99th percentile of the gaps' errors in microseconds, and the seconds from the
/// first packet to the last.
#[expect(clippy::cast_precision_loss, reason = "seconds in nanoseconds")]
fn figures(stamps: &[u64], gap: u64) -> Vec<f64> {
    let gaps = stamps
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]));
    let mut errors: Vec<u64> = gaps.map(|found| found.abs_diff(gap)).collect();
    errors.sort_unstable();
    let at = |percent: usize| {
        let index = errors.len() * percent / 100;
        errors.get(index).map_or(0.0, |&error| error as f64 / 1e3)
    };
    let whole = stamps.last().unwrap_or(&0) - stamps.first().unwrap_or(&0);
    vec![at(50), at(99), whole as f64 / 1e9]
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn errors_are_those_of_gaps() {
        let figures = figures(&[0, 10_000, 21_000, 30_000, 40_500], 10_000);
        let expected = [1.0, 1.0, 0.000_040_5];
        for (found, expected) in figures.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{figures:?}");
        }
    }
}
