//! The files that a helper process may open: only those that the command line names. The requesting process
//! reads strangers' packets, so it is not trusted to request only these.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringtap_capture::index::path_for;
use ringtap_record::archive;

/// The files of a command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedFiles {
    /// Input files, each with its index.
    pub(crate) inputs: Vec<PathBuf>,
    /// Input files that may be replaced during the run and are then read again, such as certificates.
    pub(crate) renewed: Vec<PathBuf>,
    /// Output files, each with its index.
    pub(crate) outputs: Vec<PathBuf>,
    /// The fixed beginnings of the names in a series of files.
    pub(crate) series: Option<Series>,
    /// Folders of recorders, with the files that recorders make.
    pub(crate) archives: Vec<ArchiveFolder>,
    /// The folder of a store of flow records, with the files and folders that stores have.
    pub(crate) store: Option<PathBuf>,
}

/// The folder of a recorder.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveFolder {
    pub(crate) path: PathBuf,
    /// Whether this run records into it.
    pub(crate) is_written: bool,
    /// Whether this run sends requests to its recorder.
    pub(crate) is_asked: bool,
}

impl ArchiveFolder {
    /// Returns whether a file of this path is one that recorders make in the folder.
    fn has(&self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return false;
        };
        let Some(name) = name.to_str() else {
            return false;
        };
        match folder == self.path {
            true => archive::is_of_recorder(name),
            false => folder == self.path.join(archive::INCIDENTS) && archive::is_of_incident(name),
        }
    }
}

/// A series of files: names of one pattern.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    parts: Vec<Part>,
}

/// A part of the names in a series.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// These bytes.
    Text(Vec<u8>),
    /// The result of a strftime(3) conversion: no slash, and no dot at the front.
    Time,
    /// A number, or empty.
    Number,
}

/// The maximum number of bytes of a conversion.
const LONGEST_TIME: usize = 64;

impl Part {
    /// Returns where the part may end in a name, if it begins at `from`.
    fn ends<'n>(&'n self, name: &'n [u8], from: usize) -> Box<dyn Iterator<Item = usize> + 'n> {
        let rest = &name[from..];
        let run = |least: usize, takes: fn(u8) -> bool| {
            let length = rest.iter().take_while(|&&byte| takes(byte)).count();
            (least..=length.min(LONGEST_TIME)).map(move |length| from + length)
        };
        match self {
            Self::Text(text) => {
                let end = rest.starts_with(text).then_some(from + text.len());
                Box::new(end.into_iter())
            }
            Self::Time if rest.first() == Some(&b'.') => Box::new(std::iter::empty()),
            Self::Time => Box::new(run(1, |byte| {
                byte.is_ascii_alphanumeric() || b" +-:._()".contains(&byte) || !byte.is_ascii()
            })),
            Self::Number => Box::new(run(0, |byte| byte.is_ascii_digit())),
        }
    }
}

impl Series {
    /// Returns the series for a name that is completed by a number, and by the time as strftime(3) does.
    pub(crate) fn of(name: &Path, by_time: bool) -> Self {
        let mut rest = name.as_os_str().as_bytes();
        let (mut parts, mut text) = (Vec::new(), Vec::new());
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if byte != b'%' || !by_time {
                text.push(byte);
                continue;
            }
            // Flags, a width and modifiers come before the letter of a conversion.
            let letter = rest.iter().position(|byte| match byte {
                b'E' | b'O' => false,
                byte => byte.is_ascii_alphabetic() || *byte == b'%',
            });
            let letter = letter.map(|at| (rest[at], &rest[at + 1..]));
            match letter {
                Some((b'%', after)) => (text, rest) = ([&text[..], b"%"].concat(), after),
                Some((letter, after)) => {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    parts.push(Part::Time);
                    if matches!(letter, b'D' | b'x') {
                        // The date with slashes.
                        for _ in 0..2 {
                            parts.extend([Part::Text(b"/".to_vec()), Part::Time]);
                        }
                    }
                    rest = after;
                }
                None => text.push(byte),
            }
        }
        parts.extend([Part::Text(text), Part::Number]);
        Self { parts }
    }

    /// Returns the folder that contains all the files, directly or in subfolders.
    pub(super) fn folder(&self) -> PathBuf {
        let start: &[u8] = match self.parts.first() {
            Some(Part::Text(text)) => text,
            _ => &[],
        };
        let end = start.iter().rposition(|&byte| byte == b'/');
        match &start[..end.map_or(0, |end| end + 1)] {
            [] => PathBuf::from("."),
            folder => PathBuf::from(OsStr::from_bytes(folder)),
        }
    }

    /// Returns whether a name is one of the series, or that of an index of one.
    fn has(&self, path: &[u8]) -> bool {
        let index = path.strip_suffix(b".idx");
        self.matches(path) || index.is_some_and(|name| self.matches(name))
    }

    fn matches(&self, name: &[u8]) -> bool {
        let mut places = BTreeSet::from([0]);
        for part in &self.parts {
            let ends = places.iter().flat_map(|&place| part.ends(name, place));
            places = ends.collect();
        }
        places.contains(&name.len())
    }
}

impl NamedFiles {
    /// Returns whether a file may be read.
    pub(super) fn may_read(&self, path: &Path) -> bool {
        is_one_of(&self.inputs, path)
            || self.renewed.iter().any(|file| file == path)
            || self.may_write(path)
            || self.is_of_archive(path)
    }

    /// Returns whether it is a file of a recorder's folder.
    pub(super) fn is_of_archive(&self, path: &Path) -> bool {
        self.archives.iter().any(|archive| archive.has(path))
    }

    /// Returns whether it is the socket of a recorder that this run sends requests to.
    pub(super) fn is_asked(&self, path: &Path) -> bool {
        let asked = self.archives.iter().filter(|archive| archive.is_asked);
        asked
            .into_iter()
            .any(|archive| path == archive.path.join(archive::CONTROL))
    }

    /// Returns whether it is a file of the folder that this run records into.
    pub(super) fn is_recorded(&self, path: &Path) -> bool {
        let written = self.archives.iter().filter(|archive| archive.is_written);
        written.into_iter().any(|archive| archive.has(path))
    }

    /// Returns whether it is a file or a folder of the store.
    pub(super) fn is_stored(&self, path: &Path) -> bool {
        #[cfg(feature = "parquet")]
        let is_of = ringtap_flow_io::is_of_store;
        #[cfg(not(feature = "parquet"))]
        let is_of = |_: &Path, _: &Path| false;
        self.store.as_ref().is_some_and(|store| is_of(store, path))
    }

    /// Returns whether a file may be made, overwritten and removed.
    pub(super) fn may_write(&self, path: &Path) -> bool {
        let follows = |series: &Series| series.has(path.as_os_str().as_bytes());
        is_one_of(&self.outputs, path)
            || self.series.as_ref().is_some_and(follows)
            || self.is_recorded(path)
            || self.is_stored(path)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
            && self.renewed.is_empty()
            && self.archives.is_empty()
            && self.has_no_outputs()
    }

    pub(super) fn has_no_outputs(&self) -> bool {
        let records = self.archives.iter().any(|archive| archive.is_written);
        self.outputs.is_empty() && self.series.is_none() && !records && self.store.is_none()
    }
}

/// Returns whether it is one of the files, or the index of one.
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
            renewed: Vec::new(),
            outputs: vec!["/a/out.pcap".into()],
            ..NamedFiles::default()
        };
        let read = |path: &str| files.may_read(Path::new(path));
        assert!(read("in.pcap") && read("in.pcap.idx") && read("/a/out.pcap"));
        assert!(!read("/etc/shadow") && !read("in.pcap.old"));
        let write = |path: &str| files.may_write(Path::new(path));
        assert!(write("/a/out.pcap") && write("/a/out.pcap.idx"));
        assert!(!write("in.pcap") && !write("/a/out.pcap2"));
    }

    #[test]
    fn a_recorder_has_its_own_files_in_its_folder() {
        let folder = |path: &str, is_written| ArchiveFolder {
            path: path.into(),
            is_written,
            is_asked: !is_written,
        };
        let files = NamedFiles {
            archives: vec![folder("/a", true), folder("/b", false)],
            ..NamedFiles::default()
        };
        assert!(files.is_asked(Path::new("/b/control")));
        for path in ["/a/control", "/b/lock", "/b/x/control", "/b"] {
            assert!(!files.is_asked(Path::new(path)), "{path}");
        }
        let name = "20231114T221320.000001Z-00000007-eth0.pcapng.zst";
        for path in [
            name,
            "catalogue.3",
            "lock",
            "status",
            &format!("{name}.idx"),
        ] {
            assert!(files.may_write(&Path::new("/a").join(path)), "{path}");
            assert!(files.may_read(&Path::new("/b").join(path)), "{path}");
            assert!(!files.may_write(&Path::new("/b").join(path)), "{path}");
        }
        assert!(
            files
                .may_write(&Path::new("/a/incidents").join(name.replace("-00000007-eth0", "-dns")))
        );
        for path in [
            "/a/x",
            "/a/../etc/lock",
            "/a/incidents/lock",
            "/a/b/lock",
            "/c/lock",
        ] {
            assert!(!files.may_read(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_series_has_names_of_its_pattern_and_no_others() {
        let has = |name: &str, by_time, path: &str| {
            Series::of(Path::new(name), by_time).has(path.as_bytes())
        };
        for (name, by_time, path) in [
            ("/a/x.pcap", false, "/a/x.pcap"),
            ("/a/x.pcap", false, "/a/x.pcap007"),
            ("/a/x.pcap", false, "/a/x.pcap007.idx"),
            ("/a/x-%H.pcap", true, "/a/x-12.pcap"),
            ("/a/x-%H.pcap", true, "/a/x-12.pcap3"),
            ("/a/%F/x.pcap", true, "/a/2026-01-01/x.pcap"),
            ("/a/%F/x.pcap", true, "/a/2026-01-01/x.pcap.idx"),
            ("%A %T.pcap", true, "Monday 12:00:01.pcap"),
            ("%D", true, "11/23/26"),
            ("100%%-%s", true, "100%-1700000000"),
            ("%-d.%03H", true, "7.012"),
        ] {
            assert!(has(name, by_time, path), "{name}: {path}");
        }
        for (name, by_time, path) in [
            ("/a/x.pcap", false, "/a/x.pcap/../../etc/passwd"),
            ("/a/x.pcap", false, "/a/y"),
            ("x", false, "x.key"),
            ("x", false, "x1.evil.sh"),
            ("%F.pcap", true, ".bashrc"),
            ("%F.pcap", true, "id"),
            ("%F.pcap", true, "..pcap"),
            ("%F.pcap", true, "a/2026-01-01.pcap"),
            ("/a/x-%H.pcap", true, "/a/x-12/y"),
            ("/a/%F/x.pcap", true, "/a/../x.pcap"),
            ("/a/%F/x.pcap", true, "/a/b/c/x.pcap"),
            ("%F.pcap", true, "--files=list"),
        ] {
            assert!(!has(name, by_time, path), "{name}: {path}");
        }
    }

    #[test]
    fn the_folder_of_a_series_is_that_of_its_fixed_front() {
        let folder = |name: &str| Series::of(Path::new(name), true).folder();
        assert_eq!(folder("/a/b/%F/x"), Path::new("/a/b/"));
        assert_eq!(folder("x-%H"), Path::new("."));
    }
}
