//! Programs that read capture files.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use ringtap_testkit::pcap::Pcap;
use ringtap_testkit::traffic::Traffic;
use ringtap_testkit::{Need, Test, test};

use super::stage::{Stage, fingerprint, lines, same, sample, sorted, text};

/// IPv6 and TCP, some thousand packets; the number depends on the corpus.
const BIG: &str = "ndpi/reddit.pcap";
/// HTTP over IPv4, 33 packets.
const SMALL: &str = "ndpi/http_auth.pcap";

/// The number of attempts to get a table of pmacctd that holds every packet.
const PMACCTD_RUNS: usize = 5;

/// Expressions whose program is printed; those of every link type are compared elsewhere.
const EXPRESSIONS: [&str; 5] = [
    "tcp port 80",
    "host 10.0.0.1 and not udp",
    "ip6 and udp port 53 or icmp",
    "ether host 02:00:00:00:00:01 or vlan 5",
    "len > 100",
];

pub(super) fn tests() -> Vec<Test> {
    vec![
        file("tcpdump_prints_a_file", "tcpdump", tcpdump_prints),
        file("tcpdump_writes_files", "tcpdump", tcpdump_writes),
        file("tcpdump_shows_filters", "tcpdump", tcpdump_shows_filters),
        file("tcpdump_reports_errors", "tcpdump", tcpdump_reports_errors),
        file("ngrep_reads_a_file", "ngrep", ngrep),
        file("tcpflow_reads_a_file", "tcpflow", tcpflow),
        file("p0f_reads_a_file", "p0f", p0f),
        file("softflowd_reads_a_file", "softflowd", softflowd),
        file("nfpcapd_reads_a_file", "nfpcapd", nfpcapd),
        file("pmacctd_reads_a_file", "pmacctd", pmacctd),
        file("darkstat_reads_a_file", "darkstat", darkstat),
        file("arpwatch_reads_a_file", "arpwatch", arpwatch),
    ]
}

fn file(name: &str, program: &'static str, scenario: fn(&Stage) -> String) -> Test {
    let needs = [Need::Root, Need::Corpus, Need::Tool(program)];
    test(format!("programs::{name}"), &needs, move || same(scenario))
}

fn tcpdump_prints(stage: &Stage) -> String {
    let mut seen = String::new();
    for (file, expression) in [
        (BIG, ""),
        (BIG, "tcp[tcpflags] & tcp-syn != 0"),
        (BIG, "ip6 and greater 1000"),
        (SMALL, "dst port 80"),
        ("ndpi/capwap.pcap", "udp"),
        ("tcpdump/vxlan.pcap", ""),
        ("ndpi/BGP_Cisco_hdlc_slarp.pcap", ""),
    ] {
        let mut command = stage.command("tcpdump");
        command.args(["-nn", "-e", "-tttt", "-r"]).arg(sample(file));
        seen += &stage.both(command.arg(expression));
    }
    seen
}

fn tcpdump_writes(stage: &Stage) -> String {
    let mut seen = String::new();
    for options in [
        &["-w", "whole"][..],
        &["-w", "part", "-c", "7"],
        &["-w", "some", "tcp port 443 and greater 100"],
        &["-w", "nano", "--time-stamp-precision=nano"],
        &["-w", "cut", "-s", "60"],
    ] {
        let mut command = stage.command("tcpdump");
        command
            .args(["-Z", "root", "-r"])
            .arg(sample(BIG))
            .args(options);
        seen += &stage.both(&mut command);
    }
    let traffic = Traffic {
        packets: 6_000,
        ..Traffic::default()
    };
    let file = stage.path("traffic");
    traffic.write_file(&file).expect("a file of traffic");
    let mut command = stage.command("tcpdump");
    command.args(["-Z", "root", "-w", "rotated", "-C", "1", "-r"]);
    seen += &stage.both(command.arg("traffic"));
    let mut names: Vec<_> = fs::read_dir(stage.folder())
        .expect("the folder")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !path.to_string_lossy().contains("linker"))
        .collect();
    names.sort();
    seen + &names
        .iter()
        .map(|path| fingerprint(path))
        .collect::<String>()
}

fn tcpdump_shows_filters(stage: &Stage) -> String {
    let mut seen = String::new();
    for expression in EXPRESSIONS {
        for option in ["-d", "-dd", "-ddd"] {
            let mut command = stage.command("tcpdump");
            seen += &stage.stdout(command.args(["-y", "EN10MB", option, expression]));
        }
    }
    seen
}

fn tcpdump_reports_errors(stage: &Stage) -> String {
    fs::write(stage.path("broken.pcap"), b"\xd4\xc3\xb2\xa1\x02\x00").expect("a file");
    fs::write(
        stage.path("text"),
        "no capture at all, but long enough for its header",
    )
    .expect("a file");
    let mut seen = String::new();
    for options in [
        &["-r", "missing.pcap"][..],
        &["-r", "broken.pcap"],
        &["-r", "text"],
        &["-i", "no-such-device"],
        &["-i", "lo", "-y", "NO_SUCH_TYPE"],
        &["-i", "lo", "-j", "no_such_type"],
    ] {
        let output = crate::library::run(stage.command("tcpdump").args(options));
        seen += &format!("{:?} {}", output.status.code(), text(&output.stderr));
    }
    seen
}

fn ngrep(stage: &Stage) -> String {
    let mut command = stage.command("ngrep");
    command
        .args(["-q", "-t", "-W", "byline", "-I"])
        .arg(sample(SMALL));
    stage.stdout(command.args(["GET|HTTP", "tcp port 80"]))
}

fn tcpflow(stage: &Stage) -> String {
    let out = stage.path("flows");
    let mut command = stage.command("tcpflow");
    stage.finish(command.arg("-r").arg(sample(SMALL)).arg("-o").arg(&out));
    let mut flows: Vec<_> = fs::read_dir(&out)
        .expect("a folder of flows")
        .flatten()
        .collect();
    flows.retain(|entry| entry.file_name() != "report.xml");
    flows.sort_by_key(fs::DirEntry::file_name);
    flows.iter().map(|flow| fingerprint(&flow.path())).collect()
}

fn p0f(stage: &Stage) -> String {
    let seen = stage.stdout(stage.command("p0f").arg("-r").arg(sample(BIG)));
    // The number of inherited descriptors depends on the environment; the linker's log adds one.
    lines(&seen, |line| !line.contains("file descriptor"))
}

fn softflowd(stage: &Stage) -> String {
    let mut command = stage.command("softflowd");
    command
        .args(["-d", "-n", "127.0.0.1:9", "-v", "9", "-r"])
        .arg(sample(BIG));
    command.args(["-p", "pid", "-c", "none"]);
    // Errors of sending come from a closed port.
    lines(&stage.both(&mut command), |line| {
        !line.contains("Flows exported")
    })
}

fn nfpcapd(stage: &Stage) -> String {
    let flows = stage.path("flows");
    fs::create_dir(&flows).expect("a folder");
    let mut command = stage.command("nfpcapd");
    stage.finish(command.arg("-r").arg(sample(BIG)).arg("-w").arg(&flows));
    let mut command = std::process::Command::new("nfdump");
    command
        .arg("-R")
        .arg(&flows)
        .args(["-q", "-o", "fmt:%ts %td %pr %sap %dap %flg %pkt %byt"]);
    sorted(&crate::library::text_of(&mut command))
}

fn pmacctd(stage: &Stage) -> String {
    let configuration = format!(
        "plugins: print\n\
         aggregate: src_host, dst_host, src_port, dst_port, proto, tcpflags\n\
         print_output_file: {}\n\
         print_refresh_time: 60\n\
         print_cache_entries: 997\n\
         pcap_savefile: {}\n",
        stage.path("table").display(),
        sample(BIG).display()
    );
    fs::write(stage.path("pmacctd.conf"), configuration).expect("a configuration");
    // The process that reads the file waits 2 seconds for the process that counts, and ends it at
    // the end of the file. On a busy machine packets are lost between them, with either library.
    // With few entries it is ready at once. Either process may end first, which determines the exit
    // status. So only the table must hold every packet.
    let capture = fs::read(sample(BIG)).expect("a file of the corpus");
    let capture = Pcap::parse(&capture).expect("a pcap file");
    let in_file = capture.records().count() as u64;
    let mut table = String::new();
    for _ in 0..PMACCTD_RUNS {
        crate::library::run(stage.command("pmacctd").args(["-f", "pmacctd.conf"]));
        table = fs::read_to_string(stage.path("table")).unwrap_or_default();
        if packets(&table) == in_file {
            break;
        }
        let _ = fs::remove_file(stage.path("table"));
    }
    sorted(&table)
}

/// Returns the sum of the packets in all lines of pmacctd's table.
fn packets(table: &str) -> u64 {
    const COLUMN: usize = 6;
    let of = |line: &str| line.split_whitespace().nth(COLUMN)?.parse::<u64>().ok();
    table.lines().filter_map(of).sum()
}

fn darkstat(stage: &Stage) -> String {
    let mut command = stage.command("darkstat");
    command.args([
        "--no-daemon",
        "--no-dns",
        "--user",
        "root",
        "--export",
        "darkstat.db",
    ]);
    command
        .arg("--chroot")
        .arg(stage.folder())
        .arg("-r")
        .arg(sample(BIG));
    let begun = seconds();
    stage.finish(&mut command);
    let path = stage.path("darkstat.db");
    let mut database = fs::read(&path).expect("a database");
    // Each host has the time at which darkstat saw it: now, not when its packets were captured.
    for time in begun..=seconds() {
        blank(&mut database, &time.to_be_bytes());
    }
    fs::write(&path, database).expect("a database");
    fingerprint(&path)
}

/// Returns the seconds since 1970.
fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a later time").as_secs()
}

/// Replaces a number by zero wherever it stands.
fn blank(bytes: &mut [u8], number: &[u8; 8]) {
    for at in 0..bytes.len().saturating_sub(7) {
        if bytes[at..at + 8] == *number {
            bytes[at..at + 8].fill(0);
        }
    }
}

fn arpwatch(stage: &Stage) -> String {
    let file = stage.path("arp.pcap");
    ringtap_testkit::pcap::write(&file, (1..=5).map(question)).expect("a capture file");
    fs::write(stage.path("arp.dat"), "").expect("a database");
    let mut command = stage.command("arpwatch");
    command.args(["-N", "-d", "-u", "root", "-r"]).arg(&file);
    stage.both(command.arg("-f").arg(stage.path("arp.dat")))
}

/// Returns an ARP request of station `number`.
fn question(number: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, number, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([2, 0, 0, 0, 0, number, 10, 1, 0, number]);
    frame.extend([0, 0, 0, 0, 0, 0, 10, 1, 0, 9]);
    frame.resize(60, 0);
    frame
}
