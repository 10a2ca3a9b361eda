//! All outputs of a run: collectors ([`crate::export`]) and files ([`crate::file`]).
//!
//! If a collector is down, its records are lost and counted. If a file cannot be written, the run ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap_flow::FlowRecord;
use ringtap_flow::export::{ExportOptions, Statistics};

use crate::export::{Exporters, Spools};
use crate::file::RecordFile;
use crate::places::Places;
#[cfg(feature = "parquet")]
use crate::store::Store;
use crate::{
    Access, CollectorAddress, FileFormat, KafkaSettings, MessageForm, Origin, OutputError,
    OutputReport,
};

/// In a live run, records go to the files after this time at the latest.
const FLUSH: Duration = Duration::from_secs(1);

ringtap_packet::options! {
    /// Options of [`Outputs`].
    #[derive(Clone, Copy, Debug)]
    pub struct OutputOptions {
        /// Options of the protocol. Over TCP and in files, messages are longer and templates are not
        /// repeated.
        pub export: ExportOptions,
        /// The form of messages to Kafka.
        pub form: MessageForm,
        /// The timeouts of the meter, which the exported statistics contain.
        pub active: Duration,
        /// The inactive timeout.
        pub inactive: Duration,
        /// Whether to wait for a slow collector: yes if records come from a file, no if packets would be lost in
        /// the meantime. Without waiting, records are lost and counted.
        pub wait: bool,
        /// Takes a message for people each time a collector becomes unreachable, or reachable again.
        pub notify: fn(&str),
    }
}

impl Default for OutputOptions {
    /// Returns the defaults: IPFIX, without waiting; messages for people are dropped.
    fn default() -> Self {
        Self {
            export: ExportOptions::default(),
            form: MessageForm::Json,
            active: Duration::ZERO,
            inactive: Duration::ZERO,
            wait: false,
            notify: |_| (),
        }
    }
}

/// Things that collectors need beside the options.
#[derive(Default)]
pub struct OutputContext {
    /// The entries of databases about addresses.
    pub places: Places,
    /// The name of this probe, in files and databases that take the records of many.
    pub name: String,
    /// Where batches for databases wait; those without a spool wait in memory.
    pub spools: Spools,
    /// Settings of Kafka's client.
    pub kafka: KafkaSettings,
}

/// Where batches for databases wait while the server is away.
#[derive(Clone, Debug)]
pub struct SpoolOptions {
    /// The folder; it is created if it does not exist.
    pub folder: PathBuf,
    /// The most bytes that the batches for one database may take.
    pub size: u64,
    /// The users that may read the files.
    pub access: Access,
}

/// Collectors and files that records go to.
pub struct Outputs {
    exporters: Option<Exporters>,
    files: Vec<RecordFile>,
    #[cfg(feature = "parquet")]
    store: Option<Store>,
    options: OutputOptions,
    places: Arc<Places>,
    /// The name of this probe.
    name: String,
    /// When the waiting records were last written to the files.
    flushed: Instant,
    failed: Option<OutputError>,
}

impl Outputs {
    /// Opens sockets to the collectors.
    ///
    /// # Errors
    /// The protocol cannot express the options, or a socket cannot be made.
    pub fn new(
        options: OutputOptions,
        collectors: &[CollectorAddress],
    ) -> Result<Self, OutputError> {
        Self::with_context(options, collectors, OutputContext::default())
    }

    /// Opens sockets to the collectors.
    ///
    /// # Errors
    /// As [`Outputs::new`].
    pub fn with_context(
        options: OutputOptions,
        collectors: &[CollectorAddress],
        mut context: OutputContext,
    ) -> Result<Self, OutputError> {
        let places = Arc::new(context.places);
        let is_exporting = !collectors.is_empty();
        let own = (&*context.name, &mut context.spools, &context.kafka);
        let exporters = is_exporting.then(|| Exporters::open(collectors, &options, &places, own));
        Ok(Self {
            exporters: exporters.transpose()?,
            files: Vec::new(),
            #[cfg(feature = "parquet")]
            store: None,
            options,
            places,
            name: context.name,
            flushed: Instant::now(),
            failed: None,
        })
    }

    /// Adds a file. `open` is called by [`Outputs::begin`], and returns the file without content.
    /// For the path `-`, standard output, each record is written at once.
    pub fn add_file(
        &mut self,
        path: &Path,
        format: FileFormat,
        open: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) {
        let file = RecordFile::new(
            path,
            format,
            (&self.options.export, &self.name),
            Box::new(open),
        );
        self.files.push(file);
    }

    /// Adds a store. Records go to it once [`Outputs::begin`] was called.
    #[cfg(feature = "parquet")]
    pub fn set_store(&mut self, store: Store) {
        self.store = Some(store);
    }

    /// Begins the files. Call it before the first record.
    ///
    /// # Errors
    /// A file cannot be opened or written.
    pub fn begin(&mut self) -> Result<(), OutputError> {
        for file in &mut self.files {
            file.begin()?;
        }
        #[cfg(feature = "parquet")]
        if let Some(store) = &mut self.store {
            store.begin()?;
        }
        // Timeouts are known from the beginning.
        self.set_statistics(0, 0);
        Ok(())
    }

    /// Takes a record, with the exporter that sent it unless it was metered here. An error is returned
    /// by the next [`Outputs::advance`].
    pub fn record(&mut self, record: &FlowRecord, origin: Option<&Origin>) {
        let mut row = self.places.row(record);
        row.origin = origin;
        let own = self.options.export.sampling.one_in.get();
        row.sampling = origin.map_or(own, |origin| origin.sampling);
        if let Some(exporters) = &mut self.exporters {
            exporters.record(&row);
        }
        for file in &mut self.files {
            if let Err(error) = file.record(&row) {
                self.failed.get_or_insert(error);
            }
        }
        #[cfg(feature = "parquet")]
        if let Some(store) = &mut self.store {
            store.record(&row);
        }
    }

    /// Keeps the first error of a file.
    fn each_file(&mut self, mut work: impl FnMut(&mut RecordFile) -> Result<(), OutputError>) {
        for file in &mut self.files {
            if let Err(error) = work(file) {
                self.failed.get_or_insert(error);
            }
        }
    }

    /// Sets the time by the clock of the packets, in nanoseconds since 1970. Messages that have waited
    /// are sent, templates are repeated.
    ///
    /// # Errors
    /// A file could not be written since the last call.
    pub fn advance(&mut self, now_ns: u64) -> Result<(), OutputError> {
        if let Some(exporters) = &mut self.exporters {
            exporters.advance(now_ns);
        }
        if !self.options.wait && self.flushed.elapsed() >= FLUSH {
            self.flushed = Instant::now();
            self.each_file(RecordFile::flush);
        }
        #[cfg(feature = "parquet")]
        if let Some(store) = &mut self.store {
            store.advance();
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Writes the records that came to the log of the store, if it has one.
    pub fn log(&mut self) {
        #[cfg(feature = "parquet")]
        if let Some(store) = &mut self.store {
            store.flush_log();
        }
    }

    /// Sets the numbers that the exported statistics contain: flows metered, and packets that were not.
    pub fn set_statistics(&mut self, observed_flows: u64, ignored_packets: u64) {
        let seconds = |time: Duration| u16::try_from(time.as_secs()).unwrap_or(u16::MAX);
        let statistics = Statistics {
            active_timeout: seconds(self.options.active),
            idle_timeout: seconds(self.options.inactive),
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

    /// Sends and writes everything that waits, and ends the files as their formats require.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn finish(&mut self) -> Result<(), OutputError> {
        if let Some(exporters) = &mut self.exporters {
            exporters.finish();
        }
        self.each_file(RecordFile::finish);
        #[cfg(feature = "parquet")]
        if let Some(Err(error)) = self.store.as_mut().map(Store::finish) {
            self.failed.get_or_insert(error);
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Returns the counters of all outputs.
    pub fn report(&self) -> OutputReport {
        let exports = self.exporters.as_ref().map(Exporters::report);
        OutputReport {
            exports: exports.unwrap_or_default(),
            files: self.files.iter().map(RecordFile::report).collect(),
            #[cfg(feature = "parquet")]
            store: self.store.as_ref().map(Store::report),
        }
    }
}
