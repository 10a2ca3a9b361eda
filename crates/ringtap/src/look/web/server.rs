//! The server's thread: connections, their bounds and their end.
//!
//! There are at most [`CONNECTIONS`] at a time; one more is closed at once. A client has [`PATIENCE`] to send the
//! header of a request, and to take what is sent to it: slow readers are dropped, never waited for.

use std::future::Future as _;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::super::error::LookError;
use super::State;
use super::handlers::router;
use crate::setup::{setup, spawn};

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// How long a client may take for the header of a request, or to read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long open answers are waited for at the end.
const END: Duration = Duration::from_millis(500);
/// Bytes of a request's header, and lines.
const HEADER: usize = 16 << 10;
const HEADER_LINES: usize = 64;

/// The server.
pub(super) struct Server {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Ends the server; answers that are under way are cut.
    pub(super) fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Starts the server's thread.
pub(super) fn start(
    listener: TcpListener,
    tls: watch::Receiver<Option<TlsAcceptor>>,
    state: Arc<State>,
) -> Result<Server, LookError> {
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = runtime.map_err(|source| setup("start the server", source))?;
    let thread = spawn("web", move || {
        runtime.block_on(serve(listener, tls, state, stopped));
        runtime.shutdown_timeout(END);
    })?;
    Ok(Server { stop, thread })
}

async fn serve(
    listener: TcpListener,
    tls: watch::Receiver<Option<TlsAcceptor>>,
    state: Arc<State>,
    mut stopped: oneshot::Receiver<()>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let router = router(state);
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => return,
        };
        let Ok((stream, _)) = accepted else {
            // Without descriptors; others will be closed.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&free).try_acquire_owned() else {
            continue;
        };
        let (router, tls) = (router.clone(), tls.borrow().clone());
        tokio::spawn(async move {
            match tls {
                None => talk(stream, router).await,
                Some(tls) => {
                    // A client without a valid certificate does not get further.
                    if let Ok(Ok(stream)) = timeout(PATIENCE, tls.accept(stream)).await {
                        talk(stream, router).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Serves one connection.
async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_headers(HEADER_LINES)
        .max_buf_size(HEADER);
    let service = TowerToHyperService::new(router);
    // Whatever ends a connection concerns only its client.
    let _ = builder
        .serve_connection(Patient::new(stream), service)
        .await;
}

/// A connection whose client has [`PATIENCE`] to read.
struct Patient<S> {
    stream: TokioIo<S>,
    /// Runs while the client does not read.
    deadline: Pin<Box<Sleep>>,
    is_blocked: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Patient<S> {
    fn new(stream: S) -> Self {
        Self {
            stream: TokioIo::new(stream),
            deadline: Box::pin(sleep(PATIENCE)),
            is_blocked: false,
        }
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.is_blocked = false;
            return polled;
        }
        if !self.is_blocked {
            self.is_blocked = true;
            self.deadline.as_mut().reset(Instant::now() + PATIENCE);
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Read for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Write for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
