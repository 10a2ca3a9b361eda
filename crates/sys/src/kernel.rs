//! The version of the running kernel.
//!
//! Use it only for the few features that cannot be probed. Everything else is found out by asking
//! the kernel.
//!
//! Source: uname(2).

use std::ffi::CStr;

/// Returns the major and minor version of the running kernel, or zeros if it cannot be read, so
/// that it counts as very old.
#[must_use]
pub fn version() -> (u32, u32) {
    // SAFETY: the structure holds arrays of characters only, for which zero is valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is writable for its own size, and outlives the call.
    if unsafe { libc::uname(&raw mut name) } != 0 {
        return (0, 0);
    }
    let release = name.release.map(byte_of);
    let release = CStr::from_bytes_until_nul(&release).unwrap_or_default();
    parse(&release.to_string_lossy())
}

/// Converts C's `char`, which is signed on some architectures.
const fn byte_of(character: libc::c_char) -> u8 {
    character.to_ne_bytes()[0]
}

fn parse(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut number = || numbers.next().and_then(Result::ok).unwrap_or_default();
    (number(), number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        for (release, expected) in [
            ("6.18.44-arch1", (6, 18)),
            ("5.4", (5, 4)),
            ("4.19.0-21-amd64", (4, 19)),
            ("7.0-rc1", (7, 0)),
            ("", (0, 0)),
            ("unknown", (0, 0)),
        ] {
            assert_eq!(parse(release), expected, "{release}");
        }
    }

    #[test]
    fn the_running_kernel_is_the_one_that_procfs_names() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("procfs");
        assert_eq!(version(), parse(release.trim()));
    }
}
