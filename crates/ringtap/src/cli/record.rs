//! Options of `record` and `extract`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use ringtap_capture::{Direction, Who};
use ringtap_savefile::Format;

use super::{
    ConfigArg, DIRECTIONS, ExpressionArgs, FORMATS, FileArgs, NetnsArg, PrintArgs, RightsArgs,
    VersionArg,
};
use crate::values::{self, CpuList, Size, When, one_of};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct RecorderArgs {
    #[command(subcommand)]
    pub(crate) action: Option<RecorderAction>,
    /// Interface to record: NAME, tcx:NAME, xdp:NAME, packet:NAME, or any; may be given several times
    #[arg(short = 'i', long = "interface", value_name = "DEV", required = true)]
    pub(crate) interface: Vec<String>,
    /// Folder for the files. It is created if it does not exist
    #[arg(long, value_name = "DIR", required = true)]
    pub(crate) dir: Option<PathBuf>,
    /// The most that the folder may take on the disk, such as 500G, everything included: at least 16M for each
    /// interface. The oldest files are removed before more is written
    #[arg(long, value_name = "SIZE", required = true)]
    pub(crate) budget: Option<Size>,
    /// Remove files whose packets are all older than this, such as 12h or 7d
    #[arg(long, value_name = "T", value_parser = values::age)]
    pub(crate) max_age: Option<Duration>,
    /// Leave at least this much of the disk free, such as 10G: the oldest files are removed, also below the budget
    #[arg(long, value_name = "SIZE")]
    pub(crate) keep_free: Option<Size>,
    #[command(flatten)]
    pub(crate) expression: ExpressionArgs,
    #[command(flatten, next_help_heading = "Capture")]
    pub(crate) capture: RecorderCaptureArgs,
    #[command(flatten, next_help_heading = "Writing files")]
    pub(crate) writing: RecorderWriteArgs,
    #[command(flatten, next_help_heading = "Cut-offs")]
    pub(crate) cuts: CutArgs,
    #[command(flatten, next_help_heading = "Triggers")]
    pub(crate) triggers: RecorderTriggerArgs,
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Print the counters at the end as one JSON object on standard error
    #[arg(long, help_heading = "Reports")]
    pub(crate) json_stats: bool,
    /// Report on standard error how the capture works: engine, clock, memory, filter, what it cannot see
    #[arg(long, help_heading = "Reports")]
    pub(crate) explain_capture: bool,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    #[command(flatten)]
    pub(crate) version: VersionArg,
    #[command(flatten)]
    pub(crate) netns: NetnsArg,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RecorderCaptureArgs {
    /// Capture at most this many bytes of each packet (0: the maximum, 262144)
    #[arg(short = 's', long = "snapshot-length", value_name = "SNAPLEN", value_parser = values::snaplen)]
    pub(crate) snaplen: Option<u32>,
    /// Don't put the interface into promiscuous mode
    #[arg(short = 'p', long = "no-promiscuous-mode")]
    pub(crate) no_promiscuous: bool,
    /// Size of each interface's ring, such as 64M or 1G
    #[arg(short = 'B', long, value_name = "SIZE")]
    pub(crate) buffer: Option<Size>,
    /// Direction of the packets: received (in), sent (out), or both
    #[arg(short = 'Q', long, value_name = "DIRECTION", default_value = "inout", value_parser = one_of(DIRECTIONS))]
    pub(crate) direction: Direction,
    /// Record the process of each packet of this host's sockets: all, or of pid, comm, uid, cmdline and cgroup those
    /// that are listed
    #[arg(long, value_name = "FIELDS", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = values::who)]
    pub(crate) who: Option<Who>,
    /// CPUs that the capture threads run on, such as 0 or 2-3
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuList>,
}

#[derive(Debug, Args)]
pub(crate) struct RecorderWriteArgs {
    /// Compression of the files: zstd:1 to zstd:19, or none
    #[arg(long, value_name = "CODEC", default_value = "zstd:1", value_parser = values::recorder_codec)]
    pub(crate) compress: values::Compress,
    /// Start another file when one has this size before compression; without it, a 32nd of the budget, at most
    /// 256M
    #[arg(long, value_name = "SIZE", value_parser = values::recorder_file)]
    pub(crate) file_size: Option<Size>,
    /// Start another file after this time
    #[arg(long, value_name = "T", default_value = "15m", value_parser = values::interval)]
    pub(crate) file_time: Duration,
    /// Don't make indices of the files; searches for hosts and ports then read all chunks of their time
    #[arg(long)]
    pub(crate) no_index: bool,
    /// Number of threads that compress, for each interface; without it, one for each available processor
    #[arg(long, value_name = "N", value_parser = values::whole::<u16>("threads", 1, Some(256)))]
    pub(crate) compress_threads: Option<u16>,
    /// Memory for data that waits to be compressed and written, for each interface
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) write_buffer: Size,
    /// CPUs of the threads that compress and write, such as 1 or 2-3
    #[arg(long, value_name = "LIST")]
    pub(crate) write_cpu: Option<CpuList>,
}

#[derive(Debug, Args)]
pub(crate) struct CutArgs {
    /// Keep only packets of each flow until it has had this many bytes, and count the others: SIZE, or FILTER=SIZE for
    /// the packets that a filter accepts ('port 443=8K'). May be given several times
    #[arg(long, value_name = "[FILTER=]SIZE", value_parser = values::cutoff)]
    pub(crate) cutoff: Vec<values::Cutoff>,
    /// Keep packets that this filter accepts, whatever --headers and --cutoff say. May be given several times
    #[arg(long, value_name = "FILTER")]
    pub(crate) keep: Vec<String>,
    /// Keep only the headers, up to the transport layer's, of packets that this filter accepts, whatever --cutoff says.
    /// May be given several times
    #[arg(long, value_name = "FILTER")]
    pub(crate) headers: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RecorderTriggerArgs {
    /// Copy the packets around an event to incidents/ in the folder, where the rotation leaves them: NAME='FILTER' (a
    /// packet matches), NAME='rate FILTER > 50k/s' (more packets match within a second), NAME='loss > 0' (packets
    /// were lost), NAME='alert' (the flow meter has a new alert). May be given several times
    #[arg(long, value_name = "NAME=CONDITION", value_parser = values::trigger)]
    pub(crate) trigger: Vec<values::Trigger>,
    /// Copy only the packets of the window that this filter accepts, of all interfaces into one file
    #[arg(long, value_name = "FILTER")]
    pub(crate) trigger_filter: Option<String>,
    /// How much is copied of the time before a trigger
    #[arg(long, value_name = "T", default_value = "60s", value_parser = values::age)]
    pub(crate) before: Duration,
    /// How much is copied of the time after a trigger
    #[arg(long, value_name = "T", default_value = "30s", value_parser = values::age)]
    pub(crate) after: Duration,
    /// After a trigger, ignore it for this time
    #[arg(long, value_name = "T", default_value = "5m", value_parser = values::age)]
    pub(crate) cool_down: Duration,
}

/// The actions beside recording.
#[derive(Debug, Subcommand)]
pub(crate) enum RecorderAction {
    /// Report what a recorder keeps and loses, whether it runs or not
    #[command(disable_version_flag = true)]
    Status(StatusArgs),
    /// Compare all chunks with their checksums
    #[command(disable_version_flag = true)]
    Check(CheckArgs),
    /// Have a running recorder copy the packets around this moment
    #[command(disable_version_flag = true)]
    Trigger(TriggerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TriggerArgs {
    /// Name of the copy
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Folder of the recorder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Folder of the recorder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Print metrics on standard output, in the text format of OpenMetrics that Prometheus reads
    #[arg(long, conflicts_with = "json")]
    pub(crate) openmetrics: bool,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Folder of the recorder; it may run meanwhile
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExtractArgs {
    /// Folder of a recorder, or https://HOST of `ringtap web --record` on another host; may be given several times.
    /// Packets are merged in order of time
    #[arg(long, value_name = "DIR", required = true)]
    pub(crate) dir: Vec<PathBuf>,
    /// Only packets captured at or after T (2026-01-31T03:12:00Z, local time without Z, 03:12:00 of today, or
    /// seconds since the epoch)
    #[arg(long, value_name = "T", value_parser = values::time)]
    pub(crate) from: Option<When>,
    /// Only packets captured before T
    #[arg(long, value_name = "T", value_parser = values::time)]
    pub(crate) to: Option<When>,
    /// Only packets of this interface, as the recorder was given it; may be given several times
    #[arg(short = 'i', long = "interface", value_name = "DEV")]
    pub(crate) interface: Vec<String>,
    /// Only packets of one flow, in both directions: '10.0.0.1:5 > 10.0.0.2:443 tcp'
    #[arg(long, value_name = "SPEC", value_parser = values::flow)]
    pub(crate) flow: Option<values::FlowFilter>,
    /// File to write the packets to; - is standard output. Without it, packets are printed
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Format of the file written; without it, the file name decides (.pcap), else pcapng
    #[arg(long, value_name = "FORMAT", requires = "write", value_parser = one_of(FORMATS))]
    pub(crate) format: Option<Format>,
    /// Compression of the file: zlib:0 to zlib:9, zstd:1 to zstd:19, lz4, or none; without it the file name
    /// decides (.gz, .zst, .lz4)
    #[arg(long, value_name = "CODEC", value_parser = values::codec, requires = "write")]
    pub(crate) compress: Option<values::Compress>,
    #[command(flatten)]
    pub(crate) expression: ExpressionArgs,
    /// Search without the files' indices
    #[arg(long)]
    pub(crate) no_index: bool,
    /// Print the process of each packet that was recorded with one (record --who)
    #[arg(long)]
    pub(crate) who: bool,
    #[command(flatten, next_help_heading = "Other hosts")]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten, next_help_heading = "Printing")]
    pub(crate) print: PrintArgs,
    /// Print the summary as one JSON object on standard error
    #[arg(long, help_heading = "Reports")]
    pub(crate) json_stats: bool,
    #[command(flatten)]
    pub(crate) version: VersionArg,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

/// How other hosts are asked.
#[derive(Debug, Args)]
pub(crate) struct RemoteArgs {
    /// File with the token that the other host's server needs
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust the server's certificate if one of these authorities has signed it, in PEM; without it, those of the
    /// system
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
}
