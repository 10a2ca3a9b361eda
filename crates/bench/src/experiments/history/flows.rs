//! The flows of a day, into a store and into nfcapd's files.
//!
//! Sources are 200,000 hosts of which few send most, destinations two million; one flow in twenty is of IPv6. The same
//! number always makes the same flow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ringtap_flow::export::ExportOptions;
use ringtap_flow::{EndReason, FlowKey, FlowRecord, Traffic};
use ringtap_flow_io::{Access, OutputOptions, Outputs, OwnFiles, Store, StoreOptions};
use ringtap_lab::process::Running;

use crate::helpers::{LIMIT, succeeded};
use crate::session::Done;

/// 2026-01-31, 00:00 UTC, in seconds since 1970, and the hours of the day.
pub(super) const START: u64 = 1_769_817_600;
pub(super) const HOURS: u64 = 24;
const HOUR_NS: u64 = 3_600_000_000_000;
const SOURCES: u64 = 200_000;
const DESTINATIONS: u64 = 2_000_000;
/// The number of the source that is asked for.
const RARE: u64 = 5_000;
/// Flows that are sent to nfcapd before a pause, and the pause: it takes no more.
const BURST: u64 = 2_000;
const PAUSE: Duration = Duration::from_millis(10);

/// Returns the address of the host that is asked for.
pub(super) fn host() -> IpAddr {
    source(RARE)
}

fn source(number: u64) -> IpAddr {
    let number = u32::try_from(number).unwrap_or(0);
    Ipv4Addr::from(0x0a00_0000 + number).into()
}

/// Mixes the bits of a number (SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Returns a number below `most`, small ones far more often.
fn skewed(bits: u64, most: u64) -> u64 {
    let part = bits & 0xff_ffff;
    // The cube of a fraction of 24 bits.
    let cubed = (u128::from(part) * u128::from(part) * u128::from(part)) >> 48;
    let scaled = (cubed * u128::from(most)) >> 24;
    u64::try_from(scaled).unwrap_or(0)
}

/// Returns a flow of the day.
fn flow(number: u64, count: u64) -> FlowRecord {
    let bits = mixed(number);
    let other = mixed(bits);
    let day = u128::from(HOURS * HOUR_NS);
    let offset = u128::from(number) * day / u128::from(count);
    let last_ns = START * 1_000_000_000 + u64::try_from(offset).unwrap_or(0);
    // Milliseconds, which all formats have.
    let last_ns = last_ns / 1_000_000 * 1_000_000;
    let lasting = (other % 20_000) * 1_000_000;
    let from = skewed(bits, SOURCES);
    let to = skewed(bits >> 24, DESTINATIONS);
    let is_tcp = !bits.is_multiple_of(5);
    let key = FlowKey {
        source: source(from),
        destination: Ipv4Addr::from(
            0x2000_0000 + u32::try_from(mixed(to) % 0x8000_0000).unwrap_or(0),
        )
        .into(),
        source_port: u16::try_from(1024 + other % 60_000).unwrap_or(1024),
        destination_port: [443, 443, 443, 80, 53, 22, 8443, 123]
            [usize::try_from(other >> 20 & 7).unwrap_or(0)],
        protocol: if is_tcp { 6 } else { 17 },
        ..FlowKey::default()
    };
    let packets = 1 + skewed(other >> 24, 2_000);
    let traffic = Traffic {
        packets,
        bytes: packets * (60 + bits % 1_400),
        first_ns: last_ns - lasting,
        last_ns,
        tcp_flags: if is_tcp { 0x1b } else { 0 },
        min_ttl: 63,
        max_ttl: 63,
        min_length: 60,
        max_length: 1_460,
    };
    let mut record = FlowRecord {
        key,
        forward: traffic,
        end: EndReason::Idle,
        ..FlowRecord::default()
    };
    if other.is_multiple_of(20) {
        let wide = |number: u64| Ipv6Addr::from((0x2001_0db8_u128 << 96) | u128::from(number));
        record.key.source = wide(from).into();
        record.key.destination = wide(mixed(to)).into();
    }
    record
}

/// Writes the store. Returns the seconds that it took.
pub(super) fn write_store(folder: &Path, count: u64) -> Done<f64> {
    let begun = Instant::now();
    let access = Access::Owner;
    let options = StoreOptions::default()
        .exporter("bench".to_owned())
        .wait(true);
    let store = Store::open(folder, options, Box::new(OwnFiles(access)));
    let mut outputs = outputs(&[])?;
    outputs.set_store(store?);
    outputs.begin()?;
    for number in 0..count {
        outputs.record(&flow(number, count), None);
        if number % 100_000 == 0 {
            outputs.advance(0)?;
        }
    }
    outputs.finish()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn outputs(collectors: &[String]) -> Done<Outputs> {
    let collectors = collectors.iter().map(|address| address.parse());
    let options = OutputOptions::default()
        .export(ExportOptions::default())
        .wait(true);
    Ok(Outputs::new(
        options,
        &collectors.collect::<Result<Vec<_>, _>>()?,
    )?)
}

/// Has nfcapd write a folder for each hour, since its files are named by the time at which flows come.
pub(super) fn write_nfcapd(nfcapd: &Path, folder: &Path, count: u64) -> Done {
    for hour in 0..HOURS {
        let place = folder.join(format!("{hour:02}"));
        std::fs::create_dir_all(&place)?;
        let port = free_port()?;
        let mut command = Command::new(nfcapd);
        command.args(["-y", "-b", "127.0.0.1", "-B", "8000000", "-p"]);
        command.arg(port.to_string()).arg("-w").arg(&place);
        let mut running = Running::start_piped(&mut command)?;
        let rested = running.wait_until_resting(LIMIT);
        rested.map_err(|error| format!("nfcapd: {error}"))?;
        let mut outputs = outputs(&[format!("udp:127.0.0.1:{port}")])?;
        outputs.begin()?;
        for number in hour * count / HOURS..(hour + 1) * count / HOURS {
            let record = flow(number, count);
            outputs.record(&record, None);
            if number % BURST == 0 {
                outputs.advance(record.forward.last_ns)?;
                thread::sleep(PAUSE);
            }
        }
        outputs.finish()?;
        let rested = running.wait_until_resting(LIMIT);
        rested.map_err(|error| format!("nfcapd: {error}"))?;
        running.signal("TERM")?;
        let ended = running.wait(LIMIT)?;
        succeeded(&ended).map_err(|said| format!("nfcapd: {said}"))?;
    }
    Ok(())
}

fn free_port() -> std::io::Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Returns the bytes of all files in a folder.
pub(super) fn bytes_in(folder: &Path) -> Done<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += match metadata.is_dir() {
            true => bytes_in(&entry.path())?,
            false => metadata.len(),
        };
    }
    Ok(sum)
}
