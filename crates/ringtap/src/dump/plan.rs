//! From the options to values: what to open, what to select, where it goes. Everything that can be
//! refused is refused here, before anything is opened.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringtap_capture::{CaptureOptions, Fanout, Precision, SampleMode, TimestampSource};

use super::error::UsageError;
use super::select::Selection;
use crate::cli::{self, DumpArgs, FileFormat};
use crate::values::MAX_SNAPLEN;

/// How long packets wait at most. It is also what the end of a capture may wait for the last ones.
const TIMEOUT: Duration = Duration::from_millis(100);
/// How long a capture sleeps to which nothing comes, unless it is woken.
const IDLE: Duration = Duration::from_secs(2);
/// How long a reader that polls looks for packets before it sleeps.
const BUSY_POLL: Duration = Duration::from_micros(50);

/// Where packets come from.
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

/// Where packets go.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The capture file.
    pub(crate) file: Option<(PathBuf, FileFormat)>,
    /// Whether packets are printed.
    pub(crate) print: bool,
}

/// A run, decided.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) selection: Selection,
    /// Nanoseconds in a pcap file and in printed times.
    pub(crate) nano: bool,
    /// The snaplen of a live capture, for the file's header.
    pub(crate) snaplen: u32,
}

impl Plan {
    /// Decides on a run; `to_terminal` tells whether standard output is one.
    pub(crate) fn new(args: &DumpArgs, to_terminal: bool) -> Result<Self, UsageError> {
        if args.print.time > 5 {
            return Err(UsageError::TimeFlags);
        }
        let live = args.read.is_empty();
        let output = output(args);
        if args.range.index && (live || args.write.is_some()) {
            refuse_index(args)?;
        }
        if !live {
            refuse_live_options(args)?;
        }
        let input = if live {
            refuse_with_threads(args, &output)?;
            Input::Live {
                device: args.interface.clone(),
                options: Box::new(capture_options(args, &output, to_terminal)?),
                threads: args.capture.threads,
            }
        } else {
            Input::Files(args.read.clone())
        };
        let selection = Selection {
            // Settled later, when files can be looked at.
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
            nano: args.capture.nano,
            snaplen,
        })
    }
}

fn refuse_index(args: &DumpArgs) -> Result<(), UsageError> {
    match &args.write {
        Some(path) if path.as_os_str() != "-" => Ok(()),
        _ => Err(UsageError::IndexOfNoFile),
    }
}

fn output(args: &DumpArgs) -> Output {
    let file = args.write.clone().map(|path| {
        let format = args.format.unwrap_or_else(|| format_of(&path));
        (path, format)
    });
    let print = file.is_none() || args.print.print;
    Output { file, print }
}

fn format_of(path: &Path) -> FileFormat {
    let name = path.extension().and_then(|extension| extension.to_str());
    match name {
        Some(name) if name.eq_ignore_ascii_case("pcapng") => FileFormat::Pcapng,
        _ => FileFormat::Pcap,
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
        (capture.direction != cli::Direction::Inout, "--direction"),
        (capture.timestamp.is_some(), "--timestamp"),
        (capture.threads > 1, "--threads"),
        (capture.cpu.is_some(), "--cpu"),
        (capture.priority.is_some(), "--priority"),
        (capture.busy_poll, "--busy-poll"),
        (capture.mode == cli::Mode::Steal, "--mode steal"),
        (capture.force, "--force"),
        (capture.unordered, "--unordered"),
        (args.report.explain_capture, "--explain-capture"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(UsageError::LiveOnly { option }),
        None => Ok(()),
    }
}

fn refuse_with_threads(args: &DumpArgs, output: &Output) -> Result<(), UsageError> {
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
    let (timestamp, precision) = timestamp_source(capture.timestamp.as_deref())?;
    let mut options = CaptureOptions {
        snaplen: args.snaplen.unwrap_or(MAX_SNAPLEN),
        timeout: capture.timeout.unwrap_or(TIMEOUT),
        wait: Some(IDLE),
        immediate: capture.immediate || (capture.timeout.is_none() && output.print && to_terminal),
        promiscuous: !capture.no_promiscuous,
        direction: capture.direction.into(),
        timestamp,
        precision,
        sample: capture
            .sample
            .and_then(|sample| NonZeroU32::new(sample.one_in)),
        sample_mode: match capture.sample {
            Some(sample) if sample.regular => SampleMode::Regular,
            _ => SampleMode::Random,
        },
        mode: capture.mode.into(),
        force: capture.force,
        unordered: capture.unordered,
        // A pcapng file has room for interfaces of several kinds; all else shows one form.
        cooked: output.print
            || output
                .file
                .as_ref()
                .is_none_or(|(_, format)| *format == FileFormat::Pcap),
        fanout: (capture.threads > 1).then(Fanout::default),
        busy_poll: capture.busy_poll.then_some(BUSY_POLL),
        priority: capture.priority.map(|priority| priority.0),
        cpus: capture
            .cpu
            .as_ref()
            .map(|list| list.0.clone())
            .unwrap_or_default(),
        ..CaptureOptions::default()
    };
    if let Some(buffer) = capture.buffer {
        options.buffer = buffer.0;
    }
    if let Some(bytes) = capture.min_to_copy {
        options.min_to_copy = u32::try_from(bytes.0).unwrap_or(u32::MAX);
    }
    Ok(options)
}

/// The names are libpcap's (pcap-tstamp(7)), and `none`.
fn timestamp_source(name: Option<&str>) -> Result<(TimestampSource, Precision), UsageError> {
    let host = |precision| Ok((TimestampSource::Host, precision));
    match name {
        None | Some("host" | "host_hiprec") => host(Precision::Fine),
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
    use ringtap_capture::Mode;

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
        let format = |line| plan(line).unwrap().output.file.unwrap().1;
        assert_eq!(format("-i lo -w a.pcapng"), FileFormat::Pcapng);
        assert_eq!(format("-i lo -w a.cap"), FileFormat::Pcap);
        assert_eq!(format("-i lo -w -"), FileFormat::Pcap);
        assert_eq!(
            format("-i lo -w a.pcap --format pcapng"),
            FileFormat::Pcapng
        );
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
            "--immediate is for live captures; it has no meaning with -r"
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
        assert_eq!((options.sample, options.snaplen), (NonZeroU32::new(8), 96));
    }
}
