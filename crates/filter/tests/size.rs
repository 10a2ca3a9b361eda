//! Checks that optimised programs are no larger than libpcap's, over the committed corpus: in 98 of
//! 100 expressions, and in all together.

#[path = "common/sizes.rs"]
mod sizes;

use std::process::ExitCode;

use ringtap_testkit::libpcap::Oracle;
use ringtap_testkit::{Need, suite, test, versions};
use sizes::Report;

fn main() -> ExitCode {
    suite(vec![test(
        "programs_are_no_larger",
        &[Need::LibpcapDev],
        programs_are_no_larger,
    )])
}

fn programs_are_no_larger() {
    /// Pairs of an expression and a link type that both compile.
    const AT_LEAST: usize = 10_000;
    let mut oracle = Oracle::start().expect("oracle");
    let report = Report::new(sizes::pairs(&mut oracle, None));
    let larger = report.larger();
    println!(
        "{}larger in {} of {}",
        report.table(),
        larger.len(),
        report.compared()
    );
    assert!(report.compared() >= AT_LEAST, "{}", report.compared());
    // libpcap 1.11 optimises more.
    let is_newer = versions::is_newer(oracle.version().expect("a version"));
    let allowed = if is_newer { 3 } else { 2 };
    assert!(
        larger.len() * 100 <= report.compared() * allowed,
        "larger in {} of {}, as {:?}",
        larger.len(),
        report.compared(),
        larger.first()
    );
    let (theirs, ours) = report.totals();
    assert!(ours < theirs, "{ours} instructions, libpcap {theirs}");
}
