//! Compares the chunks of an archive with their checksums.

use std::io;
use std::path::Path;

use super::chunks;
use super::entry::Chunk;
use super::files::Files;
use super::listing::Listing;
use super::name::FileName;

/// A result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A chunk is not what was written.
    Damaged {
        /// The file.
        name: FileName,
        /// The chunk.
        chunk: Chunk,
    },
    /// A file is missing or cannot be read.
    Unreadable {
        /// The file.
        name: FileName,
        /// The system's error.
        error: String,
    },
    /// The chunks of a file are not listed, so that they cannot be compared.
    Unlisted {
        /// The file.
        name: FileName,
    },
    /// A file was compared.
    Checked {
        /// The file.
        name: FileName,
        /// The number of chunks.
        chunks: u64,
        /// The number of bytes.
        bytes: u64,
    },
}

/// Compares all chunks of the listed files, and passes each result to `found`; if it returns false, the check
/// ends.
///
/// # Errors
/// The check cannot go on.
pub fn check(
    files: &dyn Files,
    folder: &Path,
    listing: &Listing,
    found: &mut dyn FnMut(Finding) -> bool,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    for listed in &listing.files {
        let name = || listed.name.clone();
        let reading = listed
            .is_listed()
            .then(|| files.read(&listed.name.path(folder)));
        let finding = match reading {
            None => Finding::Unlisted { name: name() },
            Some(Err(error)) => Finding::Unreadable {
                name: name(),
                error: error.to_string(),
            },
            Some(Ok(file)) => {
                for &chunk in &listed.chunks {
                    let is_whole = chunks::read_chunk(&file, &chunk, &mut bytes)?;
                    let name = name();
                    if !is_whole && !found(Finding::Damaged { name, chunk }) {
                        return Ok(());
                    }
                }
                Finding::Checked {
                    name: name(),
                    chunks: listed.chunks.len() as u64,
                    bytes: listed.chunks.iter().map(|chunk| u64::from(chunk.len)).sum(),
                }
            }
        };
        if !found(finding) {
            return Ok(());
        }
    }
    Ok(())
}
