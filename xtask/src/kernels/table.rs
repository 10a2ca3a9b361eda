//! The kernels and the machines that they are booted in: the one place that lists them.

use super::machine::{ADAPTERS, ARM, ENGINES, Machine, NODES, PROCESSORS, SMALL, USUAL};

/// A kernel of Debian's, in a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    /// Its name here, in results and in `docs/explanation/kernels.md`.
    pub(crate) name: &'static str,
    /// The Debian suite of its packages.
    pub(crate) suite: &'static str,
    /// The start of its version; the newest is used.
    pub(crate) version: &'static str,
    /// The end of the packages' names.
    pub(crate) flavour: &'static str,
    /// The distribution, for readers of the table.
    pub(crate) of: &'static str,
    /// The folder of its packages, which several machines share.
    pub(crate) packages: &'static str,
    /// The machine that boots it.
    pub(crate) machine: &'static Machine,
}

const fn kernel(
    name: &'static str,
    suite: &'static str,
    version: &'static str,
    flavour: &'static str,
    of: &'static str,
) -> Kernel {
    Kernel {
        name,
        suite,
        version,
        flavour,
        of,
        packages: name,
        machine: &USUAL,
    }
}

/// A kernel in another machine.
const fn machine(
    name: &'static str,
    of: &'static str,
    kernel: &Kernel,
    machine: &'static Machine,
) -> Kernel {
    Kernel {
        name,
        of,
        machine,
        ..*kernel
    }
}

/// A kernel between two on which all suites are run: those of the engines.
const fn between(name: &'static str, suite: &'static str, of: &'static str) -> Kernel {
    machine(name, of, &kernel(name, suite, name, PLAIN, of), &ENGINES)
}

const PLAIN: &str = "amd64";
const REALTIME: &str = "rt-amd64";

const BOOKWORM: Kernel = kernel("6.1", "bookworm", "6.1", PLAIN, "Debian 12");
const TRIXIE: Kernel = kernel("6.12", "bookworm-backports", "6.12", PLAIN, "Debian 13");

/// All kernels, oldest first, then other machines.
pub(crate) static KERNELS: [Kernel; 15] = [
    kernel("5.10", "bullseye", "5.10", PLAIN, "Debian 11"),
    BOOKWORM,
    machine(
        "6.1-rt",
        "Debian 12, PREEMPT_RT",
        &kernel("6.1-rt", "bookworm", "6.1", REALTIME, ""),
        &ENGINES,
    ),
    TRIXIE,
    between("6.16", "trixie-backports", "Debian 13, backports"),
    between("6.17", "trixie-backports", "Debian 13, backports"),
    between("6.18", "trixie-backports", "Debian 13, backports"),
    between("7.2", "sid", "Debian sid"),
    kernel(
        "7.3",
        "trixie-backports",
        "7.3",
        PLAIN,
        "Debian 13, backports",
    ),
    machine("6.1-adapters", "QEMU's adapters", &BOOKWORM, &ADAPTERS),
    machine("6.12-adapters", "QEMU's adapters", &TRIXIE, &ADAPTERS),
    machine("6.12-processors", "4 processors", &TRIXIE, &PROCESSORS),
    machine("6.12-nodes", "2 NUMA nodes", &TRIXIE, &NODES),
    machine("6.12-small", "512 MiB of memory", &TRIXIE, &SMALL),
    Kernel {
        machine: &ARM,
        ..kernel(
            "6.12-arm64",
            "trixie",
            "6.12",
            ARM.processor.debian,
            "AArch64",
        )
    },
];

impl Kernel {
    /// Returns the version with Debian's number in a package's name, such as `6.1.0-50` in
    /// `linux-image-6.1.0-50-amd64`, if the package is one of this kernel's.
    pub(crate) fn release_in<'a>(&self, package: &'a str) -> Option<&'a str> {
        let release = package
            .strip_prefix("linux-image-")?
            .strip_suffix(self.flavour)?
            .strip_suffix('-')?;
        let behind = release.strip_prefix(self.version)?;
        // Flavours are words; the first part may have letters of its own (`6.12.95+deb12`).
        let has_flavour = release
            .split('-')
            .skip(1)
            .any(|part| !part.chars().all(|c| c.is_ascii_digit()));
        (behind.starts_with('.') && !has_flavour).then_some(release)
    }
}

#[cfg(test)]
mod tests {
    use super::KERNELS;

    fn named(name: &str) -> &'static super::Kernel {
        let found = KERNELS.iter().find(|kernel| kernel.name == name);
        found.unwrap_or_else(|| panic!("{name} is in the table"))
    }

    #[test]
    fn packages_are_told_by_version_and_flavour() {
        let (plain, realtime) = (named("6.1"), named("6.1-rt"));
        assert_eq!(
            plain.release_in("linux-image-6.1.0-50-amd64"),
            Some("6.1.0-50")
        );
        for other in [
            "linux-image-6.1.0-50-rt-amd64",
            "linux-image-6.1.0-50-cloud-amd64",
            "linux-image-6.12.95+deb12-amd64",
            "linux-image-6.1.0-50-amd64-dbg",
            "linux-image-amd64",
        ] {
            assert_eq!(plain.release_in(other), None, "{other}");
        }
        assert_eq!(
            realtime.release_in("linux-image-6.1.0-50-rt-amd64"),
            Some("6.1.0-50")
        );
        assert_eq!(realtime.release_in("linux-image-6.1.0-50-amd64"), None);
        assert_eq!(
            named("6.12").release_in("linux-image-6.12.90+deb12.1-amd64"),
            Some("6.12.90+deb12.1")
        );
    }

    #[test]
    fn names_are_told_apart() {
        for (at, kernel) in KERNELS.iter().enumerate() {
            assert!(KERNELS[..at].iter().all(|other| other.name != kernel.name));
        }
    }
}
