//! Files of records: CSV, JSON lines, Parquet, IPFIX. The name's ending decides.

mod columns;
mod ipfix;
#[cfg(feature = "parquet")]
mod parquet;
mod text;
mod whole;

use std::io;
#[cfg(feature = "parquet")]
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use ringtap_flow::FlowRecord;
use ringtap_flow::export::{ExportOptions, Statistics};

use super::Origin;
use super::report::FileReport;
use crate::cli::RecordArgs;
use crate::output::Output;
use columns::Row;
use whole::Whole;

/// Bytes that are written at once.
#[cfg(feature = "parquet")]
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
    Io { path: PathBuf, r#source: io::Error },
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

    /// Writes what waits, as far as the format can.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Writes what waits and what ends the file.
    fn finish(&mut self) -> io::Result<()>;

    /// Records that whoever reads the file finds in it, once it is finished or has failed.
    fn records(&self) -> u64;
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
        let (is_standard, is_file) = (output.is_standard(), output.is_file());
        let file = output.emptied()?;
        #[cfg(feature = "parquet")]
        if matches!(self, Self::Parquet) {
            let file = BufWriter::with_capacity(BUFFER, file);
            return Ok(Box::new(parquet::Parquet::new(file)?));
        }
        // Whoever reads standard output waits for the lines.
        let output = match is_standard {
            true => Whole::at_once(file),
            false => Whole::new(file, is_file),
        };
        Ok(match self {
            Self::Csv => Box::new(text::TextLines::csv(output)?),
            Self::Ipfix => Box::new(ipfix::Ipfix::new(output, options)?),
            _ => Box::new(text::TextLines::json(output)),
        })
    }
}

fn failed(path: &Path, source: io::Error) -> FileError {
    FileError::Io {
        path: path.to_path_buf(),
        source,
    }
}

/// Opens the files in order; `tables` tells whether something is printed beside them. When one of them cannot be opened, all are as they were.
fn open_all(args: &RecordArgs, tables: bool) -> Result<Vec<Output>, FileError> {
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
        if tables && output.is_standard_output() {
            return Err(FileError::Twice {
                path: path.clone(),
                other: "standard output".into(),
            });
        }
        opened.push(output);
    }
    Ok(opened)
}

/// A file that is written.
pub(super) struct RecordFile {
    path: PathBuf,
    kind: Kind,
    options: ExportOptions,
    state: State,
}

enum State {
    /// It is open, and holds what it held.
    Waiting(Output),
    Begun(Box<dyn Format>),
    /// After an error nothing more is written: the file ends where it is.
    Broken {
        /// Records in it.
        records: u64,
    },
}

impl RecordFile {
    /// Opens the files, each for the format that its name says; `-` is JSON lines on standard output.
    /// Where one of them cannot be, the others are as they were.
    pub(super) fn open_all(
        args: &RecordArgs,
        options: &ExportOptions,
        tables: bool,
    ) -> Result<Vec<Self>, FileError> {
        let kinds = args.write.iter().map(|path| Kind::of(path));
        let kinds: Vec<Kind> = kinds.collect::<Result<_, _>>()?;
        let outputs = open_all(args, tables)?;
        let files = args.write.iter().zip(kinds).zip(outputs);
        let files = files.map(|((path, kind), output)| Self {
            path: path.clone(),
            kind,
            options: *options,
            state: State::Waiting(output),
        });
        Ok(files.collect())
    }

    /// Begins the file, unless it is: it holds nothing any more that it held before.
    pub(super) fn begin(&mut self) -> Result<(), FileError> {
        match std::mem::replace(&mut self.state, State::Broken { records: 0 }) {
            State::Waiting(output) => {
                let begun = self.kind.begin(output, &self.options);
                self.state = State::Begun(begun.map_err(|source| failed(&self.path, source))?);
            }
            other => self.state = other,
        }
        Ok(())
    }

    pub(super) fn record(
        &mut self,
        record: &FlowRecord,
        sampling: u32,
        origin: Option<&Origin>,
    ) -> Result<(), FileError> {
        let row = Row {
            record,
            sampling,
            origin,
        };
        self.with(|format| format.record(&row))
    }

    pub(super) fn set_statistics(&mut self, statistics: Statistics) {
        if let State::Begun(format) = &mut self.state {
            format.set_statistics(statistics);
        }
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> Result<(), FileError> {
        self.with(|format| format.flush())
    }

    pub(super) fn finish(&mut self) -> Result<(), FileError> {
        self.with(|format| format.finish())
    }

    fn with(
        &mut self,
        write: impl FnOnce(&mut dyn Format) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let State::Begun(format) = &mut self.state else {
            return Ok(());
        };
        let Err(source) = write(&mut **format) else {
            return Ok(());
        };
        let records = format.records();
        self.state = State::Broken { records };
        Err(failed(&self.path, source))
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
