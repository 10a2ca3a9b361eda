//! The network namespaces of this host: those of processes, and those that a mount holds.
//!
//! A namespace that only a file descriptor or a socket holds is not found. The kernel has no list of them.
//!
//! Source: proc_pid_ns(5), proc_pid_mountinfo(5), ip-netns(8).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::Namespace;
use crate::{Error, Result};

const MOUNTS: &str = "/proc/self/mountinfo";

/// A network namespace that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The inode number that identifies it.
    pub inode: u64,
    /// A file that it can be opened by, as long as that process or mount exists.
    pub path: PathBuf,
    /// The name of the mount that holds it, such as `blue` of `/run/netns/blue`.
    pub name: Option<String>,
    /// Its process with the lowest number.
    pub pid: Option<u32>,
}

impl Found {
    /// Opens it.
    ///
    /// # Errors
    /// It is gone, or another one is at its path now (`ENOENT`).
    pub fn open(&self) -> Result<Namespace> {
        let namespace = Namespace::open(&self.path)?;
        if namespace.inode()? != self.inode {
            let gone = std::io::Error::from_raw_os_error(libc::ENOENT);
            return Err(Error::new("open", self.path.display().to_string(), gone));
        }
        Ok(namespace)
    }
}

/// Returns all network namespaces that processes or mounts hold, ordered by inode number. Processes of other users
/// need `CAP_SYS_PTRACE`; those that cannot be examined are left out.
///
/// # Errors
/// /proc is not mounted.
pub fn list() -> Result<Vec<Found>> {
    let mounts = fs::read(MOUNTS).map_err(|error| Error::new("read", MOUNTS, error))?;
    let mut found = BTreeMap::new();
    for (inode, path) in mounts
        .split(|&byte| byte == b'\n')
        .filter_map(namespace_mount)
    {
        let name = path.file_name();
        let name = name.map(|name| name.to_string_lossy().into_owned());
        found.entry(inode).or_insert(Found {
            inode,
            path,
            name,
            pid: None,
        });
    }
    let entries = fs::read_dir("/proc").map_err(|error| Error::new("opendir", "/proc", error))?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let path = PathBuf::from(format!("/proc/{pid}/ns/net"));
        let Some(inode) = fs::read_link(&path)
            .ok()
            .and_then(|link| inode_in(link.to_str()?))
        else {
            continue;
        };
        let one = found.entry(inode).or_insert_with(|| Found {
            inode,
            path: path.clone(),
            name: None,
            pid: Some(pid),
        });
        if one.pid.is_none_or(|known| pid <= known) {
            one.pid = Some(pid);
            if one.name.is_none() {
                one.path = path;
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Takes a namespace and its path out of a line of mountinfo.
fn namespace_mount(line: &[u8]) -> Option<(u64, PathBuf)> {
    let mut fields = line.split(|&byte| byte == b' ');
    let inode = inode_in(std::str::from_utf8(fields.nth(3)?).ok()?)?;
    let path = std::ffi::OsString::from_vec(unescaped(fields.next()?));
    Some((inode, Path::new(&path).to_owned()))
}

/// Returns the number in `net:[4026531840]`.
fn inode_in(text: &str) -> Option<u64> {
    let number = text.strip_prefix("net:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// Decodes the three octal digits that stand for spaces and backslashes.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let number = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|number| u8::from_str_radix(number, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_namespaces_are_found() {
        let line = b"463 26 0:4 net:[4026532345] /run/netns/a\\040b rw shared:21 - nsfs nsfs rw";
        let expected = (4_026_532_345, PathBuf::from("/run/netns/a b"));
        assert_eq!(namespace_mount(line), Some(expected));
        for other in [
            &b"463 26 0:4 mnt:[4026532345] /run/x rw - nsfs nsfs rw"[..],
            b"463 26 0:4 net:[x] /run/x rw - nsfs nsfs rw",
            b"463 26 0:4 net:[1]",
            b"",
        ] {
            assert_eq!(namespace_mount(other), None);
        }
        assert_eq!(unescaped(b"\\134x\\9\\"), b"\\x\\9\\");
    }

    #[test]
    fn the_own_namespace_is_found() {
        let own = Namespace::current().and_then(|own| own.inode());
        let own = own.expect("/proc is mounted");
        let found = list().expect("/proc is mounted");
        let found = found.iter().find(|found| found.inode == own);
        let found = found.expect("this process's namespace");
        let opened = found.open().and_then(|namespace| namespace.inode());
        assert_eq!(opened.expect("it exists"), own);
    }
}
