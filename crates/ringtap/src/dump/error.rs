//! Errors that end a run, and its exit status.

use std::io;
use std::path::PathBuf;

use ringtap_capture::LinkType;
use ringtap_record::RecordError;

use crate::exit::{Ends, RunError};
use crate::notice::counted;

/// The unsuccessful end of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    /// The options contradict each other or request something unavailable; nothing was opened.
    #[error("{0}")]
    Usage(UsageError),
    /// A failure that other commands have too.
    #[error(transparent)]
    Run(RunError),
    /// The output could not be started, or failed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The index would overwrite a file that is not an index.
    #[error("{}: exists and is not an index; choose another name", path.display())]
    NoIndex { path: PathBuf },
    /// A pcap file holds one link type.
    #[error(
        "{}: is of link type {found}, {} of {expected}; a pcap file holds one, use pcapng",
        path.display(),
        first.display()
    )]
    LinkTypes {
        path: PathBuf,
        found: LinkType,
        first: PathBuf,
        expected: LinkType,
    },
    /// Clients cannot be served on the address.
    #[error("-w {}: cannot listen: {source}", path.display())]
    Listen { path: PathBuf, r#source: io::Error },
    /// Packets would be printed into the file that they are written to.
    #[error("{}: standard output is the same file", path.display())]
    Standard { path: PathBuf },
    /// Printing failed.
    #[error("standard output: {source}; {} printed before", counted(*packets, "packet"))]
    Print { packets: u64, r#source: io::Error },
    /// The ssh connection to be left out is unknown.
    #[error(transparent)]
    Ssh(#[from] crate::ssh::SshError),
    /// Commands of `-z` have failed.
    #[error("-z: {0}")]
    Command(io::Error),
}

impl<E: Into<RunError>> From<E> for DumpError {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

/// Options that exclude each other.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("{option} is for live captures; it cannot be used with -r")]
    LiveOnly { option: &'static str },
    #[error("{option} of tcpdump is not supported: {instead}")]
    Foreign {
        option: &'static str,
        instead: &'static str,
    },
    #[error(
        "--count prints the number of packets and takes none; -c {count} stops after {count} packets"
    )]
    CountTakesNone { count: String },
    #[error("{file} is a file and not a filter; did you mean: ringtap dump -r {file}")]
    FileAsFilter { file: String },
    #[error("{name} is an interface and not a filter; did you mean: {meant}")]
    InterfaceAsFilter { name: String, meant: String },
    #[error(
        "{file} is a file and not a filter; -w {file} writes packets to it, -r {file} without -i reads it"
    )]
    FileBesideDevice { file: String },
    #[error(
        "--who: a pcap file has no place for processes; write a pcapng file, such as -w FILE.pcapng"
    )]
    WhoInPcap,
    #[error(
        "--netns all: a pcap file has one interface; write a pcapng file, such as -w FILE.pcapng"
    )]
    NamespacesInPcap,
    #[error(
        "{option} cannot be used with -w {name}, which serves the packets of a live capture as pcapng"
    )]
    Served { option: &'static str, name: String },
    #[error("--who cannot be used with --threads: processes are recorded by one reading thread")]
    WhoByThreads,
    #[error("--threads needs -w: packets of several threads have no common order to print")]
    ThreadsPrint,
    #[error(
        "-C and -G write several files, but {name} is not a regular file; specify another name with -w"
    )]
    NoRotation { name: String },
    #[error("{option} needs -C or -G: without them there is one file only")]
    OneFile { option: &'static str },
    #[error("-w {name}: invalid name for -G, which puts the time into it by strftime(3): {reason}")]
    TimeName { name: String, reason: String },
    #[error("--to must be later than --from")]
    EmptyRange,
    #[error(
        "--from or --to: this local time does not exist on that day, since the clock was set; write it with Z or an offset"
    )]
    NoSuchTime,
    #[error(
        "--from and --to: a time of day has no date with standard input; write the date too, such as 2026-01-31T12:00:00"
    )]
    DateOfStream,
    #[error("--index is for files: write one with -w FILE, or read one with -r FILE")]
    IndexOfNoFile,
    #[error("--index without -w makes an index of whole files; nothing can be chosen from them")]
    IndexOfAll,
    #[error("-t is given more than five times; -ttttt is the last form")]
    TimeFlags,
    #[error(
        "--timestamp {name}: expected host, host_lowprec, host_hiprec, adapter, adapter_unsynced or none"
    )]
    TimestampType { name: String },
    #[error("unknown link type {name:?}; ringtap filter -L lists them")]
    LinkType { name: String },
    #[error("{device}: its link type is {is}, not {asked}")]
    OtherLinkType {
        device: String,
        is: String,
        asked: String,
    },
    #[error("--packet-cpu is for the threads of one interface, not of \"any\"")]
    PacketCpuOfAny,
    #[error("no interface is up; name one with -i, or a file with -r")]
    NoDevice,
}

impl DumpError {
    /// Returns the packets that are in the output although it failed.
    pub(crate) fn intact_packets(&self) -> Option<u64> {
        match self {
            Self::Record(error) => error.intact_packets(),
            Self::Print { packets, .. } => Some(*packets),
            _ => None,
        }
    }
}

impl Ends for DumpError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::Ssh(_)
            | Self::Record(RecordError::SameFile { .. } | RecordError::NoRotation { .. })
            | Self::LinkTypes { .. }
            | Self::Standard { .. }
            | Self::NoIndex { .. } => 2,
            Self::Run(error) => error.exit_status(),
            _ => 1,
        }
    }
}
