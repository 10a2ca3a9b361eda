//! Files on a disk: writes past the page cache, and room reserved ahead.
//!
//! What it is: what the standard library's files lack. What it is not: it writes nothing; the file's
//! owner does.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::{Error, Result};

/// Bytes to whose multiples memory, offset and length of a write past the page cache are aligned:
/// more than any block device asks for that Linux can have a file system on.
pub const ALIGNMENT: usize = 4096;

/// Has files opened for writes past the page cache (`O_DIRECT`, open(2)); file systems that do not
/// know it refuse the opening with `EINVAL`.
pub fn direct(options: &mut std::fs::OpenOptions) -> &mut std::fs::OpenOptions {
    options.custom_flags(libc::O_DIRECT)
}

/// Switches writes past the page cache on or off (`F_SETFL`, fcntl(2)).
///
/// # Errors
/// `EINVAL` where the file system does not know them.
pub fn set_direct(file: &File, on: bool) -> Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: takes no pointer.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(Error::last("fcntl(F_GETFL)", ""));
    }
    let flags = if on {
        flags | libc::O_DIRECT
    } else {
        flags & !libc::O_DIRECT
    };
    // SAFETY: takes no pointer.
    if unsafe { libc::fcntl(fd, libc::F_SETFL, flags) } < 0 {
        return Err(Error::last("fcntl(F_SETFL)", "O_DIRECT"));
    }
    Ok(())
}

/// Reserves room for so many bytes from there on, without a change of the file's size
/// (`FALLOC_FL_KEEP_SIZE`, fallocate(2)); what is not used, truncating the file gives back.
///
/// # Errors
/// `EOPNOTSUPP` where the file system can't, `ENOSPC` where there is no such room.
pub fn reserve(file: &File, offset: u64, bytes: u64) -> Result<()> {
    let too_far = || Error::new("fallocate", "", std::io::ErrorKind::InvalidInput.into());
    let offset = libc::off_t::try_from(offset).map_err(|_| too_far())?;
    let bytes = libc::off_t::try_from(bytes).map_err(|_| too_far())?;
    let mode = libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes no pointer.
    if unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) } < 0 {
        return Err(Error::last("fallocate", ""));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn reserved_room_is_no_size_and_is_given_back() {
        let path = std::env::temp_dir().join(format!("ringtap-reserve-{}", std::process::id()));
        let file = File::create(&path).expect("a temporary file");
        // A file system without it says so, and that is no failure.
        if reserve(&file, 0, 1 << 20).is_ok() {
            let before = file.metadata().expect("metadata");
            assert_eq!(before.len(), 0);
            assert!(before.blocks() >= 2048, "{} blocks", before.blocks());
            file.set_len(0).expect("truncated");
            assert_eq!(file.metadata().expect("metadata").blocks(), 0);
        }
        std::fs::remove_file(&path).expect("removed");
    }
}
