//! Tests the attribution of call chains to components: cases in `testdata/profile/chains.toml`, on
//! the functions of `testdata/profile/kallsyms.txt`.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use ringtap_profile::attribute::{Attributor, Cast, Tally, Verdict};
use ringtap_profile::{COMPONENTS, Component, KernelSymbols, Table, TapKind};
use ringtap_sys::bpf::NativePart;
use serde::Deserialize;

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    thread: String,
    chain: String,
    shows: String,
    /// The engine, if it matters.
    #[serde(default)]
    engine: String,
}

const PROCESS: u32 = 100;
const READER: u32 = 101;
const GENERATOR: u32 = 102;
/// The address of the capture's program, with 256 bytes for each part.
const PROGRAM: u64 = 0xffff_ffff_c020_0000;
/// The address of code without a name: too far after every function.
const NAMELESS: u64 = 0xffff_ffff_c030_0000;
const PARTS: [&str; 5] = ["tap", "filter", "timestamp", "copy", "wake"];

fn file(name: &str) -> String {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/profile"
    ));
    fs::read_to_string(folder.join(name)).expect("test data")
}

fn attributor(list: &str, tap: TapKind) -> Attributor {
    let symbols = KernelSymbols::parse(list.as_bytes()).expect("a list");
    let parts: Vec<NativePart> = (0..)
        .zip(PARTS)
        .map(|(number, name)| NativePart {
            addresses: PROGRAM + number * 256..PROGRAM + (number + 1) * 256,
            name,
        })
        .collect();
    let table = Table::built_in();
    let cast = Cast {
        process: PROCESS,
        reader: READER,
        generators: vec![GENERATOR],
        application: Some(0x5000..0x5100),
        driver: table.driver("veth"),
        tap,
    };
    Attributor::new(table, Some(symbols), &parts, cast)
}

fn addresses(list: &str) -> HashMap<String, u64> {
    let lines = list.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok()?;
        Some((fields.nth(1)?.to_owned(), address + 0x10))
    });
    lines.collect()
}

fn words(verdict: Verdict) -> String {
    match verdict {
        Verdict::On(component) => match component {
            Component::Driver => "driver",
            Component::Stack => "stack",
            Component::Tap => "tap",
            Component::Filter => "filter",
            Component::Timestamp => "timestamp",
            Component::Copy => "copy",
            Component::Wake => "wake",
            Component::Reader => "reader",
            Component::Application => "application",
        },
        Verdict::Unexplained => "unexplained",
        Verdict::Generator => "generator",
        Verdict::Measurement => "measurement",
        Verdict::Other => "somebody else",
        Verdict::Idle => "nothing",
    }
    .to_owned()
}

#[test]
fn chains_show_what_the_table_says() {
    let list = file("kallsyms.txt");
    let known = addresses(&list);
    let mut hook = attributor(&list, TapKind::Hook);
    let mut packet = attributor(&list, TapKind::Packet);
    let mut xsk = attributor(&list, TapKind::Xsk);
    let cases: Cases = toml::from_str(&file("chains.toml")).expect("cases");
    assert!(cases.case.len() >= 25);
    let mut wrong = Vec::new();
    for case in &cases.case {
        let mut chain = Vec::new();
        let mut names = case.chain.split_whitespace();
        while let Some(name) = names.next() {
            chain.push(match name {
                "(nameless)" => NAMELESS,
                "(program" => {
                    let part = names.next().expect("a part").trim_end_matches(')');
                    let number = PARTS
                        .iter()
                        .position(|known| *known == part)
                        .expect("a part");
                    PROGRAM + number as u64 * 256 + 0x20
                }
                name => *known
                    .get(name)
                    .unwrap_or_else(|| panic!("{}: {name}", case.name)),
            });
        }
        let (process, thread) = match case.thread.as_str() {
            "reader" => (PROCESS, READER),
            "generator" => (PROCESS, GENERATOR),
            "own" => (PROCESS, PROCESS),
            "idle" => (0, 0),
            "other" => (7, 7),
            thread => panic!("{}: {thread}", case.name),
        };
        let attributor = match case.engine.as_str() {
            "" => &mut hook,
            "packet" => &mut packet,
            "xsk" => &mut xsk,
            engine => panic!("{}: {engine}", case.name),
        };
        let found = words(attributor.judge_chain(chain.into_iter().rev(), process, thread));
        if found != case.shows {
            wrong.push(format!("{}: {found}, not {}", case.name, case.shows));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unknown = hook.unknown();
    assert!(
        unknown
            .iter()
            .any(|(name, _)| name == "a_function_of_tomorrow"),
        "{unknown:?}"
    );
}

#[test]
fn user_space_is_told_by_addresses_and_threads() {
    let attributor = attributor(&file("kallsyms.txt"), TapKind::Hook);
    let judge = |address, process, thread| attributor.judge_user(address, process, thread);
    assert_eq!(
        judge(0x5010, PROCESS, READER),
        Verdict::On(Component::Application)
    );
    assert_eq!(
        judge(0x6000, PROCESS, READER),
        Verdict::On(Component::Reader)
    );
    assert_eq!(judge(0x5010, PROCESS, GENERATOR), Verdict::Generator);
    assert_eq!(judge(0x5010, PROCESS, PROCESS), Verdict::Measurement);
    assert_eq!(judge(0x5010, 7, 7), Verdict::Other);
}

#[test]
fn every_sample_is_counted_once() {
    let mut tally = Tally::default();
    let all = COMPONENTS.map(Verdict::On).into_iter().chain([
        Verdict::Unexplained,
        Verdict::Generator,
        Verdict::Measurement,
        Verdict::Other,
        Verdict::Idle,
    ]);
    let count = all.map(|verdict| tally.add(verdict)).count() as u64;
    assert_eq!(tally.busy() + tally.idle, count);
    assert_eq!(tally.explained(), COMPONENTS.len() as u64);
}
