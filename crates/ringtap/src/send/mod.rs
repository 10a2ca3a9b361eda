//! `ringtap send`: sends packets of capture files, or packets built from a description.
//!
//! This module turns options into a [`ringtap_send::SendRun`], and reports on standard error. It does not
//! pass packets to the kernel itself.

mod built;
mod error;
mod gaps;
mod guard;
mod progress;
mod replay;
mod summary;

use std::process::ExitCode;

use ringtap_capture::Filter;
use ringtap_craft::Built;
use ringtap_send::{Demand, OnRejected, Report, SendOptions, Sender, Timing};
use ringtap_sys::sched;

use crate::cli::{CommonArgs, SendArgs};
use crate::exit;
use crate::input;
use crate::rights::{self, NamedFiles, Needs, Rights};
use crate::signals::Requests;
pub(crate) use error::Failure;
pub(crate) use guard::Guard;
pub(crate) use progress::Progress;
pub(crate) use summary::{Summary, announce as announce_sender, report_so_far};

/// Runs the subcommand.
pub(crate) fn run(mut args: SendArgs) -> ExitCode {
    let list = args.file_list.as_deref();
    let listed = input::add_lists(&mut args.read, &mut args.filter, list);
    let sent = listed.map_err(Failure::from).and_then(|is_list| {
        args.is_list = is_list;
        send(&mut args)
    });
    exit::code_or(sent.map(|is_whole| match is_whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }))
}

/// Moves the process to the processors of the command line, if there are any.
pub(crate) fn place(args: &CommonArgs) -> Result<(), Failure> {
    let cpus = args.cpu.as_ref();
    cpus.map_or(Ok(()), |cpus| {
        sched::set_affinity(&cpus.0).map_err(Failure::Processor)
    })
}

/// Returns whether everything was sent that could be.
fn send(args: &mut SendArgs) -> Result<bool, Failure> {
    place(&args.common)?;
    let mut options = SendOptions::default();
    if args.strict {
        options.on_rejected = OnRejected::Stop;
    }
    options.demand = demand(args);
    options.stamps = args.tx_timestamps;
    let timing = timing(args);
    let files = NamedFiles {
        inputs: rights::named(&args.read),
        ..NamedFiles::default()
    };
    let rights = Rights::begin(&args.common.rights, files, None)?;
    let mut sender = Sender::open(&args.interface, &options)?;
    // A few packets do not make a rate.
    let is_little = |built: &Built| built::count(args, &built.0) <= guard::LIMIT;
    let consents = args.common.yes || args.build.as_ref().is_some_and(is_little);
    let guard = Guard::new(&sender, timing, consents)?;
    let needs = Needs {
        // Names in the filter are looked up when the files are opened.
        network: !args.filter.is_empty() && Filter::new(args.filter.join(" ")).looks_up_hosts(),
        ..Needs::of_devices()
    };
    rights.relinquish(sender.required_capabilities(), needs)?;
    if args.is_list {
        input::sort_by_time(&mut args.read);
    }
    let requests = Requests::default();
    requests.watch_for_end(vec![sender.waker()])?;
    announce_sender(&sender, &args.common, &rights);
    let mut outcome = match &args.build {
        Some(built) => built::send(args, &built.0, &mut sender, timing, &requests)?,
        None => replay::send(args, &mut sender, timing, guard, &requests)?,
    };
    outcome.summary.print(args.common.json_stats);
    let report = &mut outcome.summary.report;
    let error = report.error.take();
    if let Some((index, error)) = error {
        return Err(Failure::At { index, error });
    }
    match outcome.read_error {
        Some(error) => Err(error.into()),
        None => Ok(is_complete(report)),
    }
}

/// Returns whether all packets that the user asked for were sent.
fn is_complete(report: &Report) -> bool {
    report.rejected == 0 && report.pending == 0
}

/// Returns the demand if the kernel can make the packets: one built packet, repeated.
fn demand(args: &SendArgs) -> Option<Demand> {
    /// The number of packets from which on that pays.
    const MANY: u64 = 1 << 20;
    let built = args.build.as_ref()?;
    let [packet] = &built.0[..] else { return None };
    let is_much = built::count(args, &built.0) >= MANY && timing(args) == Timing::TopSpeed;
    is_much.then_some(Demand {
        longest: packet.len(),
        per_second: None,
    })
}

fn timing(args: &SendArgs) -> Timing {
    let rate = &args.rate;
    if rate.topspeed || args.build.is_some() && rate.pps.is_none() && rate.mbps.is_none() {
        Timing::TopSpeed
    } else if let Some(per_second) = rate.pps {
        Timing::Packets { per_second }
    } else if let Some(mbps) = rate.mbps {
        Timing::Bits {
            per_second: mbps * 1e6,
        }
    } else {
        Timing::Recorded {
            multiplier: rate.multiplier.unwrap_or(1.0),
        }
    }
}
