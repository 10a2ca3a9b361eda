//! The kernel's counters of lost packets: where each stands, its meaning, and what helps.

/// A place where packets are lost, in the order of a received packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    Adapter,
    Driver,
    Xdp,
    Softnet,
    Qdisc,
    Netfilter,
    Network,
    Transport,
    Socket,
}

impl Layer {
    pub(super) const ALL: [(Self, &'static str); 9] = [
        (Self::Adapter, "adapter"),
        (Self::Driver, "driver"),
        (Self::Xdp, "xdp"),
        (Self::Softnet, "softnet"),
        (Self::Qdisc, "qdisc"),
        (Self::Netfilter, "netfilter"),
        (Self::Network, "network"),
        (Self::Transport, "transport"),
        (Self::Socket, "socket"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A counter: its group (such as `Udp` in `/proc/net/snmp`), its name, its meaning, and what helps.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) layer: Layer,
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    /// Completes "packets": "that found …".
    pub(super) meaning: &'static str,
    pub(super) advice: &'static str,
}

/// The groups that are no group of a file of `/proc`.
pub(super) const LINK: &str = "link";
pub(super) const SOFTNET: &str = "softnet";
pub(super) const CONNTRACK: &str = "nf_conntrack";
pub(super) const QDISC: &str = "qdisc";
pub(super) const ETHTOOL: &str = "ethtool";

const RING: &str = "the host did not empty the adapter's ring in time: more descriptors (ethtool -G), more queues (ethtool -L), or a processor of its own for the interrupts";
const WIRE: &str =
    "the frames came damaged: look at the cable, the transceiver and the duplex setting";
const BUFFER: &str = "the program reads more slowly than packets come: make it faster; a larger buffer (SO_RCVBUF, net.core.rmem_max) helps against bursts only";
const LISTEN: &str = "the program accepts connections too slowly: a larger backlog in listen(2) and net.core.somaxconn, or more processes that accept";
const SENDER: &str =
    "the sender makes such packets: capture them with ringtap dump, and look at the sender";
const ROUTE: &str =
    "look at the routes (ip route get ADDRESS) and at the forwarding setting (net.ipv4.ip_forward)";
const CHECKSUM: &str = "packets come damaged, or a device below (a tunnel, a virtual switch) leaves checksums to an adapter that does not compute them (ethtool -k)";
const MEMORY: &str =
    "memory for packets was short: look at free memory and at net.ipv4.udp_mem, net.ipv4.tcp_mem";
const FRAGMENTS: &str = "fragments were missing or came too late: net.ipv4.ipfrag_time, net.ipv4.ipfrag_high_thresh; better, let senders make smaller packets";
const TOO_BIG: &str = "packets are longer than the MTU of the next link and may not be cut: look at the MTU (ip link) and whether ICMP errors reach the sender";
const SENT: &str = "the device or the neighbour's queue did not take the packets: look at the neighbours (ip neigh) and at the qdisc (tc -s qdisc)";
const NO_SOCKET: &str = "no program listens there: start it, or stop the sender";
const CARRIER: &str =
    "look at the link (ip link, ethtool): it was down, or the other end did not take frames";

macro_rules! known {
    ($($layer:ident $group:tt $name:literal: $meaning:literal => $advice:expr;)+) => {
        [$(Known {
            layer: Layer::$layer,
            group: $group,
            name: $name,
            meaning: $meaning,
            advice: $advice,
        }),+]
    };
}

/// All counters that count lost packets one by one. Sums of others are not among them.
pub(super) static KNOWN: [Known; 66] = known! {
    Adapter LINK "rx_missed_errors": "for which the host had provided no buffer" => RING;
    Adapter LINK "rx_fifo_errors": "that found the adapter's memory full" => RING;
    Adapter LINK "rx_over_errors": "that found the adapter's ring full" => RING;
    Adapter LINK "rx_crc_errors": "with a wrong frame check sequence" => WIRE;
    Adapter LINK "rx_frame_errors": "that were no whole number of bytes" => WIRE;
    Adapter LINK "rx_length_errors": "with an invalid length" => WIRE;
    Driver LINK "rx_dropped": "that the driver or the kernel dropped before a protocol took them (with those of softnet, and of protocols that nobody handles)" => "compare with softnet below; capture what comes (ringtap dump -i DEV -e) to see protocols that nobody handles";
    Driver LINK "rx_nohandler": "that came on an inactive port of a bond or team" => "nothing is wrong unless the port should be active";
    Driver LINK "tx_dropped": "that the driver did not send" => CARRIER;
    Driver LINK "tx_aborted_errors": "whose sending was aborted" => CARRIER;
    Driver LINK "tx_carrier_errors": "that were to be sent without carrier" => CARRIER;
    Driver LINK "tx_fifo_errors": "for which the adapter's memory ran empty while sending" => CARRIER;
    Softnet SOFTNET "dropped": "that found the backlog of their processor full" => "one processor gets too many packets: spread them (RSS by ethtool -L, or RPS), or raise net.core.netdev_max_backlog";
    Softnet SOFTNET "flow_limit": "of a flow that takes too much of a busy processor's backlog" => "this protects other flows; net.core.flow_limit_cpu_bitmap switches it off";
    Netfilter CONNTRACK "drop": "that found the table of connections full" => "raise net.netfilter.nf_conntrack_max, or leave such traffic untracked (a rule with notrack)";
    Netfilter CONNTRACK "insert_failed": "whose connection was entered by another packet at the same time" => "typical for DNS by several processes from one port; leave such traffic untracked (a rule with notrack)";
    Network "Ip" "InHdrErrors": "with an invalid IPv4 header, or whose time to live expired here" => SENDER;
    Network "Ip" "InAddrErrors": "for IPv4 addresses that are not this host's, while it does not forward" => ROUTE;
    Network "Ip" "InUnknownProtos": "of protocols above IPv4 that nobody handles" => NO_SOCKET;
    Network "Ip" "InDiscards": "that came by IPv4 and were dropped for want of memory" => MEMORY;
    Network "Ip" "OutDiscards": "to be sent by IPv4 that were dropped" => SENT;
    Network "Ip" "OutNoRoutes": "to be sent by IPv4 without a route" => ROUTE;
    Network "Ip" "ReasmFails": "of IPv4 that could not be put together from fragments" => FRAGMENTS;
    Network "Ip" "FragFails": "of IPv4 that were too long and may not be cut" => TOO_BIG;
    Network "IpExt" "InNoRoutes": "that came by IPv4 without a route onwards" => ROUTE;
    Network "IpExt" "InTruncatedPkts": "of IPv4 that were shorter than their header says" => SENDER;
    Network "IpExt" "InCsumErrors": "with a wrong checksum of the IPv4 header" => CHECKSUM;
    Network "TcpExt" "IPReversePathFilter": "whose sender is not reached by the interface that they came by" => "the reverse path filter dropped them: net.ipv4.conf.DEV.rp_filter=2 lets them in if any route leads back";
    Network "Ip6" "InHdrErrors": "with an invalid IPv6 header, or whose hop limit expired here" => SENDER;
    Network "Ip6" "InTooBigErrors": "of IPv6 that are longer than the next link's MTU" => TOO_BIG;
    Network "Ip6" "InNoRoutes": "that came by IPv6 without a route onwards" => ROUTE;
    Network "Ip6" "InAddrErrors": "for IPv6 addresses that are not this host's, while it does not forward" => ROUTE;
    Network "Ip6" "InUnknownProtos": "of protocols above IPv6 that nobody handles" => NO_SOCKET;
    Network "Ip6" "InTruncatedPkts": "of IPv6 that were shorter than their header says" => SENDER;
    Network "Ip6" "InDiscards": "that came by IPv6 and were dropped" => MEMORY;
    Network "Ip6" "OutDiscards": "to be sent by IPv6 that were dropped" => SENT;
    Network "Ip6" "OutNoRoutes": "to be sent by IPv6 without a route" => ROUTE;
    Network "Ip6" "ReasmFails": "of IPv6 that could not be put together from fragments" => FRAGMENTS;
    Network "Ip6" "FragFails": "of IPv6 that were too long and could not be cut" => TOO_BIG;
    Transport "Udp" "NoPorts": "of UDP for a port without a socket" => NO_SOCKET;
    Transport "Udp" "InCsumErrors": "with a wrong checksum of UDP" => CHECKSUM;
    Transport "Udp6" "NoPorts": "of UDP over IPv6 for a port without a socket" => NO_SOCKET;
    Transport "Udp6" "InCsumErrors": "with a wrong checksum of UDP over IPv6" => CHECKSUM;
    Transport "UdpLite" "NoPorts": "of UDP-Lite for a port without a socket" => NO_SOCKET;
    Transport "Icmp" "InCsumErrors": "with a wrong checksum of ICMP" => CHECKSUM;
    Transport "Icmp6" "InCsumErrors": "with a wrong checksum of ICMPv6" => CHECKSUM;
    Transport "Tcp" "InErrs": "that are invalid segments of TCP, such as with a wrong checksum" => CHECKSUM;
    Transport "TcpExt" "PAWSActive": "of TCP with a time stamp that is too old, while connecting" => SENDER;
    Transport "TcpExt" "PAWSEstab": "of TCP with a time stamp that is too old" => "mostly duplicates on a path that reorders; otherwise several hosts behind one address";
    Transport "TcpExt" "TCPMD5NotFound": "of TCP without the MD5 signature that is required" => SENDER;
    Transport "TcpExt" "TCPMD5Unexpected": "of TCP with an MD5 signature that nobody expects" => SENDER;
    Transport "TcpExt" "TCPMD5Failure": "of TCP with a wrong MD5 signature" => SENDER;
    Socket "Udp" "RcvbufErrors": "of UDP that found the receive buffer of their socket full" => BUFFER;
    Socket "Udp" "SndbufErrors": "of UDP that found the send buffer of their socket full" => "the program sends faster than the device: look at the qdisc, or make it wait (blocking writes)";
    Socket "Udp" "MemErrors": "of UDP that were dropped because all sockets together use too much memory" => MEMORY;
    Socket "Udp6" "RcvbufErrors": "of UDP over IPv6 that found the receive buffer of their socket full" => BUFFER;
    Socket "Udp6" "SndbufErrors": "of UDP over IPv6 that found the send buffer of their socket full" => "the program sends faster than the device: look at the qdisc, or make it wait (blocking writes)";
    Socket "Udp6" "MemErrors": "of UDP over IPv6 that were dropped because all sockets together use too much memory" => MEMORY;
    Socket "TcpExt" "ListenDrops": "that ask for a connection and found the queue of the listening socket full" => LISTEN;
    Socket "TcpExt" "TCPBacklogDrop": "of TCP that found the backlog of their socket full" => BUFFER;
    Socket "TcpExt" "TCPReqQFullDrop": "that ask for a connection and found the queue of requests full" => LISTEN;
    Socket "TcpExt" "RcvPruned": "of TCP that were dropped because the receive buffer was full" => BUFFER;
    Socket "TcpExt" "TCPRcvQDrop": "of TCP that found the receive queue of their socket full" => BUFFER;
    Socket "TcpExt" "TCPOFODrop": "of TCP out of order that found the receive buffer of their socket full" => BUFFER;
    Socket "TcpExt" "TCPZeroWindowDrop": "of TCP that came although the window was closed" => BUFFER;
    Socket "TcpExt" "TCPDeferAcceptDrop": "that end a handshake for a socket that waits for data (TCP_DEFER_ACCEPT)" => "nothing is wrong: the first data complete the connection";
};

/// The advice for counters that are not in the table.
pub(super) const OF_ADAPTER: &str = "the adapter's documentation has the meaning of its counter";
pub(super) const OF_XDP: &str =
    "a program at XDP drops packets: ip link shows which one is attached";
pub(super) const OF_QDISC: &str = "more is sent than the scheduler lets through, or a filter drops packets: tc -s qdisc, tc filter show";

/// Returns the entry of a counter.
pub(super) fn find(group: &str, name: &str) -> Option<&'static Known> {
    KNOWN
        .iter()
        .find(|known| known.group == group && known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_once_and_in_the_order_of_layers() {
        for (at, known) in KNOWN.iter().enumerate() {
            let first = find(known.group, known.name).map(std::ptr::from_ref);
            assert_eq!(first, Some(std::ptr::from_ref(known)), "{known:?}");
            assert!(at == 0 || KNOWN[at - 1].layer <= known.layer, "{known:?}");
        }
        assert!(Layer::ALL.is_sorted());
    }
}
