//! Compares the speed of native filters and libpcap's interpreter: the same programs on the same
//! packets in cache, in one run, as ratios of medians.
//!
//! There are two kinds of traffic. `mixed` has several protocols, addresses and ports, half of them
//! those of the filters. In `last` every packet fails the filter's last test, as in the
//! measurements of the documents.
//!
//! Needs `libpcap.so.0.8` at run time, for its `pcap_compile` and `bpf_filter`.

use std::ffi::CString;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libpcap::Libpcap;
use ringtap_filter::{CompileOptions, LinkType, Program, Tables, compile};
use ringtap_jit::{Native, PacketRef};

mod libpcap;
mod traffic;

const ROUNDS: usize = 61;
const PASSES: u32 = 8;

struct Filter {
    name: &'static str,
    expression: String,
    target: f64,
}

fn any(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(" or ")
}

fn filters() -> Vec<Filter> {
    let addresses = any(traffic::ADDRESSES
        .iter()
        .map(|a| format!("{}.{}.{}.{}", a[0], a[1], a[2], a[3])));
    let ports = |n: usize| any(traffic::PORTS.iter().take(n).map(u16::to_string));
    vec![
        Filter {
            name: "ip",
            expression: "ip".into(),
            target: 4.0,
        },
        Filter {
            name: "ether pair, udp",
            expression:
                "ether src 02:00:00:00:00:01 and ether dst 02:00:00:00:00:02 and ip and udp".into(),
            target: 6.0,
        },
        Filter {
            name: "5 ports",
            expression: format!("ip and tcp port ({})", ports(5)),
            target: 6.0,
        },
        Filter {
            name: "10 addresses, 10 ports",
            expression: format!("ip host ({addresses}) and tcp port ({})", ports(10)),
            target: 10.0,
        },
    ]
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

fn main() -> ExitCode {
    let pcap = match Libpcap::load() {
        Ok(pcap) => pcap,
        Err(reason) => {
            eprintln!("filter_speed: {reason}");
            return ExitCode::FAILURE;
        }
    };
    println!("nanoseconds per packet, and how many times faster than libpcap's bpf_filter");
    println!(
        "{:<24}{:>6}{:>8}{:>9}{:>15}{:>15}{:>15}{:>8}{:>12}",
        "filter",
        "insns",
        "traffic",
        "libpcap",
        "interpreter",
        "native call",
        "native batch",
        "target",
        "compile"
    );
    for filter in filters() {
        let insns = pcap
            .compile(&filter.expression)
            .expect("libpcap knows the expression");
        let program = Program::new(insns).expect("libpcap makes valid programs");
        for (name, packets) in traffic::kinds(&filter.expression) {
            measure(&pcap, &filter, &program, name, &packets);
        }
    }
    interpreters(&pcap);
    compile_times(&pcap);
    ExitCode::SUCCESS
}

/// Compares the two interpreters on the same programs, for filters of all kinds.
fn interpreters(pcap: &Libpcap) {
    const EXPRESSIONS: [&str; 24] = [
        "tcp or udp",
        "host 10.0.1.7",
        "net 10.0.0.0/16 and port 443",
        "tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn",
        "tcp portrange 1000-2000",
        "ip[0] & 0xf != 5",
        "ip[2:2] - ((ip[0] & 0xf) << 2) - ((tcp[12] & 0xf0) >> 2) != 0",
        "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x47455420",
        "ip6 host 2001:db8::1 or arp",
        "vlan 100 and ip",
        "greater 60 and less 1000",
        "ip[8] * ip[9] + len > 7000 and ip[16] ^ ip[17] != 3",
        "not broadcast and not multicast and (icmp or arp)",
        "udp port 53 or tcp port 80 or tcp port 443 or icmp",
        "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
        "ip6 host 2001:db8::1",
        "port 53",
        "ip[6:2] & 0x1fff = 0",
        "ether[0] & 1 = 0 and ip[16] >= 224",
        "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply",
        "len / 4 + ip[3] % 7 > 10",
        "(ip[12:4] & 0xff) + 5 < ip[16:4] | 3",
        "ether[6:4] + ether[10:2] * 2 > ip[8] << 3",
        "ip proto 47 or ip6 proto 47",
    ];
    println!("\nnanoseconds per packet in the interpreters, mixed traffic");
    for expression in EXPRESSIONS {
        let insns = pcap.compile(expression).expect("libpcap knows it");
        let program = Program::new(insns).expect("libpcap makes valid programs");
        let [(_, packets), _] = traffic::kinds(expression);
        let packets: Vec<(&[u8], u32)> = packets
            .iter()
            .map(|p| (p.as_slice(), u32::try_from(p.len()).unwrap_or(0)))
            .collect();
        let (mut theirs, mut ours) = (Times::new(), Times::new());
        for _ in 0..ROUNDS {
            theirs.push(each(&packets, |data, len| {
                pcap.filter(program.insns(), data, len)
            }));
            ours.push(each(&packets, |data, len| {
                black_box(&program).run(data, len)
            }));
        }
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let calls = f64::from(PASSES) * packets.len() as f64;
        let [theirs, ours] = [theirs, ours].map(|times| median(times) * 1e9 / calls);
        println!(
            "{expression:<78}{:>4}{theirs:>9.2}{:>16}",
            program.insns().len(),
            format!("{ours:.2} ({:.1}x)", theirs / ours),
        );
    }
}

/// Compares the time to compile expressions to optimised classic BPF, with this crate's compiler
/// and libpcap's in turn.
fn compile_times(pcap: &Libpcap) {
    const COMPILATIONS: usize = 1001;
    println!(
        "\nmicroseconds to compile to classic BPF, and how many times faster than pcap_compile"
    );
    println!(
        "{:<24}{:>8}{:>8}{:>9}{:>16}",
        "filter", "insns", "libpcap", "libpcap", "ringtap"
    );
    let options = CompileOptions::new(LinkType::ETHERNET);
    let names = Tables::new();
    for filter in filters() {
        let compile = || compile(&filter.expression, &options, &names).expect("a valid expression");
        let text = CString::new(filter.expression.as_str()).expect("no zero bytes");
        let (mut theirs, mut ours) = (Times::new(), Times::new());
        for _ in 0..COMPILATIONS {
            theirs.push(pcap.compile_time(&text).expect("a valid expression"));
            ours.push(time(1, || drop(black_box(compile()))));
        }
        let (theirs, ours) = (median(theirs) * 1e6, median(ours) * 1e6);
        let insns = pcap.compile(&filter.expression).map_or(0, |i| i.len());
        println!(
            "{:<24}{:>8}{insns:>8}{theirs:>9.2}{:>16}",
            filter.name,
            compile().insns().len(),
            format!("{ours:.2} ({:.1}x)", theirs / ours),
        );
    }
}

/// Times of one engine, one per round.
type Times = Vec<Duration>;

fn measure(pcap: &Libpcap, filter: &Filter, program: &Program, traffic: &str, packets: &[Vec<u8>]) {
    let compile = || Native::compile(program).expect("this processor is supported");
    let compile_time = median(
        (0..ROUNDS)
            .map(|_| time(1, || drop(black_box(compile()))))
            .collect(),
    );
    let native = compile();
    let packets: Vec<(&[u8], u32)> = packets
        .iter()
        .map(|p| (p.as_slice(), u32::try_from(p.len()).unwrap_or(0)))
        .collect();
    let batch: Vec<_> = packets
        .iter()
        .map(|(data, len)| PacketRef::new(data, *len))
        .collect();
    let mut verdicts = vec![0; batch.len()];
    native.run_batch(&batch, &mut verdicts);
    for ((data, len), verdict) in packets.iter().zip(&verdicts) {
        assert_eq!(
            pcap.filter(program.insns(), data, *len),
            *verdict,
            "{}",
            filter.name
        );
        assert_eq!(program.run(data, *len), *verdict, "{}", filter.name);
    }
    let [
        mut by_libpcap,
        mut by_interpreter,
        mut by_call,
        mut by_batch,
    ] = [(); 4].map(|()| Times::new());
    for _ in 0..ROUNDS {
        by_libpcap.push(each(&packets, |data, len| {
            pcap.filter(program.insns(), data, len)
        }));
        by_interpreter.push(each(&packets, |data, len| program.run(data, len)));
        by_call.push(each(&packets, |data, len| native.run(data, len)));
        by_batch.push(time(PASSES, || {
            native.run_batch(black_box(&batch), black_box(&mut verdicts));
        }));
    }
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let calls = f64::from(PASSES) * packets.len() as f64;
    let ns = |times: Times| median(times) * 1e9 / calls;
    let libpcap = ns(by_libpcap);
    let against = |times| {
        let ns = ns(times);
        format!("{ns:.2} ({:.1}x)", libpcap / ns)
    };
    println!(
        "{:<24}{:>6}{traffic:>8}{libpcap:>9.2}{:>15}{:>15}{:>15}{:>7}x{:>9.0} us",
        filter.name,
        program.insns().len(),
        against(by_interpreter),
        against(by_call),
        against(by_batch),
        filter.target,
        compile_time * 1e6,
    );
}

/// Measures one packet after another.
fn each(packets: &[(&[u8], u32)], run: impl Fn(&[u8], u32) -> u32) -> Duration {
    time(PASSES, || {
        for (data, len) in packets {
            black_box(run(data, *len));
        }
    })
}

fn time(passes: u32, mut pass: impl FnMut()) -> Duration {
    let begin = Instant::now();
    for _ in 0..passes {
        pass();
    }
    begin.elapsed()
}
