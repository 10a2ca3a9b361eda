//! Maps: memory that programs and the application share, divided into elements.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::abi;
use super::attribute::{address, address_mut, fd_number};
use super::error::{Error, Needs, Result};
use super::kernel::{Kernel, Request};
use super::marks::ValueTypes;

/// The kinds of map that ringtap creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MapKind {
    /// `BPF_MAP_TYPE_ARRAY`; with `mmapable` (5.5), [`super::Mapping`] can map it.
    Array {
        /// Whether it can be mapped.
        mmapable: bool,
        /// Whether a map of maps may hold it together with arrays of other lengths (5.10).
        inner: bool,
    },
    /// `BPF_MAP_TYPE_HASH`: elements under any 4-byte number.
    Hash,
    /// `BPF_MAP_TYPE_PERCPU_ARRAY`: one value per CPU.
    PerCpuArray,
    /// `BPF_MAP_TYPE_ARRAY_OF_MAPS`: the elements are maps like the one given at creation.
    ArrayOfMaps,
    /// `BPF_MAP_TYPE_DEVMAP`: interface indexes, for redirects.
    DevMap,
    /// `BPF_MAP_TYPE_XSKMAP`: AF_XDP sockets by queue.
    XskMap,
    /// `BPF_MAP_TYPE_RINGBUF` (5.8): `max_entries` bytes, a power of two of whole pages.
    RingBuffer,
    /// `BPF_MAP_TYPE_SK_STORAGE` (5.2): a value in each socket, which goes with the socket. The
    /// application's key is the socket's fd. A socket that a listening one accepts gets a copy.
    /// `max_entries` is 0.
    SocketStorage,
    /// `BPF_MAP_TYPE_LRU_HASH`: elements under keys of that many bytes. The map never becomes
    /// full: elements that were not used for long are removed.
    LruHash {
        /// Bytes of a key.
        key_size: u32,
    },
}

impl MapKind {
    /// An array for programs and single calls.
    pub const ARRAY: Self = Self::Array {
        mmapable: false,
        inner: false,
    };
    /// An array whose memory can be mapped.
    pub const MAPPED_ARRAY: Self = Self::Array {
        mmapable: true,
        inner: false,
    };

    fn number(self) -> u32 {
        match self {
            Self::Hash => 1,
            Self::Array { .. } => 2,
            Self::PerCpuArray => 6,
            Self::ArrayOfMaps => 12,
            Self::DevMap => 14,
            Self::XskMap => 17,
            Self::RingBuffer => 27,
            Self::SocketStorage => 24,
            Self::LruHash { .. } => 9,
        }
    }

    fn flags(self) -> u32 {
        if self == Self::SocketStorage {
            return abi::MAP_NO_PREALLOC | abi::MAP_CLONE;
        }
        let Self::Array { mmapable, inner } = self else {
            return 0;
        };
        let mmapable = if mmapable { abi::MAP_MMAPABLE } else { 0 };
        mmapable | if inner { abi::MAP_INNER } else { 0 }
    }

    fn needs(self) -> Option<Needs> {
        match self {
            Self::Array { inner: true, .. } => Some(Needs {
                what: "a map of maps of several lengths",
                since: (5, 10),
            }),
            Self::Array { mmapable: true, .. } => Some(Needs {
                what: "a map that can be mapped",
                since: (5, 5),
            }),
            Self::RingBuffer => Some(Needs {
                what: "the BPF ring buffer",
                since: (5, 8),
            }),
            Self::SocketStorage => Some(Needs {
                what: "storage in sockets",
                since: (5, 4),
            }),
            _ => None,
        }
    }

    fn key_size(self) -> u32 {
        match self {
            Self::RingBuffer => 0,
            Self::LruHash { key_size } => key_size,
            _ => 4,
        }
    }
}

/// The properties of a map to create.
#[derive(Clone, Copy, Debug)]
pub struct MapSpec<'a> {
    /// The name in `bpftool map`; cut to 15 bytes.
    pub name: &'a str,
    /// The kind of map.
    pub kind: MapKind,
    /// Bytes of a value; 0 for a ring buffer, 4 for maps of fds and interface indexes.
    pub value_size: u32,
    /// Number of elements; bytes of a ring buffer.
    pub max_entries: u32,
    /// The NUMA node of the memory.
    pub numa_node: Option<u32>,
    /// For [`MapKind::ArrayOfMaps`]: a map like its elements.
    pub inner: Option<&'a Map>,
}

impl<'a> MapSpec<'a> {
    /// Returns the properties of a map on any NUMA node, whose elements are not maps.
    #[must_use]
    pub const fn new(name: &'a str, kind: MapKind, value_size: u32, max_entries: u32) -> Self {
        Self {
            name,
            kind,
            value_size,
            max_entries,
            numa_node: None,
            inner: None,
        }
    }
}

/// A map. It is freed when the last fd, mapping and program that uses it is gone.
#[derive(Debug)]
pub struct Map {
    kernel: Kernel,
    fd: OwnedFd,
    name: String,
    kind: MapKind,
    value_size: u32,
    max_entries: u32,
    cpus: usize,
}

impl Map {
    /// Creates a map. Keys are 4-byte numbers, except for [`MapKind::LruHash`], whose elements only
    /// programs access. A ring buffer has no keys.
    ///
    /// # Errors
    /// The error holds a hint if a capability or a newer kernel is needed, or if memory is short.
    pub fn create(kernel: &Kernel, spec: &MapSpec<'_>) -> Result<Self> {
        let numa = spec.numa_node.map_or(0, |_| abi::MAP_NUMA_NODE);
        let flags = spec.kind.flags() | numa;
        let mut attribute = abi::MapCreate {
            kind: spec.kind.number(),
            key_size: spec.kind.key_size(),
            value_size: spec.value_size,
            max_entries: spec.max_entries,
            flags,
            inner_map_fd: spec.inner.map_or(0, |map| fd_number(&map.fd)),
            numa_node: spec.numa_node.unwrap_or_default(),
            name: abi::name(spec.name),
            ..Default::default()
        };
        // The kernel describes the values in sockets to other programs, so it requires their types.
        let types = if spec.kind == MapKind::SocketStorage {
            Some(ValueTypes::load(kernel, spec.value_size)?)
        } else {
            None
        };
        if let Some(types) = &types {
            types.describe(&mut attribute);
        }
        let request = Request::MapCreate {
            kind: spec.kind.number(),
            flags,
        };
        // SAFETY: the attribute holds no pointer, and the command makes a map.
        let answer = unsafe { kernel.open(abi::MAP_CREATE, &request, &mut attribute) };
        let fd = answer.map_err(|source| {
            Error::call("bpf(BPF_MAP_CREATE)", spec.name, source, spec.kind.needs())
        })?;
        Ok(Self {
            kernel: kernel.clone(),
            fd,
            name: spec.name.to_owned(),
            kind: spec.kind,
            value_size: spec.value_size,
            max_entries: spec.max_entries,
            cpus: if spec.kind == MapKind::PerCpuArray {
                possible_cpus()
            } else {
                1
            },
        })
    }

    /// Returns the name given at creation.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind of map.
    #[must_use]
    pub fn kind(&self) -> MapKind {
        self.kind
    }

    /// Returns the bytes of one value of one CPU.
    #[must_use]
    pub fn value_size(&self) -> usize {
        self.value_size as usize
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// Returns the bytes that [`Map::lookup`] fills. For a per-CPU map these are the values of all
    /// possible CPUs, each padded to 8 bytes.
    #[must_use]
    pub fn element_size(&self) -> usize {
        if self.kind == MapKind::PerCpuArray {
            self.cpu_stride() * self.cpus
        } else {
            self.value_size()
        }
    }

    /// Returns the distance between two CPUs' values, in bytes.
    #[must_use]
    pub fn cpu_stride(&self) -> usize {
        self.value_size().next_multiple_of(8)
    }

    /// Returns the values of elements of a per-CPU map, CPU by CPU, without the padding.
    pub fn cpu_values<'a>(&self, elements: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let value_size = self.value_size();
        elements
            .chunks_exact(self.cpu_stride())
            .map(move |chunk| &chunk[..value_size])
    }

    /// Reads an element.
    ///
    /// # Errors
    /// [`Error::Size`] unless `value` has [`Map::element_size`] bytes; `ENOENT` if there is no such
    /// element.
    pub fn lookup(&self, key: u32, value: &mut [u8]) -> Result<()> {
        self.check("value", self.element_size(), value.len())?;
        let value = address_mut(value);
        // SAFETY: the value has room for one element of this map, as just checked.
        unsafe { self.element(abi::MAP_LOOKUP_ELEM, "bpf(BPF_MAP_LOOKUP_ELEM)", key, value) }
    }

    /// Writes an element.
    ///
    /// # Errors
    /// [`Error::Size`] unless `value` has [`Map::element_size`] bytes; `E2BIG` after the last
    /// element.
    pub fn update(&self, key: u32, value: &[u8]) -> Result<()> {
        self.check("value", self.element_size(), value.len())?;
        self.write(key, value, 0)
    }

    /// Writes an element that is not there yet.
    ///
    /// # Errors
    /// The same as [`Map::update`]; `EEXIST` if there is such an element.
    pub fn insert(&self, key: u32, value: &[u8]) -> Result<()> {
        self.check("value", self.element_size(), value.len())?;
        self.write(key, value, abi::NO_EXIST)
    }

    fn write(&self, key: u32, value: &[u8], flags: u64) -> Result<()> {
        let (command, call) = (abi::MAP_UPDATE_ELEM, "bpf(BPF_MAP_UPDATE_ELEM)");
        // SAFETY: the value holds one element of this map, as both callers checked; it is only read.
        unsafe { self.element_with(command, call, key, address(value), flags) }
    }

    /// Writes the fd of a map, or of a socket, as an element ([`MapKind::ArrayOfMaps`],
    /// [`MapKind::XskMap`]); the kernel keeps its own reference.
    ///
    /// # Errors
    /// `EINVAL` if the inner map is not like the one given at creation.
    pub fn update_fd(&self, key: u32, fd: impl AsFd) -> Result<()> {
        self.update(key, &fd_number(&fd.as_fd()).to_ne_bytes())
    }

    /// Writes the fds of maps as elements ([`MapKind::ArrayOfMaps`]) by one call (5.15), after
    /// which the kernel waits once for programs: some milliseconds. On older kernels each element
    /// takes its own call, and the kernel waits each time.
    ///
    /// # Errors
    /// The same as [`Map::update_fd`]; elements before the rejected one may have been written.
    pub fn update_fds<F: AsFd>(&self, elements: &[(u32, F)]) -> Result<()> {
        let keys: Vec<u32> = elements.iter().map(|(key, _)| *key).collect();
        let fds = elements.iter().map(|(_, fd)| fd_number(&fd.as_fd()));
        let fds: Vec<u32> = fds.collect();
        self.check("value", size_of::<u32>(), self.element_size())?;
        let mut attribute = abi::MapBatch {
            keys: address(&keys),
            values: address(&fds),
            count: u32::try_from(keys.len()).unwrap_or(u32::MAX),
            map_fd: fd_number(&self.fd),
            ..Default::default()
        };
        let (command, request) = (abi::MAP_UPDATE_BATCH, Request::MapUpdateBatch);
        // SAFETY: there are `count` keys and as many values of 4 bytes, which is this map's size, as just
        // checked; they are read only.
        let answer = unsafe { self.kernel.call(command, &request, &mut attribute) };
        match answer {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error().is_some_and(is_unsupported) => elements
                .iter()
                .try_for_each(|(key, fd)| self.update_fd(*key, fd)),
            Err(source) => {
                let (call, name) = ("bpf(BPF_MAP_UPDATE_BATCH)", self.name.as_str());
                Err(Error::call(call, name, source, None))
            }
        }
    }

    /// Removes an element, if the kind allows it.
    ///
    /// # Errors
    /// `ENOENT` if there is no such element, `EINVAL` for arrays.
    pub fn delete(&self, key: u32) -> Result<()> {
        // SAFETY: the kernel reads no value for a deletion.
        unsafe { self.element(abi::MAP_DELETE_ELEM, "bpf(BPF_MAP_DELETE_ELEM)", key, 0) }
    }

    /// Reads all elements by one call (arrays 5.6, per-CPU arrays 5.13); on older kernels, element
    /// by element. `values` gets [`Map::element_size`] bytes for each of `max_entries`.
    ///
    /// # Errors
    /// [`Error::Size`] if the buffer has another size.
    pub fn lookup_all(&self, values: &mut [u8]) -> Result<()> {
        let element = self.element_size();
        self.check("value", element * self.max_entries as usize, values.len())?;
        match self.lookup_batch(values) {
            Err(error) if error.errno().is_some_and(is_unsupported) => (0..self.max_entries)
                .zip(values.chunks_exact_mut(element))
                .try_for_each(|(key, value)| self.lookup(key, value)),
            outcome => outcome,
        }
    }

    /// Tests whether all elements can be read by one call.
    pub(super) fn probe_batch(&self) -> Result<()> {
        let mut values = vec![0; self.element_size() * self.max_entries as usize];
        self.lookup_batch(&mut values)
    }

    /// Calls `BPF_MAP_LOOKUP_BATCH` once, for all elements.
    fn lookup_batch(&self, values: &mut [u8]) -> Result<()> {
        let mut keys = vec![0_u32; self.max_entries as usize];
        let mut cursor = [0_u32; 1];
        let mut attribute = abi::MapBatch {
            out_batch: address_mut(&mut cursor),
            keys: address_mut(&mut keys),
            values: address_mut(values),
            count: self.max_entries,
            map_fd: fd_number(&self.fd),
            ..Default::default()
        };
        let command = abi::MAP_LOOKUP_BATCH;
        // SAFETY: keys and values have room for `count` elements (`lookup_all` checked), the cursor
        // for one key; all are borrowed exclusively until the call returns.
        let answer = unsafe {
            self.kernel
                .call(command, &Request::MapLookupBatch, &mut attribute)
        };
        match answer {
            Ok(_) => Ok(()),
            // Reported together with the last elements: there are no more.
            Err(error)
                if error.raw_os_error() == Some(libc::ENOENT)
                    && attribute.count == self.max_entries =>
            {
                Ok(())
            }
            Err(source) => Err(Error::call(
                "bpf(BPF_MAP_LOOKUP_BATCH)",
                self.name.as_str(),
                source,
                None,
            )),
        }
    }

    /// Forbids writes by the application for good (5.2); programs can still write.
    ///
    /// # Errors
    /// `EBUSY` while the map is mapped writable.
    pub fn freeze(&self) -> Result<()> {
        let mut attribute = abi::MapFd {
            map_fd: fd_number(&self.fd),
        };
        // SAFETY: the attribute holds no pointer.
        let answer = unsafe {
            self.kernel
                .call(abi::MAP_FREEZE, &Request::Map, &mut attribute)
        };
        answer.map_err(|source| {
            Error::call("bpf(BPF_MAP_FREEZE)", self.name.as_str(), source, None)
        })?;
        Ok(())
    }

    /// Runs a command on one element.
    ///
    /// # Safety
    /// `value` is the address of the [`Map::element_size`] bytes that the command reads or writes.
    unsafe fn element(&self, command: u32, call: &'static str, key: u32, value: u64) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.element_with(command, call, key, value, 0) }
    }

    /// Runs a command on one element, with flags.
    ///
    /// # Safety
    /// The same as for [`Map::element`].
    unsafe fn element_with(
        &self,
        command: u32,
        call: &'static str,
        key: u32,
        value: u64,
        flags: u64,
    ) -> Result<()> {
        self.check("key", self.kind.key_size() as usize, size_of::<u32>())?;
        let mut attribute = abi::MapElement {
            map_fd: fd_number(&self.fd),
            key: std::ptr::from_ref(&key) as u64,
            value,
            flags,
            ..Default::default()
        };
        // SAFETY: `key` lives until the call returns and is only read; the caller promises that the
        // value is valid. Maps without keys (ring buffers) reject the command.
        let answer = unsafe { self.kernel.call(command, &Request::Map, &mut attribute) };
        answer
            .map_err(|source| Error::call(call, format!("{}[{key}]", self.name), source, None))?;
        Ok(())
    }

    fn check(&self, what: &'static str, expected: usize, found: usize) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        Err(Error::Size {
            map: self.name.clone(),
            what,
            expected,
            found,
        })
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_unsupported(errno: i32) -> bool {
    // The kernel returns 524 (its internal ENOTSUPP) for a kind without batches.
    const ENOTSUPP: i32 = 524;
    matches!(errno, libc::EINVAL | libc::EOPNOTSUPP | ENOTSUPP)
}

/// Returns the number of CPUs for which the kernel keeps per-CPU values: all that may ever come
/// online.
#[must_use]
pub fn possible_cpus() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    match parse_cpu_count(&text) {
        // SAFETY: `sysconf` takes any name and touches no memory of ours.
        0 => usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1),
        count => count,
    }
}

/// Counts the members of a list such as `0-3,8-11`; 0 for anything else.
fn parse_cpu_count(list: &str) -> usize {
    let members = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    members.sum::<Option<usize>>().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_possible_cpus() {
        assert_eq!(parse_cpu_count("0-3\n"), 4);
        assert_eq!(parse_cpu_count("0"), 1);
        assert_eq!(parse_cpu_count("0-3,8-11"), 8);
        assert_eq!(parse_cpu_count(""), 0);
        assert_eq!(parse_cpu_count("3-1"), 0);
        assert!(possible_cpus() > 0);
    }
}
