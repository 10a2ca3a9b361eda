//! The testkit's own tests: needs, suites, corpus.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use ringtap_testkit::libpcap::{self, Compile, Insn, Oracle, OracleError};
use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{self, LiveFrames, Rate, Replay, Sizes, Target, Traffic};
use ringtap_testkit::{Need, QUICK, corpus, suite, test};

#[global_allocator]
static ALLOCATOR: ringtap_testkit::alloc::Counting = ringtap_testkit::alloc::Counting;

/// Set when this program runs inside a test of its own behaviour.
const INNER: &str = "RINGTAP_TESTKIT_INNER";
/// Set when this program runs only to print the corpus folder.
const ASK_CORPUS: &str = "RINGTAP_TESTKIT_ASK_CORPUS";

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn main() -> ExitCode {
    if std::env::var_os(INNER).is_some() {
        return suite(inner_tests());
    }
    if std::env::var_os(ASK_CORPUS).is_some() {
        let has_file = Need::CorpusFile("a/b.pcap").unmet().is_none();
        let fetched = corpus::fetched().expect("a cache");
        println!("{:?} {has_file} {fetched:?}", corpus::folder());
        return ExitCode::SUCCESS;
    }
    suite(vec![
        test("a_met_need_runs_an_unmet_need_skips", &[], skips_are_named),
        test("skips_follow_the_filters", &[], skips_follow_the_filters),
        test("quick_runs_leave_out_what_is_live", &[], quick_runs),
        test("the_corpus_is_looked_for_in_its_places", &[], corpus_places),
        test(
            "a_skipped_test_that_is_forced_fails",
            &[],
            forced_skips_fail,
        ),
        test("root_and_not_root_exclude_each_other", &[], root_or_not),
        test(
            "corpus_is_sorted_and_not_empty",
            &[Need::Corpus],
            corpus_is_sorted,
        ),
        test("allocations_are_counted", &[], allocations_are_counted).serial(),
        test("oracle_compiles", &[Need::LibpcapDev], oracle_compiles),
        test("oracle_filters", &[Need::LibpcapDev], oracle_filters),
        test(
            "oracle_reads",
            &[Need::LibpcapDev, Need::Corpus],
            oracle_reads,
        ),
        test(
            "traffic_is_deterministic_and_numbered",
            &[],
            traffic_is_deterministic,
        ),
        test(
            "traffic_is_what_its_totals_say",
            &[Need::LibpcapDev],
            traffic_is_counted,
        ),
        test(
            "traffic_has_right_checksums",
            &[Need::Tool("tcpdump")],
            traffic_has_checksums,
        ),
        test(
            "live_frames_arrive_numbered",
            &[Need::Root, Need::Kernel(5, 18), Need::Tool("tcpdump")],
            live_frames_arrive,
        ),
        test(
            "replay_sends_every_packet",
            &[Need::Root, Need::Tool("tcpreplay")],
            replay_sends,
        )
        .serial(),
        test(
            "a_capture_is_waited_for",
            &[Need::Root, Need::Tool("tcpdump")],
            capture_is_waited_for,
        ),
        test("a_running_program_is_limited", &[], running_is_limited),
        test(
            "oracle_names_link_types",
            &[Need::LibpcapDev],
            oracle_names_link_types,
        ),
    ])
}

fn inner_tests() -> Vec<ringtap_testkit::Test> {
    let missing = Need::Tool("a-program-that-nobody-has");
    vec![
        test("passes", &[Need::Tool("sh"), Need::Kernel(2, 6)], || ()),
        test("skips", &[Need::Tool("sh"), missing], must_not_run),
        test("skips_too", &[Need::Kernel(999, 0)], must_not_run),
        test("serial_passes", &[], || Ok::<(), String>(())).serial(),
    ]
}

fn must_not_run() {
    panic!("a need that nobody meets was met");
}

struct Run {
    success: bool,
    stdout: String,
    stderr: String,
}

fn run_inner(arguments: &[&str]) -> Run {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args(arguments)
        .env(INNER, "1")
        .env_remove(QUICK)
        .output()
        .expect("this program starts again");
    Run {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn skips_are_named() {
    let run = run_inner(&[]);
    assert!(run.success, "{}", run.stderr);
    assert!(
        run.stdout.contains("2 passed; 0 failed; 2 ignored"),
        "{}",
        run.stdout
    );
    let skips: Vec<_> = run
        .stderr
        .lines()
        .filter(|line| line.starts_with("skipped: "))
        .collect();
    assert_eq!(skips.len(), 2, "{skips:?}");
    assert!(
        skips[0].ends_with("testkit::skips: needs the program a-program-that-nobody-has"),
        "{}",
        skips[0]
    );
    assert!(
        skips[1].ends_with("testkit::skips_too: needs Linux 999.0 or later"),
        "{}",
        skips[1]
    );
}

fn skips_follow_the_filters() {
    assert_eq!(run_inner(&["--list"]).stderr, "");
    assert_eq!(run_inner(&["serial"]).stderr, "");
    assert_eq!(run_inner(&["--exact", "skips"]).stderr.lines().count(), 1);
    assert_eq!(run_inner(&["--skip", "skips"]).stderr, "");
}

fn quick_runs() {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .env(INNER, "1")
        .env(QUICK, "1")
        .output()
        .expect("this program starts again");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("serial_passes: is live, and left out of a quick run"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
}

/// Starts this program again with other variables.
fn corpus_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let cached = folder.path().join("ringtap/corpus");
    std::fs::create_dir_all(cached.join("a")).expect("a folder");
    std::fs::write(cached.join("a/b.pcap"), "").expect("a file");
    let ask = |corpus: &Path| {
        let program = std::env::current_exe().expect("the path of this program");
        let output = Command::new(program)
            .env(ASK_CORPUS, "1")
            .env("XDG_CACHE_HOME", folder.path())
            .env("RINGTAP_CORPUS", corpus)
            .output()
            .expect("this program starts again");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = |found: &Path, file: bool| {
        format!(
            "{:?} {file} {:?}\n",
            found.is_dir().then_some(found),
            cached
        )
    };
    assert_eq!(ask(&cached), said(&cached, true));
    assert_eq!(ask(folder.path()), said(folder.path(), false));
    let missing = folder.path().join("missing");
    assert_eq!(ask(&missing), said(&missing, false));
}

fn forced_skips_fail() {
    let run = run_inner(&["--ignored", "--exact", "skips_too"]);
    assert!(!run.success, "a test without its needs cannot pass");
    assert!(run.stdout.contains("1 failed"), "{}", run.stdout);
}

fn root_or_not() {
    assert!(Need::Root.unmet().is_some() || Need::NotRoot.unmet().is_some());
}

fn corpus_is_sorted() {
    let files = corpus::files();
    assert!(!files.is_empty());
    assert!(files.is_sorted());
    assert!(files.iter().all(|file| file.is_file()));
    assert!(!corpus::name(&files[0]).starts_with('/'));
}

fn allocations_are_counted() {
    let (boxed, counts) = ringtap_testkit::alloc::count(|| Box::new([1_u8; 1000]));
    assert_eq!(boxed[999], 1);
    assert_eq!(counts.allocations, 1);
    assert_eq!(counts.bytes, 1000);
    let (sum, counts) = ringtap_testkit::alloc::count(|| (0..100_u64).sum::<u64>());
    assert_eq!(sum, 4950);
    assert_eq!(counts.allocations, 0);
    let held = ringtap_testkit::alloc::total();
    let (grown, counts) = ringtap_testkit::alloc::count(|| {
        let mut grown = Vec::with_capacity(8_usize);
        grown.extend_from_slice(&[0_u8; 64]);
        grown
    });
    assert_eq!(grown.len(), 64);
    assert_eq!(counts.allocations, 2, "the second is the growth");
    assert!(ringtap_testkit::alloc::total().allocations >= held.allocations + 2);
}

/// Returns the program of `ip` on Ethernet: load the EtherType, compare, accept or reject.
fn ip_program(snaplen: u32) -> Vec<Insn> {
    vec![
        Insn {
            code: 0x28,
            jt: 0,
            jf: 0,
            k: 12,
        },
        Insn {
            code: 0x15,
            jt: 0,
            jf: 1,
            k: 0x800,
        },
        Insn {
            code: 0x06,
            jt: 0,
            jf: 0,
            k: snaplen,
        },
        Insn {
            code: 0x06,
            jt: 0,
            jf: 0,
            k: 0,
        },
    ]
}

fn oracle_compiles() {
    let how = Compile {
        snaplen: 96,
        ..Compile::default()
    };
    assert_eq!(
        libpcap::compile("ip", how).expect("a program"),
        ip_program(96)
    );
    let unoptimized = Compile {
        optimize: false,
        ..how
    };
    let long = libpcap::compile("ip and tcp", unoptimized).expect("a program");
    let short = libpcap::compile("ip and tcp", how).expect("a program");
    assert!(long.len() > short.len());
    let refused = libpcap::compile("ip and and", how).expect_err("a syntax error");
    assert!(
        matches!(&refused, OracleError::Refused(text) if text.contains("syntax")),
        "{refused}"
    );
    let broadcast = "ip broadcast";
    assert!(libpcap::compile(broadcast, how).is_err(), "needs a netmask");
    let masked = Compile {
        netmask: Some(0xffff_ff00),
        ..how
    };
    assert!(libpcap::compile(broadcast, masked).is_ok());
}

fn oracle_filters() {
    let mut oracle = Oracle::start().expect("an oracle");
    let mut ip = [0_u8; 60];
    ip[12] = 8;
    let arp = {
        let mut frame = ip;
        frame[13] = 6;
        frame
    };
    oracle
        .set_packets([(60, &ip[..]), (60, &arp[..]), (60, &ip[..10])])
        .expect("packets");
    assert_eq!(
        oracle.verdicts(&ip_program(96)).expect("verdicts"),
        [96, 0, 0]
    );
    let endless = [Insn {
        code: 0x05,
        jt: 0,
        jf: 0,
        k: 7,
    }];
    assert!(matches!(
        oracle.verdicts(&endless),
        Err(OracleError::Refused(_))
    ));
    assert_eq!(
        oracle.filter(&ip_program(7), &ip, 1500).expect("a verdict"),
        7
    );
}

fn oracle_reads() {
    let mut oracle = Oracle::start().expect("an oracle");
    let mut opened = 0;
    let mut packets = 0;
    for file in corpus::files() {
        match oracle.read(&file) {
            Ok(capture) => {
                opened += 1;
                packets += capture.packets.len();
                let longest = capture.packets.iter().map(|packet| packet.data.len()).max();
                assert!(longest.unwrap_or_default() <= 262_144);
            }
            Err(OracleError::Refused(_)) => {}
            Err(error) => panic!("{}: {error}", corpus::name(&file)),
        }
    }
    assert!(opened > 100, "{opened} files");
    assert!(packets > 1000, "{packets} packets");
}

fn oracle_names_link_types() {
    let mut oracle = Oracle::start().expect("an oracle");
    let (name, description) = oracle.link_type(1).expect("Ethernet");
    assert_eq!(
        (name.as_str(), description.as_str()),
        ("EN10MB", "Ethernet")
    );
    assert!(matches!(
        oracle.link_type(999_999),
        Err(OracleError::Refused(_))
    ));
}

fn traffic_is_deterministic() {
    let traffic = Traffic {
        packets: 500,
        ..Traffic::default()
    };
    let frames = traffic.frames();
    assert_eq!(frames, traffic.frames());
    let other = Traffic { seed: 2, ..traffic };
    assert_ne!(frames, other.frames());
    for (index, frame) in (0_u64..).zip(&frames) {
        assert_eq!(traffic::sequence(frame), Some(index));
    }
    let sizes: Vec<_> = frames.iter().map(Vec::len).collect();
    assert!([64, 576, 1500].iter().all(|size| sizes.contains(size)));
    assert_eq!(traffic::sequence(&frames[0][..40]), None);
}

fn traffic_is_counted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("mix.pcap");
    let traffic = Traffic {
        packets: 2_000,
        sizes: Sizes::Between(64, 200),
        ..Traffic::default()
    };
    let totals = traffic.write_file(&file).expect("a file");
    let mut oracle = Oracle::start().expect("an oracle");
    let capture = oracle.read(&file).expect("libpcap reads it");
    assert_eq!((capture.dlt, capture.damage), (1, None));
    let bytes: u64 = capture
        .packets
        .iter()
        .map(|packet| packet.data.len() as u64)
        .sum();
    assert_eq!(
        (capture.packets.len() as u64, bytes),
        (totals.packets, totals.bytes)
    );
    assert_eq!(capture.packets[1].nanos, 5_000);
    oracle
        .set_packets(capture.packets.iter().map(|p| (p.len, &p.data[..])))
        .expect("packets");
    for (expression, expected) in [("tcp port 443", totals.https), ("udp", totals.udp)] {
        let program = oracle
            .compile(expression, Compile::default())
            .expect("a program");
        let verdicts = oracle.verdicts(&program).expect("verdicts");
        let matching = verdicts.iter().filter(|&&verdict| verdict > 0).count();
        assert_eq!(matching as u64, expected, "{expression}");
        assert!(expected > 100, "{expression}");
    }
}

fn traffic_has_checksums() {
    let (_folder, file) = Traffic::file_of(300);
    let tcpdump = ringtap_testkit::need::find_tool("tcpdump").expect("tcpdump");
    let output = Command::new(tcpdump)
        .args(["-nvv", "-r"])
        .arg(&file)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("udp sum ok"), "{text}");
    assert!(text.contains("(correct)"), "{text}");
    assert!(
        !text.contains("incorrect") && !text.contains("bad "),
        "{text}"
    );
}

fn replay_sends() {
    let (_folder, file) = Traffic::file_of(500);
    let pair = VethPair::new();
    let replay = Replay {
        times: 2,
        ..Replay::new(&file, Rate::Pps(20_000))
    };
    assert_eq!(replay.run(&pair.left), 1_000);
    let table = pair
        .right
        .run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    let table = table.expect("the namespace's counters");
    let device = format!("{}:", pair.right.device);
    let line = table
        .lines()
        .find_map(|line| line.trim().strip_prefix(&device));
    let received = line.and_then(|counters| counters.split_whitespace().nth(1));
    assert_eq!(received, Some("1000"), "{table}");
}

fn capture_is_waited_for() {
    let pair = VethPair::new();
    let limit = Duration::from_secs(20);
    let mut command = pair.right.namespace.command("tcpdump");
    command.args(["-n", "-i", &pair.right.device, "-Z", "root"]);
    let mut running = Running::start_piped(&mut command).expect("tcpdump starts");
    running
        .wait_until_capturing(&pair.right, limit)
        .expect("a capture");
    assert!(running.peak_memory().is_some_and(|bytes| bytes > 100_000));
    running.signal("INT").expect("a signal");
    let output = running.wait(limit).expect("the end");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("captured"));
}

fn running_is_limited() {
    let mut endless = Command::new("sleep");
    let running = Running::start_piped(endless.arg("1000")).expect("sleep starts");
    let error = running
        .wait(Duration::from_millis(20))
        .expect_err("out of time");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

/// Sends both ways, and checks with an AF_PACKET socket.
fn live_frames_arrive() {
    let pair = VethPair::new();
    let gro = ["-K", &pair.right.device, "gro", "on"];
    pair.right.namespace.output("ethtool", &gro);
    // GRO joins TCP segments, but not datagrams.
    let is_udp = |frame: &Vec<u8>| frame[23] == 17;
    let frame = Traffic::default().frames().into_iter().find(is_udp);
    let frame = &frame.expect("a quarter of them is");
    let number_at = u16::try_from(frame.len() - 4).expect("short");
    for target in [Target::OutOf(&pair.left), Target::ReceivedOn(&pair.right)] {
        let mut command = pair.right.namespace.command("tcpdump");
        let device = pair.right.device.as_str();
        command.args([
            "-i",
            device,
            "-Z",
            "root",
            "--immediate-mode",
            "-s",
            "2000",
            "-U",
            "-c",
            "500",
            "-w",
            "-",
        ]);
        let mut running = Running::start_piped(&mut command).expect("tcpdump starts");
        let limit = Duration::from_secs(20);
        running
            .wait_until_capturing(&pair.right, limit)
            .expect("tcpdump captures");
        let frames = LiveFrames::numbered(frame, target, number_at).expect("the kernel can");
        frames.send(300).expect("sent");
        frames.send(200).expect("sent");
        let file = running.wait(limit).expect("all arrive").stdout;
        let record = 16 + frame.len();
        let numbers: Vec<u32> = file[24..]
            .chunks_exact(record)
            .map(|packet| packet.last_chunk().copied().map(u32::from_be_bytes))
            .collect::<Option<_>>()
            .expect("whole records");
        assert_eq!(numbers, (0..500).collect::<Vec<u32>>(), "{target:?}");
    }
}
