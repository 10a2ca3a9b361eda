//! The operations on files that a store needs. The program's process may lack the right to do them itself.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use ringtap_sys::disk;
use ringtap_sys::output::{self, Access};

use super::names;

/// Creates, publishes and removes the files and folders of a store.
pub trait StoreFiles: Send {
    /// Creates a file for writing, and the folders that it is in.
    ///
    /// # Errors
    /// The same as open(2) and mkdir(2).
    fn create(&self, path: &Path) -> io::Result<File>;

    /// Gives the unfinished file of this path its name, and writes the folder to the disk.
    ///
    /// # Errors
    /// The same as rename(2) and fsync(2).
    fn publish(&self, path: &Path) -> io::Result<()>;

    /// Exchanges two folders in one step, and writes the folder that they are in to the disk.
    ///
    /// # Errors
    /// The same as renameat2(2): some file systems cannot.
    fn exchange(&self, path: &Path) -> io::Result<()>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The same as open(2).
    fn read(&self, path: &Path) -> io::Result<File>;

    /// Removes a file, or an empty folder.
    ///
    /// # Errors
    /// The same as unlink(2) and rmdir(2).
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// Does the operations with the rights of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnFiles(pub Access);

impl StoreFiles for OwnFiles {
    fn create(&self, path: &Path) -> io::Result<File> {
        create_folders(path, self.0)?;
        let opened = output::open(path, self.0, true)?;
        opened.file.set_len(0)?;
        Ok(opened.file)
    }

    fn publish(&self, path: &Path) -> io::Result<()> {
        let before = names::unfinished_path(path).ok_or(io::ErrorKind::InvalidInput)?;
        fs::rename(before, path)?;
        sync_folder(path)
    }

    fn exchange(&self, path: &Path) -> io::Result<()> {
        let other = names::unfinished_path(path).ok_or(io::ErrorKind::InvalidInput)?;
        disk::exchange(&other, path).map_err(|error| error.source)?;
        sync_folder(path)
    }

    fn read(&self, path: &Path) -> io::Result<File> {
        let mut options = fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, output::NO_FOLLOW);
        options.read(true).open(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::symlink_metadata(path)?.is_dir() {
            true => fs::remove_dir(path),
            false => fs::remove_file(path),
        }
    }
}

/// Creates the missing ones of the three folders that a file is in, and writes them to the disk.
fn create_folders(path: &Path, access: Access) -> io::Result<()> {
    let folders: Vec<_> = path.ancestors().skip(1).take(3).collect();
    if folders.first().is_some_and(|folder| folder.is_dir()) {
        return Ok(());
    }
    for folder in folders.iter().rev() {
        match DirBuilder::new().mode(access.folder_mode()).create(folder) {
            Ok(()) => sync_folder(folder)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes the folder that a file is in to the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    File::open(folder)?.sync_all()
}
