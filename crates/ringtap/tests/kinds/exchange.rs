//! Known traffic between two hosts: datagrams that are answered one by one, and bytes over TCP.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::topology::{Hosts, Kind, Peer};

/// The port that is asked; filters choose by it.
pub(crate) const PORT: u16 = 7777;
const ASKING_PORT: u16 = 7778;
/// Bytes of the datagrams, in turns.
const SIZES: [usize; 6] = [0, 1, 17, 100, 600, 1200];
/// How long LACP, carriers and address resolution may take.
const READY: Duration = Duration::from_secs(60);
/// Answers in a row after which a path is taken to stay: two bonds that negotiate switch over at first.
const STEADY: u32 = 12;
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// The payload of TCP, in bytes.
pub(crate) const TRANSFERRED: usize = 400_000;

/// Sends datagrams, each when the answer to the one before has come, and returns how many frames of
/// them a device carries.
pub(crate) fn datagrams(hosts: &Hosts, kind: &Kind, count: usize) -> usize {
    match kind.peer {
        Peer::Nobody => {
            hosts.left.run(|| {
                let socket = bound(kind.address(1), ASKING_PORT);
                for size in SIZES.into_iter().cycle().take(count) {
                    let to = (kind.address(2), PORT);
                    socket.send_to(&vec![7; size], to).expect("it is sent");
                }
            });
            count
        }
        Peer::Across | Peer::Itself => {
            let answering = if kind.peer == Peer::Itself {
                &hosts.left
            } else {
                &hosts.right
            };
            let answers = answering.run(|| bound(kind.address(2), PORT));
            let asks = hosts.left.run(|| bound(kind.address(1), ASKING_PORT));
            thread::scope(|scope| {
                scope.spawn(|| answer(&answers, count));
                for size in SIZES.into_iter().cycle().take(count) {
                    asks.send_to(&vec![7; size], (kind.address(2), PORT))
                        .expect("it is sent");
                    let mut buffer = [0; 2048];
                    let got = asks.recv(&mut buffer).expect("the answer comes");
                    assert_eq!(got, size);
                }
            });
            2 * count
        }
    }
}

/// Waits until sent packets arrive.
pub(crate) fn wait_until_joined(hosts: &Hosts, kind: &Kind) {
    if kind.peer == Peer::Nobody {
        return;
    }
    let answering = if kind.peer == Peer::Itself {
        &hosts.left
    } else {
        &hosts.right
    };
    let answers = answering.run(|| bound(kind.address(2), PORT + 2));
    let asks = hosts.left.run(|| bound(kind.address(1), ASKING_PORT + 2));
    let short = Duration::from_millis(100);
    for socket in [&answers, &asks] {
        socket.set_read_timeout(Some(short)).expect("a timeout");
    }
    let deadline = Instant::now() + READY;
    let mut buffer = [0; 64];
    let (mut answered, needed) = (0, if kind.two_wires { STEADY } else { 1 });
    while answered < needed {
        // Before there is a carrier, sending may fail.
        let _ = asks.send_to(b"?", (kind.address(2), PORT + 2));
        if let Ok((_, from)) = answers.recv_from(&mut buffer) {
            let _ = answers.send_to(b"!", from);
        }
        answered = if asks.recv(&mut buffer).is_ok() {
            answered + 1
        } else {
            0
        };
        if kind.two_wires {
            thread::sleep(short);
        }
        assert!(Instant::now() < deadline, "{}: nothing arrives", kind.name);
    }
}

/// Carries [`TRANSFERRED`] bytes from the left host to the other.
pub(crate) fn stream(hosts: &Hosts, kind: &Kind) {
    let answering = if kind.peer == Peer::Itself {
        &hosts.left
    } else {
        &hosts.right
    };
    let address = SocketAddrV4::new(kind.address(2), PORT);
    let listener = answering.run(|| when_free(address, TcpListener::bind));
    let mut sender = hosts
        .left
        .run(|| TcpStream::connect(address))
        .expect("a connection");
    let (mut receiver, _) = listener.accept().expect("a connection");
    let received = thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            let mut bytes = Vec::new();
            receiver.read_to_end(&mut bytes).map(|_| bytes.len())
        });
        sender.write_all(&vec![9; TRANSFERRED]).expect("it is sent");
        sender.shutdown(std::net::Shutdown::Write).expect("an end");
        receiving.join().expect("no panic")
    });
    assert_eq!(received.expect("it arrives"), TRANSFERRED);
    // The answer to the end of the sender's side.
    let rest = sender.read(&mut [0; 8]);
    assert!(matches!(rest, Ok(0)), "{rest:?}");
}

fn answer(socket: &UdpSocket, count: usize) {
    let mut buffer = [0; 2048];
    for _ in 0..count {
        let (size, from) = socket.recv_from(&mut buffer).expect("a datagram comes");
        socket
            .send_to(&buffer[..size], from)
            .expect("it is answered");
    }
}

fn bound(address: Ipv4Addr, port: u16) -> UdpSocket {
    let address = SocketAddrV4::new(address, port);
    let socket = when_free(address, UdpSocket::bind);
    socket.set_read_timeout(Some(ANSWER)).expect("a timeout");
    socket
}

/// Binds an address as soon as nobody else has it: a program that another thread is starting holds the sockets
/// of this process until it is executed.
fn when_free<T>(address: SocketAddrV4, bind: fn(SocketAddrV4) -> io::Result<T>) -> T {
    let deadline = Instant::now() + ANSWER;
    loop {
        match bind(address) {
            Ok(socket) => return socket,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{address}: {error}"),
        }
    }
}
