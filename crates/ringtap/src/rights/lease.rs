//! Maps files under a lease that the helper process takes. The kernel grants a lease only to a file's owner,
//! and this process has changed its user.

use std::fs::File;
use std::io;

use ringtap_capture::{MAP_FILE, MapFile, Mapped};

use super::FILES;

/// Maps a file, with the helper's lease if there is a helper.
pub(crate) const MAP_WITH_LEASE: MapFile = MapFile(map);

fn map(file: File) -> io::Result<Box<dyn Mapped>> {
    let Some(client) = FILES.get() else {
        return (MAP_FILE.0)(file);
    };
    let leased = file.try_clone()?;
    client.lease(&leased, true)?;
    match (MAP_FILE.0)(file) {
        Ok(mapped) => Ok(Box::new(Lent {
            mapped: Some(mapped),
            leased,
        })),
        Err(error) => {
            // The file is being read; nobody should wait for it.
            let _ = client.lease(&leased, false);
            Err(error)
        }
    }
}

/// A mapped file whose lease the helper returns.
struct Lent {
    /// `None` only during drop.
    mapped: Option<Box<dyn Mapped>>,
    leased: File,
}

impl Mapped for Lent {
    fn bytes(&self) -> &[u8] {
        self.mapped.as_ref().map_or(&[], |mapped| mapped.bytes())
    }

    fn advance(&mut self, passed: usize, end: usize) -> bool {
        let mapped = self.mapped.as_mut();
        mapped.is_some_and(|mapped| mapped.advance(passed, end))
    }

    fn file(&self) -> &File {
        &self.leased
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // First the mapping: without the lease, others may change the file.
        self.mapped = None;
        if let Some(client) = FILES.get() {
            // It ends with the descriptor at the latest.
            let _ = client.lease(&self.leased, false);
        }
    }
}
