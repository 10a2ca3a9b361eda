//! Converts the options to values: what to open, what to select, where to write. Everything invalid is
//! rejected here, before anything is opened.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ringtap_capture::{
    CaptureOptions, Direction, Fanout, Filter, LinkType, Mode, Precision, TimestampSource,
};
use ringtap_packet::MAX_SNAPLEN;
use ringtap_record::{RecordOptions, RotationPlan, automatic_memory, check_name};
use ringtap_savefile::{Codec, Format};
use ringtap_sys::sched;

use super::error::UsageError;
use super::is_stream;
use super::select::Selection;
use crate::cli::DumpArgs;
use crate::hint;
use crate::input;
use crate::over_ip;
use crate::rights;
use crate::toolbar;
use crate::values::{CpuList, Sample};

/// How long packets wait at most. The end of a capture waits as long for the last ones.
const TIMEOUT: Duration = Duration::from_millis(100);
/// How long a capture without packets sleeps, unless it is woken.
const IDLE: Duration = Duration::from_secs(2);
/// The same if files end by the clock.
const WINDOW: Duration = Duration::from_millis(500);
/// How long a polling reader looks for packets before it sleeps.
const BUSY_POLL: Duration = Duration::from_micros(50);

/// The source of packets.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A device, and how to capture on it.
    Live {
        device: Option<String>,
        options: Box<CaptureOptions>,
        threads: u16,
    },
    /// Files, in their order.
    Files(Vec<PathBuf>),
}

/// The destination of packets.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The capture file.
    pub(crate) file: Option<PathBuf>,
    /// How it is written.
    pub(crate) writing: RecordOptions,
    /// Whether packets are printed.
    pub(crate) print: bool,
}

/// A complete plan of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) selection: Selection,
    /// Nanoseconds, or microseconds, in a pcap file. `None`: as in the input.
    pub(crate) nano: Option<bool>,
    /// The snaplen of a live capture, for the file's header.
    pub(crate) snaplen: u32,
}

impl Plan {
    /// Makes the plan of a run. `to_terminal` means that standard output is a terminal.
    pub(crate) fn new(args: &DumpArgs, to_terminal: bool) -> Result<Self, UsageError> {
        if let Some((option, instead)) = args.foreign.rejected() {
            return Err(UsageError::Foreign { option, instead });
        }
        refuse_strange_words(args)?;
        if args.print.time > 5 {
            return Err(UsageError::TimeFlags);
        }
        let live = args.source.read.is_empty();
        refuse_served(args)?;
        let output = output(args)?;
        if args.range.index && (live || args.write.is_some()) {
            refuse_index(args)?;
        }
        if !live {
            refuse_live_options(args)?;
        }
        if !live && args.link_type.is_some() && args.dump_program == 0 {
            let option = "-y without -d";
            return Err(UsageError::LiveOnly { option });
        }
        let input = if live {
            refuse_combinations(args, &output)?;
            Input::Live {
                device: args.source.interface.clone(),
                options: Box::new(capture_options(args, &output, to_terminal)?),
                threads: args.capture.threads,
            }
        } else {
            Input::Files(args.source.read.clone())
        };
        let selection = Selection {
            // Decided later, when files are opened.
            from: None,
            to: None,
            // A live engine samples in the kernel.
            sample: args
                .capture
                .sample
                .filter(|_| !live)
                .map(|sample| sample.one_in),
            count: args.count,
            snaplen: if live { None } else { args.snaplen },
        };
        let snaplen = args.snaplen.unwrap_or(MAX_SNAPLEN);
        Ok(Self {
            input,
            output,
            selection,
            nano: args.capture.wants_nano(),
            snaplen,
        })
    }
}

/// Rejects words that are not a filter but whose meaning is clear.
fn refuse_strange_words(args: &DumpArgs) -> Result<(), UsageError> {
    let words = &args.expression.filter;
    let Some(word) = words.first() else {
        return Ok(());
    };
    if args.print.count_only && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
        let count = word.clone();
        return Err(UsageError::CountTakesNone { count });
    }
    if !args.source.read.is_empty() {
        return Ok(());
    }
    let is_interface = args.source.interface.is_none() && hint::is_interface(word);
    if is_interface
        && Filter::new(words.join(" "))
            .compile(LinkType::ETHERNET, 1)
            .is_err()
    {
        let (name, mut meant) = (word.clone(), vec!["dump".to_owned(), "-i".to_owned()]);
        meant.extend_from_slice(words);
        let meant = hint::line(&meant);
        return Err(UsageError::InterfaceAsFilter { name, meant });
    }
    if !input::names_file(word) {
        return Ok(());
    }
    let file = word.clone();
    Err(match &args.source.interface {
        None => UsageError::FileAsFilter { file },
        Some(_) => UsageError::FileBesideDevice { file },
    })
}

fn refuse_index(args: &DumpArgs) -> Result<(), UsageError> {
    match &args.write {
        Some(path) if !is_stream(path) => Ok(()),
        _ => Err(UsageError::IndexOfNoFile),
    }
}

fn output(args: &DumpArgs) -> Result<Output, UsageError> {
    let file = args.write.clone();
    let print = (file.is_none() && !args.print.count_only) || args.print.print;
    let writing = match &args.write {
        Some(path) => writing(args, path)?,
        None => RecordOptions::default(),
    };
    refuse_without_rotation(args)?;
    Ok(Output {
        file,
        writing,
        print,
    })
}

/// Rejects options that do not suit clients: one that connects later must be able to read the stream.
fn refuse_served(args: &DumpArgs) -> Result<(), UsageError> {
    let Some(path) = args
        .write
        .as_ref()
        .filter(|path| over_ip::is_listener(path))
    else {
        return Ok(());
    };
    let given = [
        (!args.source.read.is_empty(), "-r"),
        (args.format == Some(Format::Pcap), "--format pcap"),
        (args.writing.codec(path).is_some(), "--compress"),
        (args.capture.who.is_some(), "--who"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(UsageError::Served {
            option,
            name: path.display().to_string(),
        }),
        None => Ok(()),
    }
}

fn refuse_without_rotation(args: &DumpArgs) -> Result<(), UsageError> {
    let writing = &args.writing;
    if writing.file_size.is_some() || writing.rotate_seconds.is_some() {
        return Ok(());
    }
    let given = [
        (writing.file_count.is_some(), "-W"),
        (writing.postrotate.is_some(), "-z"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(UsageError::OneFile { option }),
        None => Ok(()),
    }
}

fn writing(args: &DumpArgs, path: &Path) -> Result<RecordOptions, UsageError> {
    let given = &args.writing;
    let rotates = given.file_size.is_some() || given.rotate_seconds.is_some();
    if rotates && is_no_file(path) {
        let name = path.display().to_string();
        return Err(UsageError::NoRotation { name });
    }
    if given.rotate_seconds.is_some() {
        check_name(path).map_err(|reason| UsageError::TimeName {
            name: path.display().to_string(),
            reason: reason.to_string(),
        })?;
    }
    let cpus = writing_cpus(args);
    let processors = if cpus.is_empty() {
        thread::available_parallelism().map_or(1, usize::from)
    } else {
        cpus.len()
    };
    let workers = match given.compress_threads {
        Some(threads) => threads.into(),
        None => processors.saturating_sub(usize::from(args.capture.threads)),
    };
    let memory = given.write_buffer.map(|size| size.0);
    let mut options = RecordOptions::default();
    options.format = args.format.unwrap_or_else(|| format_of(path));
    options.codec = given.codec(path);
    options.workers = workers.max(1);
    options.memory = memory.unwrap_or_else(automatic_memory);
    options.cpus = cpus;
    options.immediate = args.capture.immediate || given.packet_buffered;
    options.rotation = rotates.then(|| {
        let mut rotation = RotationPlan::default();
        rotation.size = given.file_size;
        rotation.seconds = given.rotate_seconds;
        rotation.count = given.file_count;
        rotation
    });
    Ok(options)
}

/// Returns whether the name stands for standard output, a pipe or a device.
fn is_no_file(path: &Path) -> bool {
    is_stream(path) || rights::look(path).is_ok_and(|found| !found.is_file())
}

/// Returns the processors of the writing threads: if capture threads have their own, the writing threads get
/// the others.
fn writing_cpus(args: &DumpArgs) -> Vec<usize> {
    if let Some(list) = &args.writing.write_cpu {
        return list.0.clone();
    }
    let (Some(capture), Ok(allowed)) = (&args.capture.cpu, sched::affinity()) else {
        return Vec::new();
    };
    let all = allowed.as_slice();
    let others = all.iter().filter(|cpu| !capture.0.contains(cpu));
    let others: Vec<usize> = others.copied().collect();
    if others.is_empty() {
        all.to_vec()
    } else {
        others
    }
}

/// Returns pcapng if the name ends in `.pcapng`, also before the ending of a codec; else pcap.
fn format_of(path: &Path) -> Format {
    let extension = |path: &Path| {
        let name = path.extension().and_then(|extension| extension.to_str());
        name.map(str::to_ascii_lowercase)
    };
    let mut name = extension(path);
    if name.as_deref().and_then(Codec::of_extension).is_some() {
        name = path.file_stem().map(Path::new).and_then(extension);
    }
    match name.as_deref() {
        _ if over_ip::is_listener(path) => Format::Pcapng,
        Some("pcapng") => Format::Pcapng,
        _ => Format::Pcap,
    }
}

fn refuse_live_options(args: &DumpArgs) -> Result<(), UsageError> {
    let capture = &args.capture;
    let given = [
        (capture.no_promiscuous, "-p"),
        (capture.buffer.is_some(), "--buffer"),
        (capture.min_to_copy.is_some(), "--min-to-copy"),
        (capture.timeout.is_some(), "--timeout"),
        (capture.immediate, "--immediate"),
        (capture.direction != Direction::Both, "--direction"),
        (capture.timestamp.is_some(), "--timestamp"),
        (capture.threads > 1, "--threads"),
        (capture.cpu.is_some(), "--cpu"),
        (capture.packet_cpu.is_some(), "--packet-cpu"),
        (capture.priority.is_some(), "--priority"),
        (capture.busy_poll, "--busy-poll"),
        (capture.mode == Mode::Steal, "--mode steal"),
        (capture.force, "--force"),
        (capture.unordered, "--unordered"),
        (args.report.explain_capture, "--explain-capture"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(UsageError::LiveOnly { option }),
        None => Ok(()),
    }
}

fn refuse_combinations(args: &DumpArgs, output: &Output) -> Result<(), UsageError> {
    let has_file = output.file.is_some();
    if args.capture.who.is_some() && has_file && output.writing.format == Format::Pcap {
        return Err(UsageError::WhoInPcap);
    }
    if args.netns.is_all() && has_file && output.writing.format == Format::Pcap {
        return Err(UsageError::NamespacesInPcap);
    }
    if args.capture.who.is_some() && args.capture.threads > 1 {
        return Err(UsageError::WhoByThreads);
    }
    if args.capture.threads > 1 && output.print {
        return Err(UsageError::ThreadsPrint);
    }
    Ok(())
}

fn capture_options(
    args: &DumpArgs,
    output: &Output,
    to_terminal: bool,
) -> Result<CaptureOptions, UsageError> {
    let capture = &args.capture;
    let (sample, sample_mode) = Sample::of(capture.sample);
    let (timestamp, precision) = timestamp_source(capture.timestamp.as_deref())?;
    let is_pcap = output.writing.format == Format::Pcap;
    let mut options = CaptureOptions::default()
        .snaplen(args.snaplen.unwrap_or(MAX_SNAPLEN))
        .timeout(capture.timeout.unwrap_or(TIMEOUT))
        .wait(Some(longest_wait(args)))
        .immediate(capture.immediate || (capture.timeout.is_none() && output.print && to_terminal))
        .promiscuous(!capture.no_promiscuous)
        .direction(capture.direction)
        .timestamp(timestamp)
        .precision(precision)
        .sample(sample)
        .sample_mode(sample_mode)
        .mode(capture.mode)
        .force(capture.force)
        .unordered(capture.unordered)
        // A pcapng file can hold several kinds of interfaces; other outputs have one form.
        .cooked(!args.netns.is_all() && (output.print || output.file.is_none() || is_pcap))
        .all_namespaces(args.netns.is_all())
        .fanout((capture.threads > 1).then(Fanout::default))
        .busy_poll(capture.busy_poll.then_some(BUSY_POLL))
        .watch_chain(capture.watch_chain)
        .who(capture.who)
        .priority(capture.priority.map(|priority| priority.0))
        .cpus(CpuList::of(capture.cpu.as_ref()));
    if let Some(buffer) = capture.buffer {
        options.buffer = buffer.0;
    }
    if let Some(bytes) = capture.min_to_copy {
        options.min_to_copy = u32::try_from(bytes.0).unwrap_or(u32::MAX);
    }
    Ok(options)
}

/// Returns how long a capture without packets waits: files may end and counters be shown by the clock.
fn longest_wait(args: &DumpArgs) -> Duration {
    if args.writing.rotate_seconds.is_some() {
        WINDOW
    } else if args.capture.session.toolbar.is_some() {
        toolbar::INTERVAL
    } else {
        IDLE
    }
}

/// Returns the clock of libpcap's name (pcap-tstamp(7)), where `host` has no certain precision, and `none`.
fn timestamp_source(name: Option<&str>) -> Result<(TimestampSource, Precision), UsageError> {
    let host = |precision| Ok((TimestampSource::Host, precision));
    match name {
        None | Some("host") => host(Precision::Poll),
        Some("host_hiprec") => host(Precision::Fine),
        Some("host_lowprec") => host(Precision::Coarse),
        Some("none") => host(Precision::None),
        Some("adapter" | "adapter_unsynced") => Ok((TimestampSource::Adapter, Precision::Fine)),
        Some(name) => Err(UsageError::TimestampType {
            name: name.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn plan(line: &str) -> Result<Plan, UsageError> {
        let words = ["ringtap", "dump"]
            .into_iter()
            .chain(line.split_whitespace());
        let Command::Dump(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("not a dump");
        };
        Plan::new(&args, false)
    }

    fn live(line: &str) -> CaptureOptions {
        match plan(line).unwrap().input {
            Input::Live { options, .. } => *options,
            Input::Files(_) => panic!("not live"),
        }
    }

    #[test]
    fn the_name_decides_the_format_unless_it_is_given() {
        let format = |line| plan(line).unwrap().output.writing.format;
        assert_eq!(format("-i lo -w a.pcapng"), Format::Pcapng);
        assert_eq!(format("-i lo -w a.pcapng.zst"), Format::Pcapng);
        assert_eq!(format("-i lo -w a.pcap.gz"), Format::Pcap);
        assert_eq!(format("-i lo -w a.cap"), Format::Pcap);
        assert_eq!(format("-i lo -w -"), Format::Pcap);
        assert_eq!(format("-i lo -w a.pcap --format pcapng"), Format::Pcapng);
    }

    #[test]
    fn the_name_decides_the_codec_unless_it_is_given() {
        let codec = |line| plan(line).unwrap().output.writing.codec;
        assert_eq!(codec("-i lo -w a.pcapng"), None);
        assert_eq!(codec("-i lo -w a.pcapng.ZST"), Some(Codec::Zstd(3)));
        assert_eq!(codec("-i lo -w a --compress zlib:9"), Some(Codec::Zlib(9)));
        assert_eq!(codec("-i lo -w a.pcap.gz --compress none"), None);
        assert_eq!(codec("-i lo -w - --compress lz4"), Some(Codec::Lz4));
    }

    #[test]
    fn rotation_needs_a_reason() {
        assert_eq!(
            plan("-i lo -w a -W 3").unwrap_err(),
            UsageError::OneFile { option: "-W" }
        );
        assert!(matches!(
            plan("-i lo -w 100%! -G 3"),
            Err(UsageError::TimeName { .. })
        ));
        assert!(plan("-i lo -w 100%! -C 3").is_ok());
    }

    #[test]
    fn the_time_out_is_short_unless_it_is_given() {
        assert_eq!(live("-i lo").timeout, TIMEOUT);
        assert_eq!(live("-i lo -w f").timeout, TIMEOUT);
        assert_eq!(
            live("-i lo -w f --timeout 7").timeout,
            Duration::from_millis(7)
        );
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        assert_eq!(
            plan("-r f --immediate").unwrap_err().to_string(),
            "--immediate is for live captures; it cannot be used with -r"
        );
        assert_eq!(live("-i lo --mode steal").mode, Mode::Steal);
        assert_eq!(
            plan("-i lo --threads 2").unwrap_err(),
            UsageError::ThreadsPrint
        );
        assert!(matches!(
            plan("-i lo -j sundial"),
            Err(UsageError::TimestampType { .. })
        ));
    }

    #[test]
    fn a_live_engine_samples_and_cuts_itself() {
        let plan = plan("-i lo --sample 8 -s 96").unwrap();
        assert_eq!(
            (plan.selection.sample, plan.selection.snaplen),
            (None, None)
        );
        let options = live("-i lo --sample 8 -s 96");
        assert_eq!(
            (options.sample, options.snaplen),
            (std::num::NonZero::new(8), 96)
        );
    }
}
