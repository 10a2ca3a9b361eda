//! Protocols that are not encrypted.

use ringtap_inspect::{NameSource, Protocol, Text};

use crate::hello::Talk;
use crate::inspector;

pub(crate) fn requests() {
    let request = b"POST /path?query=1 HTTP/1.1\r\nAccept: */*\r\nHOST: www.example.org:8080\r\n\
        User-Agent: agent/1.0 (some system)\r\n\r\nbody";
    let mut inspector = inspector();
    let mut talk = Talk::tcp(9999);
    talk.say(&mut inspector, true, 1, request);
    talk.say(&mut inspector, false, 1, b"HTTP/1.1 404 Not Found\r\n\r\n");
    let fields = talk.entry.fields();
    assert_eq!(fields.protocol, Some(Protocol::Http));
    assert_eq!(fields.http_method.map(Text::as_str), Some("POST"));
    assert_eq!(
        fields.http_host.map(Text::as_str),
        Some("www.example.org:8080")
    );
    assert_eq!(fields.http_path.map(Text::as_str), Some("/path?query=1"));
    let agent = fields.http_user_agent.map(Text::as_str);
    assert_eq!(agent, Some("agent/1.0 (some system)"));
    assert_eq!(fields.http_status, Some(404));
    assert_eq!(fields.name.map(Text::as_str), Some("www.example.org"));
    assert_eq!(fields.name_source, Some(NameSource::Http));
    assert!(talk.state.is_done());

    let mut talk = Talk::tcp(80);
    let request =
        b"GET /chat HTTP/1.1\r\nHost: [2001:db8::1]\r\nUpgrade: websocket\r\nUser-Agent: a\r\n\r\n";
    talk.say(&mut inspector, true, 1, request);
    let answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\r\n";
    talk.say(&mut inspector, false, 1, answer);
    let fields = talk.entry.fields();
    assert_eq!(fields.protocol, Some(Protocol::WebSocket));
    assert_eq!(fields.name.map(Text::as_str), Some("[2001:db8::1]"));

    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\n\r\n",
        "p".repeat(500),
        "h".repeat(200),
        "a".repeat(300)
    );
    let mut talk = Talk::tcp(80);
    talk.say(&mut inspector, true, 1, long.as_bytes());
    talk.say(&mut inspector, false, 1, b"HTTP/1.0 200 OK\r\n\r\n");
    let fields = talk.entry.fields();
    for text in [fields.http_host, fields.http_path, fields.http_user_agent] {
        let text = text.expect("all have room");
        assert!(text.is_cut() && text.as_str().len() >= 30, "{text:?}");
    }
    assert_eq!(fields.http_status, Some(200));
}

/// Every cut of a request into two segments.
pub(crate) fn spanning_requests() {
    let request = b"GET /path HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: agent/1.0\r\n\r\n";
    let mut inspector = inspector();
    for cut in 4..request.len() {
        let mut talk = Talk::tcp(9999);
        talk.say(&mut inspector, true, 1, &request[..cut]);
        let sequence = 1 + u32::try_from(cut).expect("short");
        talk.say(&mut inspector, true, sequence, &request[cut..]);
        let fields = talk.entry.fields();
        let texts = [
            fields.http_method,
            fields.http_host,
            fields.http_path,
            fields.http_user_agent,
        ];
        let texts = texts.map(|text| text.map(Text::as_str));
        let expected = ["GET", "www.example.org", "/path", "agent/1.0"].map(Some);
        assert_eq!(texts, expected, "cut at {cut}");
        inspector.forget(talk.flow, &mut talk.state);
    }
}

const TCP: bool = true;
const UDP: bool = false;

/// First payloads: their protocol, transport, the responder's port, and their bytes.
#[rustfmt::skip]
pub(crate) const FIRST_BYTES: &[(Option<Protocol>, bool, u16, &[u8])] = &[
    (Some(Protocol::Ssh), TCP, 2222, b"SSH-2.0-OpenSSH_9.2\r\n"),
    (Some(Protocol::Http), TCP, 2222, b"HEAD / HTTP/1.0\r\n\r\n"),
    (Some(Protocol::Http), TCP, 2222, b"HTTP/1.1 200 OK\r\n\r\n"),
    (None, TCP, 2222, b"GET out of here\n"),
    (Some(Protocol::H2c), TCP, 2222, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    (Some(Protocol::BitTorrent), TCP, 2222, b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0"),
    (Some(Protocol::BitTorrent), UDP, 2222, b"d1:ad2:id20:aaaaaaaaaaaaaaaaaaaae1:q4:ping1:t2:aa1:y1:qe"),
    (Some(Protocol::BitTorrent), UDP, 2222, b"\0\0\x04\x17\x27\x10\x19\x80\0\0\0\0\x01\x02\x03\x04"),
    (Some(Protocol::Smb), TCP, 2222, b"\0\0\0\x40\xfeSMB\x40\0\0\0"),
    (Some(Protocol::Smb), TCP, 2222, b"\0\0\0\x40\xffSMB\x72\0\0\0"),
    (Some(Protocol::Rdp), TCP, 2222, b"\x03\0\0\x2a\x25\xe0\0\0\0\0\0Cookie: mstshash=somebody1\r\n\x01\0\x08"),
    (Some(Protocol::Rdp), TCP, 2222, b"\x03\0\0\x13\x0e\xd0\0\0\x12\x34\0\x02\x01\x08\0\x02\0\0\0"),
    (None, TCP, 102, b"\x03\0\0\x16\x11\xe0\0\0\0\x01\0\xc0\x01\x0a\xc1\x02\x01\0\xc2\x02\x01\x02"),
    (Some(Protocol::Mqtt), TCP, 2222, b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04id-1"),
    (Some(Protocol::Mqtt), TCP, 2222, b"\x10\x10\0\x06MQIsdp\x03\x02\0\x3c\0\x02id"),
    (Some(Protocol::Postgresql), TCP, 2222, b"\0\0\0\x08\x04\xd2\x16\x2f"),
    (Some(Protocol::Postgresql), TCP, 2222, b"\0\0\0\x10\0\x03\0\0user\0me\0"),
    (Some(Protocol::Mysql), TCP, 2222, b"\x10\0\0\0\x0a8.0.36\0\x01\0\0\0abcd"),
    (Some(Protocol::Redis), TCP, 2222, b"*1\r\n$4\r\nPING\r\n"),
    (Some(Protocol::Redis), TCP, 6379, b"+PONG\r\n"),
    (Some(Protocol::Smtp), TCP, 2222, b"220 mx.example.org ESMTP Postfix\r\n"),
    (Some(Protocol::Smtp), TCP, 2222, b"EHLO client\r\n"),
    (Some(Protocol::Ftp), TCP, 21, b"220 Welcome\r\n"),
    (None, TCP, 2222, b"220 Welcome\r\n"),
    (Some(Protocol::Imap), TCP, 2222, b"* OK [CAPABILITY IMAP4rev1] ready\r\n"),
    (Some(Protocol::Pop3), TCP, 110, b"+OK ready\r\n"),
    (Some(Protocol::Sip), UDP, 2222, b"INVITE sip:b@example.org SIP/2.0\r\n\r\n"),
    (Some(Protocol::Sip), TCP, 2222, b"SIP/2.0 200 OK\r\n\r\n"),
    (Some(Protocol::Rtsp), TCP, 2222, b"OPTIONS rtsp://example.org/a RTSP/1.0\r\n\r\n"),
    (Some(Protocol::Ssdp), UDP, 1900, b"M-SEARCH * HTTP/1.1\r\nST: ssdp:all\r\n\r\n"),
    (Some(Protocol::Socks), TCP, 2222, b"\x05\x01\x00"),
    (None, TCP, 2222, b"\x05\x01\x00\x00"),
    (Some(Protocol::Telnet), TCP, 2222, b"\xff\xfd\x18\xff\xfd\x20"),
    (Some(Protocol::Vnc), TCP, 2222, b"RFB 003.008\n"),
    (Some(Protocol::Xmpp), TCP, 2222, b"<?xml version='1.0'?><stream:stream to='example.org'>"),
    (Some(Protocol::Tls), TCP, 2222, b"\x15\x03\x03\0\x02\x02\x28"),
    (Some(Protocol::Tls), TCP, 2222, b"\x17\x03\x03\0\x04abcd\x17\x03\x03\x40\0abc"),
    (None, TCP, 2222, b"\x17\x03\x09\0\x04abcd"),
    (Some(Protocol::Stun), UDP, 2222, b"\0\x01\0\0\x21\x12\xa4\x42abcdefghijkl"),
    (Some(Protocol::Stun), TCP, 2222, b"\0\x01\0\0\x21\x12\xa4\x42abcdefghijkl"),
    (Some(Protocol::WireGuard), UDP, 2222, &wireguard()),
    (Some(Protocol::Rtcp), UDP, 2222, b"\x80\xc9\0\x01\x01\x02\x03\x04"),
    (Some(Protocol::Quic), UDP, 2222, b"\xc0\0\0\0\x01\x08abcdefgh\x00\x00\x41\x00"),
    (Some(Protocol::Quic), UDP, 2222, b"\x80\0\0\0\0\x04abcd\x04efgh\0\0\0\x01"),
    (None, UDP, 2222, b"\xc0\x12\x34\x56\x78\x08abcdefgh\x00\x00\x41\x00"),
    (Some(Protocol::Dns), UDP, 2222, b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01"),
    (Some(Protocol::Dns), TCP, 2222, b"\0\x13\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01"),
    (None, UDP, 2222, b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01\x07\0\0\x01\0\x01"),
    (Some(Protocol::Mdns), UDP, 5353, b"\0\0\0\0\0\x01\0\0\0\0\0\0\x01a\x05local\0\0\x01\0\x01"),
    (Some(Protocol::Llmnr), UDP, 5355, b"\0\x01\0\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01"),
    (Some(Protocol::Ntp), UDP, 123, &[0x23; 48]),
    (Some(Protocol::Snmp), UDP, 161, b"\x30\x26\x02\x01\x01\x04\x06public"),
    (Some(Protocol::Syslog), UDP, 514, b"<13>message"),
    (None, UDP, 2222, b"<13>message"),
    (None, TCP, 2222, b"\0"),
    (None, UDP, 2222, b"\0"),
];

const fn wireguard() -> [u8; 148] {
    let mut message = [7; 148];
    (message[0], message[1], message[2], message[3]) = (1, 0, 0, 0);
    message
}

pub(crate) fn first_bytes() {
    let mut inspector = inspector();
    for (protocol, is_tcp, port, data) in FIRST_BYTES {
        let mut talk = Talk::new(1, *is_tcp, (50_000, *port));
        talk.say(&mut inspector, true, 1, data);
        assert_eq!(
            talk.entry.protocol(),
            *protocol,
            "{:?}",
            data.escape_ascii().to_string()
        );
        assert_eq!(talk.entry.is_empty(), protocol.is_none());
        // An unknown payload leaves no state.
        inspector.forget(1, &mut talk.state);
    }
}

pub(crate) fn small_fields() {
    let mut inspector = inspector();
    let mut talk = |port: u16, is_tcp: bool, payloads: &[(bool, &[u8])]| {
        let mut talk = Talk::new(1, is_tcp, (50_000, port));
        for (from_initiator, data) in payloads {
            talk.say(&mut inspector, *from_initiator, 1, data);
        }
        talk
    };
    let ssh = talk(
        22,
        TCP,
        &[(false, b"SSH-2.0-server\r\n"), (true, b"SSH-2.0-client\n")],
    );
    let fields = ssh.entry.fields();
    assert_eq!(
        fields.client_banner.map(Text::as_str),
        Some("SSH-2.0-client")
    );
    assert_eq!(
        fields.server_banner.map(Text::as_str),
        Some("SSH-2.0-server")
    );
    assert!(ssh.state.is_done());

    let mut question = [0; 48];
    let mut answer = [0; 48];
    question[0] = 0x23;
    (answer[0], answer[1]) = (0x24, 2);
    let ntp = talk(123, UDP, &[(true, &question), (false, &answer)]);
    assert_eq!(ntp.entry.fields().ntp_stratum, Some(2));

    let stun = talk(
        3478,
        UDP,
        &[(true, b"\x01\x13\0\0\x21\x12\xa4\x42abcdefghijkl")],
    );
    assert_eq!(stun.entry.fields().stun_method, Some(3));

    let mqtt = talk(
        1883,
        TCP,
        &[(true, b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04id-1")],
    );
    let id = mqtt.entry.fields().mqtt_client_id;
    assert_eq!(id.map(Text::as_str), Some("id-1"));
    let mqtt5 = talk(
        1883,
        TCP,
        &[(
            true,
            b"\x10\x16\0\x04MQTT\x05\x02\0\x3c\x05\x11\0\0\0\x0a\0\x04id-5",
        )],
    );
    let id = mqtt5.entry.fields().mqtt_client_id;
    assert_eq!(id.map(Text::as_str), Some("id-5"));
}

/// Names that hosts give of themselves.
pub(crate) fn own_names() {
    let mut inspector = inspector();
    let mut talk = |port: u16, is_tcp: bool, data: &[u8]| {
        let mut talk = Talk::new(1, is_tcp, (50_000, port));
        talk.say(&mut inspector, true, 1, data);
        talk
    };
    let mut dhcp = vec![0; 240];
    (dhcp[0], dhcp[1], dhcp[2]) = (1, 1, 6);
    dhcp[236..].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
    dhcp.extend_from_slice(b"\x35\x01\x01\x00\x0c\x06laptop\x3c\x08MSFT 5.0\xff");
    let dhcp = talk(67, UDP, &dhcp);
    let fields = dhcp.entry.fields();
    assert_eq!(fields.name.map(Text::as_str), Some("laptop"));
    assert_eq!(fields.name_source, Some(NameSource::Dhcp));
    assert_eq!(fields.dhcp_vendor.map(Text::as_str), Some("MSFT 5.0"));

    let nbns =
        b"\0\x01\x01\x10\0\x01\0\0\0\0\0\0\x20FEEFFDFECACACACACACACACACACACACA\0\0\x20\0\x01";
    let nbns = talk(137, UDP, nbns);
    assert_eq!(nbns.entry.fields().name.map(Text::as_str), Some("TEST<20>"));

    let rdp = b"\x03\0\0\x2a\x25\xe0\0\0\0\0\0Cookie: mstshash=somebody1\r\n\x01\0\x08";
    let rdp = talk(3389, TCP, rdp);
    assert_eq!(
        rdp.entry.fields().rdp_cookie.map(Text::as_str),
        Some("somebody1")
    );
}

pub(crate) fn rtp() {
    let packet = |sequence: u8, source: u8| {
        [
            0x80, 0x60, 0, sequence, 0, 0, 0, 1, 0, 0, 0, source, 1, 2, 3, 4,
        ]
    };
    let mut inspector = inspector();
    let mut talk = Talk::udp(40_000);
    talk.say(&mut inspector, true, 0, &packet(1, 9));
    assert!(talk.entry.is_empty());
    talk.say(&mut inspector, true, 0, &packet(2, 9));
    let fields = talk.entry.fields();
    assert_eq!(fields.protocol, Some(Protocol::Rtp));
    assert_eq!(
        (fields.rtp_payload_type, fields.rtp_ssrc),
        (Some(96), Some(9))
    );
    let mut talk = Talk::new(2, false, (50_000, 40_000));
    talk.say(&mut inspector, true, 0, &packet(1, 9));
    talk.say(&mut inspector, true, 0, &packet(2, 8));
    talk.say(&mut inspector, true, 0, &packet(40, 8));
    assert!(talk.entry.is_empty());
}
