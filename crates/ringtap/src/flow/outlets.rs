//! The outputs of records that were requested.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringtap_flow::export::{ExportOptions, Refresh};
use ringtap_flow::{FlowRecord, FlowSink};
use ringtap_flow_io::{
    FileFormat, Origin, OutputContext, OutputError, OutputOptions, Outputs, PlaceError, PlaceFiles,
    Places,
};

use super::error::FlowError;
use super::folders::Folders;
use super::plan;
use super::talkers::Talkers;
use crate::cli::{FlowArgs, Protocol, RecordArgs};
use crate::exit::RunError;
use crate::notice::notice;
use crate::output::{self, Output};
use crate::rights;

/// The length of the IPv6 and UDP headers, which share a datagram with a message, in bytes.
const HEADERS: u16 = 48;

/// All outputs of a run.
pub(crate) struct Outlets {
    /// The tables of hosts and flows with most traffic.
    talkers: Option<Talkers>,
    /// Collectors and files.
    pub(crate) outputs: Outputs,
}

/// Rejects contradictory options, before anything is opened.
///
/// # Errors
/// `--nano` or `--enterprise` has no effect, or `--who` comes with several threads.
pub(crate) fn check(args: &FlowArgs) -> Result<(), FlowError> {
    let is_collecting = args.collect.is_some();
    if args.meter.threads > 1 && args.meter.who.is_some() {
        return Err(FlowError::WhoByThreads);
    }
    let args = &args.records;
    let is_ipfix = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "ipfix");
    let is_netflow = args.protocol != Protocol::Ipfix && !args.write.iter().any(is_ipfix);
    if args.nano && is_netflow {
        return Err(FlowError::NanosInNetflow);
    }
    if args.enterprise.is_some() && is_netflow && !is_collecting {
        return Err(FlowError::EnterpriseInNetflow);
    }
    Ok(())
}

impl Outlets {
    /// Opens the outputs of the command line. If one of the files cannot be opened, all remain as they were.
    pub(crate) fn open(args: &FlowArgs, folders: Folders) -> Result<Self, FlowError> {
        let records = &args.records;
        // Records replace the tables on standard output.
        let is_taken = records.write.iter().any(|path| path == Path::new("-"));
        let has_tables = args.report.top > 0 && !is_taken;
        let places = places(&records.mmdb, records.oui.as_deref())?;
        let context = OutputContext {
            places,
            name: probe_name(args),
            spools: folders.spools,
            kafka: folders.kafka,
        };
        let mut outputs = Outputs::with_context(options(args), &records.export, context)?;
        let formats = records.write.iter().map(|path| FileFormat::of(path));
        let formats: Vec<_> = formats.collect::<Result<_, _>>()?;
        let files = open_files(records, has_tables)?;
        for ((path, format), file) in records.write.iter().zip(formats).zip(files) {
            outputs.add_file(path, format, move || file.emptied());
        }
        if let Some(store) = folders.store {
            #[cfg(feature = "parquet")]
            outputs.set_store(store);
            #[cfg(not(feature = "parquet"))]
            match store {}
        }
        Ok(Self {
            talkers: has_tables.then(|| Talkers::new(args.report.top)),
            outputs,
        })
    }

    /// Takes a record, with the exporter that sent it unless it was metered here.
    pub(super) fn take(&mut self, record: &FlowRecord, origin: Option<&Origin>) {
        if let Some(talkers) = &mut self.talkers {
            talkers.count(record);
        }
        self.outputs.record(record, origin);
    }

    /// Prints the tables of records since they were last printed.
    pub(crate) fn print_tables(&mut self) -> Result<(), FlowError> {
        let Some(talkers) = &mut self.talkers else {
            return Ok(());
        };
        Ok(output::print(talkers.take()).map_err(RunError::Print)?)
    }
}

impl FlowSink for Outlets {
    fn record(&mut self, record: &FlowRecord) {
        self.take(record, None);
    }
}

/// Returns the name of this probe in stores and databases.
pub(super) fn probe_name(args: &FlowArgs) -> String {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = args.store.store_name.clone().unwrap_or_else(host);
    name.trim().to_owned()
}

fn options(args: &FlowArgs) -> OutputOptions {
    let (records, meter) = (&args.records, &args.meter);
    let export = ExportOptions::default()
        .version(records.protocol.into())
        .domain(records.domain)
        .max_message(records.mtu.saturating_sub(HEADERS))
        .refresh(Some(Refresh {
            interval: records.template_interval,
            messages: records.template_messages,
        }))
        .sampling(plan::sampling(args).unwrap_or_default())
        .nanos(records.nano)
        .enterprise(records.enterprise.unwrap_or_default())
        .fields(records.fields);
    // Collected records were cut by the timeouts of their exporters.
    let is_metering = args.collect.is_none();
    let time_out = |time| if is_metering { time } else { Duration::ZERO };
    OutputOptions::default()
        .export(export)
        .form(records.kafka_value.into())
        .active(time_out(meter.active))
        .inactive(time_out(meter.inactive))
        .wait(is_metering && args.source.interface.is_none())
        .notify(|text| notice(text))
}

/// Reads and checks the databases that the command line names.
pub(crate) fn places(mmdb: &[PathBuf], oui: Option<&Path>) -> Result<Places, PlaceError> {
    let mut files = PlaceFiles::default();
    for path in mmdb {
        files.add_mmdb(path, rights::read(path))?;
    }
    if let Some(path) = oui {
        files.set_oui(path, rights::read(path))?;
    }
    Places::new(files)
}

/// Opens the files in order. `has_tables` means that tables are printed too.
fn open_files(args: &RecordArgs, has_tables: bool) -> Result<Vec<Output>, FlowError> {
    let mut opened: Vec<Output> = Vec::with_capacity(args.write.len());
    for path in &args.write {
        let twice = |other: &Path| FlowError::WrittenTwice {
            path: path.clone(),
            other: other.to_path_buf(),
        };
        let output = output::open(path, args.files.access());
        let output = output.map_err(|source| OutputError::File {
            path: path.clone(),
            source,
        })?;
        let mut before = args.write.iter().zip(&opened);
        if let Some((other, _)) = before.find(|(_, other)| other.is_same(&output)) {
            return Err(twice(other));
        }
        if has_tables && output.is_standard_output() {
            return Err(twice(Path::new("standard output")));
        }
        opened.push(output);
    }
    Ok(opened)
}
