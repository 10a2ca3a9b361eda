//! Serves the stream of a capture to clients, each from its connection on.
//!
//! The capture writes to a pipe. One thread reads it and gives complete blocks to a queue per client. A full
//! queue loses packets of that client only; the thread waits for no client, so neither the capture nor other
//! clients get slower.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::Listener;
use super::blocks::Blocks;
use crate::notice::{counted, notice};

/// Clients at a time.
const CLIENTS: usize = 32;
/// Bytes that wait for a client at most.
const QUEUE: usize = 16 << 20;
/// The memory that a batch takes beyond its bytes.
const BATCH: usize = 128;
/// Bytes that are read at once.
const READ: usize = 256 << 10;
/// How long a connection may take to agree on the encryption, and how many do so at a time. They take no place of
/// a client, and no packets wait for them.
const AGREEING: Duration = Duration::from_secs(10);
const STRANGERS: usize = 256;
/// How long clients may take for the rest at the end.
const END: Duration = Duration::from_secs(2);

/// The thread that serves clients.
pub(crate) struct Server {
    /// The writing end of the pipe, until it is handed out.
    output: Mutex<Option<File>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    /// Starts the thread.
    ///
    /// # Errors
    /// No pipe or thread can be created.
    pub(crate) fn start(listener: Listener) -> io::Result<Self> {
        let address = listener.socket.local_addr()?;
        let scheme = listener.scheme();
        let (reader, writer) = io::pipe()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let reader = OwnedFd::from(reader);
        let thread = thread::Builder::new().name("clients".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = runtime.block_on(serve(listener, reader)) {
                notice(format_args!("{scheme}-listen:{address}: {error}"));
            }
        })?;
        notice(format_args!("serving packets on {scheme}:{address}"));
        Ok(Self {
            output: Mutex::new(Some(OwnedFd::from(writer).into())),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns the file to which the capture is written, once.
    pub(crate) fn output(&self) -> io::Result<File> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.take().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Waits until clients have the rest, for a limited time. The capture must have closed its file.
    pub(crate) fn finish(&self) {
        drop(self.output());
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A panic was printed already.
            let _ = thread.join();
        }
    }
}

/// Blocks on their way to a client.
struct Batch {
    bytes: Arc<[u8]>,
    packets: u64,
}

/// The counters of a client, shared with the task that writes to it.
#[derive(Default)]
struct Counters {
    /// Bytes in the queue, with their overhead.
    waiting: AtomicUsize,
    /// Packets that were written.
    sent: AtomicU64,
}

/// The way to a client.
type Stream = Box<dyn AsyncWrite + Unpin + Send>;

struct Client {
    /// Its address, as messages have it.
    name: String,
    queue: UnboundedSender<Batch>,
    counters: Arc<Counters>,
    task: tokio::task::JoinHandle<()>,
    /// The size of the description that it got, in bytes.
    known: usize,
    accepted: u64,
    lost: u64,
}

impl Client {
    fn new(stream: Stream, name: String, head: &[u8]) -> Self {
        let (queue, batches) = unbounded_channel();
        let counters = Arc::new(Counters::default());
        let task = tokio::spawn(feed(stream, batches, Arc::clone(&counters)));
        let mut client = Self {
            name,
            queue,
            counters,
            task,
            known: 0,
            accepted: 0,
            lost: 0,
        };
        client.describe(head);
        client
    }

    /// Queues the part of the description that the client has not got. Returns whether it has all now.
    fn describe(&mut self, head: &[u8]) -> bool {
        let missing = head.get(self.known..).unwrap_or_default();
        if missing.is_empty() || self.queue(&Arc::from(missing), 0) {
            self.known = head.len();
            return true;
        }
        false
    }

    /// Queues blocks. Without room the client loses them.
    fn offer(&mut self, bytes: &Arc<[u8]>, packets: u64, (before, head): (usize, &[u8])) {
        let described = self.describe(head.get(..before).unwrap_or_default());
        if described && self.queue(bytes, packets) {
            self.known = head.len();
            self.accepted += packets;
            return;
        }
        if self.lost == 0 && packets > 0 {
            notice(format_args!(
                "{}: loses packets, because it reads too slowly",
                self.name
            ));
        }
        self.lost += packets;
    }

    fn queue(&self, bytes: &Arc<[u8]>, packets: u64) -> bool {
        let size = bytes.len() + BATCH;
        if self.counters.waiting.load(Relaxed) + size > QUEUE {
            return false;
        }
        self.counters.waiting.fetch_add(size, Relaxed);
        let bytes = Arc::clone(bytes);
        // A client that has left is noticed by the end of its task.
        let _ = self.queue.send(Batch { bytes, packets });
        true
    }

    /// Reports the counters. `is_end` means that packets in the queue are lost now, and not that the client
    /// left them.
    fn report(&self, is_end: bool) {
        let sent = self.counters.sent.load(Relaxed);
        let cut = if is_end { self.accepted - sent } else { 0 };
        notice(format_args!(
            "{}: {sent} packets sent, {} packets lost",
            self.name,
            self.lost + cut
        ));
    }
}

/// Writes batches to a client until it leaves or the queue ends.
async fn feed(mut stream: Stream, mut batches: UnboundedReceiver<Batch>, counters: Arc<Counters>) {
    while let Some(batch) = batches.recv().await {
        let written = stream.write_all(&batch.bytes).await;
        if written.is_err() || stream.flush().await.is_err() {
            return;
        }
        counters
            .waiting
            .fetch_sub(batch.bytes.len() + BATCH, Relaxed);
        counters.sent.fetch_add(batch.packets, Relaxed);
    }
    // With TLS this tells the client that nothing is missing. One that has left does not mind.
    let _ = stream.shutdown().await;
}

/// Agrees on the encryption. Returns the connection, or the reason why there is none.
async fn agree(
    stream: TcpStream,
    address: SocketAddr,
    tls: TlsAcceptor,
) -> (SocketAddr, io::Result<Stream>) {
    let agreed = timeout(AGREEING, tls.accept(stream)).await;
    let agreed = agreed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    (address, agreed.map(|stream| Box::new(stream) as Stream))
}

/// The connections, and the stream that clients get.
struct Serving {
    scheme: &'static str,
    tls: Option<TlsAcceptor>,
    agreeing: JoinSet<(SocketAddr, io::Result<Stream>)>,
    clients: Vec<Client>,
    blocks: Blocks,
    /// Connections for which there was no place, and those that did not agree on the encryption.
    refused: u64,
    strangers: u64,
}

impl Serving {
    fn accept(&mut self, stream: TcpStream, address: SocketAddr) {
        match &self.tls {
            None => self.welcome(Box::new(stream), address),
            Some(tls) if self.agreeing.len() < STRANGERS => {
                let _ = self.agreeing.spawn(agree(stream, address, tls.clone()));
            }
            Some(_) => self.refused += 1,
        }
    }

    /// Takes the outcome of an agreement. Only the first failure is told, since strangers may cause any number.
    fn agreed(&mut self, address: SocketAddr, outcome: io::Result<Stream>) {
        match outcome {
            Ok(stream) => self.welcome(stream, address),
            Err(error) => {
                if self.strangers == 0 {
                    notice(format_args!("{}:{address}: refused: {error}", self.scheme));
                }
                self.strangers += 1;
            }
        }
    }

    fn welcome(&mut self, stream: Stream, address: SocketAddr) {
        leave(&mut self.clients);
        if self.clients.len() < CLIENTS {
            let name = format!("{}:{address}", self.scheme);
            let client = Client::new(stream, name, self.blocks.head());
            self.clients.push(client);
        } else {
            self.refused += 1;
        }
    }

    /// Gives clients the next part of the stream.
    fn offer(&mut self, bytes: &[u8]) {
        let cut = self.blocks.take(bytes);
        leave(&mut self.clients);
        if !cut.bytes.is_empty() && !self.clients.is_empty() {
            let bytes: Arc<[u8]> = Arc::from(cut.bytes);
            let head = (cut.before, self.blocks.head());
            let clients = self.clients.iter_mut();
            clients.for_each(|client| client.offer(&bytes, cut.packets, head));
        }
    }

    async fn end(self) {
        end(self.clients).await;
        let (refused, strangers) = (self.refused, self.strangers);
        if refused > 0 {
            let clients = counted(refused, "client");
            notice(format_args!(
                "{clients} refused, because there was no place"
            ));
        }
        if strangers > 0 {
            let clients = counted(strangers, "client");
            notice(format_args!("{clients} refused by TLS"));
        }
    }
}

async fn serve(listener: Listener, reader: OwnedFd) -> io::Result<()> {
    let mut serving = Serving {
        scheme: listener.scheme(),
        tls: listener.tls,
        agreeing: JoinSet::new(),
        clients: Vec::new(),
        blocks: Blocks::default(),
        refused: 0,
        strangers: 0,
    };
    let listener = tokio::net::TcpListener::from_std(listener.socket)?;
    let reader = pipe::Receiver::from_owned_fd(reader)?;
    let mut buffer = vec![0; READ];
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => serving.accept(stream, address),
                // Without descriptors; others will be closed.
                Err(_) => sleep(Duration::from_millis(20)).await,
            },
            // A task that panicked was reported.
            Some(Ok((address, outcome))) = serving.agreeing.join_next() => {
                serving.agreed(address, outcome);
            }
            ready = reader.readable() => {
                ready?;
                match reader.try_read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => serving.offer(&buffer[..count]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    serving.end().await;
    Ok(())
}

/// Forgets clients that have left.
fn leave(clients: &mut Vec<Client>) {
    clients.retain(|client| {
        let is_there = !client.task.is_finished();
        if !is_there {
            client.report(false);
        }
        is_there
    });
}

/// Lets clients read the rest, for a limited time.
async fn end(clients: Vec<Client>) {
    let limit = Instant::now() + END;
    for mut client in clients {
        // The task ends when its queue does.
        client.queue = unbounded_channel().0;
        let in_time = timeout_at(limit, &mut client.task).await.is_ok();
        if !in_time {
            client.task.abort();
        }
        client.report(!in_time);
    }
}
