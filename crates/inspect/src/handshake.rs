//! Hellos of TLS, DTLS and QUIC on their way into an entry, over as many packets as they have.

use crate::buffers::Connection;
use crate::entry::{Entry, Tag};
use crate::identify::SHORTEST_DNS;
use crate::inspector::{DNS_PORT, Inspector};
use crate::payload::{Flow, Payload, Step, Transport};
use crate::protocol::{NameSource, Protocol};
use crate::quic::{frames, google, header, keys};
use crate::small;
use crate::tls::hello::{ClientHello, ServerHello};
use crate::tls::ja4::{self, Carrier};
use crate::tls::record::{self, Start};
use crate::tls::{CLIENT_HELLO, SERVER_HELLO, dtls};

/// The longest protocol name in an entry.
const ALPN: usize = 16;
/// Room that a server name leaves: for two protocol names and a cipher suite.
const BESIDE_SNI: usize = 2 * (ALPN + 2) + 4;
/// The least room of a server name.
const LEAST_SNI: usize = 64;
/// Bytes in front of a message's body: of TLS, also in QUIC.
const MESSAGE_HEADER: usize = 4;
/// Ports on which a first segment that makes no sense may be the second one of a hello.
const TLS_PORTS: [u16; 4] = [443, 853, 8443, 993];

impl Inspector {
    /// Keeps the first payload of a connection that is probably TLS, in case the segment before it comes
    /// later; and the beginning of a message of DNS that is too short to show anything.
    pub(crate) fn keep_unknown(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) {
        let is_tcp = matches!(payload.transport, Transport::Tcp { .. });
        let is_tls = payload.from_initiator && TLS_PORTS.contains(&payload.responder_port);
        let is_dns = payload.has_port(DNS_PORT) && payload.data.len() < SHORTEST_DNS;
        if is_tcp && flow.state.buffer == 0 && payload.complete && (is_tls || is_dns) {
            self.gather(flow, payload);
        }
    }

    /// Handles a segment of a TLS connection.
    pub(crate) fn tls(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        if !self.is_held(flow, payload) {
            return match record::start(payload.data, &mut self.scratch) {
                Start::Hello(kind, body) => {
                    put_hello(flow.entry, kind, body, Carrier::Tcp, true);
                    Step::This
                }
                Start::Partial if payload.complete => self.gather(flow, payload),
                Start::Partial => {
                    put_cut_hello(flow.entry, payload.data);
                    Step::This
                }
                Start::Other => Step::This,
            };
        }
        let (buffer, sequence) = (flow.state.buffer, payload.sequence());
        let is_first = record::is_hello(payload.data) && self.buffers.is_before(buffer, sequence);
        let added = if is_first {
            self.buffers.put_before(buffer, sequence, payload.data)
        } else {
            self.buffers.add_segment(buffer, sequence, payload.data)
        };
        if added.is_err() {
            // The beginning of a hello that is too long counts.
            put_cut_hello(flow.entry, self.buffers.contiguous(buffer));
        }
        if self.unless_overrun(added, flow) != Step::More {
            return Step::This;
        }
        let stream = self.buffers.contiguous(buffer);
        let step = match record::start(stream, &mut self.scratch) {
            Start::Partial => return Step::More,
            Start::Hello(kind, body) => {
                put_hello(flow.entry, kind, body, Carrier::Tcp, true);
                Step::This
            }
            Start::Other => Step::This,
        };
        self.release(flow.number, flow.state);
        step
    }

    /// Handles a datagram of a flow that began with STUN: media and their keys come later.
    pub(crate) fn after_stun(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        let data = payload.data;
        if matches!(payload.transport, Transport::Tcp { .. }) {
            small::stun(flow.entry, data);
            return Step::Both;
        }
        if dtls::is_record(data) {
            flow.entry.set_protocol(Protocol::Dtls);
            return self.dtls(flow, payload);
        }
        if self
            .guesses
            .is_rtp(data, flow.number, payload.from_initiator)
        {
            flow.entry.set_protocol(Protocol::Rtp);
            return small::step(Protocol::Rtp, flow.entry, payload);
        }
        small::stun(flow.entry, data);
        Step::More
    }

    /// Handles a datagram of DTLS.
    pub(crate) fn dtls(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        let mut step = Step::More;
        dtls::fragments(payload.data, |fragment| {
            if step != Step::More {
                return;
            }
            let kind = fragment.kind;
            if fragment.data.len() == fragment.len {
                put_hello(flow.entry, kind, fragment.data, Carrier::Dtls, true);
                step = Step::This;
                return;
            }
            if !self.is_held(flow, payload) {
                self.forget(flow.number, flow.state);
                flow.state.buffer = self.buffers.take(flow.number, payload.from_initiator, 0);
            }
            let buffer = flow.state.buffer;
            let added = self.buffers.add(buffer, fragment.offset, fragment.data);
            step = self.unless_overrun(added, flow);
            let body = self.buffers.contiguous(buffer).get(..fragment.len);
            if let (Step::More, Some(body)) = (step, body) {
                put_hello(flow.entry, kind, body, Carrier::Dtls, true);
                self.release(flow.number, flow.state);
                step = Step::This;
            }
        });
        let is_plain = payload.data.get(3..5) == Some(&[0, 0]);
        if is_plain { step } else { Step::This }
    }

    /// Handles a datagram of QUIC.
    pub(crate) fn quic(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        let mut data = payload.data;
        if google::is_public(data) {
            return google_public(flow.entry, data);
        }
        while let Some((long, rest)) = header::Long::parse(data) {
            flow.entry
                .put(Tag::QuicVersion, &long.version.to_be_bytes());
            if !long.is_initial {
                data = rest;
                continue;
            }
            match self.initial(flow, &long, payload.from_initiator) {
                Step::More => data = rest,
                step => return step,
            }
        }
        Step::More
    }

    /// Handles an Initial packet.
    fn initial(
        &mut self,
        flow: &mut Flow<'_>,
        long: &header::Long<'_>,
        from_initiator: bool,
    ) -> Step {
        let (number, state) = (flow.number, &mut *flow.state);
        let is_held = self.buffers.is_held(state.buffer, number, from_initiator);
        if !is_held
            && state.buffer != 0
            && self.buffers.is_held(state.buffer, number, !from_initiator)
        {
            // The other side is the client.
            return Step::More;
        }
        let kept = is_held.then(|| self.buffers.connection(state.buffer));
        let ids = [Some(long.destination), kept.as_ref().map(Connection::bytes)];
        let mut opened = None;
        for id in ids.iter().flatten() {
            if let Some(frames) = keys::open(long, id, &mut self.scratch) {
                opened = Some((*id, frames));
                break;
            }
            if kept.is_some_and(|kept| kept.bytes() == long.destination) {
                break;
            }
        }
        let Some((id, frames)) = opened else {
            return Step::More;
        };
        let frames = &self.scratch[frames];
        if let Some(message) = google::find_hello(frames) {
            put_google(flow.entry, message);
            return Step::Both;
        }
        let (buffers, mut added) = (&mut self.buffers, Ok(()));
        let mut is_found = false;
        let _ = frames::crypto(frames, |offset, data| {
            if offset == 0 && put_message(flow.entry, data) {
                is_found = true;
                return false;
            }
            if !buffers.is_held(state.buffer, number, from_initiator) {
                state.buffer = buffers.take(number, from_initiator, 0);
                if let Some(connection) = Connection::new(id) {
                    buffers.set_connection(state.buffer, connection);
                }
            }
            added = buffers.add(state.buffer, offset, data);
            added.is_ok()
        });
        if is_found {
            return Step::Both;
        }
        let step = self.unless_overrun(added, flow);
        if step == Step::More
            && self
                .buffers
                .is_held(flow.state.buffer, number, from_initiator)
            && put_message(flow.entry, self.buffers.contiguous(flow.state.buffer))
        {
            return Step::Both;
        }
        step
    }
}

/// Notes a ClientHello of QUIC if it is whole.
fn put_message(entry: &mut Entry, message: &[u8]) -> bool {
    if message.starts_with(b"CHLO") {
        put_google(entry, message);
        return true;
    }
    let Some(&[kind, a, b, c]) = message.first_chunk::<MESSAGE_HEADER>() else {
        return false;
    };
    let len = u32::from_be_bytes([0, a, b, c]) as usize;
    let Some(body) = message.get(MESSAGE_HEADER..MESSAGE_HEADER + len) else {
        return false;
    };
    if kind == CLIENT_HELLO {
        put_hello(entry, kind, body, Carrier::Quic, true);
    }
    true
}

/// Notes what a datagram of Google's QUIC says in the clear.
fn google_public(entry: &mut Entry, data: &[u8]) -> Step {
    if let Some(version) = google::version(data) {
        entry.put(Tag::QuicVersion, &version.to_be_bytes());
    }
    match google::find_hello(data) {
        Some(message) => {
            put_google(entry, message);
            Step::Both
        }
        None => Step::More,
    }
}

/// Bytes that a server name may have: the others have room too, unless little is left.
fn room_of_sni(entry: &Entry) -> usize {
    entry.room().saturating_sub(BESIDE_SNI).max(LEAST_SNI)
}

fn put_google(entry: &mut Entry, message: &[u8]) {
    if let Some(name) = google::server_name(message) {
        entry.put_text(Tag::Sni, name, room_of_sni(entry), true);
        entry.name_by(NameSource::Quic);
    }
}

/// Notes the beginning of a hello whose end was not captured.
fn put_cut_hello(entry: &mut Entry, data: &[u8]) {
    let message = data.get(5..).unwrap_or_default();
    if let (Some(&kind), Some(body)) = (message.first(), message.get(MESSAGE_HEADER..)) {
        put_hello(entry, kind, body, Carrier::Tcp, false);
    }
}

/// Notes a hello. One that is not whole has no fingerprint.
fn put_hello(entry: &mut Entry, kind: u8, body: &[u8], carrier: Carrier, is_whole: bool) {
    let is_dtls = carrier == Carrier::Dtls;
    match kind {
        CLIENT_HELLO => {
            let Some(hello) = ClientHello::parse(body, is_dtls) else {
                return;
            };
            if let Some(fingerprint) = ja4::fingerprint(&hello, carrier).filter(|_| is_whole) {
                entry.put(Tag::Ja4, &fingerprint);
            }
            entry.put(Tag::TlsVersion, &hello.version(is_dtls).to_be_bytes());
            if let Some(name) = hello.sni.filter(|name| !name.is_empty()) {
                entry.put_text(Tag::Sni, name, room_of_sni(entry), true);
                entry.name_by(match carrier {
                    Carrier::Quic => NameSource::Quic,
                    Carrier::Tcp | Carrier::Dtls => NameSource::Sni,
                });
            }
            if let Some(protocol) = hello.alpn {
                entry.put_text(Tag::Alpn, protocol, ALPN, true);
            }
        }
        SERVER_HELLO => {
            let Some(hello) = ServerHello::parse(body) else {
                return;
            };
            let version = hello.version.to_be_bytes();
            entry.replace(Tag::TlsVersion, Tag::TlsVersion, &version);
            entry.put(Tag::TlsVersion, &version);
            entry.put(Tag::Cipher, &hello.cipher.to_be_bytes());
            if let Some(protocol) = hello.alpn {
                entry.put_text(Tag::ServerAlpn, protocol, ALPN, true);
            }
        }
        _ => {}
    }
}
