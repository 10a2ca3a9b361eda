//! The commands for people and CI: `cargo xtask demo`, `test`, `bench`, `kernels`, `install` and others.
#![forbid(unsafe_code)]

mod agree;
mod bench;
mod corpus;
mod demo;
mod install;
mod kernels;
mod process;
mod programs;
mod python;
mod test;

use std::process::ExitCode;

use test::Extent;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo [--quick]   ringtap at work on traffic of its own
  demo --web [--quick]
                   the same traffic in the browser, by ringtap web, until Ctrl-C
  demo --history [--quick]
                   flows kept in a store and asked by SQL, without a server
  bench NAME [OPTION]...
                   builds with --release and runs `ringtap bench`; all: every experiment
  agree [--full]   every engine that runs filters, held against libpcap on the corpus of
                   expressions; in full, on all packets and with every program in the kernel
  api [--check]    the lists of the libraries' public interfaces in api/: written, or compared
  corpus           captures for the tests, from Debian's source packages into the user's cache
  deny             licences, sources and known faults of dependencies, for each lock file
  house            the format and the rules of the house, in seconds
  fuzz             a short run of every fuzz target
  install --prefix FOLDER [--libdir FOLDER] [--destdir FOLDER]
                   ringtap and ringtap-bench, and the libpcap with headers, into a folder
  install --query [--prefix FOLDER]
                   ringtap-query, which asks stores of flow records: built apart, since it takes long
  man FOLDER       the manual pages of all commands and of the filter language
  package [--check] [--query] [--python] [--tarballs]
                   the same as Debian packages, in target/debian; with --query and --python, those of
                   the query program and of the Python package, too; with --check, they are installed
                   and tried in a copy of the system that lives as long
  kernels [--again] [--jobs=NUMBER] [--suites=NAME,... | --speed | --run=SCRIPT | --write] --all | NAME...
                   the live suites on Debian's kernels, booted in QEMU; the table in docs/explanation/kernels.md;
                   with --aarch64 alone, the tests that need no kernel, built for that processor
  readme FOLDER    the measured tables of README and docs, from the results that `ringtap bench` left
                   in a folder
  options          the tables of options in docs/reference, from the commands' definitions
  programs         programs of other languages, compiled against an installed ringtap, run on its
                   libpcap and on Debian's
  python [--wheel FOLDER | --bench]
                   the Python package as a wheel, and its tests; with --wheel the wheel alone, with
                   --bench it is compared with scapy, dpkt and pyshark
  test [--quick]   every check of the project; the last line is the summary; with --quick, in a few
                   minutes, only what needs neither rights nor a network
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["demo"] => demo::run(false),
        ["demo", "--quick"] => demo::run(true),
        ["demo", "--history"] => demo::run_history(false),
        ["demo", "--history", "--quick"] => demo::run_history(true),
        ["demo", "--web"] => demo::run_web(false),
        ["demo", "--web", "--quick"] => demo::run_web(true),
        ["agree"] => agree::run(false),
        ["agree", "--full"] => agree::run(true),
        ["api"] => test::api::write(),
        ["api", "--check"] => test::run(Extent::Api),
        ["bench", ref arguments @ ..] => bench::run(arguments),
        ["readme", folder] => bench::readme(folder),
        ["options"] => bench::options(),
        ["man", folder] => install::man(folder),
        ["install", ref options @ ..] => install::run(options),
        ["package", ref options @ ..] => install::package(options),
        ["kernels", ref words @ ..] => kernels::run(words),
        ["programs"] => programs::run(),
        ["python", ref words @ ..] => python::run(words),
        ["corpus"] => corpus::run(),
        ["deny"] => test::run(Extent::Deny),
        ["house"] => test::run(Extent::House),
        ["fuzz"] => test::run(Extent::Fuzz),
        ["test"] => test::run(Extent::Whole),
        ["test", "--quick"] => test::run(Extent::Quick),
        ["help" | "-h" | "--help"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
