//! Protocols by the ports that IANA registered for them or that they commonly use.

use crate::payload::Transport;
use crate::protocol::Protocol;

/// Returns the protocol of a port.
pub(crate) fn protocol(transport: Transport, port: u16) -> Option<Protocol> {
    let own = match transport {
        Transport::Tcp { .. } => tcp(port),
        Transport::Udp => udp(port),
    };
    own.or_else(|| both(port))
}

fn both(port: u16) -> Option<Protocol> {
    use Protocol as P;
    Some(match port {
        53 => P::Dns,
        88 => P::Kerberos,
        111 => P::SunRpc,
        389 => P::Ldap,
        853 => P::Tls,
        2049 => P::Nfs,
        3389 => P::Rdp,
        3478 | 5349 | 19302 => P::Stun,
        5060 | 5061 => P::Sip,
        1194 => P::OpenVpn,
        20000 => P::Dnp3,
        _ => return None,
    })
}

fn tcp(port: u16) -> Option<Protocol> {
    use Protocol as P;
    Some(match port {
        20 | 21 => P::Ftp,
        22 => P::Ssh,
        23 => P::Telnet,
        25 | 587 => P::Smtp,
        43 => P::Whois,
        80 | 8000 | 8008 | 8080 => P::Http,
        110 => P::Pop3,
        139 => P::NetBios,
        143 => P::Imap,
        179 => P::Bgp,
        443 | 465 | 636 | 989 | 990 | 993 | 995 | 8443 => P::Tls,
        445 => P::Smb,
        502 => P::Modbus,
        554 => P::Rtsp,
        631 => P::Ipp,
        873 => P::Rsync,
        1080 => P::Socks,
        1433 => P::MsSql,
        1521 => P::Oracle,
        1723 => P::Pptp,
        1883 => P::Mqtt,
        1935 => P::Rtmp,
        3306 => P::Mysql,
        3868 => P::Diameter,
        5222 | 5269 => P::Xmpp,
        5432 => P::Postgresql,
        5671 | 5672 => P::Amqp,
        5900..=5903 => P::Vnc,
        6379 => P::Redis,
        6667 => P::Irc,
        6881..=6889 => P::BitTorrent,
        9042 => P::Cassandra,
        9092 => P::Kafka,
        9300 => P::Elasticsearch,
        9418 => P::Git,
        11211 => P::Memcached,
        27017 => P::MongoDb,
        _ => return None,
    })
}

fn udp(port: u16) -> Option<Protocol> {
    use Protocol as P;
    Some(match port {
        67 | 68 => P::Dhcp,
        69 => P::Tftp,
        123 => P::Ntp,
        137 => P::Nbns,
        138 => P::NetBios,
        161 | 162 => P::Snmp,
        443 => P::Quic,
        500 | 4500 => P::Ike,
        514 => P::Syslog,
        546 | 547 => P::Dhcpv6,
        1701 => P::L2tp,
        1812 | 1813 => P::Radius,
        1900 => P::Ssdp,
        2055 | 4739 | 9995 | 9996 => P::NetFlow,
        2123 | 2152 => P::Gtp,
        3544 => P::Teredo,
        4789 | 8472 => P::Vxlan,
        5353 => P::Mdns,
        5355 => P::Llmnr,
        5683 => P::Coap,
        6081 => P::Geneve,
        6343 => P::SFlow,
        6881..=6889 => P::BitTorrent,
        51820 => P::WireGuard,
        _ => return None,
    })
}
