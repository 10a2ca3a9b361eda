//! The headers of any bytes, of any link type, and of the packets inside tunnels.
//!
//! Every offset that is found lies in the captured bytes.
#![no_main]

use ringtap_packet::LinkType;
use ringtap_packet::headers::Headers;
use ringtap_packet::headers::route::Stop;
use ringtap_packet::headers::tunnel::Tunnels;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[high, low, choice], data)) = input.split_first_chunk::<3>() else {
        return;
    };
    let link_type = LinkType(u16::from_be_bytes([high & 1, low]));
    let wire = data.len() << (choice >> 4);
    let mut headers = Headers::of(link_type, data, wire);
    if choice & 1 != 0 {
        headers.enter(Tunnels::ALL, data, wire);
    }
    let link = &headers.link;
    let places = [link.ethernet, link.mpls, link.interface];
    for at in places
        .into_iter()
        .flatten()
        .chain(link.tags().iter().copied())
    {
        assert!(at + 4 <= data.len());
    }
    if let Some(ip) = headers.ip {
        let [source, destination] = ip.addresses();
        assert!(source.end == destination.start && destination.end <= data.len());
        if let Stop::At(at) = ip.last_stop(data) {
            assert!(at + destination.len() <= data.len());
        }
    }
});
