//! Sending packets from Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ringtap_packet::Timestamp;
use ringtap_send::{SendOptions, SendQueue, Sender, Timing};

use crate::errors;
use crate::packet::Packet;

/// Room for a packet's line in a queue, in bytes.
const LINE: usize = 64;

/// Sends packets on an interface, and returns a dict with `packets`, `bytes`, `rejected` and `seconds`.
///
/// `packets` are bytes or packets. Without a rate they are sent as fast as possible; `pps` is packets a
/// second, `bps` bits a second, `speed` a multiple of the recorded times.
#[pyfunction]
#[pyo3(signature = (device, packets, *, pps=None, bps=None, speed=None))]
pub(crate) fn send<'py>(
    py: Python<'py>,
    device: &str,
    packets: &Bound<'py, PyAny>,
    pps: Option<f64>,
    bps: Option<f64>,
    speed: Option<f64>,
) -> PyResult<Bound<'py, PyDict>> {
    let timing = match (pps, bps, speed) {
        (None, None, None) => Timing::TopSpeed,
        (Some(per_second), None, None) => Timing::Packets { per_second },
        (None, Some(per_second), None) => Timing::Bits { per_second },
        (None, None, Some(multiplier)) => Timing::Recorded { multiplier },
        _ => return Err(PyValueError::new_err("give one of pps, bps and speed")),
    };
    let queue = queue(packets)?;
    let report = py.detach(|| {
        let mut sender = Sender::open(device, &SendOptions::default())?;
        let report = sender.transmit(&queue, timing)?;
        match report.error {
            Some((_, error)) => Err(error),
            None => Ok(report),
        }
    });
    let report = report.map_err(|error| errors::of_sending(&error))?;
    let dict = PyDict::new(py);
    dict.set_item("packets", report.packets)?;
    dict.set_item("bytes", report.bytes)?;
    dict.set_item("rejected", report.rejected)?;
    dict.set_item("seconds", report.elapsed.as_secs_f64())?;
    Ok(dict)
}

/// Collects packets from any iterable.
fn queue(packets: &Bound<'_, PyAny>) -> PyResult<SendQueue> {
    let mut collected: Vec<(Timestamp, Vec<u8>)> = Vec::new();
    for packet in packets.try_iter()? {
        let packet = packet?;
        collected.push(if let Ok(packet) = packet.cast::<Packet>() {
            (packet.get().timestamp(), packet.get().raw().to_vec())
        } else {
            (Timestamp::default(), packet.extract()?)
        });
    }
    let room = collected.iter().map(|(_, data)| data.len() + LINE).sum();
    let mut queue = SendQueue::with_capacity(room);
    for (timestamp, data) in &collected {
        let appended = queue.append(*timestamp, data);
        appended.map_err(|error| errors::of_other(&error))?;
    }
    Ok(queue)
}

/// Builds packets from a description, such as `eth/ipv4(dst=10.0.0.1)/udp(dport=53)`, with checksums.
#[pyfunction]
pub(crate) fn build(description: &str) -> PyResult<Vec<Vec<u8>>> {
    let built: ringtap_craft::Built = description
        .parse()
        .map_err(|error: ringtap_craft::BuildError| PyValueError::new_err(error.to_string()))?;
    Ok(built.0)
}
