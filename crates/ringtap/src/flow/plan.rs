//! Converts the options to values.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::num::NonZeroU32;
use std::time::Duration;

use ringtap_capture::{CaptureOptions, Direction, Mode, Precision, Who};
use ringtap_flow::schema::{Fields, Group};
use ringtap_flow::{InspectOptions, MeterOptions, Sampling, SamplingMode, Tunnels};

use super::error::FlowError;
use crate::cli::{FlowArgs, Tunnel};
use crate::values::{CpuList, Sample};

/// The length of an IPv6 and a TCP header after a few tags.
const SNAPLEN: u32 = 96;
/// The same inside a tunnel.
const TUNNEL_SNAPLEN: u32 = 192;
/// A whole Ethernet frame, with tags or in a tunnel: which of a flow's packets come first is not known in
/// the kernel.
const PAYLOAD_SNAPLEN: u32 = 1600;
/// How long packets wait at most.
const TIMEOUT: Duration = Duration::from_millis(100);
/// The number of bytes at which packets are delivered.
const MIN_TO_COPY: u32 = 64 << 10;
/// The memory for packets that wait while many records end at once.
const BUFFER: u64 = 64 << 20;

/// The number of processes that are known at a time.
pub(crate) const PROCESSES: u32 = 65_536;

/// Returns the options of the meter. Live packets are sampled earlier.
pub(crate) fn meter_options(args: &FlowArgs) -> MeterOptions {
    let meter = &args.meter;
    MeterOptions::default()
        .flows(meter.flows)
        .active(meter.active)
        .inactive(meter.inactive)
        .linger(meter.linger)
        .both_ways(meter.biflow)
        .measure_tcp(measures_tcp(args))
        .inspect(inspect(args.records.fields))
        .tunnels(tunnels(&meter.tunnels))
        .processes(who(args).map_or(0, |_| PROCESSES))
        .sampling(sampling(args).filter(|_| args.source.interface.is_none()))
        // The standard library's hashers start with a random number.
        .seed(RandomState::new().hash_one(0))
}

/// Returns the facts about processes that are recorded of each packet, if any are.
pub(crate) fn who(args: &FlowArgs) -> Option<Who> {
    args.meter.who.map(|who| who.recorded)
}

/// Returns the sampling that was requested, wherever it is done.
pub(crate) fn sampling(args: &FlowArgs) -> Option<Sampling> {
    let sample = args.meter.sample.filter(|sample| sample.one_in > 1)?;
    Some(Sampling {
        one_in: NonZeroU32::new(sample.one_in)?,
        mode: if sample.regular {
            SamplingMode::Deterministic
        } else {
            SamplingMode::Random
        },
    })
}

pub(crate) fn tunnels(list: &[Tunnel]) -> Tunnels {
    let has = |tunnel| list.contains(&tunnel) || list.contains(&Tunnel::All);
    Tunnels {
        gre: has(Tunnel::Gre),
        vxlan: has(Tunnel::Vxlan),
        gtp_u: has(Tunnel::GtpU),
        ip_in_ip: has(Tunnel::Ipip),
    }
}

/// Returns the options of a live capture.
pub(crate) fn capture_options(args: &FlowArgs) -> CaptureOptions {
    let capture = &args.capture;
    let snaplen = if args.records.fields.needs_payload() {
        PAYLOAD_SNAPLEN
    } else if args.meter.tunnels.is_empty() {
        SNAPLEN
    } else {
        TUNNEL_SNAPLEN
    };
    let (sample, sample_mode) = Sample::of(args.meter.sample);
    CaptureOptions::default()
        .snaplen(capture.snaplen.unwrap_or(snaplen))
        .buffer(capture.buffer.map_or(BUFFER, |size| size.0))
        .timeout(TIMEOUT)
        .min_to_copy(MIN_TO_COPY)
        .promiscuous(!capture.no_promiscuous)
        .direction(capture.direction)
        .sample(sample)
        .sample_mode(sample_mode)
        .mode(capture.mode)
        .force(capture.force)
        // Sums do not need the order of packets from several processors.
        .unordered(!needs_order(args))
        // They also do not need a separate time for each packet of a driver's batch.
        .precision(Precision::Poll)
        .cooked(!args.netns.is_all())
        .all_namespaces(args.netns.is_all())
        .who(who(args))
        .cpus(CpuList::of(capture.cpu.as_ref()))
}

/// Returns whether it matters which packet came first: for the direction of a flow, or the times of a
/// handshake.
pub(crate) fn needs_order(args: &FlowArgs) -> bool {
    args.meter.biflow || measures_tcp(args) || args.records.fields.needs_payload()
}

/// Returns how to inspect payloads, if any field comes from them.
fn inspect(fields: Fields) -> Option<InspectOptions> {
    let names = if fields.has_any_of(Group::Names) {
        InspectOptions::default().names
    } else {
        0
    };
    fields
        .needs_payload()
        .then(|| InspectOptions::default().names(names))
}

fn measures_tcp(args: &FlowArgs) -> bool {
    args.meter.tcp || args.records.fields.has_any_of(Group::Tcp)
}

/// Rejects options that have no effect with files.
pub(crate) fn refuse_live_options(args: &FlowArgs) -> Result<(), FlowError> {
    let capture = &args.capture;
    let given = [
        (capture.snaplen.is_some(), "--snapshot-length"),
        (capture.no_promiscuous, "-p"),
        (capture.buffer.is_some(), "--buffer"),
        (capture.mode == Mode::Steal, "--mode steal"),
        (capture.force, "--force"),
        (capture.direction != Direction::Both, "--direction"),
        (args.report.explain_capture, "--explain-capture"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(FlowError::LiveOnly { option }),
        None => Ok(()),
    }
}
