//! What people and CI call: `cargo xtask demo`, `test`, `bench`, `kernels`, `install` and others.
#![forbid(unsafe_code)]

mod agree;
mod bench;
mod demo;
mod install;
mod kernels;
mod process;
mod programs;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo [--quick]   ringtap at work on traffic of its own
  bench NAME [OPTION]...
                   builds with --release and runs `ringtap bench`; all: every experiment
  agree [--full]   every engine that runs filters, held against libpcap on the corpus of
                   expressions; in full, on all packets and with every program in the kernel
  install --prefix FOLDER [--libdir FOLDER] [--destdir FOLDER]
                   ringtap, and its libpcap with headers, into a folder
  package [--check]
                   the same as Debian packages, in target/debian; with --check, they are installed
                   and tried in a copy of the system that lives as long
  kernels [--again] [--suites=NAME,...] --all | NAME...
                   the live suites on Debian's kernels, booted in QEMU; the table in docs/kernels.md
  readme FOLDER    the measured tables of README and docs, from the results that `ringtap bench` left
                   in a folder
  programs         programs of other languages, compiled against an installed ringtap, run on its
                   libpcap and on Debian's
  test             every check of the project; the last line is the summary
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["demo"] => demo::run(false),
        ["demo", "--quick"] => demo::run(true),
        ["agree"] => agree::run(false),
        ["agree", "--full"] => agree::run(true),
        ["bench", ref arguments @ ..] => bench::run(arguments),
        ["readme", folder] => bench::readme(folder),
        ["install", ref options @ ..] => install::run(options),
        ["package", ref options @ ..] => install::package(options),
        ["kernels", ref words @ ..] => kernels::run(words),
        ["programs"] => programs::run(),
        ["test"] => test::run(),
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
