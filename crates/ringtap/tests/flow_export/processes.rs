//! Processes at the ends of flows: each output has what the file recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use etherparse::PacketBuilder;
use ringtap_packet::process::{
    PacketProcess, ProcessDescription, ProcessFacts, ProcessTag, layout,
};
use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
use ringtap_savefile::{Interface, PcapngWriter, ProcessBlock, RawBlock, Section};
use ringtap_testkit::process::Running;
use serde_json::{Value, json};

use crate::capture::{Capture, LIMIT, RINGTAP, json_lines, number, probe, text};
use crate::transport::listening;

/// A container's id.
const ID: &str = "3f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a9012";
const FIELDS: [&str; 10] = [
    "src_pid",
    "dst_pid",
    "src_process",
    "dst_process",
    "src_uid",
    "dst_uid",
    "src_container",
    "dst_container",
    "src_cgroup",
    "dst_cgroup",
];
const CLIENT: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [198, 51, 100, 2];

struct Owner {
    pid: u32,
    uid: u32,
    name: &'static [u8],
    cgroup: String,
    how: u8,
}

fn client() -> Owner {
    Owner {
        pid: 1234,
        uid: 0,
        name: b"a \"client\",x",
        cgroup: "/user.slice/app-a\\x2db.scope".to_owned(),
        how: layout::USED,
    }
}

fn server() -> Owner {
    Owner {
        pid: 77,
        uid: u32::MAX,
        name: b"server",
        cgroup: format!("/docker/{ID}"),
        how: layout::USED,
    }
}

impl Owner {
    fn tag(&self) -> [u8; 56] {
        let facts = ProcessFacts {
            pid: self.pid,
            tid: self.pid,
            uid: self.uid,
            start: 5,
            comm: self.name,
            ..ProcessFacts::default()
        };
        let mut tag = facts.encode();
        tag[3] = self.how;
        tag
    }
}

struct File(PcapngWriter<Vec<u8>>);

impl File {
    fn describe(&mut self, owner: &Owner) {
        let (tag, mut block) = (owner.tag(), Vec::new());
        let described = ProcessBlock {
            tag: ProcessTag::parse(&tag).expect("a tag"),
            description: ProcessDescription {
                cgroup: owner.cgroup.clone(),
                ..ProcessDescription::default()
            },
        };
        described.encode(&mut block);
        let block = RawBlock::built(&block).expect("a block");
        self.0.write_block(&block).expect("written");
    }

    /// Adds a datagram between the client and a port of the server.
    fn datagram(
        &mut self,
        port: u16,
        is_question: bool,
        flags: PacketFlags,
        owner: Option<&Owner>,
    ) {
        let (ends, ports) = if is_question {
            ((CLIENT, SERVER), (4000, port))
        } else {
            ((SERVER, CLIENT), (port, 4000))
        };
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4(ends.0, ends.1, 64)
            .udp(ports.0, ports.1);
        let mut data = Vec::new();
        builder.write(&mut data, b"data").expect("a packet");
        let tag = owner.map(Owner::tag);
        let process = tag.as_ref().map(|tag| PacketProcess {
            pid: ProcessTag::parse(tag).expect("a tag").pid(),
            tid: 0,
            tag: ProcessTag::parse(tag),
        });
        let packet = Packet {
            timestamp: Timestamp::new(1_700_000_000, 0),
            len: u32::try_from(data.len()).expect("short"),
            interface: 0,
            flags,
            data: &data,
            process,
        };
        self.0.write_packet(&packet).expect("written");
    }
}

/// Writes a file of flows to the ports 1 to 4 of a server, which say less and less of their processes.
fn recorded() -> Capture {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flows.pcapng");
    let writer = PcapngWriter::new(Vec::new(), &Section::default()).expect("a file");
    let mut file = File(writer);
    let interface = Interface::new(LinkType::ETHERNET, 65_535);
    file.0.add_interface(&interface).expect("written");
    let (client, server) = (client(), server());
    file.describe(&client);
    file.describe(&server);
    let (sent, received) = (PacketFlags::OUTBOUND, PacketFlags::INBOUND);
    // Both ends are on one host.
    file.datagram(1, true, sent, Some(&client));
    file.datagram(1, true, received, Some(&server));
    file.datagram(1, false, sent, Some(&server));
    // Only the client is here.
    file.datagram(2, true, sent, Some(&client));
    file.datagram(2, false, received, Some(&client));
    // The sender of a received packet is known, the receiver is not.
    let sender = Owner {
        how: layout::USED | layout::SENDER,
        ..server
    };
    file.datagram(3, false, received, Some(&sender));
    // Nobody, and somebody at an end that is not known.
    file.datagram(4, true, received, None);
    file.datagram(4, false, PacketFlags(0), Some(&client));
    let (bytes, _) = file.0.finish().expect("a whole file");
    std::fs::write(&path, bytes).expect("written");
    Capture { folder, path }
}

/// Returns the processes of each record, by its ports.
fn processes(records: &[Value]) -> BTreeMap<(u64, u64), Vec<Value>> {
    let row = |record: &Value| {
        let ports = (number(record, "src_port"), number(record, "dst_port"));
        let values = FIELDS.map(|field| record[field].clone());
        (ports, values.into())
    };
    records.iter().map(row).collect()
}

/// The values of the client's process, and of the server's: number, name, user, container, control group.
fn facts() -> [[Value; 5]; 2] {
    let client = [
        json!(1234),
        json!("a \"client\",x"),
        json!(0),
        Value::Null,
        json!(client().cgroup),
    ];
    let server = [
        json!(77),
        json!("server"),
        Value::Null,
        json!(ID),
        json!(server().cgroup),
    ];
    [client, server]
}

/// Returns the values of a record with these processes, in the order of [`FIELDS`].
fn row(source: Option<&[Value; 5]>, destination: Option<&[Value; 5]>) -> Vec<Value> {
    let value = |of: Option<&[Value; 5]>, at: usize| of.map_or(Value::Null, |of| of[at].clone());
    let pair = |at| [value(source, at), value(destination, at)];
    (0..5).flat_map(pair).collect()
}

/// JSON has what the file says, in the record of both directions and in those of each.
pub(crate) fn recorded_ones() {
    let capture = recorded();
    let [client, server] = facts();
    let expected = BTreeMap::from([
        ((4000, 1), row(Some(&client), Some(&server))),
        ((4000, 2), row(Some(&client), None)),
        ((3, 4000), row(Some(&server), None)),
        ((4000, 4), row(None, None)),
    ]);
    let found = probe(&capture, &["--who", "--biflow"]);
    assert_eq!(processes(&found.records), expected);
    let expected = BTreeMap::from([
        ((4000, 1), row(Some(&client), Some(&server))),
        ((1, 4000), row(Some(&server), None)),
        ((4000, 2), row(Some(&client), None)),
        ((2, 4000), row(None, Some(&client))),
        ((3, 4000), row(Some(&server), None)),
        ((4000, 4), row(None, None)),
        ((4, 4000), row(None, None)),
    ]);
    let found = probe(&capture, &["--who"]);
    assert_eq!(processes(&found.records), expected);
}

/// Records have the fields that were chosen.
pub(crate) fn chosen() {
    let capture = recorded();
    let keys = |arguments: &[&str]| -> BTreeSet<String> {
        let records = probe(&capture, arguments).records;
        let objects = records.iter().filter_map(Value::as_object);
        objects.flat_map(|record| record.keys().cloned()).collect()
    };
    let of_processes = |arguments: &[&str]| {
        let mut found = keys(arguments);
        found.retain(|key| FIELDS.contains(&key.as_str()));
        found
    };
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let expected: BTreeSet<String> = set(&["src_pid", "dst_pid", "src_uid", "dst_uid"]);
    assert_eq!(of_processes(&["--who=uid"]), expected);
    assert_eq!(of_processes(&["--fields", "all"]), set(&[]));
    let expected: BTreeSet<String> = set(&["src_port", "src_process"]);
    assert_eq!(
        keys(&["--who", "--fields", "src_port,src_process"]),
        expected
    );
}

/// CSV has the same, and so has what another ringtap collects.
pub(crate) fn outputs() {
    let capture = recorded();
    let folder = capture.folder.path();
    let (csv, json) = (folder.join("records.csv"), folder.join("collected.json"));
    let notices = folder.join("notices");
    let mut command = Command::new(RINGTAP);
    command.args(["flow", "--collect", "udp:127.0.0.1:0", "--top", "0"]);
    command.args(["--fields", "basic,process", "-w"]).arg(&json);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(std::fs::File::create(&notices).expect("a file"));
    let collector = Running::start(&mut command).expect("ringtap starts");
    let address = listening(&notices);
    let name = csv.to_str().expect("a name");
    let probed = probe(
        &capture,
        &["--who", "--biflow", "--export", &address, "-w", name],
    );
    collector.signal("INT").expect("it runs");
    let ended = collector.wait(LIMIT).expect("it ends");
    assert!(ended.status.success());
    let expected = processes(&probed.records);
    assert_eq!(processes(&json_lines(&json)), expected);
    let written = std::fs::read_to_string(&csv).expect("a file");
    let mut lines = written.lines();
    let names: Vec<_> = lines.next().expect("names").split(',').collect();
    assert!(names.ends_with(&FIELDS));
    let first = lines
        .find(|line| line.contains(",4000,1,"))
        .expect("a flow");
    let shown = format!(
        "1234,77,\"a \"\"client\"\",x\",server,0,,,{ID},/user.slice/app-a\\x2db.scope,/docker/{ID}"
    );
    assert!(first.ends_with(&shown), "{first}");
}

/// tshark finds the elements of the enterprise, and nothing to complain of.
pub(crate) fn tshark() {
    let capture = recorded();
    let file = capture.folder.path().join("flows.ipfix");
    let name = file.to_str().expect("a name");
    probe(&capture, &["--who", "--biflow", "-w", name]);
    crate::tshark::without_complaint(&file);
    let details = crate::tshark::tshark(&file, &["-V"]);
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let digits: String = details
        .to_lowercase()
        .chars()
        .filter(|character| *character != ' ' && *character != ':')
        .collect();
    for value in [
        &1234_u32.to_be_bytes()[..],
        b"a \"client\",x",
        &ID.as_bytes()[..20],
    ] {
        assert!(
            digits.contains(&hex(value)),
            "{value:?} is not in {details}"
        );
    }
}

/// The tables have the processes with most traffic.
pub(crate) fn tables() {
    let capture = recorded();
    let mut command = Command::new(RINGTAP);
    command.args(["flow", "--who", "--biflow", "--top", "5", "-r"]);
    let output = command.arg(&capture.path).output().expect("ringtap runs");
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .skip_while(|line| !line.starts_with("processes by bytes"))
        .skip(1)
        .take(2)
        .map(|line| line.split_whitespace().collect())
        .collect();
    // Datagrams have 32 bytes: the client sent three of them (one was seen twice) and got two.
    assert_eq!(
        rows[0][..],
        ["a", "\"client\",x:1234", "96", "64", "5", "2"],
        "{shown}"
    );
    assert_eq!(rows[1][..], ["server:77", "64", "64", "4", "2"], "{shown}");
}

/// Options that exclude each other, and words that are none.
pub(crate) fn refused() {
    let capture = recorded();
    let told = |arguments: &[&str]| {
        let mut command = Command::new(RINGTAP);
        command
            .arg("flow")
            .args(arguments)
            .arg("-r")
            .arg(&capture.path);
        let output = command.output().expect("ringtap runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = told(&["--who", "--threads", "2"]);
    assert!(
        said.contains("--who cannot be used with --threads"),
        "{said}"
    );
    let said = told(&["--who=comm,cmdline"]);
    assert!(
        said.contains("flow records have no command lines"),
        "{said}"
    );
    let said = told(&["--who=user"]);
    assert!(said.contains("some of pid, comm, uid and cgroup"), "{said}");
}

/// Filters ask for the processes that a file recorded.
pub(crate) fn filters() {
    let capture = recorded();
    let ports = |expression: &str| -> Vec<u64> {
        let found = probe(&capture, &["--who", "--biflow", "--extended", expression]);
        let ports = found.records.iter().map(|record| {
            assert!(text(record, "src").starts_with("19"));
            number(record, "src_port").min(number(record, "dst_port"))
        });
        ports.collect()
    };
    assert_eq!(ports("process server and port 1"), [1]);
    assert_eq!(ports("uid 0 and not port 4"), [1, 2]);
}
