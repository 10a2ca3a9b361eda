//! `ringtap gen`: generates traffic, and counts what arrives at the other end.
//!
//! For sending, options become a template and arrivals, from which `ringtap_send` makes packets. For
//! receiving, marks in payloads show which packets were lost, duplicated or reordered, and their latencies.

mod receive;
mod sizes;
mod tally;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use ringtap_send::{
    Arrivals, Demand, Generation, SMALLEST, SMALLEST_V6, SendOptions, Sender, Template,
    TemplateOptions, Timing,
};

use crate::cli::GenArgs;
use crate::exit;
use crate::notice::counted;
use crate::rights::{NamedFiles, Needs, Rights};
use crate::send::{Failure, Guard, Progress, Summary, announce_sender, place, report_so_far};
use crate::signals::Requests;
pub(crate) use sizes::Sizes;

/// Runs the subcommand.
pub(crate) fn run(args: &GenArgs) -> ExitCode {
    let result = if args.receive {
        receive::receive(args)
    } else {
        generate(args)
    };
    exit::code(result)
}

fn generate(args: &GenArgs) -> Result<(), Failure> {
    let (template, arrivals) = packets(args)?;
    let mut options = SendOptions::default();
    options.demand = Some(Demand {
        longest: template.longest(),
        per_second: arrivals.rate(),
    });
    options.segmentation = args.gso;
    let rights = Rights::begin(&args.common.rights, NamedFiles::default(), None)?;
    let mut sender = Sender::open(&args.interface, &options)?;
    let timing = match arrivals.rate() {
        None => Timing::TopSpeed,
        Some(per_second) => Timing::Packets { per_second },
    };
    Guard::new(&sender, timing, args.common.yes)?;
    let requests = Requests::default();
    sender.prepare(&template)?;
    rights.relinquish(sender.required_capabilities(), Needs::of_devices())?;
    requests.watch_for_end(vec![sender.waker()])?;
    announce_sender(&sender, &args.common, &rights);
    let generation = Generation {
        count: args.common.count,
        duration: args.duration,
    };
    let progress = Progress::new(total(args));
    let report = sender.generate(&template, arrivals, &generation, |so_far| {
        let done = match args.common.count {
            Some(_) => so_far.packets,
            None => millis(so_far.elapsed),
        };
        progress.at(done);
        progress.message(counted(so_far.packets, "packet"));
        if requests.take_report() {
            report_so_far(so_far);
        }
    })?;
    drop(progress);
    let is_timed = arrivals != Arrivals::TopSpeed;
    let mut summary = Summary::new(report, sender.back_end().0, is_timed);
    summary.print(args.common.json_stats);
    match summary.report.error.take() {
        Some((index, error)) => Err(Failure::At { index, error }),
        None => Ok(()),
    }
}

/// Returns the packets to be sent and their times, as the options ask.
fn packets(args: &GenArgs) -> Result<(Template, Arrivals), Failure> {
    if args.common.count.is_none() && args.duration.is_none() {
        return Err(Failure::NoAmount);
    }
    place(&args.common)?;
    let options = template_options(args);
    if args.gso && (options.flows != 1 || options.sizes.len() != 1) {
        return Err(Failure::Mixed);
    }
    let arrivals = arrivals(args, sizes::mean(&options.sizes));
    Ok((Template::new(&options)?, arrivals))
}

/// Returns the goal of the progress bar: packets, else milliseconds.
fn total(args: &GenArgs) -> Option<u64> {
    args.common.count.or_else(|| args.duration.map(millis))
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn template_options(args: &GenArgs) -> TemplateOptions {
    let (source, destination) = addresses(args);
    let smallest = if source.is_ipv6() {
        SMALLEST_V6
    } else {
        SMALLEST
    };
    let mut options = TemplateOptions::default();
    options.source_mac = args.source_mac.0;
    options.destination_mac = args.destination_mac.0;
    options.source = source;
    options.destination = destination;
    options.port = args.port;
    options.sizes = args.size.at_least(smallest);
    options.flows = args.flows;
    options.run = run_number();
    options
}

/// Returns the addresses. Those that are not given are from the ranges for benchmarks (RFC 2544, RFC 5180).
fn addresses(args: &GenArgs) -> (IpAddr, IpAddr) {
    const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 0, 1)];
    const V6: [Ipv6Addr; 2] = [
        Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1),
    ];
    let mut given = args.source.iter().chain(&args.destination);
    let [source, destination] = if args.ipv6 || given.any(IpAddr::is_ipv6) {
        V6.map(IpAddr::from)
    } else {
        V4.map(IpAddr::from)
    };
    (
        args.source.unwrap_or(source),
        args.destination.unwrap_or(destination),
    )
}

/// Distinguishes this run from earlier ones, for a receiver that sees both.
fn run_number() -> u16 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let tenths = now.unwrap_or_default().as_millis() / 100;
    u16::try_from(tenths % (1 << 16)).unwrap_or_default()
}

/// Returns the arrivals for frames of `mean` bytes on average.
fn arrivals(args: &GenArgs, mean: f64) -> Arrivals {
    let per_second = match (args.pps, args.mbps) {
        (Some(pps), _) => pps,
        (None, Some(mbps)) => mbps * 1e6 / (8.0 * mean),
        (None, None) => return Arrivals::TopSpeed,
    };
    match args.burst {
        Some(packets) => Arrivals::Burst {
            per_second,
            packets,
        },
        None if args.poisson => Arrivals::Poisson {
            per_second,
            seed: args.seed,
        },
        None => Arrivals::Constant { per_second },
    }
}
