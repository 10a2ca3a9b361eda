//! The losses between two readings: a table, or JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::counters::{Counters, Key};
use super::known::{self, Layer};
use super::sockets::Socket;
use crate::object::object;

/// The increase of a counter.
#[derive(Debug, Serialize)]
pub(super) struct Loss {
    layer: &'static str,
    device: Option<String>,
    counter: String,
    lost: u64,
    total: u64,
    meaning: String,
    advice: &'static str,
    #[serde(skip)]
    place: Layer,
}

object! {
    /// A socket that dropped packets, and its owner.
    #[derive(Debug)]
    pub(super) struct SocketLoss(socket: &Socket, more: u64, owner: (Option<String>, Option<u32>)) {
        protocol: &'static str = socket.protocol,
        local: String = socket.local.to_string(),
        lost: u64 = more,
        total: u64 = socket.drops,
        process: Option<String> = owner.0,
        pid: Option<u32> = owner.1,
    }
}

/// All losses of an interval.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    seconds: f64,
    losses: Vec<Loss>,
    sockets: Vec<SocketLoss>,
}

impl Report {
    pub(super) fn new(
        (before, after): (&Counters, &Counters),
        sockets: Vec<SocketLoss>,
        time: Duration,
    ) -> Self {
        let losses = after.iter().map(|(key, count)| {
            // A device that came in the meantime began with zero.
            let lost = before
                .get(key)
                .map_or(count.value, |earlier| count.since(*earlier));
            Loss::new(key, lost, count.value)
        });
        Self {
            seconds: time.as_secs_f64(),
            losses: losses.filter(|loss| loss.total > 0).collect(),
            sockets,
        }
    }

    /// Returns the counter that grew most.
    fn largest(&self) -> Option<&Loss> {
        let lost = self.losses.iter().filter(|loss| loss.lost > 0);
        lost.max_by_key(|loss| loss.lost)
    }

    /// Returns the table, with counters that did not move if all are wanted.
    pub(super) fn text(&self, all: bool) -> String {
        let mut text = format!("losses in {:.1} s\n", self.seconds);
        let _ = writeln!(
            text,
            "{:<10} {:<44} {:>10} {:>9} {:>12}",
            "layer", "counter", "lost", "a second", "since boot"
        );
        for (layer, name) in Layer::ALL {
            self.add_layer(layer, name, all, &mut text);
        }
        match self.largest() {
            None => text.push_str("no packet was lost\n"),
            Some(loss) => {
                let packets = crate::notice::counted(loss.lost, "packet");
                let _ = writeln!(
                    text,
                    "largest: {packets} {}\nwhat helps: {}",
                    loss.meaning, loss.advice
                );
            }
        }
        text
    }

    fn add_layer(&self, layer: Layer, mut name: &str, all: bool, text: &mut String) {
        let is_shown = |loss: &&Loss| loss.place == layer && (all || loss.lost > 0);
        for loss in self.losses.iter().filter(is_shown) {
            let device = loss.device.as_ref();
            let counter = device.map_or_else(
                || loss.counter.clone(),
                |device| format!("{device} {}", loss.counter),
            );
            self.add_line(name, &counter, loss.lost, loss.total, text);
            name = "";
        }
        if !name.is_empty() {
            let _ = writeln!(text, "{name:<10} -");
        }
        if layer == Layer::Socket {
            for socket in &self.sockets {
                let mut what = format!("  {} {}", socket.protocol, socket.local);
                if let (Some(process), Some(pid)) = (&socket.process, socket.pid) {
                    let _ = write!(what, " {process} (pid {pid})");
                }
                self.add_line("", &what, socket.lost, socket.total, text);
            }
        }
    }

    fn add_line(&self, layer: &str, counter: &str, lost: u64, total: u64, text: &mut String) {
        #[expect(clippy::cast_precision_loss, reason = "a figure of few digits")]
        let rate = lost as f64 / self.seconds.max(1e-9);
        let _ = writeln!(
            text,
            "{layer:<10} {counter:<44} {lost:>10} {rate:>9.1} {total:>12}"
        );
    }
}

impl Loss {
    fn new(key: &Key, lost: u64, total: u64) -> Self {
        let known = known::find(&key.group, &key.name);
        let (meaning, advice) = match (known, key.layer) {
            (Some(known), _) => (known.meaning.to_owned(), known.advice),
            (None, Layer::Xdp) => (format!("counted as {}", key.name), known::OF_XDP),
            (None, Layer::Qdisc) => (
                format!("that the scheduler {} dropped", key.name),
                known::OF_QDISC,
            ),
            (None, _) => (format!("counted as {}", key.name), known::OF_ADAPTER),
        };
        let is_of_proc = key.device.is_none();
        Self {
            layer: key.layer.name(),
            device: key.device.clone(),
            counter: if is_of_proc {
                format!("{} {}", key.group, key.name)
            } else {
                key.name.clone()
            },
            lost,
            total,
            meaning,
            advice,
            place: key.layer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::counters::Count;
    use super::*;

    fn counters(values: &[(Layer, Option<&str>, &str, &str, u64)]) -> Counters {
        let entry =
            |&(layer, device, group, name, value): &(Layer, Option<&str>, &str, &str, u64)| {
                let key = Key {
                    layer,
                    device: device.map(str::to_owned),
                    group: group.to_owned(),
                    name: name.to_owned(),
                };
                let count = Count {
                    value,
                    is_short: false,
                };
                (key, count)
            };
        values.iter().map(entry).collect()
    }

    #[test]
    fn the_largest_loss_is_explained() {
        let at = |full, dropped| {
            counters(&[
                (Layer::Socket, None, "Udp", "RcvbufErrors", full),
                (
                    Layer::Driver,
                    Some("eth0"),
                    known::LINK,
                    "rx_dropped",
                    dropped,
                ),
                (Layer::Network, None, "Ip", "InHdrErrors", 7),
            ])
        };
        let (before, after) = (at(100, 3), at(160, 5));
        let report = Report::new((&before, &after), Vec::new(), Duration::from_secs(2));
        let text = report.text(false);
        let driver = "driver     eth0 rx_dropped                                       2       1.0            5\n";
        assert!(text.contains(driver), "{text}");
        assert!(text.contains("network    -\n"), "{text}");
        let largest =
            "largest: 60 packets of UDP that found the receive buffer of their socket full\n";
        assert!(text.contains(largest), "{text}");
        assert!(report.text(true).contains("network    Ip InHdrErrors"));
        let calm = Report::new((&after, &after), Vec::new(), Duration::from_secs(2));
        assert!(calm.text(false).ends_with("no packet was lost\n"));
    }
}
