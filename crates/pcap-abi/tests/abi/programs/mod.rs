//! Runs Debian's programs, unchanged, on both libraries: the environment selects one, and outputs
//! and files must be the same. `docs/reference/libpcap-programs.md` also lists the commands.

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
