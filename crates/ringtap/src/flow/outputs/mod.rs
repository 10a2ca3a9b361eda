//! Where records go beside the tables: collectors and files.
//!
//! Data in: records of flows, metered here or collected from another exporter. Data out: messages to
//! collectors ([`export`]), files ([`file`]). A collector that is down costs its records, which are
//! counted; a file that cannot be written ends the run.

mod export;
mod file;
mod origin;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringtap_flow::export::{ExportError, ExportOptions, Refresh, Statistics};
use ringtap_flow::{FlowRecord, Sampling};

use crate::cli::{Protocol, RecordArgs};
pub(crate) use export::{Collector, CollectorError};
use export::{Exporters, Patience};
use file::RecordFile;
pub(crate) use origin::Origin;
pub(crate) use report::OutputReport;

/// Records of a live run are on their way to the files after this time at the latest.
const FLUSH: Duration = Duration::from_secs(1);

/// Why records cannot leave.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// Times that no record of the run has room for.
    #[error("--nano is for IPFIX: NetFlow v5 and v9 have times in milliseconds")]
    NanosInNetflow,
    /// The protocol cannot express what was asked for.
    #[error(transparent)]
    Protocol(#[from] ExportError),
    /// A collector cannot be reached by what was asked for.
    #[error(transparent)]
    Collector(#[from] CollectorError),
    /// A file cannot be made or written.
    #[error(transparent)]
    File(#[from] file::FileError),
}

impl OutputError {
    /// Whether another command line would mend it.
    pub(crate) fn is_usage(&self) -> bool {
        match self {
            Self::NanosInNetflow | Self::Protocol(_) => true,
            Self::Collector(error) => error.is_usage(),
            Self::File(error) => error.is_usage(),
        }
    }
}

/// Refuses what contradicts itself, before anything is opened.
///
/// # Errors
/// When `--nano` would be of no effect.
pub(crate) fn check(args: &RecordArgs) -> Result<(), OutputError> {
    let is_ipfix = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "ipfix");
    if args.nano && args.protocol != Protocol::Ipfix && !args.write.iter().any(is_ipfix) {
        return Err(OutputError::NanosInNetflow);
    }
    Ok(())
}

/// What the run that makes the records knows of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// How packets were sampled.
    pub(crate) sampling: Sampling,
    pub(crate) active: Duration,
    pub(crate) inactive: Duration,
    /// Whether records come from a file, which can wait, or live, where packets would be lost.
    pub(crate) can_wait: bool,
    /// Whether tables are printed on standard output.
    pub(crate) has_tables: bool,
}

/// All collectors and files of a run.
pub(crate) struct Outputs {
    exporters: Option<Exporters>,
    files: Vec<RecordFile>,
    setting: Setting,
    /// When files were last given what waited for them.
    flushed: Instant,
    failed: Option<OutputError>,
}

impl Outputs {
    /// Opens what the command line names.
    pub(crate) fn open(args: &RecordArgs, setting: Setting) -> Result<Self, OutputError> {
        let options = export_options(args, setting);
        let patience = if setting.can_wait {
            Patience::Wait
        } else {
            Patience::Lose
        };
        let exporters = if args.export.is_empty() {
            None
        } else {
            Some(Exporters::open(&args.export, options, patience)?)
        };
        Ok(Self {
            exporters,
            files: RecordFile::open_all(args, &options, setting.has_tables)?,
            setting,
            flushed: Instant::now(),
            failed: None,
        })
    }

    /// Begins the files, which hold nothing any more that they held before.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn begin(&mut self) -> Result<(), OutputError> {
        for file in &mut self.files {
            file.begin()?;
        }
        // Time-outs are known from the beginning.
        self.set_statistics(0, 0);
        Ok(())
    }

    /// Takes a record that was metered here.
    pub(crate) fn record(&mut self, record: &FlowRecord) {
        self.take(record, None);
    }

    /// Takes a record of another exporter.
    pub(crate) fn collected(&mut self, record: &FlowRecord, origin: &Origin) {
        self.take(record, Some(origin));
    }

    fn take(&mut self, record: &FlowRecord, origin: Option<&Origin>) {
        if let Some(exporters) = &mut self.exporters {
            exporters.record(record);
        }
        let sampling = origin.map_or(self.setting.sampling.one_in.get(), |o| o.sampling);
        for file in &mut self.files {
            if let Err(error) = file.record(record, sampling, origin) {
                self.failed.get_or_insert(error.into());
            }
        }
    }

    /// Tells the time by the clock of the packets, in nanoseconds since 1970: messages that have
    /// waited are sent, templates repeated.
    ///
    /// # Errors
    /// What went wrong since the last call.
    pub(crate) fn advance(&mut self, now_ns: u64) -> Result<(), OutputError> {
        if let Some(exporters) = &mut self.exporters {
            exporters.advance(now_ns);
        }
        if !self.setting.can_wait && self.flushed.elapsed() >= FLUSH {
            self.flushed = Instant::now();
            for file in &mut self.files {
                if let Err(error) = file.flush() {
                    self.failed.get_or_insert(error.into());
                }
            }
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// What the statistics that are exported will say.
    pub(crate) fn set_statistics(&mut self, observed_flows: u64, ignored_packets: u64) {
        let seconds = |time: Duration| u16::try_from(time.as_secs()).unwrap_or(u16::MAX);
        let statistics = Statistics {
            active_timeout: seconds(self.setting.active),
            idle_timeout: seconds(self.setting.inactive),
            observed_flows,
            ignored_packets,
            not_sent_flows: 0,
        };
        if let Some(exporters) = &mut self.exporters {
            exporters.set_statistics(statistics);
        }
        for file in &mut self.files {
            file.set_statistics(statistics);
        }
    }

    /// Sends and writes what waits, and ends files as their formats ask for.
    ///
    /// # Errors
    /// When a file could not be written.
    pub(crate) fn finish(&mut self) -> Result<(), OutputError> {
        if let Some(exporters) = &mut self.exporters {
            exporters.finish();
        }
        for file in &mut self.files {
            if let Err(error) = file.finish() {
                self.failed.get_or_insert(error.into());
            }
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// What was sent, written and lost.
    pub(crate) fn report(&self) -> OutputReport {
        OutputReport {
            exports: self
                .exporters
                .as_ref()
                .map(Exporters::report)
                .unwrap_or_default(),
            files: self.files.iter().map(RecordFile::report).collect(),
        }
    }
}

/// The headers of IPv6 and UDP, which a message shares its datagram with, in bytes.
const HEADERS: u16 = 48;

fn export_options(args: &RecordArgs, setting: Setting) -> ExportOptions {
    ExportOptions {
        version: args.protocol.into(),
        domain: args.domain,
        max_message: args.mtu.saturating_sub(HEADERS),
        refresh: Some(Refresh {
            interval: args.template_interval,
            messages: args.template_messages,
        }),
        sampling: setting.sampling,
        nanos: args.nano,
        ..ExportOptions::default()
    }
}
