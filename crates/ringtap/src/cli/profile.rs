//! Options of `ringtap profile`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ringtap_capture::{Direction, Mode, Precision};

use super::{DIRECTIONS, FileArgs, MODES};
use crate::values::{self, CpuList, Size, one_of};

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Interface whose packets are profiled: NAME, tcx:NAME, xdp:NAME, packet:NAME or xsk:NAME; without
    /// it, packets are generated in network namespaces made for that
    #[arg(short = 'i', long = "interface", value_name = "DEV")]
    pub(crate) interface: Option<String>,
    /// Filter, as in pcap-filter(7)
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Profile each engine in turn
    #[arg(long)]
    pub(crate) compare: bool,
    /// Engine, for generated packets
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["interface", "compare"], value_parser = one_of(ENGINES))]
    pub(crate) engine: Option<&'static str>,
    /// Duration of the profile of one engine, such as 5s
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = values::interval)]
    pub(crate) duration: Duration,
    /// Try the settings that the profile recommends, and report the effect of each
    #[arg(long = "try")]
    pub(crate) try_settings: bool,
    /// With -i, also try settings of the interface (RPS, GRO), and restore them
    #[arg(long)]
    pub(crate) try_interface: bool,
    /// Samples per second and processor
    #[arg(long, value_name = "HZ", default_value = "4000", value_parser = values::whole::<u32>("samples per second", 100, Some(20_000)))]
    pub(crate) rate: u32,
    /// Only sample; don't measure the steps of the capture one by one
    #[arg(long)]
    pub(crate) no_steps: bool,
    /// Simulate a known load: nanoseconds of work by the application for each packet
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = values::whole::<u32>("nanoseconds", 0, Some(1_000_000)))]
    pub(crate) work: u32,
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) output: OutputArgs,
    #[command(flatten, next_help_heading = "Capture")]
    pub(crate) capture: CaptureArgs,
    #[command(flatten, next_help_heading = "Generated packets")]
    pub(crate) traffic: TrafficArgs,
}

/// The engines, by their names before the colon of a device.
const ENGINES: &[(&str, &str)] = &[
    ("packet", "packet"),
    ("tcx", "tcx"),
    ("xdp", "xdp"),
    ("xsk", "xsk"),
];

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON array on standard output, with an object for each profile
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw stacked bars into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Compare with an earlier profile: a file that --json has written
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// Capture at most this many bytes of each packet (0: the maximum, 262144)
    #[arg(short = 's', long = "snapshot-length", value_name = "SNAPLEN", value_parser = values::snaplen, default_value = "0")]
    pub(crate) snaplen: u32,
    /// Size of the ring, such as 512K, 64M or 1G
    #[arg(short = 'B', long, value_name = "SIZE")]
    pub(crate) buffer: Option<Size>,
    /// Deliver when this much has arrived, or at the timeout
    #[arg(long, value_name = "SIZE")]
    pub(crate) min_to_copy: Option<Size>,
    /// Deliver after this many milliseconds at the latest
    #[arg(long, value_name = "MS", value_parser = values::milliseconds, default_value = "100")]
    pub(crate) timeout: Duration,
    /// The clock that stamps packets
    #[arg(short = 'j', long, value_name = "TYPE", default_value = "host", value_parser = one_of(STAMPS))]
    pub(crate) timestamp: Precision,
    /// Whether the host's stack also sees the packets (copy) or not (steal)
    #[arg(long, value_name = "MODE", default_value = "copy", value_parser = one_of(MODES))]
    pub(crate) mode: Mode,
    /// Allow steal even if the host's own connections use the interface
    #[arg(long)]
    pub(crate) force: bool,
    /// Direction of the packets: received (in), sent (out), or both
    #[arg(short = 'Q', long, value_name = "DIRECTION", default_value = "inout", value_parser = one_of(DIRECTIONS))]
    pub(crate) direction: Direction,
    /// Don't put the interface into promiscuous mode
    #[arg(short = 'p', long = "no-promiscuous-mode")]
    pub(crate) no_promiscuous: bool,
    /// CPUs that the reader runs on, such as 0 or 2-3
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuList>,
}

/// The precision of clocks, by libpcap's names.
const STAMPS: &[(&str, Precision)] = &[
    ("host", Precision::Fine),
    ("host_lowprec", Precision::Coarse),
    ("none", Precision::None),
];

#[derive(Debug, Args)]
pub(crate) struct TrafficArgs {
    /// Frame size in bytes, without the frame check sequence
    #[arg(long, value_name = "BYTES", default_value = "60", conflicts_with = "interface",
          value_parser = values::whole::<u16>("bytes", 60, Some(1_514)))]
    pub(crate) size: u16,
    /// Packets per second; without it, as many as possible
    #[arg(long, value_name = "N", conflicts_with = "interface", value_parser = values::positive)]
    pub(crate) pps: Option<f64>,
    /// Number of flows that the packets belong to in turn
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "interface",
          value_parser = values::whole::<u32>("flows", 1, Some(65_536)))]
    pub(crate) flows: u32,
}
