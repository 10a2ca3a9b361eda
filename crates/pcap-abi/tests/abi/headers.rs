//! Compares our headers with those of Debian's `libpcap-dev`: macros, structures, functions. Also
//! compiles them in C and in C++.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_testkit::{Need, Test, test};

use crate::library::{crate_folder, difference, text_of};

const NEEDS: [Need; 2] = [Need::LibpcapDev, Need::Tool("cc")];

/// Macros of Debian's headers that ours lack or define differently, with the reason.
const OTHER_MACROS: [(&str, &str); 2] = [
    (
        "DLT_MATCHING_MAX",
        "the last link type of libpcap 1.11, by its name before 1.10.5",
    ),
    (
        "DLT_HIGH_MATCHING_MAX",
        "the same, by its name since 1.10.5",
    ),
];

/// A macro that only headers with the structure for CAN XL frames define, as libpcap's do since
/// 1.10.5.
const CAN_XL: &str = "CANXL_XLF";

/// The headers that programs include before, to separate the system's macros from those of the
/// headers.
const SYSTEM: &str = "\
#include <stddef.h>
#include <stdio.h>
#include <inttypes.h>
#include <sys/types.h>
#include <sys/time.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <netdb.h>
";

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("headers::same_files", &NEEDS, same_files),
        test(
            "headers::compile_alone",
            &[Need::Tool("cc"), Need::Tool("c++")],
            compile_alone,
        ),
        test("headers::same_macros", &NEEDS, same_macros),
        test("headers::same_functions", &NEEDS, same_functions),
        test("headers::same_layouts", &NEEDS, same_layouts),
    ]
}

/// The origin of the headers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Headers {
    Debian,
    Ringtap,
}

impl Headers {
    fn folder(self) -> PathBuf {
        match self {
            Self::Debian => PathBuf::from("/usr/include"),
            Self::Ringtap => crate_folder().join("include"),
        }
    }

    fn compiler(self) -> Command {
        let mut compiler = Command::new("cc");
        if self == Self::Ringtap {
            compiler.arg("-I").arg(self.folder());
        }
        compiler
    }

    /// Returns the names of all headers: `pcap.h`, `pcap/bpf.h`, …
    fn files(self) -> BTreeSet<String> {
        let is_header = |name: &String| {
            let is_pcap = name.starts_with("pcap");
            is_pcap && Path::new(name).extension().is_some_and(|end| end == "h")
        };
        let within = names(&self.folder().join("pcap"));
        let within = within.into_iter().map(|name| format!("pcap/{name}"));
        let beside = names(&self.folder()).into_iter();
        within.chain(beside).filter(is_header).collect()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.expect("a folder that can be read");
        entry.file_name().to_string_lossy().into_owned()
    };
    entries.map(name).collect()
}

fn same_files() {
    assert_eq!(Headers::Ringtap.files(), Headers::Debian.files());
}

fn compile_alone() {
    let mut headers = Headers::Ringtap.files();
    headers.extend(["ringtap.h", "ringtap/pcap-ext.h"].map(str::to_owned));
    for header in headers {
        for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
            let mut command = Command::new(compiler);
            command.args([
                "-Wall",
                "-Wextra",
                "-Werror",
                "-fsyntax-only",
                "-x",
                language,
            ]);
            command.arg("-I").arg(Headers::Ringtap.folder());
            // Twice, because each header must have an include guard.
            command.args(["-include", &header, "-include", &header, "/dev/null"]);
            text_of(&mut command);
        }
    }
}

/// Macros by name: parameters and text, without white space.
type Macros = BTreeMap<String, String>;

fn macros(headers: Headers, header: Option<&str>) -> Macros {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("source.c");
    let include = header.map(|header| format!("#include <{header}>\n"));
    let text = format!("{SYSTEM}{}", include.unwrap_or_default());
    fs::write(&source, text).expect("a source file");
    let listed = text_of(headers.compiler().args(["-E", "-dM"]).arg(source));
    let split = |line: &str| {
        let rest = line.strip_prefix("#define ")?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (name, text) = rest.split_at(end.unwrap_or(rest.len()));
        let joined = text.chars().filter(|c| !c.is_whitespace()).collect();
        Some((name.to_owned(), joined))
    };
    listed.lines().filter_map(split).collect()
}

/// Compares every macro of every header, by its value if it is a number, otherwise by its text.
fn same_macros() {
    let system = macros(Headers::Debian, None);
    let excepted = |name: &str| OTHER_MACROS.iter().any(|(other, _)| *other == name);
    let mut compared = 0;
    for header in Headers::Debian.files() {
        let debians = macros(Headers::Debian, Some(&header));
        let ours = macros(Headers::Ringtap, Some(&header));
        let mut numbers = Vec::new();
        for (name, text) in debians {
            if system.contains_key(&name) || excepted(&name) {
                continue;
            }
            compared += 1;
            let our = ours.get(&name);
            assert!(our.is_some(), "{header} does not define {name}");
            if is_number(&text) {
                numbers.push(name);
            } else {
                assert_eq!(our, Some(&text), "{header}: {name}");
            }
        }
        let [debians, ours] =
            [Headers::Debian, Headers::Ringtap].map(|headers| values(headers, &header, &numbers));
        if let Some(difference) = difference(&debians, &ours) {
            panic!("{header}:\n{difference}");
        }
    }
    assert!(compared > 500, "{compared} macros compared");
}

/// Returns whether a text is a constant, possibly by another's name, not a function, string or
/// keyword.
fn is_number(text: &str) -> bool {
    let is_part =
        |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "_x-'abcdef".contains(c);
    !text.is_empty() && text.chars().all(is_part)
}

fn values(headers: Headers, header: &str, names: &[String]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let print = |name: &String| format!("printf(\"{name} %lld\\n\", (long long)({name}));\n");
    let body: String = names.iter().map(print).collect();
    let text = format!(
        "{SYSTEM}#include <pcap.h>\n#include <{header}>\nint main(void)\n{{\n{body}return 0;\n}}\n"
    );
    build_and_run(headers, &folder.path().join("values.c"), Some(&text), &[])
}

fn same_layouts() {
    let source = crate_folder().join("tests/c/layouts.c");
    // Ours always have the structure.
    let can = macros(Headers::Debian, Some("pcap/can_socketcan.h"));
    let options = can.contains_key(CAN_XL).then_some("-DWITH_CAN_XL");
    let [debians, ours] = [Headers::Debian, Headers::Ringtap]
        .map(|headers| build_and_run(headers, &source, None, options.as_slice()));
    assert!(debians.lines().count() > 100, "{debians}");
    if let Some(difference) = difference(&debians, &ours) {
        panic!("{difference}");
    }
}

fn build_and_run(headers: Headers, source: &Path, text: Option<&str>, options: &[&str]) -> String {
    if let Some(text) = text {
        fs::write(source, text).expect("a source file");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("program");
    let mut compiler = headers.compiler();
    text_of(compiler.args(options).arg("-o").arg(&program).arg(source));
    text_of(&mut Command::new(program))
}

/// Checks that every function of Debian's headers is declared in ours, with the same types.
fn same_functions() {
    let (debians, ours) = (functions(Headers::Debian), functions(Headers::Ringtap));
    assert!(debians.len() > 80, "{debians:?}");
    let missing: Vec<_> = debians.difference(&ours).collect();
    assert!(
        missing.is_empty(),
        "missing, or with other types: {missing:#?}"
    );
}

/// Returns the declarations as the compiler parses them, without parameter names.
fn functions(headers: Headers) -> BTreeSet<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("source.c");
    let list = folder.path().join("list");
    fs::write(&source, "#include <pcap.h>\n#include <pcap-namedb.h>\n").expect("a source file");
    let mut compiler = headers.compiler();
    compiler.arg("-fsyntax-only").arg("-aux-info").arg(&list);
    text_of(compiler.arg(source));
    let listed = fs::read_to_string(list).expect("a list of declarations");
    let declaration = |line: &str| line.split("*/").nth(1).map(|text| text.trim().to_owned());
    let is_ours =
        |text: &String| text.contains(" pcap_") || text.contains("*pcap_") || text.contains("bpf_");
    listed
        .lines()
        .filter_map(declaration)
        .filter(is_ours)
        .collect()
}
