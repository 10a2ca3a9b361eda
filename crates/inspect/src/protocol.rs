//! The protocols that are recognised.

use std::fmt;

use crate::entry::Entry;
use crate::payload::Transport;
use crate::ports;

/// Makes an enumeration with its numbers and names.
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $kind:ident {
            $($(#[$doc:meta])* $variant:ident = $number:literal $name:literal;)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $kind {
            $($(#[$doc])* $variant = $number,)*
        }

        impl $kind {
            /// All values, by number.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in records: lower case, without spaces.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

named! {
    /// A protocol above TCP or UDP. Its number is stable, since exporters send it.
    #[derive(PartialOrd, Ord)]
    #[non_exhaustive]
    Protocol {
        /// Domain Name System.
        Dns = 1 "dns";
        /// Multicast DNS.
        Mdns = 2 "mdns";
        /// Link-Local Multicast Name Resolution.
        Llmnr = 3 "llmnr";
        /// NetBIOS name service.
        Nbns = 4 "nbns";
        /// Transport Layer Security.
        Tls = 5 "tls";
        /// Datagram Transport Layer Security.
        Dtls = 6 "dtls";
        /// QUIC.
        Quic = 7 "quic";
        /// HTTP/1.
        Http = 8 "http";
        /// HTTP/2 without TLS.
        H2c = 9 "h2c";
        /// WebSocket, after its upgrade from HTTP/1.
        WebSocket = 10 "websocket";
        /// Secure Shell.
        Ssh = 11 "ssh";
        /// Dynamic Host Configuration Protocol of IPv4, and BOOTP.
        Dhcp = 12 "dhcp";
        /// Dynamic Host Configuration Protocol of IPv6.
        Dhcpv6 = 13 "dhcpv6";
        /// Network Time Protocol.
        Ntp = 14 "ntp";
        /// STUN and TURN.
        Stun = 15 "stun";
        /// BitTorrent: peers, DHT, uTP and trackers of UDP.
        BitTorrent = 16 "bittorrent";
        /// Real-time Transport Protocol.
        Rtp = 17 "rtp";
        /// Control protocol of RTP.
        Rtcp = 18 "rtcp";
        /// Server Message Block, all versions.
        Smb = 19 "smb";
        /// Remote Desktop Protocol.
        Rdp = 20 "rdp";
        /// MQTT.
        Mqtt = 21 "mqtt";
        /// PostgreSQL's frontend and backend protocol.
        Postgresql = 22 "postgresql";
        /// MySQL and MariaDB.
        Mysql = 23 "mysql";
        /// Redis.
        Redis = 24 "redis";
        /// Simple Mail Transfer Protocol.
        Smtp = 25 "smtp";
        /// Internet Message Access Protocol.
        Imap = 26 "imap";
        /// Post Office Protocol.
        Pop3 = 27 "pop3";
        /// File Transfer Protocol: its control connection.
        Ftp = 28 "ftp";
        /// Session Initiation Protocol.
        Sip = 29 "sip";
        /// Real-Time Streaming Protocol.
        Rtsp = 30 "rtsp";
        /// Simple Service Discovery Protocol (UPnP).
        Ssdp = 31 "ssdp";
        /// XMPP (Jabber).
        Xmpp = 32 "xmpp";
        /// Lightweight Directory Access Protocol.
        Ldap = 33 "ldap";
        /// Kerberos.
        Kerberos = 34 "kerberos";
        /// Simple Network Management Protocol.
        Snmp = 35 "snmp";
        /// Syslog.
        Syslog = 36 "syslog";
        /// Trivial File Transfer Protocol.
        Tftp = 37 "tftp";
        /// RADIUS.
        Radius = 38 "radius";
        /// Internet Key Exchange of IPsec, and its ESP in UDP.
        Ike = 39 "ike";
        /// WireGuard.
        WireGuard = 40 "wireguard";
        /// OpenVPN.
        OpenVpn = 41 "openvpn";
        /// Telnet.
        Telnet = 42 "telnet";
        /// VNC (RFB).
        Vnc = 43 "vnc";
        /// SOCKS, versions 4 and 5.
        Socks = 44 "socks";
        /// Internet Relay Chat.
        Irc = 45 "irc";
        /// Border Gateway Protocol.
        Bgp = 46 "bgp";
        /// AMQP.
        Amqp = 47 "amqp";
        /// MongoDB.
        MongoDb = 48 "mongodb";
        /// Memcached.
        Memcached = 49 "memcached";
        /// Cassandra's native protocol.
        Cassandra = 50 "cassandra";
        /// Kafka.
        Kafka = 51 "kafka";
        /// Elasticsearch's transport.
        Elasticsearch = 52 "elasticsearch";
        /// Microsoft SQL Server (TDS).
        MsSql = 53 "mssql";
        /// Oracle (TNS).
        Oracle = 54 "oracle";
        /// Network File System.
        Nfs = 55 "nfs";
        /// Sun RPC.
        SunRpc = 56 "sunrpc";
        /// NetBIOS datagrams and sessions.
        NetBios = 57 "netbios";
        /// Modbus.
        Modbus = 58 "modbus";
        /// DNP3.
        Dnp3 = 59 "dnp3";
        /// Constrained Application Protocol.
        Coap = 60 "coap";
        /// GPRS Tunnelling Protocol.
        Gtp = 61 "gtp";
        /// VXLAN.
        Vxlan = 62 "vxlan";
        /// Geneve.
        Geneve = 63 "geneve";
        /// Layer 2 Tunnelling Protocol.
        L2tp = 64 "l2tp";
        /// Point-to-Point Tunnelling Protocol.
        Pptp = 65 "pptp";
        /// NetFlow and IPFIX.
        NetFlow = 66 "netflow";
        /// sFlow.
        SFlow = 67 "sflow";
        /// Real-Time Messaging Protocol.
        Rtmp = 68 "rtmp";
        /// Diameter.
        Diameter = 69 "diameter";
        /// Git's own protocol.
        Git = 70 "git";
        /// rsync.
        Rsync = 71 "rsync";
        /// Internet Printing Protocol.
        Ipp = 72 "ipp";
        /// Whois.
        Whois = 73 "whois";
        /// Teredo.
        Teredo = 74 "teredo";
    }
}

impl Protocol {
    /// Returns the protocol with this number, or `None` if there is none.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        let at = Self::ALL.binary_search_by_key(&number, |protocol| *protocol as u8);
        at.ok().and_then(|at| Self::ALL.get(at)).copied()
    }

    /// Returns the protocol for which a port is registered or commonly used. The responder's port is tried
    /// first.
    #[must_use]
    pub fn by_port(transport: Transport, initiator_port: u16, responder_port: u16) -> Option<Self> {
        ports::protocol(transport, responder_port)
            .or_else(|| ports::protocol(transport, initiator_port))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

named! {
    /// How a flow's protocol was found.
    Basis {
        /// By its payloads.
        Content = 1 "content";
        /// By a port, where the payloads say nothing.
        Port = 2 "port";
    }
}

named! {
    /// Where a flow's name comes from.
    #[non_exhaustive]
    NameSource {
        /// The server name of a TLS ClientHello.
        Sni = 1 "sni";
        /// An earlier answer of DNS for the responder's address: the name in the question.
        Dns = 2 "dns";
        /// The host of an HTTP request.
        Http = 3 "http";
        /// The server name in a QUIC Initial packet.
        Quic = 4 "quic";
        /// The host name that a DHCP client reports.
        Dhcp = 5 "dhcp";
        /// The first name in a multicast DNS message.
        Mdns = 6 "mdns";
        /// The name in a NetBIOS name service message.
        Nbns = 7 "nbns";
        /// The name in an LLMNR message.
        Llmnr = 8 "llmnr";
    }
}

/// Returns a flow's protocol for its record: by content if its entry has one, by port otherwise.
#[must_use]
pub fn protocol_of(
    entry: Option<&Entry>,
    transport: Transport,
    initiator_port: u16,
    responder_port: u16,
) -> Option<(Protocol, Basis)> {
    if let Some(protocol) = entry.and_then(Entry::protocol) {
        return Some((protocol, Basis::Content));
    }
    let protocol = Protocol::by_port(transport, initiator_port, responder_port)?;
    Some((protocol, Basis::Port))
}
