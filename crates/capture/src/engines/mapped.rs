//! Files that are read in the kernel's page cache.

use std::fs::File;
use std::io;

use ringtap_savefile::{MapFile, Mapped};
use ringtap_sys::map::FileMap;

/// Maps a file with a lease from the kernel, see [`FileMap`].
pub const MAP_FILE: MapFile = MapFile(map);

fn map(file: File) -> io::Result<Box<dyn Mapped>> {
    let map = FileMap::new(file).map_err(|error| error.source)?;
    Ok(Box::new(Leased(map)))
}

struct Leased(FileMap);

impl Mapped for Leased {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn advance(&mut self, passed: usize, end: usize) -> bool {
        self.0.pass(passed);
        self.0.reach(end).is_ok()
    }

    fn file(&self) -> &File {
        self.0.file()
    }
}
