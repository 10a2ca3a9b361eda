//! The flags of the commands that send.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ringtap_craft::{Built, Mac, Rule};

use super::{Mode, RightsArgs};
use crate::generate::Sizes;
use crate::values::{self, CpuList};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("packets").required(true).args(["read", "file_list", "build"]).multiple(true))]
pub(crate) struct SendArgs {
    /// Interface to send on: NAME, or BACK-END:NAME
    #[arg(short = 'i', long = "interface", value_name = "DEV")]
    pub(crate) interface: String,
    /// File whose packets are sent (pcap or pcapng; gzip, zstd or lz4 are undone); - is standard
    /// input; may be given several times, or as a list, -r FILE FILE..., which is sent in the order of time
    #[arg(
        short = 'r',
        long = "read",
        value_name = "FILE",
        conflicts_with = "build"
    )]
    pub(crate) read: Vec<PathBuf>,
    /// Send the files that are named in FILE, one a line, in their order
    #[arg(short = 'V', value_name = "FILE", conflicts_with = "build")]
    pub(crate) file_list: Option<PathBuf>,
    /// Whether words behind -r were files, too.
    #[arg(skip)]
    pub(crate) is_list: bool,
    /// Understand the extensions of the filter language too: sets, packets in tunnels, IPv6 extension headers
    #[arg(long, conflicts_with = "build")]
    pub(crate) extended: bool,
    #[command(flatten)]
    pub(crate) version: super::VersionArg,
    /// Packet to build and send, such as 'eth/ipv4(dst=10.0.0.2)/udp(dport=53)/"payload"', or a TOML
    /// file (NAME.toml) of packets
    #[arg(long, value_name = "SPEC",
          conflicts_with_all = ["filter", "rewrite", "fix_checksums", "sync", "multiplier"])]
    pub(crate) build: Option<Built>,
    /// Send only what this filter accepts, as in pcap-filter(7)
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Send the files, or the built packets, so many times; 0 is without end
    #[arg(short = 'l', long = "loop", value_name = "N", default_value = "1",
          value_parser = values::whole::<u64>("rounds", 0, None))]
    pub(crate) rounds: u64,
    /// Change packets: FIELD=NEW or FIELD=OLD->NEW with the fields eth, ip, port (also with .src
    /// and .dst) and vlan; checksums follow; may be given several times
    #[arg(long, value_name = "RULE", help_heading = "Packets")]
    pub(crate) rewrite: Vec<Rule>,
    /// Compute the checksums of IPv4, TCP, UDP, ICMP, ICMPv6 and SCTP anew
    #[arg(long, help_heading = "Packets")]
    pub(crate) fix_checksums: bool,
    /// Have sent packets stamped by the driver (software) or the adapter, and say how well the
    /// schedule was kept
    #[arg(long, value_name = "BY")]
    pub(crate) tx_timestamps: Option<Stamper>,
    /// End at the first packet that the interface does not take, instead of leaving it out
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten, next_help_heading = "Rate")]
    pub(crate) rate: RateArgs,
    /// Wait this long at most between two packets that are sent by their times, such as 500ms, 10s or 5m;
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
    /// Interface: NAME; to send on also BACK-END:NAME, to receive on also ENGINE:NAME
    #[arg(short = 'i', long = "interface", value_name = "DEV")]
    pub(crate) interface: String,
    /// Count what arrives of generated traffic, and how late
    #[arg(long, conflicts_with_all = ["pps", "mbps", "poisson", "burst", "flows", "size", "gso"])]
    pub(crate) receive: bool,
    /// Stop after this time, such as 500ms, 10s or 5m
    #[arg(long, value_name = "DUR", value_parser = values::interval)]
    pub(crate) duration: Option<Duration>,
    /// Bytes of the frames, without the frame check sequence: one size, sizes in turn (60,590,1514),
    /// a range (60-1514 or 64-1472:64), or imix
    #[arg(long, value_name = "SIZES", default_value = "smallest")]
    pub(crate) size: Sizes,
    /// So many packets per second; without, as many as the interface takes
    #[arg(long, value_name = "N", value_parser = values::positive, conflicts_with = "mbps")]
    pub(crate) pps: Option<f64>,
    /// So many millions of bits of frames per second, in the mean
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub(crate) mbps: Option<f64>,
    /// At random times, with the rate as their mean
    #[arg(long, conflicts_with = "burst")]
    pub(crate) poisson: bool,
    /// What --poisson's times depend on
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// So many packets together each time, with the rate as their mean
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>("packets", 1, None))]
    pub(crate) burst: Option<u32>,
    /// Flows that packets belong to in turn, each with its own source address and port
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::whole::<u32>("flows", 1, Some(65_536)))]
    pub(crate) flows: u32,
    /// Hand over packets many at a time, as one that the kernel or the adapter cuts: of one size and
    /// flow, about twice as fast; a virtual interface leaves their checksums undone
    #[arg(long)]
    pub(crate) gso: bool,
    /// IPv6, as with addresses of it
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
    #[arg(long, value_name = "MODE", default_value = "copy")]
    pub(crate) mode: Mode,
    /// Steal also where the host's own connections hang on the interface
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// What both have.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Stop after this many packets
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = values::whole::<u64>("packets", 1, None))]
    pub(crate) count: Option<u64>,
    /// CPUs to run on, such as 0 or 2-3
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuList>,
    /// Send more than 1000 packets per second also where the host's default route is
    #[arg(long)]
    pub(crate) yes: bool,
    /// The summary as one JSON object on standard error
    #[arg(long)]
    pub(crate) json_stats: bool,
    /// Say on standard error how it is done: the back-end or engine and why it was chosen, what is held of
    /// privileges
    #[arg(long, alias = "explain-capture")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

/// Who stamps sent packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stamper {
    Software,
    Adapter,
}

impl From<Stamper> for ringtap_send::SendStamps {
    fn from(stamper: Stamper) -> Self {
        match stamper {
            Stamper::Software => Self::Software,
            Stamper::Adapter => Self::Adapter,
        }
    }
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct RateArgs {
    /// By the packets' times, which is the default
    #[arg(long)]
    pub(crate) sync: bool,
    /// By the packets' times, X times as fast
    #[arg(long, value_name = "X", value_parser = values::positive)]
    pub(crate) multiplier: Option<f64>,
    /// So many packets per second
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub(crate) pps: Option<f64>,
    /// So many millions of bits of frames per second
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub(crate) mbps: Option<f64>,
    /// As fast as the interface takes them
    #[arg(long)]
    pub(crate) topspeed: bool,
}
