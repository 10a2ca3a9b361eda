//! Counters that the kernel always keeps: processor time, interrupts, softirqs.

use std::fs;
use std::time::Duration;

use ringtap_sys::cycles::clock_ticks;

/// Processor time of the whole machine since boot, over all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Idle time, including waiting for disks.
    pub idle: Duration,
    /// Time taken by the hypervisor.
    pub stolen: Duration,
}

impl ProcessorTime {
    /// Reads the current values (`/proc/stat`, whose unit is 10 ms on most kernels); `None` if it
    /// cannot be read.
    #[must_use]
    pub fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, clock_ticks())
    }

    fn parse(stat: &str, ticks_per_second: u64) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Vec<u64> = line
            .split_ascii_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        let time =
            |ticks: u64| Duration::from_micros(ticks.saturating_mul(1_000_000 / ticks_per_second));
        Some(Self {
            idle: time(fields.get(3)?.checked_add(*fields.get(4)?)?),
            stolen: time(*fields.get(7)?),
        })
    }

    /// Returns the difference from an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            idle: self.idle.saturating_sub(earlier.idle),
            stolen: self.stolen.saturating_sub(earlier.stolen),
        }
    }
}

/// Returns the interrupts of an interface since boot, over all processors; `None` if it has none of
/// its own, like a virtual one.
#[must_use]
pub fn interrupts(interface: &str) -> Option<u64> {
    let table = fs::read_to_string("/proc/interrupts").ok()?;
    sum_of_interrupts(&table, &numbers_of(interface))
}

/// Returns the interrupts' numbers, from the folders of the interface's device.
fn numbers_of(interface: &str) -> Vec<String> {
    let device = format!("/sys/class/net/{interface}/device");
    // virtio devices belong to the PCI device that has the interrupts.
    let folders = [
        format!("{device}/msi_irqs"),
        format!("{device}/../msi_irqs"),
    ];
    for folder in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let numbers: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        if !numbers.is_empty() {
            return numbers;
        }
    }
    let number = fs::read_to_string(format!("{device}/irq")).ok();
    number
        .map(|number| number.trim().to_owned())
        .filter(|number| number != "0")
        .into_iter()
        .collect()
}

fn sum_of_interrupts(table: &str, numbers: &[String]) -> Option<u64> {
    let lines = table.lines().filter_map(|line| {
        let (number, counts) = line.split_once(':')?;
        numbers
            .iter()
            .any(|wanted| wanted == number.trim())
            .then_some(counts)
    });
    let sums: Vec<u64> = lines.map(leading_sum).collect();
    (!sums.is_empty()).then(|| sums.iter().sum())
}

/// Returns the softirqs that handle received packets (`NET_RX`), over all processors.
#[must_use]
pub fn receive_softirqs() -> Option<u64> {
    let table = fs::read_to_string("/proc/softirqs").ok()?;
    let counts = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("NET_RX:"))?;
    Some(leading_sum(counts))
}

/// Returns the sum of the numbers at the start of a line.
fn leading_sum(line: &str) -> u64 {
    line.split_ascii_whitespace()
        .map_while(|field| field.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read() {
        let stat = "cpu  10 20 30 4000 50 60 70 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        let time = ProcessorTime::parse(stat, 100).expect("whole");
        assert_eq!(time.idle, Duration::from_millis(40_500));
        assert_eq!(time.stolen, Duration::from_millis(800));
        assert_eq!(ProcessorTime::parse("cpu  10 20\n", 100), None);
        assert!(ProcessorTime::read().is_some());
    }

    #[test]
    fn interrupts_are_added_up() {
        let table = "           CPU0       CPU1       \n 28:  5   7  PCI-MSIX-0000:00:01.0   1-edge  eth0-rx-0\n \
                     29:  1  2  PCI-MSIX-0000:00:01.0   2-edge  eth0-tx-0\n 30: 9 9 other\nNMI: 3 4 Non-maskable\n";
        let numbers = ["28".to_owned(), "29".to_owned()];
        assert_eq!(sum_of_interrupts(table, &numbers), Some(15));
        assert_eq!(sum_of_interrupts(table, &[]), None);
        assert_eq!(interrupts("lo"), None);
        assert!(receive_softirqs().is_some());
    }
}
