//! The counters of lost packets, as the kernel has them now.
//!
//! Source: proc(5), Documentation/networking/snmp_counter.rst, `softnet_seq_show` of net/core/net-procfs.c.

use std::collections::BTreeMap;
use std::io;

use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::netlink::{Name, Netlink};

use super::known::{self, CONNTRACK, ETHTOOL, LINK, Layer, QDISC, SOFTNET};

/// A counter's place and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) layer: Layer,
    /// Its device; none if it is one of the whole network namespace.
    pub(super) device: Option<String>,
    pub(super) group: String,
    pub(super) name: String,
}

impl Key {
    fn new(layer: Layer, device: Option<&str>, group: &str, name: &str) -> Self {
        Self {
            layer,
            device: device.map(str::to_owned),
            group: group.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// A counter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) value: u64,
    /// Whether it begins again after 32 bits.
    pub(super) is_short: bool,
}

impl Count {
    /// Returns by how much it grew since.
    pub(super) fn since(self, earlier: Self) -> u64 {
        if self.is_short {
            let mask = u64::from(u32::MAX);
            self.value.wrapping_sub(earlier.value) & mask
        } else {
            self.value.saturating_sub(earlier.value)
        }
    }
}

/// All counters.
pub(super) type Counters = BTreeMap<Key, Count>;

/// The reason why counters could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The devices could not be listed.
    #[error(transparent)]
    Netlink(#[from] ringtap_sys::netlink::Error),
    /// The adapter's counters could not be asked for.
    #[error(transparent)]
    Ethtool(#[from] ringtap_sys::Error),
    /// There is no device of this name.
    #[error("no such device: \"{0}\"")]
    NoSuchDevice(String),
    /// A file of `/proc` could not be read.
    #[error("{path}: {source}")]
    File {
        path: &'static str,
        r#source: io::Error,
    },
}

/// Reads the counters of a device, or of all devices, and those of the network namespace.
pub(super) fn read(device: Option<&str>) -> Result<Counters, ReadError> {
    let mut counters = Counters::new();
    read_devices(device, &mut counters)?;
    for path in ["/proc/net/snmp", "/proc/net/netstat"] {
        add_pairs(&text(path)?, &mut counters);
    }
    // Each is missing where the kernel lacks the part.
    add_ipv6(&optional("/proc/net/snmp6")?, &mut counters);
    add_softnet(&text("/proc/net/softnet_stat")?, &mut counters);
    add_conntrack(&optional("/proc/net/stat/nf_conntrack")?, &mut counters);
    Ok(counters)
}

fn text(path: &'static str) -> Result<String, ReadError> {
    std::fs::read_to_string(path).map_err(|source| ReadError::File { path, source })
}

fn optional(path: &'static str) -> Result<String, ReadError> {
    match text(path) {
        Err(ReadError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(String::new())
        }
        other => other,
    }
}

fn read_devices(device: Option<&str>, counters: &mut Counters) -> Result<(), ReadError> {
    let mut netlink = Netlink::open()?;
    let mut ethtool = Ethtool::open()?;
    let links = netlink.links()?;
    let is_wanted = |name: &Name| device.is_none_or(|wanted| name.as_bytes() == wanted.as_bytes());
    let wanted: Vec<_> = links.iter().filter(|link| is_wanted(&link.name)).collect();
    if let Some(device) = device.filter(|_| wanted.is_empty()) {
        return Err(ReadError::NoSuchDevice(device.to_owned()));
    }
    for link in &wanted {
        let name = link.name.to_string();
        for (counter, value) in link.counters.iter() {
            add_known(LINK, counter, Some(&name), value, counters);
        }
        // A device without counters of its own has none.
        let statistics = ethtool.statistics(&link.name).unwrap_or_default();
        for statistic in statistics {
            let counter = statistic.name.to_string();
            if let Some(layer) = layer_of(&counter) {
                let key = Key::new(layer, Some(&name), ETHTOOL, &counter);
                add(key, statistic.value, counters);
            }
        }
    }
    for scheduler in netlink.schedulers()? {
        let link = wanted.iter().find(|link| link.index == scheduler.index);
        if let Some(link) = link {
            let (device, kind) = (link.name.to_string(), scheduler.kind.to_string());
            let key = Key::new(Layer::Qdisc, Some(&device), QDISC, &kind);
            let count = Count {
                value: scheduler.drops.into(),
                is_short: true,
            };
            counters.insert(key, count);
        }
    }
    Ok(())
}

/// Returns the layer of an adapter's own counter, if its name says that it counts lost packets. Counters that
/// the kernel has for all devices are left to it.
fn layer_of(counter: &str) -> Option<Layer> {
    const LOST: [&str; 9] = [
        "drop",
        "discard",
        "miss",
        "no_buf",
        "nobuf",
        "out_of_buf",
        "overrun",
        "overflow",
        "err",
    ];
    let is_the_kernels =
        known::find(LINK, counter).is_some() || ["rx_errors", "tx_errors"].contains(&counter);
    let name = counter.to_ascii_lowercase();
    if is_the_kernels || !LOST.iter().any(|word| name.contains(word)) {
        return None;
    }
    Some(if name.contains("xdp") {
        Layer::Xdp
    } else {
        Layer::Adapter
    })
}

fn add(key: Key, value: u64, counters: &mut Counters) {
    let count = counters.entry(key).or_insert(Count {
        value: 0,
        is_short: false,
    });
    count.value = count.value.saturating_add(value);
}

fn add_known(group: &str, name: &str, device: Option<&str>, value: u64, counters: &mut Counters) {
    if let Some(known) = known::find(group, name) {
        add(Key::new(known.layer, device, group, name), value, counters);
    }
}

/// Adds counters of pairs of lines: `Udp: NAME …` and `Udp: VALUE …`.
fn add_pairs(text: &str, counters: &mut Counters) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((group, names)), Some((_, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                add_known(group, name, None, value, counters);
            }
        }
    }
}

/// Adds counters of lines such as `Ip6InHdrErrors 0`.
fn add_ipv6(text: &str, counters: &mut Counters) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(word), Some(Ok(value))) = (words.next(), words.next().map(str::parse)) else {
            continue;
        };
        for group in ["Ip6", "Udp6", "Icmp6"] {
            if let Some(name) = word.strip_prefix(group) {
                add_known(group, name, None, value, counters);
            }
        }
    }
}

/// Adds the sums of columns in hexadecimal, a line a processor.
fn add_columns(
    group: &str,
    columns: impl Iterator<Item = (usize, &'static str)>,
    lines: &[&str],
    counters: &mut Counters,
) {
    for (column, name) in columns {
        let word = |line: &&str| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok();
        let sum = lines.iter().filter_map(word).sum();
        add_known(group, name, None, sum, counters);
    }
}

fn add_softnet(text: &str, counters: &mut Counters) {
    let lines: Vec<&str> = text.lines().collect();
    let columns = [(1, "dropped"), (10, "flow_limit")].into_iter();
    add_columns(SOFTNET, columns, &lines, counters);
}

/// The first line has the names of the columns.
fn add_conntrack(text: &str, counters: &mut Counters) {
    let mut lines = text.lines();
    let names: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let lines: Vec<&str> = lines.collect();
    let of_table = known::KNOWN.iter().filter(|known| known.group == CONNTRACK);
    let columns = of_table.filter_map(|known| {
        let column = names.iter().position(|name| *name == known.name)?;
        Some((column, known.name))
    });
    add_columns(CONNTRACK, columns, &lines, counters);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(counters: &Counters) -> Vec<(&str, &str, u64)> {
        let values = counters.iter();
        values
            .map(|(key, count)| (&*key.group, &*key.name, count.value))
            .collect()
    }

    #[test]
    fn files_of_proc_are_read() {
        let mut counters = Counters::new();
        add_pairs(
            "Ip: Forwarding InHdrErrors\nIp: 1 7\nUdp: InDatagrams NoPorts RcvbufErrors\nUdp: 9 2 3\n",
            &mut counters,
        );
        add_ipv6("Ip6InReceives 5\nUdp6RcvbufErrors 4\n", &mut counters);
        add_softnet(
            "0a 00000010 0 0 0 0 0 0 0 0 1 0 0\n0b 00000001 0 0 0 0 0 0 0 0 2 0 1\n",
            &mut counters,
        );
        add_conntrack(
            "entries insert_failed drop early_drop\n10 1 f 0\n10 2 1 0\n",
            &mut counters,
        );
        let expected = [
            (SOFTNET, "dropped", 17),
            (SOFTNET, "flow_limit", 3),
            (CONNTRACK, "drop", 16),
            (CONNTRACK, "insert_failed", 3),
            ("Ip", "InHdrErrors", 7),
            ("Udp", "NoPorts", 2),
            ("Udp", "RcvbufErrors", 3),
            ("Udp6", "RcvbufErrors", 4),
        ];
        assert_eq!(values(&counters), expected);
    }

    #[test]
    fn damaged_lines_count_nothing() {
        let mut counters = Counters::new();
        add_pairs(
            "Udp NoPorts\nUdp: x\nUdp: NoPorts\nUdp: -1\n",
            &mut counters,
        );
        add_ipv6("Udp6NoPorts\nUdp6NoPorts x\n", &mut counters);
        add_conntrack("", &mut counters);
        let counted: u64 = counters.values().map(|count| count.value).sum();
        assert_eq!(counted, 0, "{counters:?}");
    }

    #[test]
    fn names_of_adapters_counters_tell_their_layer() {
        assert_eq!(layer_of("rx_queue_0_xdp_drops"), Some(Layer::Xdp));
        assert_eq!(layer_of("rx_out_of_buffer"), Some(Layer::Adapter));
        assert_eq!(layer_of("rx_missed_errors"), None);
        assert_eq!(layer_of("rx_packets"), None);
    }

    #[test]
    fn short_counters_begin_again() {
        let count = |value| Count {
            value,
            is_short: true,
        };
        assert_eq!(count(3).since(count(u32::MAX.into())), 4);
    }
}
