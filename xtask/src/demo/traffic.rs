//! Real traffic between the two ends of the pair: sockets of the standard library, one thread each.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ringtap_testkit::netns::{Side, VethPair};

const HTTPS: u16 = 443;
const DNS: u16 = 53;
pub(super) const MEDIA: u16 = 40_000;
/// Where an engine takes packets away from the host.
pub(super) const DISCARD: u16 = 9;
/// Nobody listens here: the answer is ICMP.
const CLOSED: u16 = 40_001;
/// How long a receiver sleeps at most before it looks whether the traffic ends.
const PATIENCE: Duration = Duration::from_millis(50);
/// Sizes of the datagrams, in bytes of payload.
const DATAGRAMS: [usize; 5] = [64, 172, 512, 900, 1400];
/// The names that are asked for. The first is the server's own.
const NAMES: [&str; 3] = [SERVER, "mail.example.net", "cdn.example.com"];
pub(super) const SERVER: &str = "www.example.org";
/// The address of the others, which nobody has.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The packets that the senders passed to the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// Bytes of the TCP transfer.
    pub(super) transfer: u64,
    /// UDP datagrams without the DNS.
    pub(super) datagrams: u64,
    /// DNS queries, each answered.
    pub(super) queries: u64,
}

/// Runs the traffic for a while.
pub(super) fn run(pair: &VethPair, duration: Duration) -> io::Result<Sent> {
    let (client, server) = (&pair.left, &pair.right);
    let ends = AtomicBool::new(false);
    let resolver = udp(server, DNS)?;
    let media = udp(server, MEDIA)?;
    let listener = server.run(|| TcpListener::bind((server.ipv4, HTTPS)))?;
    thread::scope(|scope| {
        let resolver = scope.spawn(|| answer(&resolver, server.ipv4, &ends));
        let queries = scope.spawn(|| query(client, server, &ends));
        // The names come first, then the requests.
        thread::sleep(Duration::from_millis(20));
        let sink = scope.spawn(|| receive(&listener));
        let transfer = scope.spawn(|| transfer(client, server, &ends));
        thread::sleep(Duration::from_millis(5));
        knock(client, server)?;
        let receiver = scope.spawn(|| drain(&media, &ends));
        let datagrams = scope.spawn(|| datagrams(client, server, MEDIA, &ends));
        thread::sleep(duration);
        ends.store(true, Ordering::Relaxed);
        let sent = Sent {
            transfer: join(transfer)?,
            datagrams: join(datagrams)?,
            queries: join(queries)?,
        };
        join(sink)?;
        join(receiver)?;
        join(resolver)?;
        Ok(sent)
    })
}

/// Sends datagrams to the discard port for a while; how many.
pub(super) fn discarded(pair: &VethPair, duration: Duration) -> io::Result<u64> {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| datagrams(&pair.left, &pair.right, DISCARD, &ends));
        thread::sleep(duration);
        ends.store(true, Ordering::Relaxed);
        join(sender)
    })
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread
        .join()
        .map_err(|_| io::Error::other("a thread of the traffic panicked"))?
}

fn udp(side: &Side, port: u16) -> io::Result<UdpSocket> {
    let socket = side.run(|| UdpSocket::bind((side.ipv4, port)))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Runs a download by TCP, paced, so that it does not fill the disk.
fn transfer(client: &Side, server: &Side, ends: &AtomicBool) -> io::Result<u64> {
    let mut stream = client.run(|| TcpStream::connect((server.ipv4, HTTPS)))?;
    let chunk = [0x5a; 8 * 1024];
    let mut sent = 0;
    while !ends.load(Ordering::Relaxed) {
        stream.write_all(&chunk)?;
        sent += chunk.len() as u64;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(sent)
}

fn receive(listener: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; 64 * 1024];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

fn datagrams(client: &Side, server: &Side, port: u16, ends: &AtomicBool) -> io::Result<u64> {
    let socket = udp(client, port)?;
    let payload = [0xa5; 1400];
    let mut sent = 0;
    for size in DATAGRAMS.iter().cycle() {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        for _ in 0..8 {
            socket.send_to(&payload[..*size], (server.ipv4, port))?;
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(sent)
}

fn drain(socket: &UdpSocket, ends: &AtomicBool) -> io::Result<()> {
    let mut buffer = [0; 2048];
    while !ends.load(Ordering::Relaxed) {
        received(socket, &mut buffer)?;
    }
    Ok(())
}

/// Sends one datagram to a port where nobody listens.
fn knock(client: &Side, server: &Side) -> io::Result<()> {
    let socket = client.run(|| UdpSocket::bind((client.ipv4, 0)))?;
    socket
        .send_to(b"anybody there?", (server.ipv4, CLOSED))
        .map(|_| ())
}

fn query(client: &Side, server: &Side, ends: &AtomicBool) -> io::Result<u64> {
    let socket = client.run(|| UdpSocket::bind((client.ipv4, 0)))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut answer = [0; 512];
    let mut sent = 0;
    for (id, name) in (1_u16..).zip(NAMES.iter().cycle()) {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        socket.send_to(&question(id, name), (server.ipv4, DNS))?;
        sent += 1;
        received(&socket, &mut answer)?;
        thread::sleep(PATIENCE);
    }
    Ok(sent)
}

/// Answers queries for the server's name with its address, and others with an address that nobody has.
fn answer(socket: &UdpSocket, server: Ipv4Addr, ends: &AtomicBool) -> io::Result<()> {
    let own = question(0, SERVER);
    let mut query = [0; 512];
    while !ends.load(Ordering::Relaxed) {
        let Some((length, from)) = received(socket, &mut query)? else {
            continue;
        };
        let mut message = query[..length].to_vec();
        if message.len() < 12 {
            continue;
        }
        // A response without error, one question, one answer (RFC 1035, section 4.1.1).
        message[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1]);
        // The question's name again, type A, class IN, an hour to live, four bytes.
        message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4]);
        let is_own = query[12..length] == own[12..];
        let address = if is_own { server } else { ELSEWHERE };
        message.extend_from_slice(&address.octets());
        socket.send_to(&message, from)?;
    }
    Ok(())
}

/// Returns a datagram, or `None` after the timeout.
fn received(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok(received) => Ok(Some(received)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns a query for the address of a name (RFC 1035, section 4.1).
fn question(id: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        // The names are ours; their labels are short.
        message.push(label.len().to_le_bytes()[0]);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}

#[cfg(test)]
mod tests {
    use super::question;

    #[test]
    fn questions_are_dns() {
        let message = question(0x1234, "a.org");
        assert_eq!(
            message,
            *b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x03org\0\0\x01\0\x01"
        );
    }
}
