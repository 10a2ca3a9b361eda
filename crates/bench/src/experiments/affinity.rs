//! The reader on the receiving processor (A:A), on the other (A:B), or wherever the scheduler puts
//! it, over the packet rate; and A:A under overload.
//!
//! Under overload, packets are received before anything else runs, as with an adapter's interrupts,
//! and the reader gets the rest of the processor. A reader that needs less time for a packet loses
//! fewer. Programs write to `/dev/null`, from rings of the same size.

use ringtap_lab::Need;
use ringtap_sys::sched::online_cpus;

use super::deliver::{METRICS, figures, tcpdump};
use super::dump::Generator;
use crate::results::{Axis, Case};
use crate::session::{Done, Session, told};
use crate::stage::{Load, LoadPace, READER, Reader, SENDER, Stage};

const RATES: [u32; 3] = [500_000, 1_000_000, 2_000_000];
const QUICK_RATES: [u32; 2] = [500_000, 2_000_000];
const SIZE: u16 = 64;
/// Offered loads under overload, in percent of what the processor receives without a capture.
const OVERLOADS: [u32; 2] = [60, 75];
const QUICK_OVERLOADS: [u32; 1] = [75];
/// The duration of an overload in seconds.
const SECONDS: f64 = 1.5;
const QUICK_SECONDS: f64 = 1.2;
/// The size of either program's ring on this processor, in MiB: tcpdump has one ring, ringtap one
/// for each processor.
const RING: usize = 64;
/// The loss from which on a program counts as overloaded, in percent, and the most that ringtap may
/// lose then, relative to tcpdump.
const OVERLOADED: f64 = 1.0;
const BOUND: f64 = 0.5;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let places: [(&str, &[usize]); 3] = [
        ("A:A", &[SENDER]),
        ("A:B", &[READER]),
        ("automatic", &[SENDER, READER]),
    ];
    let mut readers = vec![("ringtap", Reader::tcx())];
    if session.peer("tcpdump").is_some() {
        readers.push(("tcpdump", tcpdump()));
    }
    let mut contenders = Vec::new();
    for (name, reader) in &readers {
        for (place, cpus) in places {
            contenders.push((format!("{name} {place}"), reader.clone(), cpus));
        }
    }
    let names: Vec<&str> = contenders.iter().map(|(name, ..)| name.as_str()).collect();
    let rate = Axis::log("rate of frames of 64 bytes", "packets/s");
    session.figure("Where the reader runs", rate, METRICS);
    let stage = Stage::new()?;
    let milliseconds = session.amount(600, 400);
    for &rate in session.amount(&RATES[..], &QUICK_RATES) {
        let load = Load::top(SIZE, rate / 1_000 * milliseconds).paced(LoadPace::Rate(rate));
        let title = format!("{rate} packets/s");
        let reference = if names.len() > 3 { 5 } else { 2 };
        session.case(&title, Some(f64::from(rate)), &names, reference, |who| {
            let (_, reader, cpus) = &contenders[who];
            let (sent, seen) = stage.run(load, std::slice::from_ref(reader), cpus)?;
            Ok(figures(sent, &seen))
        })?;
    }
    overload(session, &stage)
}

/// Runs everything on one processor, with more packets than it can receive and read.
fn overload(session: &mut Session, stage: &Stage) -> Done {
    if session.peer("tcpdump").is_none() {
        return Ok(());
    }
    let seconds = session.amount(SECONDS, QUICK_SECONDS);
    let cpus = online_cpus()?;
    let buffer = format!("{}M", RING * cpus.as_slice().len());
    let readers = [
        Reader::Dump(
            session.ringtap.clone(),
            ["--buffer", &buffer, "--format", "pcapng", "-w", "/dev/null"]
                .map(str::to_owned)
                .to_vec(),
        ),
        Reader::Tcpdump(vec!["-B".to_owned(), (RING << 10).to_string()]),
    ];
    session.note(format!(
        "overloaded: rings of {RING} MiB on the processor, for which ringtap is given {buffer} together"
    ));
    let offered = Axis::linear("offered", "% of what is received without a capture");
    session.figure("All on one processor, overloaded", offered, METRICS);
    let generator = Generator::new(session, &stage.pair.left, SIZE, true)?;
    for &percent in session.amount(&OVERLOADS[..], &QUICK_OVERLOADS[..]) {
        let title = format!("A:A, {percent} % of what is received without a capture");
        let names = ["ringtap dump", "tcpdump"];
        let case = session.case(&title, Some(f64::from(percent)), &names, 1, |who| {
            let readers = std::slice::from_ref(&readers[who]);
            let send = || generator.send(percent, seconds, f64::INFINITY);
            let (sent, seen) = stage.run_with(readers, &[SENDER], send)?;
            Ok(figures(sent, &seen))
        })?;
        judge(case.as_ref());
    }
    Ok(())
}

/// Judges: where tcpdump is overloaded, ringtap loses at most half as much.
fn judge(case: Option<&Case>) {
    const LOST: usize = 2;
    let lost = |who: usize| {
        let contender = case?.contenders.get(who)?;
        Some(contender.samples.get(LOST)?.median())
    };
    let (Some(own), Some(peer)) = (lost(0), lost(1)) else {
        return;
    };
    if peer < OVERLOADED {
        println!("  goal: tcpdump is not overloaded here ({peer:.2} % lost)");
        return;
    }
    println!(
        "  goal: ringtap loses at most {BOUND} of what tcpdump loses: {} ({:.3})",
        told(own <= BOUND * peer),
        own / peer
    );
}
