//! `ringtap filter` and `ringtap dump -d` as their users run them.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode, Output};

use ringtap_sys::bpf::{Kernel, Program, ProgramKind};
use ringtap_testkit::libpcap::{Compile, Oracle};
use ringtap_testkit::traffic::Traffic;
use ringtap_testkit::{Need, suite, test};

/// Expressions for which there is one way to compile them.
const SIMPLE: [&str; 6] = [
    "",
    "ip",
    "arp",
    "ether multicast",
    "ether proto 0x88cc",
    "outbound",
];

fn main() -> ExitCode {
    let tcpdump = [Need::Tool("tcpdump")];
    suite(vec![
        test("prints_what_tcpdump_prints", &tcpdump, like_tcpdump),
        test(
            "dump_d_prints_what_tcpdump_prints",
            &[Need::Tool("tcpdump"), Need::Interfaces],
            dump_like_tcpdump,
        ),
        test("the_optimiser_can_be_switched_off", &[], optimiser),
        test("ebpf_is_accepted_by_the_kernel", &[Need::Root], ebpf_loads),
        test("ebpf_has_three_forms", &[], ebpf_forms),
        test("machine_code_has_three_forms", &[], native_forms),
        test("explains_alone_or_below_a_form", &[], explains),
        test("the_page_shows_what_is_printed", &[], page),
        test("link_types_are_listed", &[], link_types),
        test(
            "dump_d_takes_the_link_type_of_a_file",
            &[],
            link_type_of_a_file,
        ),
        test("a_filter_is_read_from_a_file", &[], filter_of_a_file),
        test("extensions_are_switched_on", &[], extensions),
        test(
            "ip_broadcast_takes_the_netmask_of_the_option",
            &[Need::LibpcapDev],
            netmask,
        ),
        test(
            "usage_errors_exit_with_2",
            &[Need::Interfaces],
            usage_errors,
        ),
    ])
}

fn ringtap(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtap"));
    command.args(args).output().expect("ringtap runs")
}

/// Returns the output of a successful run.
fn printed(args: &[&str]) -> String {
    let output = ringtap(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    assert!(error.is_empty(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

fn filter(args: &[&str]) -> String {
    printed(&[&["filter"], args].concat())
}

fn tcpdump(args: &[&str]) -> String {
    let output = Command::new("tcpdump").args(args).output();
    let output = output.expect("tcpdump runs");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn like_tcpdump() {
    for expression in SIMPLE {
        for form in ["-d", "-dd", "-ddd"] {
            let theirs = tcpdump(&[form, "-y", "EN10MB", "--", expression]);
            assert_eq!(
                filter(&[form, "--", expression]),
                theirs,
                "{form} {expression}"
            );
        }
    }
}

fn dump_like_tcpdump() {
    for form in ["-d", "-ddd"] {
        let theirs = tcpdump(&[form, "-y", "RAW", "--", "ip6"]);
        assert_eq!(printed(&["dump", form, "-y", "RAW", "ip6"]), theirs);
        let theirs = tcpdump(&[form, "-s", "96", "-y", "EN10MB", "--", "arp"]);
        // Loopback has Ethernet headers.
        assert_eq!(
            printed(&["dump", form, "-s", "96", "-i", "lo", "arp"]),
            theirs
        );
    }
}

fn optimiser() {
    let count = |args: &[&str]| -> usize {
        let text = filter(args);
        text.lines()
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a count")
    };
    let expression = "tcp port 80 and tcp port 80";
    let optimised = count(&["-ddd", expression]);
    assert!(optimised < count(&["-ddd", "-O", expression]));
    let plain = printed(&["dump", "-ddd", "-y", "EN10MB", "-O", expression]);
    assert_eq!(plain, filter(&["-ddd", "-O", expression]));
    // The optimiser finds out that an expression rejects everything.
    assert_eq!(ringtap(&["filter", "ip and arp"]).status.code(), Some(2));
    assert!(count(&["-ddd", "-O", "ip and arp"]) > 0);
}

/// Returns the words of the program that `-ddd` prints.
fn words(text: &str) -> Vec<u64> {
    fn next<'a, T: std::str::FromStr>(numbers: &mut impl Iterator<Item = &'a str>) -> T {
        let number = numbers.next().and_then(|number| number.parse().ok());
        number.expect("a number that fits its field")
    }
    let mut lines = text.lines();
    let count: usize = next(&mut lines);
    let words: Vec<u64> = lines
        .map(|line| {
            let numbers = &mut line.split(' ');
            let (code, dst, src): (u8, u8, u8) = (next(numbers), next(numbers), next(numbers));
            let (offset, imm): (i16, i32) = (next(numbers), next(numbers));
            let registers = if cfg!(target_endian = "little") {
                dst | src << 4
            } else {
                src | dst << 4
            };
            let [low, high] = offset.to_ne_bytes();
            let [a, b, c, d] = imm.to_ne_bytes();
            u64::from_ne_bytes([code, registers, low, high, a, b, c, d])
        })
        .collect();
    assert_eq!(words.len(), count);
    words
}

fn ebpf_loads() {
    let hooks = [
        ("xdp", ProgramKind::Xdp { frags: false }),
        ("xdp-frags", ProgramKind::Xdp { frags: true }),
        ("tcx", ProgramKind::SchedCls),
        ("socket", ProgramKind::SocketFilter),
    ];
    for (hook, kind) in hooks {
        let args = [
            "--target",
            "ebpf",
            "--hook",
            hook,
            "-ddd",
            "tcp port 80 or vlan 5",
        ];
        let code = words(&filter(&args));
        let loaded = Program::load(&Kernel::running(), "ringtap_test", kind, &code);
        assert!(
            loaded.is_ok(),
            "{hook}: {}",
            loaded.err().map_or(String::new(), |e| e.to_string())
        );
    }
}

fn ebpf_forms() {
    let listing = filter(&["--target", "ebpf", "ip"]);
    assert!(listing.starts_with("   0: r6 = r1\n"), "{listing}");
    assert!(listing.contains("if w8 != 0x800 goto pc"), "{listing}");
    let as_c = filter(&["--target", "ebpf", "-dd", "ip"]);
    assert!(
        as_c.starts_with("{ 0xbf, 6, 1, 0, 0x00000000 },\n"),
        "{as_c}"
    );
    let decimal = filter(&["--target", "ebpf", "-ddd", "ip"]);
    assert_eq!(decimal.lines().nth(1), Some("191 6 1 0 0"));
    assert_eq!(decimal.lines().count(), as_c.lines().count() + 1);
    // XDP knows no direction, a socket does.
    let refused = ringtap(&["filter", "--target", "ebpf", "inbound"]);
    assert_eq!(refused.status.code(), Some(2));
    filter(&["--target", "ebpf", "--hook", "socket", "inbound"]);
}

fn native_forms() {
    let listing = filter(&["--target", "native", "tcp port 80"]);
    let listed: String = listing
        .lines()
        .map(|line| {
            let (_, rest) = line.split_once(": ").expect("an offset");
            rest.split(' ').next().expect("bytes").to_owned()
        })
        .collect();
    let as_c = filter(&["--target", "native", "-dd", "tcp port 80"]);
    let bytes: String = as_c
        .split_whitespace()
        .map(|byte| byte.trim_start_matches("0x").trim_end_matches(','))
        .collect();
    assert_eq!(listed, bytes);
    let decimal = filter(&["--target", "native", "-ddd", "tcp port 80"]);
    assert_eq!(
        decimal.lines().next(),
        Some((bytes.len() / 2).to_string().as_str())
    );
    assert_eq!(decimal.lines().count(), bytes.len() / 2 + 1);
    if cfg!(target_arch = "x86_64") {
        assert!(listing.contains("push rbp"), "{listing}");
    }
}

fn explains() {
    let alone = filter(&["--explain", "ip"]);
    let sentence = "if the EtherType (bytes 12–13) is IPv4 (0x0800), accept it; else reject it";
    assert!(alone.starts_with(&format!("  1  {sentence}\n")), "{alone}");
    for line in [
        "instructions  4; 3 executed on every path\n",
        "packet bytes  12–13\n",
        "link type     EN10MB (Ethernet)\n",
    ] {
        assert!(alone.contains(line), "{line:?} is not in {alone}");
    }
    let both = filter(&["-d", "--explain", "ip"]);
    assert_eq!(both, filter(&["-d", "ip"]) + "\n" + &alone);
}

/// The steps of the example in docs/reference/filter.md. (The cost of a program may change.)
fn page() {
    let repository = ringtap_testkit::repository();
    let page = std::fs::read_to_string(repository.join("docs/reference/filter.md"));
    let page = page.expect("the command's page");
    let (_, example) = page
        .split_once("$ ringtap filter --explain ")
        .expect("an example");
    let (expression, shown) = example.split_once('\n').expect("its output");
    let printed = filter(&["--explain", expression]);
    let steps = |text: &str| text.split("\n\n").next().unwrap_or_default().to_owned();
    assert_eq!(steps(shown), steps(&printed));
}

fn link_types() {
    let text = filter(&["-L"]);
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    for name in ["EN10MB", "RAW", "LINUX_SLL2"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for name in names {
        filter(&["-y", name, "len > 0"]);
    }
}

fn link_type_of_a_file() {
    let (_folder, path) = Traffic::file_of(1);
    let path = path.to_str().expect("text");
    let program = printed(&["dump", "-d", "-r", path, "ip"]);
    assert_eq!(program, filter(&["-d", "ip"]));
    let missing = ringtap(&["dump", "-d", "-r", "/no/such/file", "ip"]);
    assert_eq!(missing.status.code(), Some(1));
}

fn filter_of_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("filter");
    std::fs::write(&path, "# the web\ntcp port 80\n  or tcp port 443\n").expect("a file");
    let path = path.to_str().expect("text");
    assert_eq!(
        filter(&["-F", path]),
        filter(&["tcp port 80 or tcp port 443"])
    );
    assert_eq!(
        ringtap(&["filter", "-F", "/no/such/file"]).status.code(),
        Some(1)
    );
}

fn extensions() {
    let expression = "deep (tcp port in { 80, 443 }) or vxlan inner (arp)";
    let program = filter(&["-ddd", "--extended", expression]);
    let of_dump = printed(&["dump", "-ddd", "-y", "EN10MB", "--extended", expression]);
    assert_eq!(program, of_dump);
    let refused = ringtap(&["filter", expression]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error.contains("--extended"), "{error}");
}

/// The printed program decides like the one that libpcap compiles for the same mask.
fn netmask() {
    let mut oracle = Oracle::start().expect("the helper starts");
    let addresses = [
        [10, 0, 0, 255],
        [10, 0, 0, 0],
        [10, 0, 15, 255],
        [10, 0, 255, 255],
        [10, 0, 0, 7],
        [255, 255, 255, 255],
    ];
    let frames = addresses.map(|address| {
        let mut frame = Traffic::default().frames().remove(0);
        frame[30..34].copy_from_slice(&address);
        frame
    });
    let mut taken = Vec::new();
    for mask in ["255.255.255.0", "255.255.240.0", "255.0.0.0", "0.0.0.0"] {
        let parsed: std::net::Ipv4Addr = mask.parse().expect("a mask");
        let how = Compile {
            netmask: Some(parsed.to_bits()),
            ..Compile::default()
        };
        let theirs = oracle.compile("ip broadcast", how).expect("a program");
        let ours = classic(&filter(&["-ddd", "--netmask", mask, "ip broadcast"]));
        for frame in &frames {
            let len = u32::try_from(frame.len()).expect("short");
            let verdict = ours.run(frame, len);
            let expected = oracle.filter(&theirs, frame, len).expect("a verdict");
            assert_eq!(verdict, expected, "{mask} on {:?}", &frame[30..34]);
            taken.push(verdict != 0);
        }
    }
    // The masks make a difference.
    assert_eq!(taken[..6], [true, true, true, true, false, true]);
    assert_eq!(taken[6..12], [false, true, true, true, false, true]);
    let refused = ringtap(&["filter", "ip broadcast"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error.contains("--netmask"), "{error}");
}

/// Returns the program that `-ddd` prints.
fn classic(text: &str) -> ringtap_filter::Program {
    fn next<T: std::str::FromStr>(line: &mut std::str::Split<'_, char>) -> T {
        let number = line.next().and_then(|number| number.parse().ok());
        number.expect("a number that fits its field")
    }
    let insns = text.lines().skip(1).map(|line| {
        let numbers = &mut line.split(' ');
        ringtap_filter::Insn {
            code: next(numbers),
            jt: next(numbers),
            jf: next(numbers),
            k: next(numbers),
        }
    });
    ringtap_filter::Program::new(insns.collect()).expect("a valid program")
}

fn usage_errors() {
    let cases: [(&[&str], &[&str]); 9] = [
        (&["--netmask", "255.255", "ip"], &["255.255", "--netmask"]),
        (&["tcp port"], &["  tcp port\n", "          ^\n"]),
        (&["host 10/8"], &["         ^\n", "hint: "]),
        (&["-y", "nosuch", "ip"], &["nosuch", "-L"]),
        (&["--target", "z80", "ip"], &["z80", "cbpf, ebpf, native"]),
        (&["--hook", "moon", "ip"], &["xdp, xdp-frags, tcx, socket"]),
        (&["-s", "many", "ip"], &["many"]),
        (&["-L", "ip"], &["--list-data-link-types"]),
        (&["-F", "file", "ip"], &["-F"]),
    ];
    for (args, words) in cases {
        let output = ringtap(&[&["filter"], args].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(!error.ends_with("\n\n"), "{args:?}: {error}");
        for word in words {
            assert!(
                error.contains(word),
                "{args:?} says nothing of {word:?}: {error}"
            );
        }
    }
    assert_eq!(ringtap(&["dump", "-y", "RAW", "ip"]).status.code(), Some(2));
    assert_eq!(
        ringtap(&["dump", "-d", "-y", "nosuch", "ip"]).status.code(),
        Some(2)
    );
}
