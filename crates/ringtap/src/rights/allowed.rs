//! Which files a helper process opens: those that the command line names, and no others. The process
//! that asks reads packets of strangers, so that it is not trusted to ask for these only.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringtap_capture::index::path_for;

/// The files that a command line names.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedFiles {
    /// Files to be read; their indices belong to them.
    pub(crate) inputs: Vec<PathBuf>,
    /// Files to be written, each with its index.
    pub(crate) outputs: Vec<PathBuf>,
    /// What names of files begin with that follow one another.
    pub(crate) series: Option<Series>,
}

/// Files that follow one another: names that begin alike.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// What all names begin with.
    start: Vec<u8>,
    /// Whether the time is in the names of folders, too.
    has_folders: bool,
}

impl Series {
    /// The series of a name that is completed by a number, or by the time as strftime(3) does.
    pub(crate) fn of(name: &Path, by_time: bool) -> Self {
        let name = name.as_os_str().as_bytes();
        let fixed = name.iter().position(|&byte| byte == b'%' && by_time);
        let (start, rest) = name.split_at(fixed.unwrap_or(name.len()));
        Self {
            start: start.to_vec(),
            has_folders: rest.contains(&b'/'),
        }
    }

    /// The folder that all of the files are in, or in folders of it.
    pub(super) fn folder(&self) -> PathBuf {
        let end = self.start.iter().rposition(|&byte| byte == b'/');
        let folder = &self.start[..end.map_or(0, |end| end + 1)];
        match folder {
            [] => PathBuf::from("."),
            folder => PathBuf::from(OsStr::from_bytes(folder)),
        }
    }

    fn has(&self, path: &[u8]) -> bool {
        let Some(rest) = path.strip_prefix(&self.start[..]) else {
            return false;
        };
        let mut parts = rest.split(|&byte| byte == b'/');
        // A name that the time makes has no way up in it.
        self.has_folders && parts.all(|part| part != b"..") || !rest.contains(&b'/')
    }
}

impl NamedFiles {
    /// Whether a file may be read.
    pub(super) fn may_read(&self, path: &Path) -> bool {
        is_one_of(&self.inputs, path) || self.may_write(path)
    }

    /// Whether a file may be made, overwritten and removed.
    pub(super) fn may_write(&self, path: &Path) -> bool {
        let follows = |series: &Series| series.has(path.as_os_str().as_bytes());
        is_one_of(&self.outputs, path) || self.series.as_ref().is_some_and(follows)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.has_no_outputs()
    }

    pub(super) fn has_no_outputs(&self) -> bool {
        self.outputs.is_empty() && self.series.is_none()
    }
}

/// Whether it is one of the files, or the index of one.
fn is_one_of(files: &[PathBuf], path: &Path) -> bool {
    files
        .iter()
        .any(|file| file == path || path_for(file) == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_line_names_is_allowed_and_nothing_else() {
        let files = NamedFiles {
            inputs: vec!["in.pcap".into()],
            outputs: vec!["/a/out.pcap".into()],
            series: None,
        };
        let read = |path: &str| files.may_read(Path::new(path));
        assert!(read("in.pcap") && read("in.pcap.idx") && read("/a/out.pcap"));
        assert!(!read("/etc/shadow") && !read("in.pcap.old"));
        let write = |path: &str| files.may_write(Path::new(path));
        assert!(write("/a/out.pcap") && write("/a/out.pcap.idx"));
        assert!(!write("in.pcap") && !write("/a/out.pcap2"));
    }

    #[test]
    fn a_series_has_names_that_begin_alike() {
        let has = |name: &str, by_time, path: &str| {
            Series::of(Path::new(name), by_time).has(path.as_bytes())
        };
        assert!(has("/a/x.pcap", false, "/a/x.pcap007"));
        assert!(has("/a/x.pcap", false, "/a/x.pcap007.idx"));
        assert!(!has("/a/x.pcap", false, "/a/x.pcap/../../etc/passwd"));
        assert!(!has("/a/x.pcap", false, "/a/y"));
        assert!(has("/a/x-%H.pcap", true, "/a/x-12.pcap"));
        assert!(!has("/a/x-%H.pcap", true, "/a/x-12/y"));
        assert!(has("/a/%F/x.pcap", true, "/a/2026-01-01/x.pcap"));
        assert!(!has("/a/%F/x.pcap", true, "/a/../etc/passwd"));
    }
}
