//! The flags of the commands that send.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ringtap_capture::Mode;
use ringtap_craft::{Built, Mac, Rule};
use ringtap_send::SendStamps;

use super::{MODES, NetnsArg, RightsArgs};
use crate::generate::Sizes;
use crate::values::{self, CpuList, one_of};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("packets").required(true).args(["read", "file_list", "build"]).multiple(true))]
pub(crate) struct SendArgs {
    /// Interface to send on: NAME, or BACK-END:NAME
    #[arg(short = 'i', long = "interface", value_name = "DEV")]
    pub(crate) interface: String,
    /// File whose packets are sent (pcap or pcapng, also compressed with gzip, zstd or lz4); - is standard
    /// input. May be given several times, or as a list, -r FILE FILE...; packets are then sent in order of
    /// time
    #[arg(
        short = 'r',
        long = "read",
        value_name = "FILE",
        conflicts_with = "build"
    )]
    pub(crate) read: Vec<PathBuf>,
    /// Send the files that are listed in FILE, one a line, in this order
    #[arg(short = 'V', value_name = "FILE", conflicts_with = "build")]
    pub(crate) file_list: Option<PathBuf>,
    /// Whether words after -r were also files.
    #[arg(skip)]
    pub(crate) is_list: bool,
    /// Also accept extensions of the filter language: sets, packets in tunnels, IPv6 extension headers, processes
    #[arg(long, conflicts_with = "build")]
    pub(crate) extended: bool,
    #[command(flatten)]
    pub(crate) version: super::VersionArg,
    /// Packet to build and send, such as 'eth/ipv4(dst=10.0.0.2)/udp(dport=53)/"payload"', or a TOML
    /// file (NAME.toml) of packets
    #[arg(long, value_name = "SPEC",
          conflicts_with_all = ["filter", "rewrite", "fix_checksums", "sync", "multiplier"])]
    pub(crate) build: Option<Built>,
    /// Send only packets that match this filter, as in pcap-filter(7)
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Send the files, or the built packets, this many times (0: without end)
    #[arg(short = 'l', long = "loop", value_name = "N", default_value = "1",
          value_parser = values::whole::<u64>("rounds", 0, None))]
    pub(crate) rounds: u64,
    /// Change packets: FIELD=NEW or FIELD=OLD->NEW with the fields eth, ip, port (also with .src and .dst)
    /// and vlan; checksums are updated; may be given several times
    #[arg(long, value_name = "RULE", help_heading = "Packets")]
    pub(crate) rewrite: Vec<Rule>,
    /// Recompute the checksums of IPv4, TCP, UDP, ICMP, ICMPv6 and SCTP
    #[arg(long, help_heading = "Packets")]
    pub(crate) fix_checksums: bool,
    /// Let the driver (software) or the adapter stamp sent packets, and report how well the schedule was kept
    #[arg(long, value_name = "BY", value_parser = one_of(STAMPERS))]
    pub(crate) tx_timestamps: Option<SendStamps>,
    /// Stop at the first packet that the interface rejects, instead of leaving it out
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten, next_help_heading = "Rate")]
    pub(crate) rate: RateArgs,
    /// Wait at most this long between two packets that are sent by their times, such as 500ms, 10s or 5m;
    /// without it, waits of more than a minute are reported and kept
    #[arg(long, value_name = "DUR", value_parser = values::interval, help_heading = "Rate",
          conflicts_with_all = ["pps", "mbps", "topspeed", "build"])]
    pub(crate) max_gap: Option<Duration>,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct GenArgs {
    /// Interface: NAME; for sending also BACK-END:NAME, for receiving also ENGINE:NAME
    #[arg(short = 'i', long = "interface", value_name = "DEV")]
    pub(crate) interface: String,
    /// Count generated packets that arrive, and report their delay
    #[arg(long, conflicts_with_all = ["pps", "mbps", "poisson", "burst", "flows", "size", "gso"])]
    pub(crate) receive: bool,
    /// Stop after this time, such as 500ms, 10s or 5m
    #[arg(long, value_name = "DUR", value_parser = values::interval)]
    pub(crate) duration: Option<Duration>,
    /// Frame size in bytes, without the frame check sequence: one size, sizes in turn (60,590,1514), a range
    /// (60-1514 or 64-1472:64), or imix
    #[arg(long, value_name = "SIZES", default_value = "smallest")]
    pub(crate) size: Sizes,
    /// Packets per second; without it, as many as the interface takes
    #[arg(long, value_name = "N", value_parser = values::positive, conflicts_with = "mbps")]
    pub(crate) pps: Option<f64>,
    /// Millions of bits of frames per second, on average
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub(crate) mbps: Option<f64>,
    /// Send at random times, with the rate as their average
    #[arg(long, conflicts_with = "burst")]
    pub(crate) poisson: bool,
    /// Seed of the random times of --poisson
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Send this many packets together each time, with the rate as their average
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>("packets", 1, None))]
    pub(crate) burst: Option<u32>,
    /// Number of flows that packets belong to in turn, each with its own source address and port
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::whole::<u32>("flows", 1, Some(65_536)))]
    pub(crate) flows: u32,
    /// Hand over many packets of one size and flow at once, for the kernel or the adapter to cut: about twice
    /// as fast. Virtual interfaces leave their checksums incomplete
    #[arg(long)]
    pub(crate) gso: bool,
    /// Send IPv6, as with IPv6 addresses
    #[arg(long, short = '6', help_heading = "Addresses")]
    pub(crate) ipv6: bool,
    /// Source MAC address
    #[arg(
        long,
        value_name = "MAC",
        default_value = "02:00:00:00:00:01",
        help_heading = "Addresses"
    )]
    pub(crate) source_mac: Mac,
    /// Destination MAC address
    #[arg(
        long,
        value_name = "MAC",
        default_value = "02:00:00:00:00:02",
        help_heading = "Addresses"
    )]
    pub(crate) destination_mac: Mac,
    /// Source address of the first flow; the others follow [default: 198.18.0.1 or 2001:2::1]
    #[arg(long, value_name = "IP", help_heading = "Addresses")]
    pub(crate) source: Option<IpAddr>,
    /// Destination address [default: 198.19.0.1 or 2001:2:0:1::1]
    #[arg(long, value_name = "IP", help_heading = "Addresses")]
    pub(crate) destination: Option<IpAddr>,
    /// Destination port
    #[arg(
        long,
        value_name = "PORT",
        default_value = "9",
        help_heading = "Addresses"
    )]
    pub(crate) port: u16,
    /// With --receive: whether the host sees the packets too (copy) or not (steal)
    #[arg(long, value_name = "MODE", default_value = "copy", value_parser = one_of(MODES))]
    pub(crate) mode: Mode,
    /// Allow steal even if the host's own connections use the interface
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Options of both commands.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Stop after this many packets
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = values::whole::<u64>("packets", 1, None))]
    pub(crate) count: Option<u64>,
    /// CPUs to run on, such as 0 or 2-3
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuList>,
    /// Allow more than 1000 packets per second even on the interface of the host's default route
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print the summary as one JSON object on standard error
    #[arg(long)]
    pub(crate) json_stats: bool,
    /// Report on standard error how it is done: the back-end or engine and why it was chosen, and which
    /// privileges are kept
    #[arg(long, alias = "explain-capture")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) netns: NetnsArg,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

/// The clocks that stamp sent packets.
const STAMPERS: &[(&str, SendStamps)] = &[
    ("software", SendStamps::Software),
    ("adapter", SendStamps::Adapter),
];

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct RateArgs {
    /// Send by the packets' times (the default)
    #[arg(long)]
    pub(crate) sync: bool,
    /// Send by the packets' times, X times as fast
    #[arg(long, value_name = "X", value_parser = values::positive)]
    pub(crate) multiplier: Option<f64>,
    /// Packets per second
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub(crate) pps: Option<f64>,
    /// Millions of bits of frames per second
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub(crate) mbps: Option<f64>,
    /// Send as fast as the interface takes them
    #[arg(long)]
    pub(crate) topspeed: bool,
}
