//! A rejected command line leaves every file unchanged: nothing is written before everything that can be
//! rejected was checked.

use std::fs;

use ringtap_testkit::{Test, test};

use crate::program::{Folder, bytes, stderr};

pub(crate) fn tests() -> Vec<Test> {
    let each = CASES.map(|case| test(format!("{} survives", case.name()), &[], move || case.run()));
    let mut tests = Vec::from(each);
    tests.push(test("send looks at all files first", &[], send));
    tests
}

/// The content of every file that must survive.
const CONTENT: &str = "what was there, and is there for ever";

#[derive(Clone, Copy)]
struct Case {
    /// A line of the shell, in which R is the program.
    line: &'static str,
    /// The files that must survive.
    keep: &'static str,
    status: i32,
    /// A part of the message.
    says: &'static str,
}

const fn case(line: &'static str, keep: &'static str, status: i32, says: &'static str) -> Case {
    Case {
        line,
        keep,
        status,
        says,
    }
}

const TYPO: &str = "'tcp prt 80'";

/// In the folder: `in.pcap`, `in.pcapng`, `raw.pcap` of another link type, `both.pcapng` of the two,
/// and `empty.pcapng`, a section without an interface.
const CASES: [Case; 47] = [
    case("R dump -r in.pcap -w keep.pcap TYPO", "keep.pcap", 2, "prt"),
    case(
        "R dump -r in.pcapng -w keep.pcap TYPO",
        "keep.pcap",
        2,
        "prt",
    ),
    case("R dump -r in.pcapng -w k.pcapng TYPO", "k.pcapng", 2, "prt"),
    case("R dump -r in.pcapng -w keep.gz TYPO", "keep.gz", 2, "prt"),
    case("R dump -r in.pcapng -w keep.zst TYPO", "keep.zst", 2, "prt"),
    case("R dump -r in.pcapng -w keep.lz4 TYPO", "keep.lz4", 2, "prt"),
    case("R dump -r in.pcapng -w keep -C 1k TYPO", "keep", 2, "prt"),
    case("R dump -r in.pcapng -w f -C 1k -W 3 TYPO", "f0", 2, "prt"),
    case("R dump -r in.pcapng -w keep -G 9 TYPO", "keep", 2, "prt"),
    case("R dump -r in.pcapng -w keep --print TYPO", "keep", 2, "prt"),
    case(
        "R dump -r in.pcap -r in.pcapng -w keep TYPO",
        "keep",
        2,
        "prt",
    ),
    case("cat in.pcap | R dump -r - -w keep TYPO", "keep", 2, "prt"),
    case("cat in.pcapng | R dump -r - -w keep TYPO", "keep", 2, "prt"),
    case(
        "cat in.pcapng | R dump -r - -w k.pcapng TYPO",
        "k.pcapng",
        2,
        "prt",
    ),
    case(
        "R dump -r both.pcapng -w k.pcapng 'ether host 1:2:3:4:5:6'",
        "k.pcapng",
        2,
        "ether host",
    ),
    case("R dump -i no-such-if -w keep", "keep", 1, "no-such-if"),
    case("R dump -r in.pcap -r missing -w keep", "keep", 1, "missing"),
    case(
        "R dump -r in.pcap -r /dev/null -w keep",
        "keep",
        1,
        "/dev/null",
    ),
    case(
        "R dump -r in.pcap -r raw.pcap -w keep",
        "keep",
        2,
        "link type",
    ),
    case(
        "R dump -r in.pcap -w keep -Z no-such-user",
        "keep",
        2,
        "no-such-user",
    ),
    case(
        "R dump -r in.pcap -w keep --group no-such",
        "keep",
        2,
        "no-such",
    ),
    case("R dump -r in.pcap -w keep -F missing", "keep", 1, "missing"),
    case("R dump -r in.pcap -w keep --cpu 0", "keep", 2, "--cpu"),
    case("R dump -r in.pcap -w keep -W 3", "keep", 2, "-W"),
    case(
        "R dump -r in.pcap -w keep --from 2 --to 1",
        "keep",
        2,
        "--to",
    ),
    case(
        "R dump -r empty.pcapng -w keep.pcap",
        "keep.pcap",
        1,
        "interface",
    ),
    // An output that is an input, or another output.
    case("R dump -r in.pcap -r keep -w keep", "keep", 2, "keep"),
    case(
        "mv in.pcap f2; R dump -r f2 -w f -C 1k",
        "f",
        2,
        "f2: is both",
    ),
    case(
        "R dump -r in.pcap -w keep --print >> keep",
        "keep",
        2,
        "standard output",
    ),
    // An index file that is not an index, of a capture that will be written and of an existing one.
    case(
        "touch out; R dump -r in.pcap -w out --index",
        "out.idx",
        2,
        "not an index",
    ),
    case(
        "R dump -r in.pcap --index",
        "in.pcap.idx",
        2,
        "not an index",
    ),
    case(
        "R dump -r missing --index",
        "missing.idx",
        1,
        "cannot read missing",
    ),
    case("R flow -r in.pcap -w k.csv TYPO", "k.csv", 2, "prt"),
    case("R flow -r in.pcapng -w k.csv TYPO", "k.csv", 2, "prt"),
    case("R flow -r in.pcapng -w k.json TYPO", "k.json", 2, "prt"),
    case("R flow -r in.pcapng -w k.ipfix TYPO", "k.ipfix", 2, "prt"),
    case(
        "R flow -r in.pcapng --threads 2 -w k.csv TYPO",
        "k.csv",
        2,
        "prt",
    ),
    case(
        "cat in.pcapng | R flow -r - -w k.csv TYPO",
        "k.csv",
        2,
        "prt",
    ),
    case("R flow -i no-such-if -w k.csv", "k.csv", 1, "no-such-if"),
    case(
        "R flow -r in.pcap -r missing -w k.csv",
        "k.csv",
        1,
        "missing",
    ),
    case("R flow -r in.pcap -w k.csv -w x.txt", "k.csv", 2, "x.txt"),
    case(
        "R flow -r in.pcap -w k.csv -w no/x.csv",
        "k.csv",
        1,
        "no/x.csv",
    ),
    case(
        "R flow -r in.pcap -w k.csv >> k.csv",
        "k.csv",
        2,
        "standard output",
    ),
    case(
        "R flow -r in.pcap -w k.csv -Z no-such-user",
        "k.csv",
        2,
        "no-such-user",
    ),
    case(
        "R flow --collect udp:192.0.2.1:2055 -w k.csv",
        "k.csv",
        1,
        "192.0.2.1",
    ),
    case("R profile --svg k.svg TYPO", "k.svg", 2, "prt"),
    case(
        "R profile --baseline no.json --svg k.svg",
        "k.svg",
        1,
        "no.json",
    ),
];

impl Case {
    fn name(self) -> String {
        self.line.replace("R ", "ringtap ").replace("TYPO", TYPO)
    }

    fn run(self) {
        let folder = inputs();
        let keep = folder.path(self.keep);
        fs::write(&keep, CONTENT).expect("a file");
        let line = self.line.replace("R ", "$RINGTAP ").replace("TYPO", TYPO);
        let output = folder.shell(&line);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(self.status), "{text}");
        assert!(text.contains(self.says), "{text}");
        assert_eq!(String::from_utf8_lossy(&bytes(&keep)), CONTENT, "{text}");
        // Nothing was done that a summary could report.
        for word in ["captured", "written\n", "metered"] {
            let empty = self.says == "interface";
            assert!(empty || !text.contains(word), "{word}: {text}");
        }
    }
}

fn inputs() -> Folder {
    let folder = Folder::new(300);
    let mut raw = bytes(&folder.path("in.pcap"));
    // LINKTYPE_RAW.
    raw[20] = 101;
    fs::write(folder.path("raw.pcap"), raw).expect("a file");
    for line in [
        "dump -r in.pcap -w in.pcapng",
        "dump -r in.pcap -r raw.pcap -w both.pcapng",
    ] {
        let output = folder.run(line);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let section = [
        [0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a],
        [1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255],
    ];
    let section = [&section.concat()[..], &[28, 0, 0, 0]].concat();
    fs::write(folder.path("empty.pcapng"), section).expect("a file");
    folder
}

/// Nothing of the first file is sent when the second one is rejected. Without privileges, nothing is sent
/// anyway.
fn send() {
    let folder = inputs();
    for (line, says) in [
        ("send -i lo -r in.pcap -r missing", "missing"),
        ("send -i lo -r in.pcap -r in.pcapng 'tcp prt 80'", "prt"),
    ] {
        let output = folder.run(line);
        let text = stderr(&output);
        assert!(!output.status.success(), "{text}");
        assert!(!text.contains(" sent in"), "{text}");
        let without_rights = text.contains("CAP_NET_RAW");
        assert!(without_rights || text.contains(says), "{text}");
    }
}
