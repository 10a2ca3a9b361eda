//! The parts of the manual pages that are written by hand. Tests check that every command has one, and that the
//! examples are valid.

use ringtap_manual::Page;

use super::recorder::{EXTRACT, RECORD, RECORD_CHECK, RECORD_STATUS, RECORD_TRIGGER};

/// Declares a page: its command and description, then examples with their command lines, files, failures of its own,
/// and related pages.
macro_rules! page {
    (
        $visible:vis $name:ident $command:literal $($text:literal)+
        $(example $purpose:literal => $($line:literal)+;)*
        $(file $path:literal => $content:literal;)*
        $(failure $failure:literal;)*
        see $($other:literal)+
    ) => {
        $visible const $name: ringtap_manual::Page = ringtap_manual::Page {
            name: $command,
            description: &[$($text),+],
            examples: &[$(ringtap_manual::Example {
                purpose: $purpose,
                lines: &[$($line),+],
            }),*],
            files: &[$(($path, $content)),*],
            failures: &[$($failure),*],
            see_also: &[$($other),+],
        };
    };
}

pub(super) use page;

/// The pages, in the order of the help.
pub(super) const PAGES: &[Page] = &[
    PROGRAM,
    DEVICES,
    DUMP,
    STAT,
    EXPLAIN_LOSS,
    FLOW,
    FLOW_SCHEMA,
    QUERY,
    TOP,
    WEB,
    RECORD,
    RECORD_STATUS,
    RECORD_CHECK,
    RECORD_TRIGGER,
    EXTRACT,
    FILTER,
    SEND,
    GEN,
    PROFILE,
    BENCH,
    CONFIG,
    CONFIG_CHECK,
];

page! {
    PROGRAM ""
    "ringtap captures, filters, counts, stores, sends and summarizes network packets on Linux. Each of its \
    commands has a page of its own."
    "It speaks the filter language of `tcpdump`, which `ringtap-filter`(7) describes, reads and writes pcap and \
    pcapng files, and reports where every lost packet was lost."
    "An interface is given by its name, or by an engine and its name: `packet:eth0` reads a ring of the kernel's \
    packet sockets, `tcx:eth0` and `xdp:eth0` run a program at a hook of the interface. Without an engine \
    ringtap chooses the one that costs least. `any` stands for all interfaces."
    "Started by root, ringtap opens what it needs, gives its privileges up, and only then looks at the first \
    packet. It does not run with the set-user-ID bit; give it file capabilities instead."
    example "Print the packets of an interface:" => "ringtap dump -i eth0 'icmp or tcp port 80'";
    example "Show the hosts and flows with the most traffic of a file:" =>
        "ringtap flow -r trace.pcap --top 5";
    example "Show traffic live in the terminal:" => "ringtap top -i eth0";
    example "Capture as a user without root, by file capabilities:" =>
        "setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon=ep /usr/bin/ringtap";
    file "/etc/services, /etc/protocols, /etc/ethers, /etc/hosts" => "Names in filter expressions.";
    see "ringtap-filter(7)" "tcpdump(8)" "pcap-filter(7)" "capabilities(7)"
}

page! {
    DEVICES "devices"
    "Lists the interfaces of the network namespace that it runs in, with everything that affects what a capture \
    shows: link type, addresses, driver, queues, offloads, clocks, and the engines that can capture on the \
    interface. For an engine that cannot, it prints the reason."
    "No privilege is needed. An interface is given by its name, alternative name or number."
    example "Show one interface:" => "ringtap devices eth0";
    example "Print the names of all interfaces:" => "ringtap devices --json | jq -r '.[].name'";
    failure "An interface does not exist.";
    see "ringtap-dump(1)" "ip-link(8)" "ethtool(8)"
}

page! {
    DUMP "dump"
    "Captures packets from an interface, or reads them from files, and prints them, one line each, or writes \
    them to a file. Options have the meaning that they have in `tcpdump`(8)."
    "The capture ends at an interrupt (Ctrl-C, SIGTERM), after `-c` packets, or at the end of the files. It then \
    prints how many packets were captured and how many were lost, by the place of the loss. SIGUSR1 prints the \
    counters without an end."
    "A filter is an expression of `ringtap-filter`(7). It is applied in the kernel. Quote it, so that the shell \
    leaves it alone."
    "The file's name decides about its form: `.pcapng` is pcapng, everything else pcap; `.gz`, `.zst` and `.lz4` \
    behind it compress. `-` is standard output."
    example "Print packets of a host, without those of the own connection:" =>
        "ringtap dump -i eth0 'host 192.0.2.1 and not port 22'";
    example "Save the packets of all interfaces, with interface names and loss counters:" =>
        "ringtap dump -i any -w trace.pcapng 'not port 22'";
    example "Keep the last 5 GB in 50 compressed files:" =>
        "ringtap dump -i eth0 -w ring.pcapng.zst -C 100 -W 50";
    example "Take one host out of a compressed file:" =>
        "ringtap dump -r trace.pcapng.zst -w host.pcap 'host 192.0.2.1'";
    example "Make an index, and search five minutes by it:" =>
        "ringtap dump -r big.pcap --index"
        "ringtap dump -r big.pcap --from 14:30:00 --to 14:35:00 'port 53'";
    example "Watch packets of another host in Wireshark:" =>
        "ssh root@server ringtap dump -i eth0 -w - --exclude-ssh | wireshark -k -i -";
    example "Print one JSON object for each packet:" => "ringtap dump -r trace.pcap --json";
    file "FILE.idx" => "The index of a capture file, which `--index` makes and searches use.";
    failure "A file is damaged, packets could not be written, or the command of `-z` failed.";
    see "ringtap-filter(7)" "ringtap-filter(1)" "ringtap-stat(1)" "ringtap-devices(1)" "tcpdump(8)"
        "dumpcap(1)" "strftime(3)"
}

page! {
    STAT "stat"
    "Counts packets and bytes by filter in the kernel, and prints the counts at an interval. No packet is copied, \
    so it keeps up with rates that no capture does."
    "Each `FILTER` is one argument, so quote it; an empty argument is every packet. Up to 256 filters become one \
    program. A packet counts for each filter that it matches."
    example "Count DNS, the web, and everything:" =>
        "ringtap stat -i eth0 'port 53' 'tcp port 80 or 443' ''";
    example "Print one JSON object every ten seconds, for a minute:" =>
        "ringtap stat -i eth0 --interval 10s -c 6 --json udp";
    example "Drop a flood before the host sees it, and count it:" =>
        "ringtap stat -i xdp:eth0 --mode steal 'udp and src net 198.51.100.0/24'";
    failure "The interface has gone.";
    see "ringtap-filter(7)" "ringtap-dump(1)" "ringtap-top(1)"
}

page! {
    EXPLAIN_LOSS "explain-loss"
    "Shows where packets are lost between the wire and the programs, and what helps against the largest loss. It reads \
    the kernel's counters of lost packets twice, and prints the differences by layer, in the order of a received \
    packet's way: adapter, driver, XDP, backlog, queueing, netfilter, protocols, sockets."
    "It captures nothing, changes nothing, and needs no privilege. As root it also finds the processes of other \
    users."
    example "Watch one interface for a minute:" => "ringtap explain-loss -i eth0 --interval 1m";
    example "Print one JSON object:" => "ringtap explain-loss --json";
    file "/proc/net/softnet_stat, /proc/net/snmp, /proc/net/netstat" =>
        "Counters that are read, beside those of the interfaces.";
    see "ringtap-stat(1)" "ringtap-devices(1)" "ethtool(8)" "ss(8)"
}

page! {
    FLOW "flow"
    "Sorts packets into flows: which hosts talked with each other, when, by which application, and how many \
    packets and bytes. It prints the hosts and flows with the most traffic, and sends records of flows to \
    collectors (NetFlow v5, v9, IPFIX) and files (CSV, JSON, Parquet, IPFIX)."
    "With `--collect` it takes records of other exporters instead of packets."
    "Packets that are not IP are counted, and belong to no flow."
    example "Show the hosts and flows with the most traffic of a file:" =>
        "ringtap flow -r trace.pcap --top 5";
    example "Export IPFIX to a collector, without tables:" =>
        "ringtap flow -i eth0 --export udp:192.0.2.7:4739 --top 0";
    example "Write records with names of hosts to a file of JSON lines:" =>
        "ringtap flow -i eth0 --fields basic,names,dns,tls -w flows.json";
    example "Keep records for 30 days, in 200 GB at most:" =>
        "ringtap flow -i eth0 --biflow --store /var/lib/ringtap/flows --retain 30d --retain 200G";
    example "Collect the records of routers, and print tables every minute:" =>
        "ringtap flow --collect udp:0.0.0.0:2055 --allow 192.0.2.0/24 --interval 60s";
    failure "A collector or a file could not be opened or written.";
    see "ringtap-filter(7)" "ringtap-top(1)" "ringtap-web(1)" "softflowd(8)" "nfcapd(1)"
}

page! {
    FLOW_SCHEMA "flow-schema"
    "Prints the schema of the records that `ringtap flow --store` keeps, or SQL with which an engine reads a store \
    (DuckDB, Spark) or keeps records itself (ClickHouse)."
    example "Print the columns:" => "ringtap flow schema";
    example "Make a view of a store for DuckDB:" =>
        "ringtap flow schema duckdb --store /var/lib/ringtap/flows > flows.sql";
    example "Make tables on a cluster of ClickHouse:" =>
        "ringtap flow schema clickhouse --cluster main --table net.flows";
    see "ringtap-flow(1)" "ringtap-query(1)"
}

page! {
    QUERY "query"
    "Asks a store of flow records (`ringtap flow --store`) by SQL, or with a ready question: `top hosts`, `talkers`, \
    `scans`, `compare yesterday`. It runs the program `ringtap-query`, which is beside `ringtap` or in `PATH`, and \
    passes all arguments on: `ringtap query --help` shows them."
    example "Show the hosts with the most traffic of the last hour:" =>
        "ringtap query --store /var/lib/ringtap/flows top hosts --last 1h";
    example "Ask by SQL:" =>
        "ringtap query --store /var/lib/ringtap/flows 'SELECT count(*) FROM flows'";
    failure "The program `ringtap-query` is not installed.";
    see "ringtap-flow(1)" "ringtap-flow-schema(1)"
}

page! {
    TOP "top"
    "Shows hosts, flows, applications and losses live, in a terminal of at least 80 columns and 24 lines. It \
    works over ssh, and restores the terminal however it ends."
    "Keys: `1` to `4` choose a list, the arrows a row, `Enter` its details, `s` the measure to sort by, `/` a \
    filter, `p` pauses, `w` writes what is shown to a file, `?` lists all keys, `q` ends."
    "Files (`-r`) are read at once and shown until `q`, or with `--replay` at the pace of their packets."
    example "Watch an interface:" => "ringtap top -i eth0";
    example "Watch only DNS, and raise an alert above 10 Mbit/s:" =>
        "ringtap top -i eth0 --alert-rate 10M port 53";
    example "Look at a file at the pace of its packets:" => "ringtap top -r trace.pcapng --replay";
    failure "Standard output is not a terminal.";
    see "ringtap-web(1)" "ringtap-flow(1)" "ringtap-filter(7)" "iftop(8)"
}

page! {
    WEB "web"
    "Shows traffic live in the browser, and serves it as JSON (`/api/v1`) and to Prometheus (`/metrics`). The \
    page is part of the program, and loads nothing from other hosts."
    "On loopback everyone of the host may ask. On other addresses requests need the token that ringtap prints, or \
    a client certificate (`--tls-client-ca`)."
    example "Serve to this host, on port 8877:" => "ringtap web -i eth0";
    example "Serve to the network with TLS, and keep the history:" =>
        "ringtap web -i eth0 --listen 0.0.0.0:8877 --tls-cert cert.pem --tls-key key.pem --dir /var/lib/ringtap/web";
    example "Show the records of other exporters:" => "ringtap web --collect udp:0.0.0.0:2055";
    file "DIR/token" => "The token, in the folder of `--dir`.";
    failure "The address is in use.";
    see "ringtap-top(1)" "ringtap-flow(1)" "ringtap-filter(7)"
}

page! {
    FILTER "filter"
    "Shows what an expression of the filter language compiles to: in words (`--explain`), or as a program of \
    classic BPF, eBPF or machine code. The language itself is described in `ringtap-filter`(7)."
    "It needs no privileges."
    example "Explain an expression:" => "ringtap filter --explain 'tcp port 80 and host 192.0.2.1'";
    example "Print the program as tcpdump -d does:" => "ringtap filter -d 'icmp or arp'";
    example "Print the eBPF program for XDP as C:" =>
        "ringtap filter --target ebpf --hook xdp -dd 'udp port 53'";
    example "List the link types:" => "ringtap filter -L";
    see "ringtap-filter(7)" "ringtap-dump(1)" "pcap-filter(7)" "bpf(2)"
}

page! {
    SEND "send"
    "Sends the packets of capture files on an interface: at their recorded times, at a rate, or as fast as \
    possible. It also sends packets that are built from a description (`--build`), and can change addresses, \
    ports and tags on the way (`--rewrite`)."
    "At the end it reports how many packets were sent and how late they were. On the interface of the host's \
    default route more than 1000 packets per second need `--yes`."
    example "Replay a file on its schedule, twice as fast:" =>
        "ringtap send -i veth0 -r trace.pcapng --multiplier 2";
    example "Send 10 packets that are made here:" =>
        "ringtap send -i veth0 --build 'eth/ipv4(dst=10.0.0.2)/udp(dport=53)/\"x\"' -c 10";
    failure "The interface rejected packets and `--strict` was given.";
    see "ringtap-gen(1)" "ringtap-filter(7)" "tcpreplay(1)"
}

page! {
    GEN "gen"
    "Generates traffic at an exact rate or as fast as possible. With `--receive`, at the other end, it reports \
    loss, duplicates, reordering and latency."
    example "Send a million packets at 100,000 packets per second:" =>
        "ringtap gen -i veth0 --pps 100000 --count 1000000 --size imix";
    example "Report what arrives, until Ctrl-C:" => "ringtap gen -i veth1 --receive";
    see "ringtap-send(1)" "trafgen(8)"
}

page! {
    PROFILE "profile"
    "Measures what a captured packet costs in each component, from the interrupt to the application, and what \
    would make it cheaper."
    "With `-i` it captures on that interface and sends nothing. Without it, packets are generated in network \
    namespaces that are made for that; nothing of the host is touched."
    example "Compare the engines on generated packets:" => "ringtap profile --compare";
    example "Profile captures of an interface, and try the advice:" =>
        "ringtap profile -i eth0 --try";
    failure "Performance events are not permitted.";
    see "ringtap-bench(1)" "perf(1)"
}

page! {
    BENCH "bench"
    "Measures ringtap against its peers on this machine, in network namespaces of its own. It runs the program \
    `ringtap-bench`, which is beside `ringtap`, and passes all arguments on: `ringtap bench --help` shows them."
    "ringtap and its peers take turns; the figures are medians of the rounds, with their range. Single figures go to \
    the folder `bench-out`."
    example "List the experiments:" => "ringtap bench --list";
    example "Measure reading of files:" => "ringtap bench read";
    file "bench-out/" => "The results, as JSON and charts.";
    see "ringtap-profile(1)"
}

page! {
    CONFIG "config"
    "A configuration file in TOML has a table for each command that takes `--config FILE`, such as `[flow]`, \
    `[record]` and `[web]`. Its keys are the long options of the command without their dashes; `filter` is the filter. An option \
    without a value is `true` or `false`, one that may be given several times takes an array, and every other one \
    a text or a number."
    "Options of the command line take the place of those in the file; options that may be given several times add \
    up. A filter on the command line replaces that of the file."
    example "A file:" =>
        "[flow]"
        "export = [\"udp:192.0.2.7:4739\"]"
        "active = \"60s\""
        "biflow = true"
        "filter = \"not port 22\"";
    example "Use it:" => "ringtap flow --config flow.toml -i eth0";
    file "/etc/ringtap/flow.toml, /etc/ringtap/web.toml" => "The configurations of the services.";
    see "ringtap-config-check(1)" "ringtap-flow(1)" "ringtap-web(1)" "systemctl(1)"
}

page! {
    CONFIG_CHECK "config-check"
    "Reports every key and value that is not valid, with the file and the line, and then whether options exclude \
    each other. The source of packets may be missing: the command line can name it."
    "Filters are compiled for Ethernet. A name that the resolver cannot look up at that moment is no error."
    example "Check before a reload:" => "ringtap config check /etc/ringtap/flow.toml";
    see "ringtap-config(1)"
}
