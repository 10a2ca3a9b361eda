//! Statistics mode at XDP, against the limit: an XDP program that drops every packet.
//!
//! The kernel makes and receives frames on one processor, as fast as it can; ringtap runs on
//! another one. Both sides drop (`--mode steal`), so they differ only in the counting. The rate
//! refers to the time spent on the processor, so that other programs do not distort it.

use std::time::Duration;

use ringtap_lab::Need;
use ringtap_lab::netns::VethPair;
use ringtap_lab::process::Running;
use ringtap_lab::traffic::{LiveFrames, Target, XdpDrop};
use ringtap_sys::sched::set_affinity;

use crate::helpers::{cpu_seconds, datagram, float, interrupted, text};
use crate::results::Axis;
use crate::session::{Done, Session, Side};
use crate::stage::{READER, on_sender};

const PACKETS: u32 = 6_000_000;
const QUICK_PACKETS: u32 = 600_000;
/// The number of packets sent first, until caches are warm.
const WARM_UP: u32 = 100_000;
/// The filters. The first case uses only the first one; the sent datagrams match it and a few
/// others.
const FILTERS: [&str; 16] = [
    "udp",
    "tcp port 443",
    "tcp port 80",
    "udp port 53",
    "port 22",
    "icmp",
    "arp",
    "ip6",
    "host 192.0.2.1 and host 192.0.2.2",
    "net 10.1.0.0/16",
    "tcp[tcpflags] & tcp-syn != 0",
    "greater 1000",
    "vlan",
    "ip proto 47",
    "udp and dst portrange 5000-6000",
    "ether broadcast",
];

/// One case: the wire, the traffic, and the filters.
struct Setting<'a> {
    pair: &'a VethPair,
    frames: &'a LiveFrames<'a>,
    filters: &'a [String],
    ringtap: &'a str,
    packets: u32,
}

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(5, 18)], 2)?;
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    let metrics = [
        ("rate by processor time", "million packets/s", 2),
        ("not counted", "packets", 0),
        ("application's processor time", "%", 3),
    ];
    session.figure("Counted by filter at XDP", Axis::names("filters"), metrics);
    let ringtap = session.ringtap.to_string_lossy().into_owned();
    // ringtap and everything else except the generator.
    set_affinity(&[READER]).map_err(|error| format!("two processors are needed: {error}"))?;
    for (size, count) in [(64, 1), (64, 16), (64, 64), (1496, 1), (1496, 16)] {
        let pair = VethPair::new();
        // Otherwise the driver keeps VLAN tags outside the packet, where XDP does not see them.
        pair.right.keep_tags();
        let frame = datagram(size);
        let frames = LiveFrames::new(&frame, Target::OutOf(&pair.left))?;
        let filters = filters(count);
        let setting = Setting {
            pair: &pair,
            frames: &frames,
            filters: &filters,
            ringtap: &ringtap,
            packets,
        };
        let case = format!("{count} filters, frames of {size} bytes, {packets} of them");
        session.versus(&case, "XDP drop", |side| setting.measure(side))?;
    }
    Ok(())
}

/// Returns this many filters: the list, repeated, with a length that no frame has to make them different.
fn filters(count: usize) -> Vec<String> {
    let list = FILTERS.iter().cycle().enumerate().take(count);
    list.map(|(number, filter)| match number / FILTERS.len() {
        0 => (*filter).to_owned(),
        round => format!("{filter} and not len = {}", 9_000 + round),
    })
    .collect()
}

impl Setting<'_> {
    fn measure(&self, side: Side) -> Done<Vec<f64>> {
        if side == Side::Ringtap {
            return self.count();
        }
        let dropping = XdpDrop::on(&self.pair.right)?;
        let rate = self.send()?;
        drop(dropping);
        Ok(vec![rate, 0.0, 0.0])
    }

    fn count(&self) -> Done<Vec<f64>> {
        let device = format!("xdp:{}", self.pair.right.device);
        let mut command = self.pair.right.namespace.command(self.ringtap);
        command
            .args(["stat", "-i", &device, "--mode", "steal", "--json"])
            .args(self.filters);
        let mut running = Running::start_piped(&mut command)?;
        self.wait_until_attached(&mut running)?;
        let before = cpu_seconds(running.id())?;
        let begun = std::time::Instant::now();
        let rate = self.send()?;
        // At least one interval, so that the work of an interval is included.
        let rest = Duration::from_millis(2_100).checked_sub(begun.elapsed());
        std::thread::sleep(rest.unwrap_or_default());
        let used = cpu_seconds(running.id())? - before;
        let share = 100.0 * used / begun.elapsed().as_secs_f64();
        let text = text(&interrupted(running)?.stdout);
        let counted: u64 = text.lines().filter_map(total).sum();
        let sent = u64::from(self.packets) + u64::from(WARM_UP);
        Ok(vec![rate, float(sent) - float(counted), share])
    }

    /// Sends all packets; returns millions a second.
    fn send(&self) -> Done<f64> {
        on_sender(|| {
            self.frames.send_measured(WARM_UP)?;
            let cost = self.frames.send_measured(self.packets)?;
            Ok(f64::from(self.packets) / cost.processor.as_secs_f64() / 1e6)
        })
    }

    fn wait_until_attached(&self, running: &mut Running) -> Done {
        let device = &self.pair.right.device;
        let mut netlink = self.pair.right.namespace.netlink();
        loop {
            let link = netlink.link(device)?;
            if !link.xdp.is_empty() {
                return Ok(());
            }
            if running.has_ended() {
                return Err("ringtap stat did not start".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Returns the packets in a line's total, which is its last object.
pub(super) fn total(line: &str) -> Option<u64> {
    let (_, total) = line.rsplit_once("\"total\":{\"packets\":")?;
    total.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read() {
        let line = r#"{"filters":[{"packets":1,"bytes":2}],"total":{"packets":37,"bytes":64}}"#;
        assert_eq!(total(line), Some(37));
    }

    #[test]
    fn filters_are_all_different() {
        let mut all = filters(64);
        assert_eq!(all[0], "udp");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 64);
    }
}
