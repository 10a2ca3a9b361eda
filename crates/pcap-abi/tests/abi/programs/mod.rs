//! Debian's programs, unchanged, on both libraries: the environment says which, and what they print
//! or write must be the same. The commands are listed in `docs/reference/libpcap-programs.md` too.

mod files;
mod live;
mod python;
mod scans;
mod stage;

use ringtap_testkit::Test;

pub(crate) fn tests() -> Vec<Test> {
    let all = [
        files::tests(),
        live::tests(),
        scans::tests(),
        python::tests(),
    ];
    all.into_iter().flatten().collect()
}
