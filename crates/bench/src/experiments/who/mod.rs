//! Processes of packets (`--who`): whether they are right, and what they cost.
//!
//! Clients that exist for a millisecond write their own number into what they send, so that each record can be
//! checked. The cost is that of a tap with processes against one without, and that of the connections of a host
//! with and without a capture.

mod clients;

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Instant;

use ringtap_lab::Need;
use ringtap_lab::netns::Side;
use ringtap_lab::process::Running;

use crate::helpers::{capturing, datagram, ended, float};
use crate::results::Axis;
use crate::session::{Done, Session, judge_least};
use crate::stage::{Load, READER, Reader, Stage};

const PACKETS: u32 = 2_000_000;
const QUICK_PACKETS: u32 = 400_000;
const CONNECTIONS: usize = 10_000;
const QUICK_CONNECTIONS: usize = 2_000;
const PORT: u16 = 7000;
/// Where packets are written to, in the format that has a place for processes.
const WRITTEN: [&str; 4] = ["-w", "/dev/null", "--format", "pcapng"];
/// The share of the tap's rate that is to be kept.
const KEPT: f64 = 0.9;
/// The place of a datagram's destination port in a frame without tags and options.
const DESTINATION_PORT: usize = 14 + 20 + 2;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6), Need::Tool("python3")], 2)?;
    let stage = Stage::new()?;
    clients::run(session, &stage)?;
    rate(session, &stage)?;
    connections(session, &stage)
}

/// Measures the tap with processes and without, where frames have a socket and where they have none.
fn rate(session: &mut Session, stage: &Stage) -> Done {
    let metrics = [
        ("captured", "million packets/s", 2),
        ("processor time", "ns/packet", 0),
    ];
    session.figure("Packets with processes", Axis::names("frames"), metrics);
    let load = Load::top(64, session.amount(PACKETS, QUICK_PACKETS));
    let ringtap = session.ringtap.clone();
    let frame = datagram(load.size);
    let port = u16::from_be_bytes([frame[DESTINATION_PORT], frame[DESTINATION_PORT + 1]]);
    for (title, has_socket) in [
        ("no socket takes them", false),
        ("a socket takes them", true),
    ] {
        let at = (Ipv4Addr::UNSPECIFIED, port);
        let bound = stage.pair.right.run(|| UdpSocket::bind(at));
        let socket = bound.map_err(|error| format!("{port}: {error}"))?;
        let _socket = has_socket.then_some(socket);
        let case = session.case(title, None, &["dump --who", "dump"], 1, |contender| {
            let who = (contender == 0).then_some("--who");
            let options = WRITTEN.into_iter().chain(who).map(str::to_owned);
            let reader = Reader::Dump(ringtap.clone(), options.collect());
            let (sent, seen) = stage.run(load, &[reader], &[READER])?;
            let packets = seen[0].packets;
            let processor = sent.processor + seen[0].processor;
            Ok(vec![
                packets / sent.seconds / 1e6,
                processor * 1e9 / packets.max(1.0),
            ])
        })?;
        judge_least("of the rate without processes", KEPT, case.as_ref(), 0, 0);
    }
    Ok(())
}

/// Measures connections of two programs on this host: each is opened, used for a few bytes, and closed.
fn connections(session: &mut Session, stage: &Stage) -> Done {
    let title = "What a capture costs the connections of its host";
    session.figure(title, Axis::names("device"), [("connections", "1/s", 0)]);
    let count = session.amount(CONNECTIONS, QUICK_CONNECTIONS);
    let ringtap = session.ringtap.clone();
    let side = &stage.pair.right;
    let names = ["dump --who", "dump", "no capture"];
    session.case("loopback", None, &names, 2, |contender| {
        let options: &[&str] = if contender == 0 { &["--who"] } else { &[] };
        let capture = (contender < 2).then(|| capture(side, &ringtap, options));
        let capture = capture.transpose()?;
        let rate = side.run(|| connect(count))?;
        if let Some(running) = capture {
            ended(running)?;
        }
        Ok(vec![rate])
    })?;
    Ok(())
}

/// Captures on loopback.
fn capture(side: &Side, ringtap: &std::path::Path, options: &[&str]) -> Done<Running> {
    let mut command = side.namespace.command(&ringtap.to_string_lossy());
    command.args(["dump", "-i", "tcx:lo", "-Z", "root"]);
    let loopback = Side {
        device: "lo".to_owned(),
        ..side.clone()
    };
    Ok(capturing(command.args(WRITTEN).args(options), &loopback)?)
}

/// Makes connections one after the other, to a thread that answers each; returns how many a second.
fn connect(count: usize) -> Done<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            for _ in 0..count {
                let (mut connection, _) = listener.accept()?;
                std::io::copy(&mut connection, &mut std::io::sink())?;
            }
            Ok::<(), std::io::Error>(())
        });
        let begun = Instant::now();
        for _ in 0..count {
            let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))?;
            connection.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        }
        server.join().map_err(|_| "the server has failed")??;
        Ok(float(count as u64) / begun.elapsed().as_secs_f64())
    })
}
