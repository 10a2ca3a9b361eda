//! `--index`: makes indices of existing or just completed files.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use ringtap_capture::index::{
    Built, IndexOptions, IndexUse, SeekPoint, build_index, is_index, path_for,
};
use ringtap_record::RecordError;

use super::error::{DumpError, UsageError};
use crate::cli::DumpArgs;
use crate::input::InputError;
use crate::notice::{counted, notice};
use crate::output::{self, Access, Output};
use crate::over_ip;
use crate::rights;

/// An index that will be made when the capture is complete. Both files are already open: later the privilege
/// may be gone.
pub(crate) struct Index {
    capture: File,
    name: String,
    path: PathBuf,
    output: Option<Output>,
}

/// A file's size and modification time, which change if it is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64, i64, i64);

impl Version {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        Self(metadata.len(), metadata.mtime(), metadata.mtime_nsec())
    }
}

impl Index {
    /// Prepares the index of an existing capture file. A file with the index's name is overwritten only if it
    /// is an index, and only once the new index is ready.
    pub(crate) fn prepare(capture: &Path, access: Access) -> Result<Self, DumpError> {
        let unreadable = |source| InputError::Read {
            path: capture.to_owned(),
            source,
        };
        let file = rights::read(capture).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let kind = metadata.file_type();
        if kind.is_fifo() || kind.is_char_device() || kind.is_socket() {
            return Err(DumpError::Usage(UsageError::IndexOfNoFile));
        }
        let path = path_for(capture);
        let failed = |source| RecordError::Create {
            path: path.clone(),
            source,
            earlier: 0,
        };
        let output = output::open_readable(&path, access).map_err(failed)?;
        if !output.file().and_then(is_to_be_written).map_err(failed)? {
            return Err(DumpError::NoIndex { path });
        }
        Ok(Self {
            capture: file,
            name: capture.display().to_string(),
            path,
            output: Some(output),
        })
    }

    /// Returns the capture's present state. `None` if it is unknown.
    pub(crate) fn version(&self) -> Option<Version> {
        self.capture.metadata().ok().as_ref().map(Version::of)
    }

    /// Makes the index of the complete capture. `chunks` are offsets at which reading can start; `past_cache`
    /// says that it was written past the page cache.
    pub(crate) fn make(
        &mut self,
        chunks: Vec<SeekPoint>,
        past_cache: bool,
    ) -> Result<Built, DumpError> {
        let Some(output) = self.output.take() else {
            return Err(DumpError::Usage(UsageError::IndexOfNoFile));
        };
        let mut options = IndexOptions::default();
        options.chunks = chunks;
        options.past_cache = past_cache;
        let mut begun = false;
        let output = || {
            begun = true;
            output.emptied()
        };
        let built = build_index(&self.capture, &self.name, output, &options);
        if built.is_err() && begun {
            // Without the privilege to remove it, a file remains that nobody takes for an index.
            let _ = rights::remove(&self.path);
        }
        Ok(built?)
    }
}

/// Returns whether nothing is lost when the file is written: it is empty, or an index.
fn is_to_be_written(file: &File) -> std::io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(false);
    }
    let mut start = [0; 8];
    let read = file.read_at(&mut start, 0)?;
    Ok(metadata.len() == 0 || is_index(&start[..read]))
}
/// Makes the indices of the files, and nothing else: `-r FILE --index`.
pub(crate) fn of_files(args: &DumpArgs, paths: &[PathBuf]) -> Result<(), DumpError> {
    let chosen = !args.expression.filter.is_empty()
        || args.expression.filter_file.is_some()
        || args.count.is_some()
        || args.snaplen.is_some()
        || args.capture.sample.is_some()
        || args.range.from.is_some()
        || args.range.to.is_some();
    if chosen {
        return Err(DumpError::Usage(UsageError::IndexOfAll));
    }
    if paths
        .iter()
        .any(|path| path.as_os_str() == "-" || over_ip::is_server(path))
    {
        return Err(DumpError::Usage(UsageError::IndexOfNoFile));
    }
    for path in paths {
        let built = Index::prepare(path, args.files.access())?.make(Vec::new(), false)?;
        notice(format_args!(
            "{}: {} in an index of {} bytes",
            path_for(path).display(),
            covered(built.packets, built.of),
            built.bytes
        ));
        if let Some(damage) = built.damage {
            return Err(ringtap_capture::Error::from(damage).into());
        }
    }
    Ok(())
}

/// Returns how many packets an index covers.
fn covered(packets: u64, of: u64) -> String {
    if packets == of {
        return counted(packets, "packet");
    }
    let all = counted(of, "packet");
    format!("{packets} of {all} (stretches that are too short to be passed over are always read)")
}

/// Reports a problem with an index. Returns the number of skipped packets.
pub(crate) fn tell(used: &IndexUse) -> u64 {
    match used {
        IndexUse::None => 0,
        IndexUse::Used { packets, .. } => *packets,
        IndexUse::Ignored { path, reason } => {
            let path = path.display();
            notice(format_args!("{path}: {reason}; searching without it"));
            0
        }
    }
}
