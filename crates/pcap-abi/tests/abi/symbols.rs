//! Compares the symbols that the shared objects export.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_testkit::{Need, Test, test};

use crate::library::{self, text_of};

const NEEDS: [Need; 3] = [Need::LibpcapDev, Need::Tool("nm"), Need::Tool("readelf")];

/// Functions of libpcap 1.11 that Debian's library does not have: sets of options, and functions
/// for remote captures, which fail in builds without them.
const ADDED_BY_1_11: [&str; 11] = [
    "pcap_alloc_option",
    "pcap_free_option",
    "pcap_get_option_int",
    "pcap_get_option_string",
    "pcap_remoteact_accept",
    "pcap_remoteact_accept_ex",
    "pcap_remoteact_cleanup",
    "pcap_remoteact_close",
    "pcap_remoteact_list",
    "pcap_set_option_int",
    "pcap_set_option_string",
];

/// WinPcap's extensions, and ringtap's own.
const OWN: [&str; 23] = [
    "pcap_createsrcstr",
    "pcap_findalldevs_ex",
    "pcap_getevent",
    "pcap_live_dump",
    "pcap_live_dump_ended",
    "pcap_open",
    "pcap_parsesrcstr",
    "pcap_sendqueue_alloc",
    "pcap_sendqueue_destroy",
    "pcap_sendqueue_queue",
    "pcap_sendqueue_transmit",
    "pcap_setbuff",
    "pcap_setmintocopy",
    "pcap_setmode",
    "pcap_setsampling",
    "pcap_setuserbuffer",
    "pcap_stats_ex",
    "ringtap_engine",
    "ringtap_engine_name",
    "ringtap_filter_ebpf",
    "ringtap_next_block",
    "ringtap_set_engine",
    "ringtap_stats",
];

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("symbols::those_of_1_11", &NEEDS[1..2], those_of_1_11),
        test("symbols::all_of_debians", &NEEDS, all_of_debians),
        test("symbols::no_others", &NEEDS, no_others),
        test(
            "symbols::a_code_generator_where_wanted",
            &[],
            a_code_generator_where_wanted,
        ),
        test("symbols::soname_is_upstreams", &NEEDS, soname_is_upstreams),
    ]
}

/// Returns the exported names with their kinds: `T` for functions, `D` for variables in any
/// section.
fn exported(library: &Path) -> BTreeMap<String, char> {
    let listed = text_of(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    );
    let symbol = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next()?.chars().next()?;
        let name = words.next()?.split('@').next()?.to_owned();
        let kind = if "BDRV".contains(kind) { 'D' } else { kind };
        Some((name, kind))
    };
    listed.lines().filter_map(symbol).collect()
}

fn debians() -> PathBuf {
    let asked = text_of(Command::new("cc").arg("-print-file-name=libpcap.so"));
    PathBuf::from(asked.trim())
}

fn all_of_debians() {
    let ours = exported(&library::path());
    let missing: Vec<_> = exported(&debians())
        .into_iter()
        .filter(|(name, kind)| ours.get(name) != Some(kind))
        .collect();
    assert!(
        missing.is_empty(),
        "missing, or of another kind: {missing:?}"
    );
}

fn those_of_1_11() {
    let ours = exported(&library::path());
    let missing: Vec<_> = ADDED_BY_1_11
        .into_iter()
        .filter(|name| ours.get(*name) != Some(&'T'))
        .collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
}

/// The library exports Debian's symbols, those added in libpcap 1.11, and those named in
/// `docs/reference/libpcap.md`. All functions are declared in a header. Debian's symbols include
/// `eproto_db`, which no header declares: libpcap exports it for very old programs.
fn no_others() {
    let mut expected: BTreeSet<String> = exported(&debians()).into_keys().collect();
    assert!(expected.contains("eproto_db"), "Debian's library has it");
    let added = ADDED_BY_1_11.into_iter().chain(OWN);
    expected.extend(added.map(str::to_owned));
    let ours: BTreeSet<String> = exported(&library::path()).into_keys().collect();
    let stray: Vec<_> = ours.symmetric_difference(&expected).collect();
    assert!(stray.is_empty(), "too many, or missing: {stray:?}");
    let declared = declared();
    let silent: Vec<_> = OWN
        .iter()
        .filter(|name| !declared.contains(**name))
        .collect();
    assert!(silent.is_empty(), "exported, but not declared: {silent:?}");
}

/// Without the feature `jit` the library contains no code generator.
fn a_code_generator_where_wanted() {
    let bytes = std::fs::read(library::path()).expect("the library");
    let has_generator = bytes.windows(9).any(|part| part == b"cranelift");
    assert_eq!(has_generator, library::HAS_NATIVE_CODE);
}

fn soname_is_upstreams() {
    let dynamic = text_of(Command::new("readelf").arg("-d").arg(library::path()));
    assert!(
        dynamic.contains("Library soname: [libpcap.so.1]"),
        "{dynamic}"
    );
}

/// Returns every word of the headers that could be a function.
fn declared() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for header in [
        "pcap/pcap.h",
        "pcap/bpf.h",
        "pcap/namedb.h",
        "ringtap.h",
        "ringtap/pcap-ext.h",
    ] {
        let path = library::crate_folder().join("include").join(header);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        words.extend(text.split(|c| !is_part(c)).map(str::to_owned));
    }
    words
}
