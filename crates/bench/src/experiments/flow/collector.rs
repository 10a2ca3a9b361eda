//! A collector that reads every datagram and does nothing with it.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap_sys::{sched, udp};

use crate::session::Done;

/// How long the thread may sleep before it looks whether it should end.
const WAIT: Duration = Duration::from_millis(100);
const BUFFER: usize = 64 << 20;

/// A socket on loopback, and the thread that reads it.
pub(super) struct Collector {
    address: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// Starts to read, on the last processor.
    pub(super) fn start() -> Done<Self> {
        let failed = |error: &dyn std::fmt::Display| format!("a collector: {error}");
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| failed(&error))?;
        udp::set_receive_buffer(&socket, BUFFER).map_err(|error| failed(&error))?;
        let timeout = socket.set_read_timeout(Some(WAIT));
        timeout.map_err(|error| failed(&error))?;
        let address = socket.local_addr().map_err(|error| failed(&error))?;
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        Ok(Self {
            address: address.to_string(),
            ends,
            thread: Some(std::thread::spawn(move || read(&socket, &told))),
        })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has printed its message.
            drop(thread.join());
        }
    }
}

fn read(socket: &UdpSocket, ends: &AtomicBool) {
    // The programs run on the first processor; if there is no other, or it cannot be chosen, they share.
    if let Ok(cpus) = sched::online_cpus()
        && let Some(last) = cpus.as_slice().last()
    {
        drop(sched::set_affinity(&[*last]));
    }
    let mut datagram = vec![0; usize::from(u16::MAX)];
    while !ends.load(Ordering::Relaxed) {
        // A timeout is no error here.
        drop(socket.recv(&mut datagram));
    }
}
