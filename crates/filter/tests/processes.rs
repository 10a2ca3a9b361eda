//! Tests of the packet's process in expressions (`testdata/filter/processes.txt`): they decide as the file says, and
//! a program that knows less about the process accepts what it cannot decide.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;

use ringtap_filter::disasm;
use ringtap_filter::explain::Explanation;
use ringtap_filter::process::{Asked, PacketOwner, ProcessTests};
use ringtap_filter::program::plain;
use ringtap_filter::{
    Ancillary, CompileError, CompileOptions, ErrorKind, LinkType, Program, Tables, compile,
};
use ringtap_packet::process::{ContainerNames, ProcessDescription};

const ALL: ProcessTests = ProcessTests::Complete;

/// A packet, with what is known of its process.
struct Sample {
    data: Vec<u8>,
    owner: PacketOwner,
    description: ProcessDescription,
}

impl Sample {
    fn of(fields: &str) -> (String, Self) {
        let fields: Vec<&str> = fields.split(" | ").collect();
        let [name, protocol, pid, uid, comm, cgroup, container, pod] = fields[..] else {
            panic!("eight fields: {fields:?}");
        };
        let number = |text: &str, unknown| text.parse().unwrap_or(unknown);
        let known = |text: &str| if text == "-" { "" } else { text }.to_owned();
        let mut data = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 0, 0, 0];
        data[9] = if protocol == "tcp" { 6 } else { 17 };
        data.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let mut comm_bytes = [0; 16];
        let comm = known(comm);
        comm_bytes[..comm.len()].copy_from_slice(comm.as_bytes());
        let owner = PacketOwner {
            pid: number(pid, 0),
            uid: number(uid, u32::MAX),
            name: comm_bytes,
            answers: 0,
        };
        let description = ProcessDescription {
            cgroup: known(cgroup),
            container: ContainerNames {
                name: known(container),
                pod: known(pod),
                ..ContainerNames::default()
            },
            ..ProcessDescription::default()
        };
        let sample = Self {
            data,
            owner,
            description,
        };
        (name.to_owned(), sample)
    }

    /// Returns whether a program accepts the packet; the interpreters agree.
    fn is_taken(&self, program: &Program, answers: u64) -> bool {
        let process = PacketOwner {
            answers,
            ..self.owner
        };
        let beside = Ancillary {
            process,
            ..Ancillary::default()
        };
        let verdict = program.run_with(&self.data, 20, &beside);
        assert_eq!(
            plain::run(program, &self.data, 20, Some(&beside)),
            verdict,
            "{program:?}"
        );
        verdict != 0
    }
}

fn names() -> Tables {
    let mut names = Tables::new();
    names.add_hosts("192.0.2.1 pid process container cgroup");
    names
}

fn compiled(expression: &str, processes: ProcessTests) -> Result<Program, CompileError> {
    let options = CompileOptions::new(LinkType::RAW)
        .extensions(true)
        .processes(processes);
    compile(expression, &options, &names())
}

/// Returns the lines of the file without comments.
fn lines() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/filter/processes.txt");
    let text = std::fs::read_to_string(file).expect("the list of expressions");
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

fn samples() -> BTreeMap<String, Sample> {
    let lines = lines();
    let owners = lines.iter().filter_map(|line| line.strip_prefix("owner "));
    owners.map(Sample::of).collect()
}

/// Returns the expressions with the packets that they take and leave.
fn examples() -> Vec<(String, Vec<String>, Vec<String>)> {
    let lines = lines();
    let is_other = |line: &&String| !line.starts_with("owner ") && !line.starts_with("error ");
    let examples = lines.iter().filter(is_other).map(|line| {
        let fields: Vec<&str> = line.split(" | ").collect();
        let [expression, takes, leaves] = fields[..] else {
            panic!("three fields: {line}");
        };
        let list = |text: &str| {
            text.split(' ')
                .filter(|name| *name != "-")
                .map(str::to_owned)
                .collect()
        };
        (expression.to_owned(), list(takes), list(leaves))
    });
    examples.collect()
}

#[test]
fn expressions_decide_as_the_file_says() {
    let samples = samples();
    for (expression, takes, leaves) in examples() {
        let program = compiled(&expression, ALL).expect(&expression);
        let asked = Asked::of(&expression, true).expect("it is valid");
        for (name, expected) in takes
            .iter()
            .map(|name| (name, true))
            .chain(leaves.iter().map(|name| (name, false)))
        {
            let sample = &samples[name];
            let answers = asked.answers(&sample.description);
            assert_eq!(
                sample.is_taken(&program, answers),
                expected,
                "{expression}: {name}\n{program:?}"
            );
        }
    }
}

#[test]
fn programs_that_know_less_accept_more() {
    let samples = samples();
    for (expression, ..) in examples() {
        let complete = compiled(&expression, ALL).expect(&expression);
        let asked = Asked::of(&expression, true).expect("it is valid");
        let most = compiled(&expression, ProcessTests::WithoutAnswers).expect(&expression);
        let least = compiled(&expression, ProcessTests::Ignored).expect(&expression);
        assert!(!least.asks_for_process(), "{expression}");
        assert_eq!(complete.asks_for_process(), asked.anything);
        if asked.questions.is_empty() {
            assert_eq!(most, complete, "{expression}");
        }
        for sample in samples.values() {
            let is_taken = sample.is_taken(&complete, asked.answers(&sample.description));
            let by_most = sample.is_taken(&most, 0);
            let by_least = sample.is_taken(&least, 0);
            assert!(by_most || !is_taken, "{expression}");
            assert!(by_least || !by_most, "{expression}");
        }
    }
}

/// A test that is joined to a condition on the packet leaves that condition to programs that know nothing of processes.
#[test]
fn conditions_on_the_packet_stay() {
    for (expression, packet) in [
        ("tcp and process nginx", "tcp"),
        ("not (udp or process nginx)", "not udp"),
        ("udp and (cgroup /a or not container b)", "udp"),
    ] {
        let ignoring = compiled(expression, ProcessTests::Ignored).expect("valid");
        assert_eq!(
            ignoring,
            compiled(packet, ALL).expect("valid"),
            "{expression}"
        );
    }
}

#[test]
fn invalid_ones_name_their_place() {
    let lines = lines();
    let mut wrong = Vec::new();
    for line in lines.iter().filter_map(|line| line.strip_prefix("error ")) {
        let fields: Vec<&str> = line.splitn(3, " | ").collect();
        let [place, kind, expression] = fields[..] else {
            panic!("three fields: {line}");
        };
        let error = compiled(expression, ALL).expect_err(expression);
        let found = format!("{:?} | {:?}", error.span, error.kind);
        if !found.starts_with(&format!("{place} | {kind}")) {
            wrong.push(format!("{found} | {expression}"));
        }
    }
    assert!(wrong.is_empty(), "found instead:\n{}", wrong.join("\n"));
}

#[test]
fn without_processes_they_are_errors() {
    for expression in ["process a", "pid 1", "uid 1", "container a", "cgroup /a"] {
        let error = compiled(expression, ProcessTests::Refused).expect_err(expression);
        assert_eq!(error.kind, ErrorKind::NoProcess);
        let options = CompileOptions::new(LinkType::RAW).processes(ALL);
        let error = compile(expression, &options, &Tables::new()).expect_err(expression);
        assert!(error.render(expression).contains("--extended"), "{error:?}");
        let error = compile(
            &format!("host 10.0.0.1 or {expression}"),
            &options,
            &Tables::new(),
        );
        let error = error.expect_err(expression);
        assert!(
            matches!(
                error.kind,
                ErrorKind::Unexpected(_)
                    | ErrorKind::IllegalCharacter(_)
                    | ErrorKind::UnknownName { .. }
            ),
            "{error:?}"
        );
    }
}

#[test]
fn the_number_of_groups_is_limited() {
    let groups = |count: usize| {
        let groups = (0..count).map(|number| format!("cgroup /{number}"));
        groups.collect::<Vec<_>>().join(" or ")
    };
    assert!(compiled(&groups(64), ALL).is_ok());
    let error = compiled(&groups(65), ALL).expect_err("too many");
    assert_eq!(error.kind, ErrorKind::TooManyGroups);
}

#[test]
fn listings_and_explanations_name_the_loads() {
    let program = compiled("uid 5 or cgroup /a or process nginx or container b", ALL);
    let program = program.expect("valid");
    let listing = disasm::listing(&program);
    for load in ["[uid]", "[comm0]", "[comm3]", "[group1]", "[group2]"] {
        assert!(listing.contains(load), "{load}: {listing}");
    }
    let text = Explanation::new(&program, LinkType::RAW).to_string();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "the user of the process is 5",
        "answer 1 about the control group is 1",
        r#"the name of the process up to byte 4 is "ngin""#,
        "answer 2 about the control group is 1",
        "a tap with --who does",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
