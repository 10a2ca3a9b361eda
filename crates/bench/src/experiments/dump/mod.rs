//! Captures to disk: the share of the offered packets that a file contains, and its cost.
//!
//! `dump68` keeps 68 bytes of each packet, `dumpall` everything. One processor offers packets of
//! one size, at a share of the greatest rate that it reaches without a capture. The capturing
//! program runs on the other one and writes to a file system on disk or in memory. The packets in
//! the file afterwards count; for tcpdump also those of its last block. Each program writes its own
//! format: the tap, whose ring has it, and dumpcap write pcapng, the others pcap. The file system's
//! rate of plain sequential writing is measured, too.

mod capturers;
mod generator;
mod storage;

use std::path::Path;

use ringtap_lab::Need;
use ringtap_lab::netns::VethPair;
use ringtap_sys::sched::set_affinity;

use self::capturers::Capturers;
pub(super) use self::generator::{Generator, sent_by};
pub(super) use self::storage::{Storage, packets_in, settle, settle_by};
use crate::goals::{Goal, is_own};
use crate::helpers::{capturing, cpu_seconds, float, interrupted, rest, text};
use crate::results::{Axis, Case};
use crate::session::{Done, Session};

/// The lengths of frames.
const SIZES: [u16; 3] = [1496, 508, 60];
/// Offered loads, in percent of the generator's greatest rate.
const LOADS: [u32; 4] = [10, 40, 70, 100];
const QUICK_LOADS: [u32; 2] = [30, 100];
/// The loads on the file systems after the first, which show the first one's limit.
const FEW_LOADS: [u32; 1] = [100];
/// The duration in seconds for which packets are offered at most, and the most bytes.
const SECONDS: f64 = 0.4;
const QUICK_SECONDS: f64 = 0.3;
const BYTES: f64 = 1e9;
/// The processor of the capturing program; the generator runs on the other one.
const CAPTURE_CPU: usize = 1;

pub(crate) fn whole(session: &mut Session) -> Done {
    run(session, None)
}

pub(crate) fn headers(session: &mut Session) -> Done {
    run(session, Some(68))
}

fn run(session: &mut Session, snaplen: Option<u32>) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let capturers = Capturers::find(session, snaplen, folder.path())?;
    session.end_where_equal();
    let pair = VethPair::new();
    pair.right.take_frames()?;
    let places = Storage::find(session);
    for (number, storage) in session
        .amount(&places[..], &places[..places.len().min(1)])
        .iter()
        .enumerate()
    {
        let (sizes, loads) = match (session.quick, number) {
            (true, _) => (&SIZES[..1], &QUICK_LOADS[..]),
            (false, 0) => (&SIZES[..], &LOADS[..]),
            (false, _) => (&SIZES[..1], &FEW_LOADS[..]),
        };
        let rate = storage.sequential_rate()?;
        session.note(format!(
            "{} takes {:.0} MB/s of sequential data",
            storage.name,
            rate / 1e6
        ));
        for &size in sizes {
            let generator = Generator::new(session, &pair.left, size, false)?;
            let setting = Setting {
                pair: &pair,
                capturers: &capturers,
                generator: &generator,
                storage,
                rate,
                kept: f64::from(snaplen.unwrap_or(u32::from(size)).min(u32::from(size))),
            };
            setting.run(session, size, snaplen, loads)?;
        }
    }
    Ok(())
}

/// The constant settings of a figure.
struct Setting<'a> {
    pair: &'a VethPair,
    capturers: &'a Capturers,
    generator: &'a Generator<'a>,
    storage: &'a Storage,
    /// Bytes a second that the file system writes.
    rate: f64,
    /// Bytes kept of a packet.
    kept: f64,
}

impl Setting<'_> {
    fn run(&self, session: &mut Session, size: u16, snaplen: Option<u32>, loads: &[u32]) -> Done {
        let kept = snaplen.map_or("whole".to_owned(), |bytes| format!("up to {bytes} bytes"));
        let title = format!("{size} bytes, {kept}, to {}", self.storage.name);
        let metrics = [
            ("captured", "%", 2),
            ("processor load of the capture", "%", 1),
            ("offered", "million packets/s", 3),
        ];
        let axis = Axis::linear("offered load", "% of the greatest");
        session.figure(&title, axis, metrics);
        let names = self.capturers.names();
        for &load in loads {
            let case = format!("{title}, {load} %");
            let seconds = session.amount(SECONDS, QUICK_SECONDS);
            let x = Some(f64::from(load));
            let case = session.case(&case, x, &names, names.len().min(3) - 1, |who| {
                self.measure(who, load, seconds)
            })?;
            for missed in self.judge(case.as_ref()) {
                session.note(missed);
            }
            judge_peers(case.as_ref());
        }
        Ok(())
    }

    /// Measures captured and load in percent, and offered packets in millions a second.
    fn measure(&self, who: usize, load: u32, seconds: f64) -> Done<Vec<f64>> {
        let name = format!("capture{}", self.capturers.extension(who));
        let file = self.storage.folder.join(name);
        set_affinity(&[CAPTURE_CPU])?;
        let side = &self.pair.right;
        let mut running = capturing(&mut self.capturers.command(who, side, &file), side)?;
        let before = cpu_seconds(running.id())?;
        let most = BYTES / (self.kept + 32.0);
        let sent = self.generator.send(load, seconds, most)?;
        rest(&mut running, self.capturers.time_out(who))?;
        let used = cpu_seconds(running.id())? - before;
        let told = text(&interrupted(running)?.stderr);
        let came = packets_in(&file).map_err(|error| format!("{error}: {told}"))?;
        let came = came + self.capturers.in_hand(who, &told);
        std::fs::remove_file(&file)?;
        // A packet of the kernel's own may be among them.
        let captured = (float(came) / sent.packets).min(1.0);
        Ok(vec![
            captured * 100.0,
            used / sent.seconds * 100.0,
            sent.packets / sent.seconds / 1e6,
        ])
    }

    /// Judges the loss. Below 80 % of the file system's rate no packet may be lost; above, the
    /// capture must reach 90 % of that rate. Returns the contenders that missed the goal.
    fn judge(&self, case: Option<&Case>) -> Vec<String> {
        const BELOW: f64 = 0.8;
        const BEYOND: f64 = 0.9;
        let mut missed = Vec::new();
        for (case, contender) in case
            .iter()
            .flat_map(|case| case.contenders.iter().map(move |who| (case, who)))
        {
            let [captured, _, offered] = &contender.samples[..] else {
                continue;
            };
            if !is_own(contender) {
                continue;
            }
            // With the record header in a pcap file.
            let bytes = offered.median() * 1e6 * (self.kept + 16.0);
            let needed = if bytes < BELOW * self.rate {
                100.0
            } else {
                (BEYOND * self.rate / bytes).min(1.0) * 100.0
            };
            let (name, worst, rate) = (&contender.name, captured.least(), bytes / 1e6);
            let goal = format!("at least {needed:.1} % at {rate:.0} MB/s");
            if worst >= needed {
                println!("  goal: {name} captures {goal}: reached (worst {worst:.3})");
            } else {
                missed.push(format!(
                    "{}: {name} was to capture {goal}, the worst round has {worst:.3} %",
                    case.title
                ));
            }
        }
        missed
    }
}

/// Judges that no peer captures a larger share of its packets.
fn judge_peers(case: Option<&Case>) {
    let own = case
        .into_iter()
        .flat_map(|case| (0..case.contenders.len()).map(move |who| (case, who)));
    for (case, who) in own.filter(|(case, who)| is_own(&case.contenders[*who])) {
        let verdict = Goal::NoPeerAbove
            .judge(case, who, 0)
            .unwrap_or("not measured");
        let name = &case.contenders[who].name;
        println!("  goal: {name} captures no less than any peer: {verdict}");
    }
}

/// Returns a path for messages.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
