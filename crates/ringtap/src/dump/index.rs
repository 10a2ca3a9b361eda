//! `--index`: indices of what is written, or of files that are there.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use ringtap_capture::index::{Built, IndexOptions, IndexUse, build_index, path_for};

use super::error::{DumpError, UsageError};
use crate::cli::DumpArgs;
use crate::notice::notice;

/// An index to be made when the capture is complete. Both files are open already: later there may be
/// no right to open them.
pub(crate) struct Index {
    capture: File,
    name: String,
    path: PathBuf,
    output: Option<File>,
}

impl Index {
    /// Prepares the index of a capture file that exists.
    pub(crate) fn prepare(capture: &Path) -> Result<Self, DumpError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| DumpError::Create {
                path,
                source,
                earlier: 0,
            }
        };
        let file = File::open(capture).map_err(failed(capture))?;
        let metadata = file.metadata().map_err(failed(capture))?;
        let kind = metadata.file_type();
        if kind.is_fifo() || kind.is_char_device() || kind.is_socket() {
            return Err(DumpError::Usage(UsageError::IndexOfNoFile));
        }
        let path = path_for(capture);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let output = options.open(&path).map_err(failed(&path))?;
        Ok(Self {
            capture: file,
            name: capture.display().to_string(),
            path,
            output: Some(output),
        })
    }

    /// Makes the index, the capture being complete.
    pub(crate) fn make(mut self) -> Result<Built, DumpError> {
        let Some(output) = self.output.take() else {
            return Err(DumpError::Usage(UsageError::IndexOfNoFile));
        };
        let built = build_index(&self.capture, &self.name, output, &IndexOptions::default());
        if built.is_err() {
            remove(&self.path);
        }
        Ok(built?)
    }
}

impl Drop for Index {
    /// The capture has failed: what would be its index is none.
    fn drop(&mut self) {
        if self.output.is_some() {
            remove(&self.path);
        }
    }
}

fn remove(path: &Path) {
    // Where the right to is gone, an index stays that nobody takes for one.
    let _ = fs::remove_file(path);
}

/// `-r FILE --index`: makes the indices of the files, and nothing else.
pub(crate) fn of_files(args: &DumpArgs, paths: &[PathBuf]) -> Result<(), DumpError> {
    let chosen = !args.filter.is_empty()
        || args.filter_file.is_some()
        || args.count.is_some()
        || args.snaplen.is_some()
        || args.capture.sample.is_some()
        || args.range.from.is_some()
        || args.range.to.is_some();
    if chosen {
        return Err(DumpError::Usage(UsageError::IndexOfAll));
    }
    for path in paths {
        if path.as_os_str() == "-" {
            return Err(DumpError::Usage(UsageError::IndexOfNoFile));
        }
        let built = Index::prepare(path)?.make()?;
        notice(format_args!(
            "{}: {} packets in an index of {} bytes",
            path_for(path).display(),
            built.packets,
            built.bytes
        ));
        if let Some(damage) = built.damage {
            return Err(DumpError::Capture(damage.into()));
        }
    }
    Ok(())
}

/// Says what was wrong with an index; gives the packets that are passed over.
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
