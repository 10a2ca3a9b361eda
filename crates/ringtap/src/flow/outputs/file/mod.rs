//! Files of records: CSV, JSON lines, Parquet, IPFIX. The name's ending decides.

mod columns;
mod ipfix;
#[cfg(feature = "parquet")]
mod parquet;
mod text;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ringtap_flow::FlowRecord;
use ringtap_flow::export::ExportOptions;

use super::Origin;
use super::report::FileReport;
use columns::Row;

/// Why a file of records cannot be made or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The name does not say the format.
    #[error("{}: the name must end in .csv, .json, .jsonl, .ipfix or .parquet", path.display())]
    Format { path: PathBuf },
    /// The program was built without it.
    #[cfg(not(feature = "parquet"))]
    #[error("{}: this ringtap was built without Parquet (cargo feature parquet)", path.display())]
    NoParquet { path: PathBuf },
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl FileError {
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}

/// A format.
trait Format: Send {
    /// Writes a record.
    fn record(&mut self, row: &Row<'_>) -> io::Result<()>;

    /// Writes what waits and what ends the file.
    fn finish(&mut self) -> io::Result<()>;
}

/// A file that is written.
pub(super) struct RecordFile {
    path: PathBuf,
    format: Box<dyn Format>,
    records: u64,
    /// After an error nothing more is written: the file ends where it is.
    broken: bool,
}

impl RecordFile {
    /// Makes the file, in the format that its name says; `-` is JSON lines on standard output.
    pub(super) fn create(path: &Path, options: &ExportOptions) -> Result<Self, FileError> {
        let failed = |source| FileError::Io {
            path: path.to_path_buf(),
            source,
        };
        let open = || -> Result<Box<dyn Write + Send>, FileError> {
            if path == Path::new("-") {
                return Ok(Box::new(io::stdout()));
            }
            let file = File::create(path).map_err(failed)?;
            Ok(Box::new(BufWriter::with_capacity(1 << 16, file)))
        };
        let ending = path.extension().and_then(|ending| ending.to_str());
        let format: Box<dyn Format> = match ending {
            _ if path == Path::new("-") => Box::new(text::JsonLines::new(open()?)),
            Some("json" | "jsonl" | "ndjson") => Box::new(text::JsonLines::new(open()?)),
            Some("csv") => Box::new(text::Csv::new(open()?).map_err(failed)?),
            Some("ipfix") => Box::new(ipfix::Ipfix::new(open()?, options).map_err(failed)?),
            #[cfg(feature = "parquet")]
            Some("parquet") => Box::new(parquet::Parquet::new(open()?).map_err(failed)?),
            #[cfg(not(feature = "parquet"))]
            Some("parquet") => {
                let path = path.to_path_buf();
                return Err(FileError::NoParquet { path });
            }
            _ => {
                let path = path.to_path_buf();
                return Err(FileError::Format { path });
            }
        };
        Ok(Self {
            path: path.to_path_buf(),
            format,
            records: 0,
            broken: false,
        })
    }

    pub(super) fn record(
        &mut self,
        record: &FlowRecord,
        sampling: u32,
        origin: Option<&Origin>,
    ) -> Result<(), FileError> {
        if self.broken {
            return Ok(());
        }
        let row = Row {
            record,
            sampling,
            origin,
        };
        let written = self.format.record(&row);
        self.checked(written)?;
        self.records += 1;
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), FileError> {
        if self.broken {
            return Ok(());
        }
        let finished = self.format.finish();
        self.checked(finished)
    }

    fn checked(&mut self, result: io::Result<()>) -> Result<(), FileError> {
        result.map_err(|source| {
            self.broken = true;
            FileError::Io {
                path: self.path.clone(),
                source,
            }
        })
    }

    pub(super) fn report(&self) -> FileReport {
        FileReport {
            file: self.path.display().to_string(),
            records: self.records,
        }
    }
}
