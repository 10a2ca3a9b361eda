//! The sizes of programs: libpcap's optimised ones and ringtap's, side by side.

use ringtap_filter::{CompileOptions, LinkType, Tables, compile};
use ringtap_testkit::expressions;
use ringtap_testkit::libpcap::{Compile, Oracle};
use ringtap_testkit::versions;

/// The sizes of one expression on one link type, in instructions.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) expression: String,
    pub(crate) dlt: u32,
    pub(crate) theirs: usize,
    pub(crate) ours: usize,
}

/// Returns the sizes of all committed expressions that both compile, on each of their link types or
/// only on the given one. Expressions with another meaning in an older libpcap are left out.
pub(crate) fn pairs(oracle: &mut Oracle, only: Option<u32>) -> Vec<Pair> {
    let names = names();
    let is_older = !versions::is_newer(oracle.version().expect("a version"));
    let mut pairs = Vec::new();
    for case in expressions::cases() {
        let dlts = case.dlts.iter().copied();
        for dlt in dlts.filter(|&dlt| only.is_none_or(|only| only == dlt)) {
            if is_older && versions::brought(&case.expression, dlt) {
                continue;
            }
            pairs.extend(pair(oracle, &case.expression, dlt, &names));
        }
    }
    pairs
}

fn pair(oracle: &mut Oracle, expression: &str, dlt: u32, names: &Tables) -> Option<Pair> {
    let netmask = Some(0xffff_ff00);
    let mut options = CompileOptions::new(LinkType::from_dlt(dlt).expect("a link type"));
    options.netmask = netmask;
    options.ancillary = true;
    let how = Compile {
        dlt,
        netmask,
        ..Compile::default()
    };
    let ours = compile(expression, &options, names).ok()?.insns().len();
    let theirs = oracle.compile(expression, how).ok()?.len();
    Some(Pair {
        expression: expression.to_owned(),
        dlt,
        theirs,
        ours,
    })
}

/// Returns the names in this system's files, where libpcap looks them up.
fn names() -> Tables {
    Tables::of_files(|name| std::fs::read_to_string(format!("/etc/{name}")).unwrap_or_default())
}

/// Both distributions, and the expressions with a larger program here.
#[derive(Debug)]
pub(crate) struct Report {
    pairs: Vec<Pair>,
}

impl Report {
    pub(crate) fn new(pairs: Vec<Pair>) -> Self {
        Self { pairs }
    }

    /// Returns the sum of all instructions: libpcap's, ringtap's.
    pub(crate) fn totals(&self) -> (usize, usize) {
        self.pairs.iter().fold((0, 0), |(theirs, ours), pair| {
            (theirs + pair.theirs, ours + pair.ours)
        })
    }

    /// Returns the expressions that take more instructions here, the greatest difference first.
    pub(crate) fn larger(&self) -> Vec<&Pair> {
        let mut larger: Vec<&Pair> = self.pairs.iter().filter(|p| p.ours > p.theirs).collect();
        larger.sort_by_key(|p| (p.theirs.abs_diff(p.ours), &p.expression, p.dlt));
        larger.reverse();
        larger
    }

    /// Returns the number of compared expressions.
    pub(crate) fn compared(&self) -> usize {
        self.pairs.len()
    }

    /// Returns the distributions as a table: at each percentile, libpcap's size and ringtap's.
    pub(crate) fn table(&self) -> String {
        let mut theirs: Vec<usize> = self.pairs.iter().map(|p| p.theirs).collect();
        let mut ours: Vec<usize> = self.pairs.iter().map(|p| p.ours).collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        let mut text = format!("{:>10}{:>9}{:>9}\n", "percentile", "libpcap", "ringtap");
        for percentile in [0, 10, 25, 50, 75, 90, 95, 99, 100] {
            let at = (theirs.len() - 1) * percentile / 100;
            text += &format!("{percentile:>10}{:>9}{:>9}\n", theirs[at], ours[at]);
        }
        let (theirs, ours) = self.totals();
        text + &format!("{:>10}{theirs:>9}{ours:>9}\n", "total")
    }
}
