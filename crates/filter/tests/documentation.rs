//! Tests the examples of the language's pages, `docs/reference/filter-language.md` and
//! `docs/reference/filter-link-types.md`. Each example is compiled, here and by libpcap, and run on
//! the packets that the page says it accepts and rejects.
//!
//! An example is a row of a table whose first column is headed `example`. The other columns are
//! found by their names: `takes` and `leaves` list packets of
//! `testdata/filter/documentation/packets.txt` (a dash for none). The heading of the first column
//! may differ:
//!
//! - `example with names` and `example of ringtap`: only ringtap is tested.
//! - `example of 1.11`: libpcap is tested from that version on.
//! - `refused`: both must reject the expression.
//! - `extension`: libpcap must reject it, and so must ringtap without extensions.
//! - `names`: each name of the first column replaces NAME in the second.
//!
//! Other headings are errors, except for a few known ones.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use ringtap_filter::{CompileOptions, LinkType, Program, Tables, compile};
use ringtap_testkit::examples::{self, Example, Expected, Page, Sample};
use ringtap_testkit::libpcap::{Compile, Oracle, OracleError};
use ringtap_testkit::{Need, suite, test, versions};

/// The network of the examples is 10.0.0.0/24.
const NETMASK: u32 = 0xffff_ff00;

fn main() -> ExitCode {
    suite(vec![
        test("examples_mean_what_the_pages_say", &[], examples),
        test(
            "libpcap_agrees_with_the_pages",
            &[Need::LibpcapDev],
            libpcap,
        ),
        test(
            "names_mean_what_they_mean_to_libpcap",
            &[Need::LibpcapDev],
            named,
        ),
        test("every_packet_is_in_an_example", &[], every_packet),
    ])
}

/// The examples of the pages, with the packets that they name.
struct Book {
    pages: Vec<Page>,
    samples: BTreeMap<String, Sample>,
}

impl Book {
    fn open() -> Self {
        let book = Self {
            pages: [
                "docs/reference/filter-language.md",
                "docs/reference/filter-link-types.md",
            ]
            .map(Page::read)
            .into(),
            samples: examples::samples(),
        };
        let count = book.examples().count();
        assert!(count > 150, "only {count} examples were found");
        book
    }

    fn examples(&self) -> impl Iterator<Item = &Example> {
        self.pages.iter().flat_map(|page| &page.examples)
    }

    /// Returns the packets of an example, and whether it accepts each.
    fn packets<'a>(&'a self, example: &'a Example) -> Vec<(&'a str, &'a Sample, bool)> {
        let list = |names: &'a [String], taken| {
            names.iter().map(move |name| {
                let sample = self.samples.get(name);
                let sample =
                    sample.unwrap_or_else(|| panic!("{}: no packet {name}", example.place));
                (&name[..], sample, taken)
            })
        };
        list(&example.takes, true)
            .chain(list(&example.leaves, false))
            .collect()
    }
}

fn options(example: &Example, sample: &Sample, optimize: bool) -> CompileOptions {
    let mut options = CompileOptions::new(LinkType::from_dlt(sample.dlt).expect("a link type"));
    options.netmask = Some(NETMASK);
    options.optimize = optimize;
    options.ancillary = true;
    options.extensions = example.expected == Expected::Extension;
    options
}

/// Collects all failures.
#[derive(Default)]
struct Complaints(Vec<String>);

impl Complaints {
    fn add(&mut self, example: &Example, text: impl std::fmt::Display) {
        let Example {
            place, expression, ..
        } = example;
        self.0.push(format!("{place}: `{expression}`: {text}"));
    }

    fn finish(self) {
        assert!(
            self.0.is_empty(),
            "{} wrong:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

/// Returns the verdict of a program of ringtap on a packet.
fn takes(program: &Program, sample: &Sample) -> bool {
    program.run(&sample.data, sample.length()) != 0
}

fn examples() {
    let book = Book::open();
    let names = examples::names();
    let mut complaints = Complaints::default();
    for example in book.examples() {
        if matches!(example.expected, Expected::Refused | Expected::Extension) {
            let mut options =
                CompileOptions::new(LinkType::from_dlt(example.dlt).expect("a link type"));
            options.netmask = None;
            if compile(&example.expression, &options, &names).is_ok() {
                complaints.add(example, "is accepted");
            }
        }
        if example.expected == Expected::Refused {
            continue;
        }
        for (name, sample, taken) in book.packets(example) {
            for optimize in [true, false] {
                match compile(
                    &example.expression,
                    &options(example, sample, optimize),
                    &names,
                ) {
                    Err(error) => complaints.add(example, error),
                    Ok(program) if takes(&program, sample) != taken => {
                        complaints.add(
                            example,
                            format_args!("wrong on {name}, optimised {optimize}"),
                        );
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    complaints.finish();
}

fn libpcap() {
    let book = Book::open();
    let mut oracle = Oracle::start().expect("the oracle");
    let is_newer = versions::is_newer(oracle.version().expect("a version"));
    let mut complaints = Complaints::default();
    for example in book.examples() {
        let how = |dlt, netmask| Compile {
            dlt,
            netmask,
            ..Compile::default()
        };
        match example.expected {
            Expected::Ours => {}
            Expected::Newer if !is_newer => {}
            Expected::Refused | Expected::Extension => {
                match oracle.compile(&example.expression, how(example.dlt, None)) {
                    Err(OracleError::Refused(_)) => {}
                    Err(error) => panic!("{error}"),
                    Ok(_) => complaints.add(example, "is accepted"),
                }
            }
            Expected::Verdicts | Expected::Newer => {
                for (name, sample, taken) in book.packets(example) {
                    let how = how(sample.dlt, Some(NETMASK));
                    match oracle.compile(&example.expression, how) {
                        Err(error) => complaints.add(example, error),
                        Ok(program) => {
                            let verdict = oracle.filter(&program, &sample.data, sample.length());
                            if (verdict.expect("a verdict") != 0) != taken {
                                complaints.add(example, format_args!("wrong on {name}"));
                            }
                        }
                    }
                }
            }
        }
    }
    complaints.finish();
}

/// Checks that the programs have the same constants.
fn named() {
    let book = Book::open();
    let mut oracle = Oracle::start().expect("the oracle");
    let names: Vec<_> = book.pages.iter().flat_map(|page| &page.names).collect();
    assert!(names.len() > 130, "only {} names", names.len());
    for name in names {
        let text = &name.expression;
        let how = Compile {
            dlt: name.dlt,
            ..Compile::default()
        };
        let theirs = oracle.compile(text, how);
        let theirs = theirs.unwrap_or_else(|error| panic!("{}: {text}: {error}", name.place));
        let ours = compile(
            text,
            &CompileOptions::new(LinkType::from_dlt(name.dlt).expect("a link type")),
            &Tables::new(),
        );
        let ours = ours.unwrap_or_else(|error| panic!("{}: {text}: {error}", name.place));
        let mut constants = [
            theirs
                .iter()
                .map(|insn| (insn.code, insn.k))
                .collect::<Vec<_>>(),
            ours.insns()
                .iter()
                .map(|insn| (insn.code, insn.k))
                .collect(),
        ];
        constants.iter_mut().for_each(|list| list.sort_unstable());
        let [theirs, ours] = constants;
        assert_eq!(ours, theirs, "{}: {text}", name.place);
    }
}

fn every_packet() {
    let book = Book::open();
    let used: BTreeSet<&String> = book
        .examples()
        .flat_map(|example| example.takes.iter().chain(&example.leaves))
        .collect();
    let unused: Vec<&String> = book
        .samples
        .keys()
        .filter(|name| !used.contains(name))
        .collect();
    assert!(unused.is_empty(), "in no example: {unused:?}");
}
