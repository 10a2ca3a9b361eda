//! The command line: every flag in one place, with its help. Values are parsed into their final types here,
//! so that the rest of the program only gets valid ones.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ringtap_capture::{Direction, Mode, Who};
use ringtap_flow_io::{ListenAddress, Network};
use ringtap_savefile::Format;

use crate::over_ip;
use crate::values::{self, CpuList, FifoPriority, Sample, Size, When, one_of};

mod config;
mod foreign;
mod injection;
mod look;
mod netns;
#[cfg(test)]
mod pages;
mod profile;
mod record;
mod records;
mod rights;
mod session;
mod store;
mod talkers;
mod who;
mod writing;

pub(crate) use config::{ConfigArg, ConfigArgs, ConfigCommand, ManualArgs};
pub(crate) use foreign::{ForeignArgs, VersionArg};
pub(crate) use injection::{CommonArgs, GenArgs, SendArgs};
pub(crate) use look::{LookArgs, RecordedArgs, ServingArgs, TopArgs, WebArgs};
pub(crate) use netns::{NAMED, NetnsArg, NetnsError};
pub(crate) use profile::ProfileArgs;
pub(crate) use record::{
    CheckArgs, CutArgs, ExtractArgs, RecorderAction, RecorderArgs, RecorderTriggerArgs, RemoteArgs,
    StatusArgs, TriggerArgs,
};
pub(crate) use records::{Protocol, RecordArgs};
pub(crate) use rights::RightsArgs;
pub(crate) use session::SessionArgs;
pub(crate) use store::{FlowAction, QueryArgs, SchemaArgs, SchemaEngine, SchemaFormat, StoreArgs};
pub(crate) use talkers::TalkerArgs;
pub(crate) use who::FlowWho;
pub(crate) use writing::{FileArgs, WriteArgs};

/// Capture, filter and print network packets at the kernel's own rate.
#[derive(Debug, Parser)]
#[command(
    name = "ringtap",
    version,
    propagate_version = true,
    about,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the network interfaces, their state, and which engines can capture on them
    Devices(DevicesArgs),
    /// Capture packets from an interface or read them from files; print them or write them
    #[command(disable_version_flag = true)]
    Dump(Box<DumpArgs>),
    /// Count packets and bytes by filter in the kernel, without capturing them
    Stat(StatArgs),
    /// Show where packets are lost between the wire and the programs, and what helps
    ExplainLoss(ExplainLossArgs),
    /// Sort packets into flows; export their records, and show the hosts and flows with the most traffic
    #[command(disable_version_flag = true)]
    Flow(Box<FlowArgs>),
    /// Ask a store of flow records by SQL, or with a ready question
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Query(QueryArgs),
    /// Show hosts, flows, applications and losses live, in the terminal
    #[command(disable_version_flag = true)]
    Top(Box<TopArgs>),
    /// Show traffic live in the browser, and serve it as JSON and to Prometheus
    #[command(disable_version_flag = true)]
    Web(Box<WebArgs>),
    /// Record an interface for ever, in a folder that never takes more than its budget
    #[command(disable_version_flag = true)]
    Record(Box<RecorderArgs>),
    /// Get packets of a time, a host or a flow out of what a recorder has kept
    #[command(disable_version_flag = true)]
    Extract(Box<ExtractArgs>),
    /// Show the program that a filter expression compiles to
    Filter(FilterArgs),
    /// Send the packets of capture files, by their times or at a rate
    #[command(disable_version_flag = true)]
    Send(Box<SendArgs>),
    /// Generate traffic at a rate or at top speed; at the other end, report what arrived
    #[command(name = "gen")]
    Generate(Box<GenArgs>),
    /// Report what a captured packet costs, component by component, and how to make it cheaper
    Profile(Box<ProfileArgs>),
    /// Measure ringtap against its peers on this machine, in network namespaces of its own
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Bench(BenchArgs),
    /// Check configuration files
    Config(ConfigArgs),
    /// Write the manual pages of all commands into a folder
    #[command(hide = true)]
    Manual(ManualArgs),
}

/// Everything after `bench` is for `ringtap-bench`, including `--help` and `--version`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Arguments of ringtap-bench; its options are shown by ringtap bench --help
    #[arg(
        value_name = "ARG",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    _arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Only these interfaces, by name or alternative name
    #[arg(value_name = "DEV")]
    pub(crate) devices: Vec<String>,
    /// Print one JSON array on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// All counters of the adapter, including those that are zero
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) netns: NetnsArg,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainLossArgs {
    /// Only this interface; without it, all of the network namespace
    #[arg(short = 'i', long = "interface", value_name = "DEV")]
    pub(crate) interface: Option<String>,
    /// Time between the two readings of the counters, such as 500ms, 5s, 1m; a signal ends it early
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = values::interval)]
    pub(crate) interval: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also counters that are above zero, but did not grow
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) netns: NetnsArg,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

/// The source of packets.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// Interface to capture on: NAME, tcx:NAME, xdp:NAME, packet:NAME, or any; drop: and drop:NAME capture
    /// packets that the kernel drops
    #[arg(
        short = 'i',
        long = "interface",
        value_name = "DEV",
        conflicts_with = "read"
    )]
    pub(crate) interface: Option<String>,
    /// File to read (pcap or pcapng, also compressed with gzip, zstd or lz4); - is standard input, and
    /// tcp:HOST:PORT or tls:HOST:PORT,ca=FILE a server (PCAP over IP). May be given several times, or as a list,
    /// -r FILE FILE...; the files of a list are read in the order of their first packets
    #[arg(short = 'r', long = "read", value_name = "FILE", value_parser = over_ip::readable())]
    pub(crate) read: Vec<PathBuf>,
    /// Read the files that are listed in FILE, one a line, in this order; - is standard input
    #[arg(short = 'V', value_name = "FILE", conflicts_with = "interface")]
    pub(crate) file_list: Option<PathBuf>,
    /// Whether words after -r were also files.
    #[arg(skip)]
    pub(crate) is_list: bool,
}

/// A filter, and where it is.
#[derive(Debug, Args)]
pub(crate) struct ExpressionArgs {
    /// Filter, as in pcap-filter(7)
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Read the filter from this file
    #[arg(short = 'F', value_name = "FILE", conflicts_with = "filter")]
    pub(crate) filter_file: Option<PathBuf>,
    /// Also accept extensions of the language: sets, packets in tunnels, IPv6 extension headers, processes
    #[arg(long)]
    pub(crate) extended: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// File to write the packets to; - is standard output. tcp-listen:PORT or tcp-listen:ADDRESS:PORT serves them
    /// as pcapng to each client that connects (PCAP over IP), and tls-listen: with TLS; a port alone is on 127.0.0.1
    #[arg(short = 'w', long = "write", value_name = "FILE", value_parser = over_ip::writable())]
    pub(crate) write: Option<PathBuf>,
    /// Format of the file written; without it, the file name decides (.pcapng), else pcap
    #[arg(long, value_name = "FORMAT", requires = "write", value_parser = one_of(FORMATS))]
    pub(crate) format: Option<Format>,
    /// Stop after this many packets
    #[arg(short = 'c', value_name = "COUNT", value_parser = values::whole::<u64>("packets", 1, None))]
    pub(crate) count: Option<u64>,
    /// Capture at most this many bytes of each packet (0: the maximum, 262144)
    #[arg(short = 's', long = "snapshot-length", value_name = "SNAPLEN", value_parser = values::snaplen)]
    pub(crate) snaplen: Option<u32>,
    #[command(flatten)]
    pub(crate) expression: ExpressionArgs,
    /// Print the filter's program instead of capturing; -dd as C, -ddd as decimal numbers
    #[arg(short = 'd', action = clap::ArgAction::Count)]
    pub(crate) dump_program: u8,
    /// With -d: the link type, instead of that of the device or file
    #[arg(short = 'y', long = "linktype", value_name = "LINKTYPE")]
    pub(crate) link_type: Option<String>,
    /// List the interfaces that can be captured on, and exit; ringtap devices shows more
    #[arg(short = 'D', long = "list-interfaces", conflicts_with_all = ["read", "interface"])]
    pub(crate) list_interfaces: bool,
    /// List the link types of the device, and exit
    #[arg(short = 'L', long = "list-data-link-types", conflicts_with = "read")]
    pub(crate) list_link_types: bool,
    /// Do not optimize the filter's program
    #[arg(short = 'O', long = "no-optimize")]
    pub(crate) no_optimize: bool,
    #[command(flatten, next_help_heading = "Capture")]
    pub(crate) capture: CaptureArgs,
    #[command(flatten, next_help_heading = "Searching files")]
    pub(crate) range: RangeArgs,
    #[command(flatten, next_help_heading = "Writing files")]
    pub(crate) writing: WriteArgs,
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten, next_help_heading = "Printing")]
    pub(crate) print: PrintArgs,
    #[command(flatten, next_help_heading = "Reports")]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) version: VersionArg,
    #[command(flatten)]
    pub(crate) foreign: ForeignArgs,
    #[command(flatten)]
    pub(crate) netns: NetnsArg,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct CaptureArgs {
    /// Don't put the interface into promiscuous mode
    #[arg(short = 'p', long = "no-promiscuous-mode")]
    pub(crate) no_promiscuous: bool,
    /// Size of the ring, such as 512K, 64M or 1G
    #[arg(short = 'B', long, visible_alias = "buffer-size", value_name = "SIZE")]
    pub(crate) buffer: Option<Size>,
    /// Deliver when this much has arrived, or at the timeout
    #[arg(long, value_name = "SIZE")]
    pub(crate) min_to_copy: Option<Size>,
    /// Deliver after this many milliseconds at the latest
    #[arg(long, value_name = "MS", value_parser = values::milliseconds)]
    pub(crate) timeout: Option<Duration>,
    /// Deliver as early as the engine can
    #[arg(long, visible_alias = "immediate-mode", conflicts_with_all = ["timeout", "min_to_copy"])]
    pub(crate) immediate: bool,
    /// Whether the host's stack also sees the packets (copy) or not (steal)
    #[arg(long, value_name = "MODE", default_value = "copy", value_parser = one_of(MODES))]
    pub(crate) mode: Mode,
    /// Allow steal even if the host's own connections use the interface
    #[arg(long)]
    pub(crate) force: bool,
    /// Report each program that is placed before the capture at tcx; a helper process asks for them
    #[arg(long)]
    pub(crate) watch_chain: bool,
    /// Record the process of each packet of this host's sockets: all, or of pid, comm, uid, cmdline and cgroup
    /// those that are listed; with -r: print it
    #[arg(long, value_name = "FIELDS", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = values::who)]
    pub(crate) who: Option<Who>,
    /// Don't sort packets of several processors by time
    #[arg(long)]
    pub(crate) unordered: bool,
    /// Direction of the packets: received (in), sent (out), or both
    #[arg(short = 'Q', long, value_name = "DIRECTION", default_value = "inout", value_parser = one_of(DIRECTIONS))]
    pub(crate) direction: Direction,
    /// Keep one packet in N, at random; every:N (xdp and tcx) keeps every N-th
    #[arg(long, value_name = "N", value_parser = values::sample)]
    pub(crate) sample: Option<Sample>,
    /// Source of the timestamps: host, host_lowprec, host_hiprec, adapter, adapter_unsynced, none
    #[arg(
        short = 'j',
        long,
        visible_alias = "time-stamp-type",
        value_name = "TYPE"
    )]
    pub(crate) timestamp: Option<String>,
    /// Nanoseconds in the pcap file and in printed times (pcapng files always have them)
    #[arg(long)]
    pub(crate) nano: bool,
    /// Microseconds in the pcap file and in printed times, even if the packets have nanoseconds
    #[arg(long, conflicts_with = "nano")]
    pub(crate) micro: bool,
    /// The same as --micro or --nano
    #[arg(long, value_name = "PRECISION", conflicts_with_all = ["nano", "micro"])]
    pub(crate) time_stamp_precision: Option<StampPrecision>,
    /// Capture with N threads, each with its own ring; the kernel spreads flows over them
    #[arg(long, value_name = "N", value_parser = values::whole::<u16>("threads", 1, Some(64)), default_value = "1")]
    pub(crate) threads: u16,
    /// CPUs that the capture threads run on, such as 0 or 2-3
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuList>,
    /// Real-time priority of the capture threads: fifo:1 to fifo:99
    #[arg(long, value_name = "fifo:N")]
    pub(crate) priority: Option<FifoPriority>,
    /// CPUs that receive the interface's packets, in kernel threads instead of interrupts (threaded NAPI),
    /// until the capture ends
    #[arg(long, value_name = "LIST")]
    pub(crate) packet_cpu: Option<CpuList>,
    /// Let the reader poll without pause: the device's queue, or the rings of a tap
    #[arg(long)]
    pub(crate) busy_poll: bool,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RangeArgs {
    /// Only packets captured at or after T (2026-01-31T12:00:00Z, local time without Z, 12:00:00 of
    /// the day of the first packet, or seconds since the epoch)
    #[arg(long, value_name = "T", value_parser = values::time)]
    pub(crate) from: Option<When>,
    /// Only packets captured before T
    #[arg(long, value_name = "T", value_parser = values::time)]
    pub(crate) to: Option<When>,
    /// Write an index of the written file, or without -w of the files read: searches skip the parts that they
    /// don't need
    #[arg(long)]
    pub(crate) index: bool,
    /// Search without the files' indices
    #[arg(long)]
    pub(crate) no_index: bool,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct PrintArgs {
    /// Print numbers, not names (no effect: always so)
    #[arg(short = 'n', action = clap::ArgAction::Count)]
    pub(crate) numeric: u8,
    /// Print the link-layer header
    #[arg(short = 'e')]
    pub(crate) link_header: bool,
    /// Print the packet in hexadecimal (twice: with the link-layer header)
    #[arg(short = 'x', action = clap::ArgAction::Count)]
    pub(crate) hex: u8,
    /// Print the packet in hexadecimal and ASCII (twice: with the link-layer header)
    #[arg(short = 'X', action = clap::ArgAction::Count)]
    pub(crate) hex_ascii: u8,
    /// Print the packet in ASCII (twice: with the link-layer header)
    #[arg(short = 'A', action = clap::ArgAction::Count)]
    pub(crate) ascii: u8,
    /// Print more of each packet (up to twice)
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print less of each packet
    #[arg(short = 'q')]
    pub(crate) quiet: bool,
    /// Time: -t none, -tt seconds since the epoch, -ttt since the previous packet, -tttt with the
    /// date, -ttttt since the first packet
    #[arg(short = 't', action = clap::ArgAction::Count)]
    pub(crate) time: u8,
    /// Write lines as packets are delivered (no effect: always so)
    #[arg(short = 'l')]
    pub(crate) line_buffered: bool,
    /// Don't verify the checksums of IP, TCP and UDP
    #[arg(short = 'K', long = "dont-verify-checksums")]
    pub(crate) no_checksums: bool,
    /// Print absolute TCP sequence numbers
    #[arg(short = 'S', long = "absolute-tcp-sequence-numbers")]
    pub(crate) absolute_seq: bool,
    /// Print a packet number at the beginning of the line
    #[arg(short = '#', long = "number")]
    pub(crate) number: bool,
    /// Print one JSON object per packet and line
    #[arg(long, conflicts_with_all = ["hex", "hex_ascii", "ascii", "link_header"])]
    pub(crate) json: bool,
    /// Also print the packets that are written to a file
    #[arg(long)]
    pub(crate) print: bool,
    /// Print only the number of packets, on standard output
    #[arg(long = "count", conflicts_with_all = ["write", "print", "json"])]
    pub(crate) count_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Print the summary as one JSON object on standard error
    #[arg(long)]
    pub(crate) json_stats: bool,
    /// Report on standard error how the capture works: engine, clock, memory, filter, what it cannot see
    #[arg(long)]
    pub(crate) explain_capture: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// Interface to count on: NAME, xdp:NAME, tcx:NAME or packet:NAME; drop: counts packets that the kernel drops, by
    /// reason
    #[arg(short = 'i', long = "interface", value_name = "DEV")]
    pub(crate) interface: String,
    /// Filters as in pcap-filter(7), one argument each: quote them; '' is every packet. Without a filter, all
    /// packets are counted
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
    /// Also accept extensions of the language: sets, packets in tunnels, IPv6 extension headers, processes
    #[arg(long)]
    pub(crate) extended: bool,
    /// Time between two counts, such as 500ms, 1s, 5m
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = values::interval)]
    pub(crate) interval: Duration,
    /// Stop after this many intervals
    #[arg(short = 'c', long, value_name = "N", value_parser = values::whole::<u64>("intervals", 1, None))]
    pub(crate) count: Option<u64>,
    /// Whether the host also sees the packets that match a filter (copy) or not (steal)
    #[arg(long, value_name = "MODE", default_value = "copy", value_parser = one_of(MODES))]
    pub(crate) mode: Mode,
    /// Allow steal even if the host's own connections use the interface
    #[arg(long)]
    pub(crate) force: bool,
    /// Direction of the packets: received (in), sent (out), or both
    #[arg(short = 'Q', long, value_name = "DIRECTION", default_value = "inout", value_parser = one_of(DIRECTIONS))]
    pub(crate) direction: Direction,
    /// Print one JSON object per interval and line
    #[arg(long)]
    pub(crate) json: bool,
    /// Report on standard error how it counts: hook, what it cannot see
    #[arg(long)]
    pub(crate) explain_capture: bool,
    #[command(flatten)]
    pub(crate) netns: NetnsArg,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["interface", "read", "file_list", "collect"]).multiple(true))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct FlowArgs {
    #[command(subcommand)]
    pub(crate) action: Option<FlowAction>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Also accept extensions of the filter language: sets, packets in tunnels, IPv6 extension headers, processes
    #[arg(long)]
    pub(crate) extended: bool,
    /// Collect the records (NetFlow v5, v9, IPFIX or sFlow v5) that other exporters send to this address
    #[arg(long, value_name = "udp:HOST:PORT", conflicts_with_all = ["interface", "read", "file_list", "filter", "extended",
          "active", "inactive", "linger", "flows", "threads", "biflow", "tcp", "tunnels", "sample", "who",
          "snaplen", "no_promiscuous", "buffer", "mode", "force", "direction", "cpu", "explain_capture"])]
    pub(crate) collect: Option<ListenAddress>,
    /// With --collect: accept datagrams only from this address or network, such as 192.0.2.0/24; may be given
    /// several times
    #[arg(long, value_name = "CIDR", requires = "collect")]
    pub(crate) allow: Vec<Network>,
    /// Filter, as in pcap-filter(7)
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    #[command(flatten, next_help_heading = "Metering")]
    pub(crate) meter: MeterArgs,
    #[command(flatten, next_help_heading = "Records")]
    pub(crate) records: RecordArgs,
    #[command(flatten, next_help_heading = "Store")]
    pub(crate) store: StoreArgs,
    #[command(flatten, next_help_heading = "Capture")]
    pub(crate) capture: ProbeArgs,
    #[command(flatten, next_help_heading = "Reports")]
    pub(crate) report: TalkerArgs,
    #[command(flatten)]
    pub(crate) netns: NetnsArg,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MeterArgs {
    /// Active timeout: cut the record of a flow after this time
    #[arg(long, value_name = "S", default_value = "120", value_parser = values::interval)]
    pub(crate) active: Duration,
    /// Inactive timeout: end a flow if no packet came for this time
    #[arg(long, value_name = "S", default_value = "30", value_parser = values::interval)]
    pub(crate) inactive: Duration,
    /// After FIN or RST, wait this long for further packets of the flow (0: not at all)
    #[arg(long, value_name = "S", default_value = "1", value_parser = values::linger)]
    pub(crate) linger: Duration,
    /// Maximum number of flows in the cache; if there are more, the oldest end
    #[arg(long, value_name = "N", default_value = "1048576",
          value_parser = values::whole::<u32>("flows", 1, Some(67_108_864)))]
    pub(crate) flows: u32,
    /// Number of threads that meter, each for some of the hosts; reading threads come on top, in a live
    /// capture one for each ring, at most N. auto: as many as there are processors
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::threads)]
    pub(crate) threads: u16,
    /// Write one record for both directions (RFC 5103)
    #[arg(long)]
    pub(crate) biflow: bool,
    /// Measure TCP retransmissions and, with --biflow, round-trip times of the handshake
    #[arg(long)]
    pub(crate) tcp: bool,
    /// Meter the flows inside these tunnels instead of the tunnels: gre, vxlan, gtp-u, ipip, all
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) tunnels: Vec<Tunnel>,
    /// Meter one packet in N, at random; every:N takes every N-th. In a live capture the kernel selects
    #[arg(long, value_name = "N", value_parser = values::sample)]
    pub(crate) sample: Option<Sample>,
    /// Find the processes at the ends of flows, of this host's sockets or as the file recorded them: all, or of pid,
    /// comm, uid and cgroup those that are listed
    #[arg(long, value_name = "FIELDS", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub(crate) who: Option<FlowWho>,
}

/// The tunnels whose inner flows can be metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tunnel {
    Gre,
    Vxlan,
    GtpU,
    Ipip,
    All,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// Capture at most this many bytes of each packet; default 96, 192 with --tunnels,
    /// 1600 with --fields that come from payloads
    #[arg(short = 's', long = "snapshot-length", value_name = "SNAPLEN", value_parser = values::snaplen)]
    pub(crate) snaplen: Option<u32>,
    /// Don't put the interface into promiscuous mode
    #[arg(short = 'p', long = "no-promiscuous-mode")]
    pub(crate) no_promiscuous: bool,
    /// Size of the ring, such as 512K, 64M or 1G
    #[arg(short = 'B', long, value_name = "SIZE")]
    pub(crate) buffer: Option<Size>,
    /// Whether the host's stack also sees the packets (copy) or not (steal)
    #[arg(long, value_name = "MODE", default_value = "copy", value_parser = one_of(MODES))]
    pub(crate) mode: Mode,
    /// Allow steal even if the host's own connections use the interface
    #[arg(long)]
    pub(crate) force: bool,
    /// Direction of the packets: received (in), sent (out), or both
    #[arg(short = 'Q', long, value_name = "DIRECTION", default_value = "inout", value_parser = one_of(DIRECTIONS))]
    pub(crate) direction: Direction,
    /// CPUs that the meter runs on, such as 0 or 2-3; several readers get one each, in turn
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuList>,
}

#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Print a listing (the default); -dd prints C, -ddd decimal numbers
    #[arg(short = 'd', action = clap::ArgAction::Count)]
    pub(crate) dump: u8,
    /// Form of the program: classic BPF (the default), eBPF, or this processor's machine code
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<Target>,
    /// Hook for the eBPF program
    #[arg(long, value_name = "HOOK", default_value = "xdp")]
    pub(crate) hook: Hook,
    /// Link type for the filter, such as EN10MB, RAW or LINUX_SLL2; -L lists them
    #[arg(
        short = 'y',
        long = "linktype",
        value_name = "LINKTYPE",
        default_value = "EN10MB"
    )]
    pub(crate) link_type: String,
    /// Snapshot length that the program returns for matching packets
    #[arg(short = 's', long = "snapshot-length", value_name = "SNAPLEN", value_parser = values::snaplen, default_value = "262144")]
    pub(crate) snaplen: u32,
    /// Do not optimize the program
    #[arg(short = 'O', long = "no-optimize")]
    pub(crate) no_optimize: bool,
    #[command(flatten)]
    pub(crate) expression: ExpressionArgs,
    /// Netmask for "ip broadcast"; a capture uses that of its device
    #[arg(long, value_name = "MASK")]
    pub(crate) netmask: Option<std::net::Ipv4Addr>,
    /// Explain the decisions in words, with their costs
    #[arg(long)]
    pub(crate) explain: bool,
    /// List the link types that filters can be compiled for
    #[arg(short = 'L', long = "list-data-link-types", exclusive = true)]
    pub(crate) list_link_types: bool,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

/// The forms of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Classic BPF
    Cbpf,
    /// eBPF for the hook of --hook
    Ebpf,
    /// Machine code
    Native,
}

/// The hooks of eBPF programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hook {
    /// XDP, packets in one buffer
    Xdp,
    /// XDP, also packets in several buffers
    XdpFrags,
    /// tcx, both directions; VLAN tags are seen where they were on the wire
    Tcx,
    /// A socket
    Socket,
}

impl Hook {
    /// Returns a sentence about the hook.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Self::Xdp => "XDP",
            Self::XdpFrags => "XDP with fragments",
            Self::Tcx => "tcx",
            Self::Socket => "a socket",
        }
    }
}

/// The formats of capture files.
pub(crate) const FORMATS: &[(&str, Format)] = &[("pcap", Format::Pcap), ("pcapng", Format::Pcapng)];

/// The precision of timestamps, as tcpdump names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StampPrecision {
    #[value(alias = "microseconds")]
    Micro,
    #[value(alias = "nanoseconds")]
    Nano,
}

impl CaptureArgs {
    /// Returns nanoseconds or microseconds if the option is given, else `None`.
    pub(crate) fn wants_nano(&self) -> Option<bool> {
        match (self.nano, self.micro, self.time_stamp_precision) {
            (true, ..) | (.., Some(StampPrecision::Nano)) => Some(true),
            (_, true, _) | (.., Some(StampPrecision::Micro)) => Some(false),
            _ => None,
        }
    }
}

/// The modes of a capture.
pub(crate) const MODES: &[(&str, Mode)] = &[("copy", Mode::Copy), ("steal", Mode::Steal)];

/// The directions of packets.
pub(crate) const DIRECTIONS: &[(&str, Direction)] = &[
    ("in", Direction::In),
    ("out", Direction::Out),
    ("inout", Direction::Both),
];
