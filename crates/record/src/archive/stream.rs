//! A device's files in an archive: the host of its recording.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringtap_savefile::Timestamp;
use ringtap_savefile::index::SeekPoint;
use ringtap_sys::output::Output;

use super::{Archive, name, name_of};
use crate::host::{Host, Note, WrittenChunk};

/// A file that is complete and waits for its index.
#[derive(Debug)]
pub struct Completed {
    /// Its path.
    pub path: PathBuf,
    /// The offsets at which reading can start.
    pub seek_points: Vec<SeekPoint>,
}

/// Takes complete files, and notices. It must not wait.
pub type Taker<T> = Box<dyn Fn(T) + Send + Sync>;

/// A device's files in an archive.
pub struct Stream {
    archive: Arc<Archive>,
    device: String,
    complete: Taker<Completed>,
    note: Taker<String>,
}

impl Stream {
    /// Returns the host of a device's recording. `complete` takes each complete file for which there is room
    /// for an index; whoever makes it calls [`Archive::indexed`] then.
    #[must_use]
    pub fn new(
        archive: Arc<Archive>,
        device: &str,
        complete: Taker<Completed>,
        note: Taker<String>,
    ) -> Self {
        Self {
            archive,
            device: name::safe(device),
            complete,
            note,
        }
    }

    /// Returns the device as file names have it.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }
}

fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a name of the recorder")
}

impl Host for Stream {
    fn open(&self, path: &Path) -> io::Result<Output> {
        let name = name_of(path).ok_or_else(foreign)?;
        self.archive.check_place()?;
        let output = self.archive.files.write(path)?;
        self.archive.begin(name)?;
        Ok(output)
    }

    fn name(&self, time: Timestamp) -> Option<PathBuf> {
        Some(self.archive.name(&self.device, time))
    }

    fn admit(&self, path: &Path, end: u64) -> io::Result<()> {
        let name = name_of(path).ok_or_else(foreign)?;
        self.archive.admit(name.number, end)
    }

    fn wants_chunks(&self) -> bool {
        true
    }

    fn landed(&self, path: &Path, chunk: &WrittenChunk) {
        if let Some(name) = name_of(path) {
            self.archive.landed(name.number, chunk);
        }
    }

    fn wants_seek_points(&self) -> bool {
        self.archive.options.index
    }

    fn complete(&self, path: PathBuf, seek_points: Vec<SeekPoint>) {
        let Some(name) = name_of(&path) else { return };
        if self.archive.complete(&path, name.number) {
            (self.complete)(Completed { path, seek_points });
        }
    }

    fn note(&self, note: &Note) {
        (self.note)(note.to_string());
    }
}
