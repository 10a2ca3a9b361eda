//! Datagrams over a wire of the test's own, to test whether traffic gets through without any
//! program.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use crate::netns::{Side, VethPair};

/// The longest time for a datagram on a busy machine.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(20);
/// How long to wait for a datagram that must not arrive.
const ABSENCE: Duration = Duration::from_millis(300);
/// The longest payload in bytes.
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
    /// Panics if the system forbids it.
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
    /// Panics if the system forbids it.
    pub fn send(&self, payload: &[u8]) {
        self.sender.send(payload).expect("sent");
    }

    /// Returns the next datagram, waiting as long as a busy machine may need; `None` if it is lost.
    #[must_use]
    pub fn received(&self) -> Option<Vec<u8>> {
        self.wait(ARRIVAL_LIMIT)
    }

    /// Returns a datagram that arrives although it must not, after a short wait.
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
