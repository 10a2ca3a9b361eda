//! The first bytes of a flow's packets, from the time when somebody looks at the flow.
//!
//! Nothing is kept of flows that nobody looks at. A flow that is looked at gets a tap for [`TIME`], which ends after
//! [`PACKETS`] packets, and of which [`BYTES`] bytes each are kept.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringtap_capture::{LinkType, Packet};
use ringtap_look::api::FirstBytes;
use ringtap_packet::headers::Headers;

use super::Model;
use super::taps::{Limit, Tapped, Taps};

/// Flows that are looked at, at a time; another one takes the place of the one that was not asked for longest.
const FLOWS: usize = 4;
const PACKETS: usize = 16;
/// Bytes of each packet, from the header of IP on.
const BYTES: usize = 256;
/// Room for the headers before it.
const BEFORE: usize = 128;
const TIME: Duration = Duration::from_secs(60);

/// The flows that somebody looks at.
#[derive(Debug)]
pub(crate) struct Looking {
    taps: Arc<Taps>,
    flows: Mutex<Vec<Looked>>,
}

#[derive(Debug)]
struct Looked {
    id: String,
    source: Option<IpAddr>,
    tapped: Tapped,
    packets: Vec<FirstBytes>,
    asked: Instant,
}

impl Looking {
    pub(crate) fn new(taps: &Arc<Taps>) -> Self {
        Self {
            taps: Arc::clone(taps),
            flows: Mutex::default(),
        }
    }

    /// Returns the packets of a flow since it was first asked for; `None` if packets cannot be had, as from a file.
    pub(crate) fn packets(&self, model: &Model, id: &str, source: &str) -> Option<Vec<FirstBytes>> {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        flows.retain(|looked| looked.id != id || !looked.is_over_without_packets(now));
        if !flows.iter().any(|looked| looked.id == id) {
            if flows.len() >= FLOWS {
                let oldest = (0..flows.len()).min_by_key(|&at| flows[at].asked);
                oldest.map(|at| flows.swap_remove(at));
            }
            let expression = model.lock().filter_of_flow(id)?;
            let limit = Limit {
                packets: PACKETS,
                bytes: BEFORE + BYTES,
            };
            let tapped = self.taps.open(&expression, TIME, Some(limit)).ok()?;
            flows.push(Looked {
                id: id.to_owned(),
                source: source.parse().ok(),
                tapped,
                packets: Vec::new(),
                asked: now,
            });
        }
        let looked = flows.iter_mut().find(|looked| looked.id == id)?;
        looked.asked = now;
        looked.collect();
        Some(looked.packets.clone())
    }
}

impl Looked {
    fn is_over_without_packets(&self, now: Instant) -> bool {
        self.packets.is_empty() && now >= self.tapped.until
    }

    fn collect(&mut self) {
        while let Some(copied) = self.tapped.try_next() {
            for one in &copied {
                if self.packets.len() >= PACKETS {
                    return;
                }
                let packet = one.packet();
                let link = self.tapped.link_type(packet.interface);
                self.packets.push(first_bytes(&packet, link, self.source));
            }
        }
    }
}

fn first_bytes(packet: &Packet<'_>, link: LinkType, source: Option<IpAddr>) -> FirstBytes {
    let headers = Headers::of(link, packet.data, packet.len as usize);
    let at = headers.network.unwrap_or(0).min(packet.data.len());
    let from = headers.ip.and_then(|ip| {
        let [from, _] = ip.addresses();
        address(packet.data.get(from)?)
    });
    let bytes = &packet.data[at..];
    let bytes = &bytes[..bytes.len().min(BYTES)];
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(hex, "{byte:02x}");
    }
    let nanos = u64::try_from(packet.timestamp.as_nanos()).unwrap_or(0);
    FirstBytes {
        time_ms: nanos / 1_000_000,
        direction: match from {
            Some(from) if Some(from) != source => "reverse",
            _ => "forward",
        },
        length: packet.len.saturating_sub(u32::try_from(at).unwrap_or(0)),
        hex,
        truncated: packet.len as usize > at + bytes.len(),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringtap_capture::{PacketFlags, Timestamp};

    #[test]
    fn bytes_begin_at_the_header_of_ip() {
        let mut data = vec![0; 14 + 28];
        data[12..14].copy_from_slice(&[8, 0]);
        data[14..34].copy_from_slice(&[
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
        ]);
        let packet = Packet {
            timestamp: Timestamp::default(),
            len: 42,
            interface: 0,
            flags: PacketFlags::default(),
            data: &data,
            process: None,
        };
        let of = |source: [u8; 4]| first_bytes(&packet, LinkType::ETHERNET, Some(source.into()));
        let there = of([192, 0, 2, 1]);
        assert_eq!(
            (there.direction, there.length, there.truncated),
            ("forward", 28, false)
        );
        assert!(there.hex.starts_with("4500001c") && there.hex.len() == 56);
        assert_eq!(of([192, 0, 2, 2]).direction, "reverse");
    }
}
