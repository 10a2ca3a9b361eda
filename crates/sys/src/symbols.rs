//! The kernel's functions by their addresses: /proc/kallsyms.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Addresses further than this after a function of a module or program belong to no function.
const FURTHEST: u64 = 1 << 16;

/// The reason why the kernel's functions are unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolError {
    /// The list cannot be read.
    #[error("cannot read /proc/kallsyms: {0}")]
    Unreadable(io::Error),
    /// All addresses are shown as zero.
    #[error("the kernel hides its addresses (kernel.kptr_restrict, CAP_SYSLOG)")]
    Hidden,
}

impl From<io::Error> for SymbolError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// The kernel's functions at the time of reading.
#[derive(Debug)]
pub struct KernelSymbols {
    /// Start addresses, ascending.
    starts: Vec<u64>,
    names: Vec<Box<str>>,
    /// The end of the core kernel, where modules and programs begin.
    core_end: u64,
}

impl KernelSymbols {
    /// Reads /proc/kallsyms.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or shows no addresses.
    pub fn read() -> Result<Self, SymbolError> {
        Self::parse(BufReader::new(File::open("/proc/kallsyms")?))
    }

    /// Parses a list in the format of /proc/kallsyms; other lines are skipped.
    ///
    /// # Errors
    /// The same as for [`KernelSymbols::read`].
    pub fn parse(list: impl BufRead) -> Result<Self, SymbolError> {
        let mut found: Vec<(u64, Box<str>)> = Vec::new();
        let mut core_end = u64::MAX;
        let mut lines = list;
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            let mut fields = text.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else {
                continue;
            };
            if name == "_etext" {
                core_end = address;
            }
            if address != 0 && matches!(kind, "t" | "T" | "w" | "W") {
                found.push((address, name.into()));
            }
        }
        if found.is_empty() {
            return Err(SymbolError::Hidden);
        }
        // If an address has several names, the last in the list is kept: the first are section
        // marks.
        found.sort_by_key(|&(address, _)| address);
        found.reverse();
        found.dedup_by_key(|(address, _)| *address);
        found.reverse();
        let (starts, names) = found.into_iter().unzip();
        Ok(Self {
            starts,
            names,
            core_end,
        })
    }

    /// Returns the number of the function that contains an address.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<usize> {
        let place = self.starts.partition_point(|&start| start <= address);
        let place = place.checked_sub(1)?;
        let distance = address - self.starts[place];
        (address < self.core_end || distance < FURTHEST).then_some(place)
    }

    /// Returns the function that contains an address, and the address's distance from its start, in bytes.
    #[must_use]
    pub fn locate(&self, address: u64) -> Option<(&str, u64)> {
        let number = self.find(address)?;
        Some((self.name(number), address - self.starts[number]))
    }

    /// Returns a function's name by its number.
    #[must_use]
    pub fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", |name| name)
    }

    /// Returns whether an address is outside the core kernel: in a module, or in code made at run time.
    #[must_use]
    pub fn is_beyond_core(&self, address: u64) -> bool {
        address >= self.core_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "ffffffff81000000 T _stext\n\
        ffffffff81000000 T startup\n\
        ffffffff81000100 t ip_rcv\n\
        ffffffff81000180 D a_variable\n\
        ffffffff81001000 T _etext\n\
        ffffffffc0000000 t veth_poll\t[veth]\n\
        damaged line\n\
        ffffffffc0100000 t bpf_prog_6deef7357e7b4530_ringtap\t[bpf]\n";

    #[test]
    fn addresses_are_found_in_functions() {
        let symbols = KernelSymbols::parse(LIST.as_bytes()).expect("a list");
        let name = |address| symbols.find(address).map(|number| symbols.name(number));
        assert_eq!(name(0xffff_ffff_8100_0010), Some("startup"));
        assert_eq!(name(0xffff_ffff_8100_0190), Some("ip_rcv"));
        assert_eq!(name(0xffff_ffff_c000_0020), Some("veth_poll"));
        assert_eq!(name(0xffff_ffff_c00f_0000), None, "far behind");
        assert_eq!(name(0x1000), None);
        assert_eq!(
            symbols.locate(0xffff_ffff_8100_0190),
            Some(("ip_rcv", 0x90))
        );
        assert_eq!(symbols.locate(0x1000), None);
        assert!(symbols.is_beyond_core(0xffff_ffff_c000_0020));
        assert!(!symbols.is_beyond_core(0xffff_ffff_8100_0190));
    }

    #[test]
    fn hidden_addresses_are_told() {
        let hidden = "0000000000000000 T _stext\n0000000000000000 t ip_rcv\n";
        assert!(matches!(
            KernelSymbols::parse(hidden.as_bytes()),
            Err(SymbolError::Hidden)
        ));
    }
}
