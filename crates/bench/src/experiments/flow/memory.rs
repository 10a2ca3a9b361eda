//! Memory after millions of flows that are all under way, without names and with them.
//!
//! Packets come through a pipe: a query of DNS, a handshake of TLS or a request of HTTP, each of a flow of its own.
//! Half of the flows are queries, a third are handshakes: fields then take as many bytes as those of the flows in
//! the corpus that have any, 95 on average.

use std::io::{self, BufWriter, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use ringtap_lab::pcap;
use ringtap_lab::process::Running;

use crate::helpers::{float, succeeded};
use crate::results::Axis;
use crate::session::{Done, Session};

const FLOWS: u32 = 10_000_000;
const QUICK_FLOWS: u32 = 200_000;
/// No flow ends while packets come.
const TIMEOUT: &str = "86400";
/// How long the last packets, and the records of all flows at the end, may take.
const ENDING: Duration = Duration::from_secs(300);
const CASE: &str = "memory of flows under way";
/// The most that ten million flows with names may take, in GiB.
const GOAL: f64 = 2.5;
const GIBIBYTE: f64 = 1_073_741_824.0;
const ETHERNET: u32 = 1;
/// Bytes of headers before a payload of UDP and of TCP.
const UDP: usize = 42;
const TCP: usize = 54;

pub(super) fn run(session: &mut Session) -> Done {
    if !session.wants(CASE) {
        return Ok(());
    }
    let flows = session.amount(FLOWS, QUICK_FLOWS);
    let metrics = [("peak memory", "GiB", 2)];
    session.figure("Memory of flows under way", Axis::names("flows"), metrics);
    session.at_most_rounds(1);
    let ringtap = session.ringtap.clone();
    let contenders = [
        ("ringtap --fields basic,names", "basic,names"),
        ("ringtap --fields basic", "basic"),
    ];
    let names = contenders.map(|(name, _)| name);
    let mut peak = 0.0;
    let title = format!("{CASE}, {flows} flows");
    let case = session.case(&title, None, &names, 1, |who| {
        let mut command = Command::new(&ringtap);
        command.args(["flow", "--top", "0", "--active", TIMEOUT]);
        command.args(["--inactive", TIMEOUT, "--flows", &flows.to_string()]);
        command.args(["--fields", contenders[who].1, "-r", "-"]);
        let measured = measure(&mut command, flows)?;
        peak = if who == 0 { measured } else { peak };
        Ok(vec![measured])
    })?;
    if case.is_none() {
        return Ok(());
    }
    let reached = match peak <= GOAL {
        _ if flows < FLOWS => "for ten million flows",
        true => "reached",
        false => "not reached",
    };
    session.note(format!(
        "{flows} flows with names take {peak:.2} GiB; goal: at most {GOAL:.1} GiB, {reached}"
    ));
    Ok(())
}

/// Returns the peak of a program that has all flows under way, in GiB.
fn measure(command: &mut Command, flows: u32) -> Done<f64> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let input = child.stdin.take().ok_or("no pipe to the program")?;
    let mut running = Running::watch(child);
    let mut input = BufWriter::with_capacity(1 << 20, input);
    write(&mut input, flows)?;
    // The program waits for more packets once it has counted these.
    running.wait_until_resting(ENDING)?;
    let peak = running.peak_memory().ok_or("the program ended")?;
    drop(input);
    succeeded(&running.wait(ENDING)?)?;
    Ok(float(peak) / GIBIBYTE)
}

/// Writes a capture of flows of one packet each.
fn write(out: &mut impl Write, flows: u32) -> io::Result<()> {
    out.write_all(&pcap::header(ETHERNET))?;
    let mut frames = [
        udp(53, &query()),
        tcp(443, &hello()),
        udp(53, &query()),
        tcp(80, REQUEST),
        udp(53, &query()),
        tcp(443, &hello()),
    ];
    let kinds = u32::try_from(frames.len()).map_err(io::Error::other)?;
    for flow in 0..flows {
        let frame = &mut frames[(flow % kinds) as usize];
        let [high, address @ ..] = flow.to_be_bytes();
        frame[26] = 10 + high;
        frame[27..30].copy_from_slice(&address);
        // 100,000 flows a second.
        let micros = 1_700_000_000_000_000 + u64::from(flow) * 10;
        pcap::record(out, micros, 0, frame)?;
    }
    out.flush()
}

/// Returns a frame from a client, whose address is still missing.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = ip(17, UDP, payload);
    let len = u16::try_from(payload.len() + 8).unwrap_or(u16::MAX);
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame[38..40].copy_from_slice(&len.to_be_bytes());
    frame
}

fn tcp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = ip(6, TCP, payload);
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    // Twenty bytes of header; PSH and ACK.
    frame[46..48].copy_from_slice(&[0x50, 0x18]);
    frame
}

/// Returns a frame with this payload after so many bytes of headers, those of the transport still empty but for
/// the client's port.
fn ip(protocol: u8, headers: usize, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; headers];
    frame.extend_from_slice(payload);
    let len = u16::try_from(frame.len() - 14).unwrap_or(u16::MAX);
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, protocol]);
    frame[30..34].copy_from_slice(&[192, 0, 2, 1]);
    frame[34..36].copy_from_slice(&49_152_u16.to_be_bytes());
    frame
}

const NAME: &[u8] = b"media-7.cdn.example.net";
const REQUEST: &[u8] = b"GET /images/picture.png HTTP/1.1\r\nHost: media-7.cdn.example.net\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\r\n";

/// Returns a query for an address (RFC 1035).
fn query() -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in NAME.split(|&byte| byte == b'.') {
        message.extend_from_slice(&sized::<1>(label));
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}

/// Returns a ClientHello with a name and a protocol (RFC 8446, 6066, 7301).
fn hello() -> Vec<u8> {
    let extension = |kind: u8, data: &[u8]| [&[0, kind], &sized::<2>(data)[..]].concat();
    let name = sized::<2>(&[&[0], &sized::<2>(NAME)[..]].concat());
    let protocols = sized::<2>(&sized::<1>(b"h2"));
    let extensions = [
        extension(0, &name),
        extension(16, &protocols),
        extension(43, &sized::<1>(&[3, 4])),
    ]
    .concat();
    let mut body = vec![3, 3];
    body.extend_from_slice(&[5; 32]);
    body.push(0);
    body.extend_from_slice(&sized::<2>(&[0x13, 1, 0x13, 2]));
    body.extend_from_slice(&sized::<1>(&[0]));
    body.extend_from_slice(&sized::<2>(&extensions));
    let handshake = [&[1], &sized::<3>(&body)[..]].concat();
    [&[22, 3, 1], &sized::<2>(&handshake)[..]].concat()
}

/// Returns data after its length in `N` bytes.
fn sized<const N: usize>(data: &[u8]) -> Vec<u8> {
    let len = data.len().to_be_bytes();
    [&len[len.len() - N..], data].concat()
}
