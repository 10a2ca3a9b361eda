//! Compares the size of programs with libpcap's optimised ones, over the committed expressions.
//! Prints both distributions, and the expressions that take more instructions here. Argument: the
//! only link type (DLT number) to compare.

#[path = "../tests/common/sizes.rs"]
mod sizes;

use ringtap_testkit::libpcap::Oracle;
use sizes::Report;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only = std::env::args().nth(1).map(|dlt| dlt.parse()).transpose()?;
    let mut oracle = Oracle::start()?;
    let report = Report::new(sizes::pairs(&mut oracle, only));
    print!("{}", report.table());
    let larger = report.larger();
    println!("larger in {} of {}:", larger.len(), report.compared());
    for pair in larger {
        println!(
            "{:>5} {:>4} {:>4}  {}",
            pair.dlt, pair.theirs, pair.ours, pair.expression
        );
    }
    Ok(())
}
