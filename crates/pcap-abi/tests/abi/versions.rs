//! The differences between Debian's library and ringtap's that depend on the version of the former:
//! what libpcap 1.10.5 changed. ringtap follows one of the versions; with the other, tests expect
//! exactly the differences in this list.

use std::sync::OnceLock;

use ringtap_testkit::versions::{self, Version};

use crate::c_programs::compiled;
use crate::library::{Library, text_of};

/// The version that changed everything in this list.
const CHANGED: Version = (1, 10, 5);

/// The versions of libpcap that ringtap agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    Older,
    Newer,
}

/// One difference in the output of a test's programs.
struct Change {
    /// The test's name, without the module.
    test: &'static str,
    follows: Follows,
    /// Every place that has this text in the output with the other library ...
    debians: &'static str,
    /// ... has this one in the output with ringtap.
    ours: &'static str,
}

const fn change(
    test: &'static str,
    follows: Follows,
    debians: &'static str,
    ours: &'static str,
) -> Change {
    Change {
        test,
        follows,
        debians,
        ours,
    }
}

const CHANGES: [Change; 10] = [
    change(
        "names",
        Follows::Newer,
        "status -13: Unknown error: -13\n",
        "status -13: Packet capture is not supported on that device\n",
    ),
    // The fractions in pcap files of the machine's byte order were signed numbers. 2^31 and
    // 2^32 - 1 in a file and in a handle with microseconds, ...
    change("offline", Follows::Newer, ".-2147483648,", ".2147483648,"),
    change("offline", Follows::Newer, ".-00000001,", ".4294967295,"),
    // ... in a file with nanoseconds, ...
    change("offline", Follows::Newer, ".-02147483,", ".002147483,"),
    change(
        "offline",
        Follows::Newer,
        ".000000000, 10 of 60 bytes",
        ".004294967, 10 of 60 bytes",
    ),
    change(
        "offline",
        Follows::Newer,
        "written: sum ad77d2e8\n",
        "written: sum b5e7d2e0\n",
    ),
    // ... in a handle with nanoseconds.
    change(
        "offline",
        Follows::Newer,
        ".-2147483648000,",
        ".2147483648000,",
    ),
    change("offline", Follows::Newer, ".-00001000,", ".4294967295000,"),
    // A warning for every program that doesn't turn promiscuous mode off, though nothing is missing
    // in the capture.
    change(
        "states",
        Follows::Older,
        "  activate: 2, Promiscuous mode not supported on the \"any\" device\n",
        "  activate: 0, no text\n",
    ),
    change(
        "tcpdump_lists",
        Follows::Older,
        "tcpdump: WARNING: any: That device doesn't support promiscuous mode\n\
         (Promiscuous mode not supported on the \"any\" device)\n",
        "",
    ),
];

/// Returns the version of Debian's library.
fn version() -> Version {
    static VERSION: OnceLock<Version> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut program = std::process::Command::new(compiled("version", folder.path(), false));
        Library::Debian.choose(&mut program);
        let text = text_of(&mut program);
        versions::parse(&text).unwrap_or_else(|| panic!("no version in {text:?}"))
    })
}

/// Returns the output that a test must have with ringtap if it has `debians` with Debian's library.
///
/// # Errors
/// Debian's library doesn't differ as expected.
pub(crate) fn expected(test: &str, debians: &str) -> Result<String, String> {
    let follows = if version() < CHANGED {
        Follows::Newer
    } else {
        Follows::Older
    };
    let mut ours = debians.to_owned();
    for change in &CHANGES {
        if change.test != test || change.follows != follows {
            continue;
        }
        if !debians.contains(change.debians) {
            return Err(format!(
                "{test}: {:?} is expected of libpcap {:?}\n{debians}",
                change.debians,
                version()
            ));
        }
        ours = ours.replace(change.debians, change.ours);
    }
    Ok(ours)
}
