//! Alerts: new hosts, fan-out like that of a scan, rates above a threshold, lost packets.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;

use foldhash::fast::RandomState;

use crate::api::Alert;
use crate::heavy::{Family, HeavyKey as _};

const SECOND: u64 = 1_000_000_000;
/// Alerts that are kept.
const KEPT: usize = 200;
/// New hosts are not reported for this time after the first packet: all of them are new.
const LEARNING_NS: u64 = 60 * SECOND;
/// Hosts that are known at most; beyond, new ones are not reported.
const KNOWN: usize = 65_536;
/// New hosts that are reported of each minute.
const NEW_PER_MINUTE: u32 = 10;
/// Sources whose fan-out is watched at a time.
const SOURCES: usize = 1024;
/// Answers that a scan gets at most, of 100 targets.
const ANSWERED_PERCENT: u32 = 50;
/// The same alert is not raised again for this time.
const QUIET_NS: u64 = 60 * SECOND;

/// The causes of alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertOptions {
    /// Report hosts of private networks that were not seen before.
    pub new_hosts: bool,
    /// Report a source that sends to so many hosts, or ports of one, within a minute, most of which do
    /// not answer. 0: none.
    pub fan_out: u32,
    /// Report a rate above this, in bits of layer 3 per second.
    pub bits_per_s: Option<u64>,
}

impl Default for AlertOptions {
    fn default() -> Self {
        Self {
            new_hosts: true,
            fan_out: 100,
            bits_per_s: None,
        }
    }
}

/// The targets of a source within a minute.
#[derive(Clone, Debug)]
struct FanOut {
    source: IpAddr,
    targets: HashSet<u32, RandomState>,
    answered: u32,
}

/// The list of alerts, and what raises them.
#[derive(Debug)]
pub(crate) struct AlertBook {
    options: AlertOptions,
    alerts: VecDeque<Alert>,
    seq: u64,
    known: HashSet<IpAddr, RandomState>,
    first_ns: u64,
    /// The minute in which new hosts and targets are counted.
    minute: u64,
    new_hosts: u32,
    /// Each source has one place, by its hash; one in it stays for the minute.
    fans: Vec<Option<FanOut>>,
    family: Family,
    rate_ns: u64,
    loss_ns: u64,
}

impl AlertBook {
    pub(crate) fn new(options: AlertOptions) -> Self {
        Self {
            options,
            alerts: VecDeque::new(),
            seq: 0,
            known: HashSet::default(),
            first_ns: 0,
            minute: 0,
            new_hosts: 0,
            fans: vec![None; SOURCES],
            family: Family::new(1),
            rate_ns: 0,
            loss_ns: 0,
        }
    }

    /// Returns alerts from after the number `since`, the newest first.
    pub(crate) fn since(&self, since: u64, most: usize) -> Vec<Alert> {
        let newer = self.alerts.iter().rev().filter(|alert| alert.seq > since);
        newer.take(most).cloned().collect()
    }

    /// Returns how many alerts were raised.
    pub(crate) fn count(&self) -> u64 {
        self.seq
    }

    fn raise(&mut self, kind: &'static str, now_ns: u64, subject: String, text: String) {
        self.seq += 1;
        self.alerts.push_back(Alert {
            seq: self.seq,
            time_ms: now_ns / 1_000_000,
            kind,
            subject,
            text,
        });
        if self.alerts.len() > KEPT {
            self.alerts.pop_front();
        }
    }

    fn turn(&mut self, now_ns: u64) {
        if self.first_ns == 0 {
            self.first_ns = now_ns;
        }
        let minute = now_ns / (60 * SECOND);
        if minute != self.minute {
            self.minute = minute;
            self.new_hosts = 0;
            self.fans.fill(None);
        }
    }

    /// Notes a host that was not listed; returns whether an alert was raised.
    pub(crate) fn host(&mut self, host: IpAddr, now_ns: u64) -> bool {
        self.turn(now_ns);
        if !is_private(host) || self.known.len() >= KNOWN || !self.known.insert(host) {
            return false;
        }
        let is_learning = now_ns.saturating_sub(self.first_ns) < LEARNING_NS;
        if is_learning || !self.options.new_hosts || self.new_hosts >= NEW_PER_MINUTE {
            return false;
        }
        self.new_hosts += 1;
        let text = format!("{host} sends or receives packets for the first time.");
        self.raise("new-host", now_ns, host.to_string(), text);
        true
    }

    /// Notes the beginning of a flow; returns whether an alert was raised about its source.
    pub(crate) fn flow(
        &mut self,
        (source, target, port): (IpAddr, IpAddr, u16),
        is_answered: bool,
        now_ns: u64,
    ) -> bool {
        self.turn(now_ns);
        let threshold = self.options.fan_out;
        if threshold == 0 {
            return false;
        }
        let mix = |state: u64, word: u64| {
            (state ^ word)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        let seed = self.family.seed();
        let place = source.mix(seed, mix) >> 32;
        let place = usize::try_from(place).unwrap_or(0) % SOURCES;
        let fan = self.fans[place].get_or_insert_with(|| FanOut {
            source,
            targets: HashSet::default(),
            answered: 0,
        });
        if fan.source != source || fan.targets.len() > threshold as usize {
            return false;
        }
        let hash = mix(target.mix(seed, mix), u64::from(port)) >> 32;
        if !fan.targets.insert(u32::try_from(hash).unwrap_or(0)) {
            return false;
        }
        fan.answered += u32::from(is_answered);
        let most = u64::from(threshold) * u64::from(ANSWERED_PERCENT) / 100;
        if fan.targets.len() <= threshold as usize || u64::from(fan.answered) > most {
            return false;
        }
        let text = format!(
            "{source} opened flows to more than {threshold} hosts and ports within a minute; most did not answer."
        );
        self.raise("scan", now_ns, source.to_string(), text);
        true
    }

    /// Takes the rate of the last second, in bits per second.
    pub(crate) fn rate(&mut self, bits_per_s: f64, now_ns: u64) {
        let Some(threshold) = self.options.bits_per_s else {
            return;
        };
        #[expect(clippy::cast_precision_loss, reason = "a threshold")]
        let is_above = bits_per_s > threshold as f64;
        if is_above && now_ns >= self.rate_ns {
            self.rate_ns = now_ns.saturating_add(QUIET_NS);
            let text =
                format!("The rate is {bits_per_s:.0} bit/s, above the threshold of {threshold}.");
            self.raise("rate", now_ns, String::new(), text);
        }
    }

    /// Takes the number of packets lost since the last call.
    pub(crate) fn lost(&mut self, packets: u64, now_ns: u64) {
        if packets > 0 && now_ns >= self.loss_ns {
            self.loss_ns = now_ns.saturating_add(QUIET_NS);
            let s = if packets == 1 { "" } else { "s" };
            let text = format!("The capture lost {packets} packet{s} within the last second.");
            self.raise("loss", now_ns, String::new(), text);
        }
    }
}

/// Returns whether an address is one of private networks, whose hosts are known.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000 * SECOND;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn new_hosts_are_reported_after_a_minute_and_not_all_of_a_flood() {
        let mut book = AlertBook::new(AlertOptions::default());
        assert!(!book.host(address(1), NOW));
        let later = NOW + 61 * SECOND;
        assert!(!book.host(address(1), later), "known");
        assert!(book.host(address(2), later));
        assert!(!book.host(IpAddr::from([8, 8, 8, 8]), later), "public");
        let raised = (3..255).filter(|&last| book.host(address(last), later));
        assert_eq!(raised.count(), 9);
        assert_eq!(book.since(0, 99).len(), 10);
        assert_eq!(book.since(9, 99)[0].seq, 10);
    }

    #[test]
    fn a_scan_is_a_fan_out_that_is_not_answered() {
        let mut book = AlertBook::new(AlertOptions::default());
        let mut raised = 0;
        for port in 1..2000 {
            raised += u32::from(book.flow((address(1), address(2), port), false, NOW));
            raised += u32::from(book.flow((address(3), address(4), 80), false, NOW));
        }
        assert_eq!(raised, 1);
        let mut book = AlertBook::new(AlertOptions::default());
        let busy = (1..2000).filter(|&port| book.flow((address(1), address(2), port), true, NOW));
        assert_eq!(busy.count(), 0, "a busy client");
    }

    #[test]
    fn rates_and_losses_are_reported_once_a_minute() {
        let mut book = AlertBook::new(AlertOptions {
            bits_per_s: Some(1000),
            ..AlertOptions::default()
        });
        for second in 0..61 {
            book.rate(
                if second == 0 { 10.0 } else { 2000.0 },
                NOW + second * SECOND,
            );
            book.lost(second, NOW + second * SECOND);
        }
        let kinds: Vec<&str> = book.since(0, 99).iter().map(|alert| alert.kind).collect();
        assert_eq!(kinds, ["loss", "rate"], "the newest first");
    }
}
