//! Files of records: CSV, JSON lines, Parquet, IPFIX, Protocol Buffers. The name's ending selects the format.

mod ipfix;
#[cfg(feature = "parquet")]
mod parquet;
mod pieces;
mod text;
mod whole;

use std::fs::File;
use std::io;
#[cfg(feature = "parquet")]
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use ringtap_flow::export::{ExportOptions, Statistics};
use ringtap_flow::schema::Row;

use crate::{FileReport, OutputError};
#[cfg(feature = "kafka")]
pub(crate) use text::write_json;
use whole::Whole;

/// The number of bytes that are written at once.
#[cfg(feature = "parquet")]
const BUFFER: usize = 1 << 16;

/// A file format.
trait Format: Send {
    /// Writes a record.
    fn record(&mut self, row: &Row<'_>) -> io::Result<()>;

    /// Sets the statistics in the file, if its format has any.
    fn set_statistics(&mut self, _statistics: Statistics) {}

    /// Writes the waiting records, as far as the format allows it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Writes the waiting records and the end of the file.
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }

    /// Returns the number of records in the file, once it is finished or has failed.
    fn records(&self) -> u64;
}

/// The format of a file of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// JSON lines: one object per record and line.
    Json,
    /// Comma-separated values (RFC 4180).
    Csv,
    /// IPFIX messages in a file (RFC 5655).
    Ipfix,
    /// Messages of Protocol Buffers, each behind its length.
    Protobuf,
    /// Apache Parquet.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl FileFormat {
    /// Returns the format for the ending of a file's name. `-` is JSON lines.
    ///
    /// # Errors
    /// The ending is unknown, or the feature of its format is off.
    pub fn of(path: &Path) -> Result<Self, OutputError> {
        if path == Path::new("-") {
            return Ok(Self::Json);
        }
        let path_buf = || path.to_path_buf();
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json" | "jsonl" | "ndjson") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            Some("ipfix") => Ok(Self::Ipfix),
            Some("pb") => Ok(Self::Protobuf),
            #[cfg(feature = "parquet")]
            Some("parquet") => Ok(Self::Parquet),
            #[cfg(not(feature = "parquet"))]
            Some("parquet") => Err(OutputError::NoParquet { path: path_buf() }),
            _ => Err(OutputError::UnknownFormat { path: path_buf() }),
        }
    }

    /// Writes the beginning of a file of this format.
    fn begin(
        self,
        file: File,
        is_standard: bool,
        options: &ExportOptions,
        exporter: &str,
    ) -> io::Result<Box<dyn Format>> {
        #[cfg(feature = "parquet")]
        if matches!(self, Self::Parquet) {
            let file = BufWriter::with_capacity(BUFFER, file);
            return Ok(Box::new(parquet::Parquet::new(file, options.fields)?));
        }
        let mut output = Whole::new(file, is_standard);
        let write = match self {
            Self::Ipfix => return Ok(Box::new(ipfix::Ipfix::new(output, options)?)),
            Self::Csv => text::csv(&mut output, options.fields)?,
            Self::Protobuf => pieces::messages(options.fields, exporter),
            _ => text::json(options.fields),
        };
        Ok(Box::new(pieces::Pieces {
            output,
            piece: Vec::new(),
            write,
        }))
    }
}

/// Returns an open file, without its former content.
pub(super) type Open = Box<dyn FnOnce() -> io::Result<File> + Send>;

/// A file that is being written.
pub(super) struct RecordFile {
    path: PathBuf,
    format: FileFormat,
    options: ExportOptions,
    /// The name of this probe.
    exporter: String,
    state: State,
}

enum State {
    /// The file still has its former content.
    Waiting(Open),
    Begun(Box<dyn Format>),
    /// After an error nothing more is written: the file ends there.
    Broken {
        /// The number of records in it.
        records: u64,
    },
}

impl RecordFile {
    pub(super) fn new(
        path: &Path,
        format: FileFormat,
        (options, exporter): (&ExportOptions, &str),
        open: Open,
    ) -> Self {
        Self {
            path: path.to_path_buf(),
            format,
            options: *options,
            exporter: exporter.to_owned(),
            state: State::Waiting(open),
        }
    }

    /// Starts the file, unless it was started. Its former content is removed.
    pub(super) fn begin(&mut self) -> Result<(), OutputError> {
        match std::mem::replace(&mut self.state, State::Broken { records: 0 }) {
            State::Waiting(open) => {
                let is_standard = self.path == Path::new("-");
                let begin = |file| {
                    self.format
                        .begin(file, is_standard, &self.options, &self.exporter)
                };
                let begun = open().and_then(begin);
                self.state = State::Begun(begun.map_err(|source| self.failed(source))?);
            }
            other => self.state = other,
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> OutputError {
        OutputError::File {
            path: self.path.clone(),
            source,
        }
    }

    pub(super) fn record(&mut self, row: &Row<'_>) -> Result<(), OutputError> {
        self.with(|format| format.record(row))
    }

    pub(super) fn set_statistics(&mut self, statistics: Statistics) {
        if let State::Begun(format) = &mut self.state {
            format.set_statistics(statistics);
        }
    }

    /// Writes the waiting records.
    pub(super) fn flush(&mut self) -> Result<(), OutputError> {
        self.with(|format| format.flush())
    }

    pub(super) fn finish(&mut self) -> Result<(), OutputError> {
        self.with(|format| format.finish())
    }

    fn with(
        &mut self,
        write: impl FnOnce(&mut dyn Format) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let State::Begun(format) = &mut self.state else {
            return Ok(());
        };
        let Err(source) = write(&mut **format) else {
            return Ok(());
        };
        let records = format.records();
        self.state = State::Broken { records };
        Err(self.failed(source))
    }

    pub(super) fn report(&self) -> FileReport {
        let records = match &self.state {
            State::Waiting(_) => 0,
            State::Begun(format) => format.records(),
            State::Broken { records } => *records,
        };
        FileReport {
            file: self.path.display().to_string(),
            records,
        }
    }
}
