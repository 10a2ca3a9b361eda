//! Expressions of the language, each primitive and many combinations.

const PRIMITIVES: [&str; 44] = [
    "ip",
    "ip6",
    "arp",
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "vlan",
    "vlan 7",
    "ether host 02:00:00:00:00:01",
    "ether src 02:00:00:00:00:01",
    "ether dst 02:00:00:00:00:02",
    "ether proto 0x88cc",
    "ether broadcast",
    "ether multicast",
    "host 10.0.0.1",
    "src host 192.168.1.2",
    "dst host 192.168.1.2",
    "host 2001::1",
    "net 10.0.0.0/8",
    "src net 192.168.0.0/16",
    "net fe80::/10",
    "port 80",
    "src port 53",
    "dst port 443",
    "tcp port 80",
    "udp port 53",
    "portrange 1000-6000",
    "tcp portrange 400-500",
    "less 60",
    "greater 60",
    "len > 100",
    "ip proto 17",
    "ip6 proto 6",
    "ip[0] & 0xf > 5",
    "ip[2:2] = len - 14",
    "tcp[13] & 2 != 0",
    "udp[4:2] > 8",
    "ether[12:2] = 0x800",
    "ip[8] + 1 = 65",
    "ip[8] * 4 / 3 > 2",
    "tcp[12] >> 4 = 5",
    "icmp[0] = 8",
    "ip6[6] = 17",
];

/// Returns all primitives, their negations, pairs of them, and a few long ones.
pub(crate) fn all() -> Vec<String> {
    let mut all: Vec<String> = PRIMITIVES.iter().map(ToString::to_string).collect();
    all.extend(
        PRIMITIVES
            .iter()
            .map(|primitive| format!("not {primitive}")),
    );
    for (at, first) in PRIMITIVES.iter().enumerate() {
        let second = PRIMITIVES[(at * 17 + 5) % PRIMITIVES.len()];
        let third = PRIMITIVES[(at * 29 + 11) % PRIMITIVES.len()];
        all.push(format!("({first}) or ({second})"));
        all.push(format!("not ({first}) and (not ({second}) or {third})"));
    }
    all.extend(long());
    // Some pairs exclude each other, or follow from one another: they are rejected when optimised.
    all.retain(|expression| is_satisfiable(expression));
    all
}

/// Returns expressions of many addresses and ports, as people paste them.
fn long() -> Vec<String> {
    let join = |count: usize, each: &dyn Fn(usize) -> String| {
        (0..count).map(each).collect::<Vec<_>>().join(" or ")
    };
    let hosts = |count| join(count, &|at| format!("host 10.{}.{}.1", at / 200, at % 200));
    let ports = |count| join(count, &|at| format!("port {}", 50 + at));
    vec![
        format!("({}) and ({})", hosts(10), ports(10)),
        format!("tcp and ({}) and not ({})", hosts(50), ports(30)),
        join(100, &|at| format!("tcp[{}] = {}", at % 40, at)),
    ]
}

fn is_satisfiable(expression: &str) -> bool {
    use ringtap_filter::{CompileOptions, ErrorKind, LinkType, Tables, compile};
    let options = CompileOptions::new(LinkType::ETHERNET);
    match compile(expression, &options, &Tables::new()) {
        Err(error) => {
            let refused = matches!(error.kind, ErrorKind::RejectsAll);
            assert!(refused, "{expression}: {error}");
            false
        }
        Ok(_) => true,
    }
}
