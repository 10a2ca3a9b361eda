//! Files of records: CSV, JSON lines, Parquet, IPFIX. The name's ending decides.

mod columns;
mod ipfix;
#[cfg(feature = "parquet")]
mod parquet;
mod text;

use std::io::{self, BufWriter, LineWriter, Write};
use std::path::{Path, PathBuf};

use ringtap_flow::FlowRecord;
use ringtap_flow::export::{ExportOptions, Statistics};

use super::Origin;
use super::report::FileReport;
use crate::cli::RecordArgs;
use crate::output::Output;
use columns::Row;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 16;

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
    /// Two names of one file.
    #[error("{}: is written to already, as {}", path.display(), other.display())]
    Twice { path: PathBuf, other: PathBuf },
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

    /// What the statistics say that stand in the file, where its format has any.
    fn set_statistics(&mut self, _statistics: Statistics) {}

    /// Writes what waits and what ends the file.
    fn finish(&mut self) -> io::Result<()>;
}

/// What a name says of the format.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Json,
    Csv,
    Ipfix,
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Kind {
    fn of(path: &Path) -> Result<Self, FileError> {
        if path == Path::new("-") {
            return Ok(Self::Json);
        }
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json" | "jsonl" | "ndjson") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            Some("ipfix") => Ok(Self::Ipfix),
            #[cfg(feature = "parquet")]
            Some("parquet") => Ok(Self::Parquet),
            #[cfg(not(feature = "parquet"))]
            Some("parquet") => Err(FileError::NoParquet {
                path: path.to_path_buf(),
            }),
            _ => Err(FileError::Format {
                path: path.to_path_buf(),
            }),
        }
    }

    /// Writes what a file of the format begins with.
    fn begin(self, output: Output, options: &ExportOptions) -> io::Result<Box<dyn Format>> {
        // Whoever reads standard output waits for the lines.
        let is_standard = output.is_standard();
        let file = output.emptied()?;
        let output: Box<dyn Write + Send> = if is_standard {
            Box::new(LineWriter::new(file))
        } else {
            Box::new(BufWriter::with_capacity(BUFFER, file))
        };
        Ok(match self {
            Self::Json => Box::new(text::JsonLines::new(output)),
            Self::Csv => Box::new(text::Csv::new(output)?),
            Self::Ipfix => Box::new(ipfix::Ipfix::new(output, options)?),
            #[cfg(feature = "parquet")]
            Self::Parquet => Box::new(parquet::Parquet::new(output)?),
        })
    }
}

fn failed(path: &Path, source: io::Error) -> FileError {
    FileError::Io {
        path: path.to_path_buf(),
        source,
    }
}

/// Opens the files in order. When one of them cannot be opened, all are as they were.
fn open_all(args: &RecordArgs) -> Result<Vec<Output>, FileError> {
    let mut opened: Vec<Output> = Vec::with_capacity(args.write.len());
    for path in &args.write {
        let output = Output::open(path, args.files.access());
        let output = output.map_err(|source| failed(path, source))?;
        let mut before = args.write.iter().zip(&opened);
        if let Some((other, _)) = before.find(|(_, other)| other.is_same(&output)) {
            return Err(FileError::Twice {
                path: path.clone(),
                other: other.clone(),
            });
        }
        opened.push(output);
    }
    Ok(opened)
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
    /// Makes the files, each in the format that its name says; `-` is JSON lines on standard output.
    /// Where one of them cannot be, the others are as they were.
    pub(super) fn create_all(
        args: &RecordArgs,
        options: &ExportOptions,
    ) -> Result<Vec<Self>, FileError> {
        let paths = &args.write;
        let kinds = paths.iter().map(|path| Kind::of(path));
        let kinds: Vec<Kind> = kinds.collect::<Result<_, _>>()?;
        let files = open_all(args)?;
        let files = paths.iter().zip(kinds).zip(files);
        files
            .map(|((path, kind), output)| {
                let format = kind.begin(output, options);
                Ok(Self {
                    path: path.clone(),
                    format: format.map_err(|source| failed(path, source))?,
                    records: 0,
                    broken: false,
                })
            })
            .collect()
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

    pub(super) fn set_statistics(&mut self, statistics: Statistics) {
        self.format.set_statistics(statistics);
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
            failed(&self.path, source)
        })
    }

    pub(super) fn report(&self) -> FileReport {
        FileReport {
            file: self.path.display().to_string(),
            records: self.records,
        }
    }
}
