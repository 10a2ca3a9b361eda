//! Datagrams over a wire of the test's own: whether traffic gets through, asked without any program.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use crate::netns::{Side, VethPair};

/// How long a datagram may take on a busy machine.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(20);
/// How long a datagram is waited for that must not arrive.
const ABSENCE: Duration = Duration::from_millis(300);
/// Bytes of the longest payload.
const LONGEST: usize = 1500;

/// Sends from the left side of a wire to the right one.
#[derive(Debug)]
pub struct Datagrams {
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Datagrams {
    /// Opens a socket on each side.
    ///
    /// # Panics
    /// The system forbids it.
    #[must_use]
    pub fn over(pair: &VethPair) -> Self {
        let bind = |side: &Side| side.run(|| UdpSocket::bind((side.ipv4, 0)).expect("a socket"));
        let (sender, receiver) = (bind(&pair.left), bind(&pair.right));
        let address = receiver.local_addr().expect("bound");
        sender.connect(address).expect("a route");
        Self { sender, receiver }
    }

    /// Sends one datagram.
    ///
    /// # Panics
    /// The system forbids it.
    pub fn send(&self, payload: &[u8]) {
        self.sender.send(payload).expect("sent");
    }

    /// The next datagram that arrives, waited for as long as a busy machine may need; `None` if it is lost.
    #[must_use]
    pub fn received(&self) -> Option<Vec<u8>> {
        self.wait(ARRIVAL_LIMIT)
    }

    /// A datagram that arrives although it must not, waited for a short time.
    #[must_use]
    pub fn stray(&self) -> Option<Vec<u8>> {
        self.wait(ABSENCE)
    }

    fn wait(&self, limit: Duration) -> Option<Vec<u8>> {
        let mut payload = vec![0; LONGEST];
        let limited = self.receiver.set_read_timeout(Some(limit));
        limited.expect("a limit above zero");
        match self.receiver.recv(&mut payload) {
            Ok(length) => {
                payload.truncate(length);
                Some(payload)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("receiving: {error}"),
        }
    }
}
