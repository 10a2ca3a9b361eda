//! Options that users of tcpdump type: lists of interfaces and link types, and options without effect.

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::{Need, Test, test};

use crate::program::{RINGTAP, dump_live, finished, stderr, succeeded};

pub(crate) fn tests() -> Vec<Test> {
    vec![test("lists_as_of_tcpdump", &[Need::Root], lists)]
}

fn lists() {
    let pair = VethPair::new();
    let side = &pair.right;
    let output = |arguments: &[&str]| {
        let mut command = side.namespace.command(RINGTAP);
        finished(command.arg("dump").args(arguments))
    };
    let text = |arguments: &[&str]| {
        let output = succeeded(output(arguments));
        String::from_utf8(output.stdout).expect("text")
    };

    let listed = text(&["-D"]);
    let line = listed
        .lines()
        .find(|line| line.contains(&side.device))
        .expect("the device is listed");
    let (number, rest) = line.split_once('.').expect("a number");
    assert_eq!(
        rest,
        format!("{} [Up, Running, Connected]", side.device),
        "{listed}"
    );
    assert!(
        listed.contains("lo [") && listed.contains("Loopback]"),
        "{listed}"
    );
    assert!(listed.contains("\nany ("), "{listed}");

    let link_types = text(&["-L", "-i", number]);
    assert!(link_types.contains(&side.device), "{link_types}");
    assert!(
        link_types.ends_with("\n  EN10MB (Ethernet)\n"),
        "{link_types}"
    );

    let refused = output(&["-i", number, "-y", "RAW"]);
    assert_eq!(refused.status.code(), Some(2));
    let expected = "its link type is EN10MB, not RAW";
    assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));

    // A command line that begins to capture, and ends for another reason.
    let mut command = dump_live(side);
    let habits = ["-y", "EN10MB", "-lnK", "--immediate-mode"];
    let written = ["-U", "-w", "/dev/null/no"];
    let created = finished(command.args(habits).args(written));
    assert_eq!(created.status.code(), Some(1));
    let expected = "cannot create /dev/null/no";
    assert!(stderr(&created).contains(expected), "{}", stderr(&created));
}
