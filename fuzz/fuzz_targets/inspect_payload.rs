//! One payload, of TCP or UDP, on any port, in one direction and then in the other.
#![no_main]

use std::net::IpAddr;

use ringtap_inspect::{
    Entry, FlowState, InspectOptions, Inspector, Payload, Text, Transport, protocol_of,
};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[switches, a, b, c, d], data)) = input.split_first_chunk::<5>() else {
        return;
    };
    let options = InspectOptions::default()
        .buffers(2)
        .buffer_bytes(2048)
        .names(64);
    let mut inspector = Inspector::new(&options).expect("valid options");
    let (mut entry, mut state) = (Entry::new(), FlowState::default());
    let transport = match switches & 1 {
        0 => Transport::Udp,
        _ => Transport::Tcp { sequence: 1 },
    };
    let [initiator_port, responder_port] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    for from_initiator in [switches & 2 == 0, switches & 2 != 0] {
        let payload = Payload {
            transport,
            from_initiator,
            initiator: IpAddr::from([192, 0, 2, 1]),
            responder: IpAddr::from([192, 0, 2, 2]),
            initiator_port,
            responder_port,
            time_ns: 1_000_000_000,
            data,
            complete: switches & 4 == 0,
        };
        inspector.look(1, &mut entry, &mut state, &payload);
        check(&entry);
    }
    let found = protocol_of(Some(&entry), transport, initiator_port, responder_port);
    assert!(entry.is_empty() || found.is_some());
    inspector.forget(1, &mut state);
});

/// All text of an entry is printable, and one with fields has a protocol.
fn check(entry: &Entry) {
    let fields = entry.fields();
    let texts = [
        fields.name,
        fields.dns_name,
        fields.tls_sni,
        fields.tls_alpn,
        fields.http_host,
        fields.http_method,
        fields.http_path,
        fields.http_user_agent,
        fields.client_banner,
        fields.server_banner,
        fields.dhcp_host,
        fields.dhcp_vendor,
        fields.mqtt_client_id,
        fields.rdp_cookie,
    ];
    for text in texts.into_iter().flatten().map(Text::as_str) {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    assert_eq!(entry.is_empty(), fields.protocol.is_none());
    assert!(fields.tls_ja4.is_none_or(|ja4| ja4.as_str().len() == 36));
    assert_eq!(fields.name.is_some(), fields.name_source.is_some());
}
