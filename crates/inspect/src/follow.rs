//! Reads the payloads of a flow once its protocol is known.

use crate::banner;
use crate::buffers::Overrun;
use crate::dhcp;
use crate::dns::{self, Message, Name, Question};
use crate::entry::{Entry, Space, Tag};
use crate::escape::escape;
use crate::http::{self, Upgrade};
use crate::inspector::Inspector;
use crate::names::LONGEST;
use crate::payload::{Flow, Payload, Step, Transport};
use crate::protocol::{NameSource, Protocol};
use crate::small;
use crate::tls::record;

/// The longest host and method of a request, in an entry.
const HOST: usize = 72;
const METHOD: usize = 16;
/// Room that the target of a request leaves for its user agent, and both for the status.
const AGENT: usize = 42;
const STATUS: usize = 4;
/// The longest target and user agent of a request for a tunnel.
const TUNNELLED: usize = 32;
/// The longest name of DNS in an entry, so that the answer has room.
const DNS_NAME: usize = 160;

impl Inspector {
    /// Looks at a payload of a flow of this protocol.
    pub(crate) fn follow(
        &mut self,
        protocol: Protocol,
        flow: &mut Flow<'_>,
        payload: &Payload<'_>,
    ) -> Step {
        use Protocol as P;
        match protocol {
            P::Dns | P::Mdns | P::Llmnr | P::Nbns => match payload.transport {
                Transport::Udp => self.dns(protocol, flow, payload),
                Transport::Tcp { .. } => self.dns_stream(protocol, flow, payload),
            },
            P::Tls => self.tls(flow, payload),
            P::Dtls => self.dtls(flow, payload),
            P::Quic => self.quic(flow, payload),
            P::Http | P::WebSocket => self.http(flow, payload),
            P::Stun => self.after_stun(flow, payload),
            P::Ssh => banner::ssh(flow.entry, payload),
            P::Smtp
            | P::Imap
            | P::Pop3
            | P::Ftp
            | P::Mysql
            | P::Postgresql
            | P::Rdp
            | P::Xmpp
            | P::Ldap
            | P::Socks
                if matches!(payload.transport, Transport::Tcp { .. }) =>
            {
                self.plain_then_tls(protocol, flow, payload)
            }
            P::Dhcp | P::Dhcpv6 => dhcp::step(protocol, flow.entry, payload),
            _ => small::step(protocol, flow.entry, payload),
        }
    }

    /// Protocols that begin in the clear and may go on with TLS.
    fn plain_then_tls(
        &mut self,
        protocol: Protocol,
        flow: &mut Flow<'_>,
        payload: &Payload<'_>,
    ) -> Step {
        if record::is_hello(payload.data) || self.is_held(flow, payload) {
            return self.tls(flow, payload);
        }
        let is_http = http::is_request(payload.data) || http::is_response(payload.data);
        if protocol == Protocol::Socks && is_http {
            return self.http(flow, payload);
        }
        banner::step(protocol, flow.entry, payload);
        Step::More
    }

    fn http(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        let data = payload.data;
        if self.is_held(flow, payload) {
            if flow.entry.find(Tag::Method) == Some(b"CONNECT") {
                return self.tls(flow, payload);
            }
            return self.later_request(flow, payload);
        }
        if http::is_response(data) {
            let Some((status, upgrade)) = http::response(data) else {
                return Step::This;
            };
            flow.entry.put(Tag::Status, &status.to_be_bytes());
            match upgrade {
                Some(Upgrade::WebSocket) => flow.entry.set_protocol(Protocol::WebSocket),
                Some(Upgrade::H2c) => flow.entry.set_protocol(Protocol::H2c),
                None => {}
            }
            let is_tunnel = flow.entry.find(Tag::Method) == Some(b"CONNECT");
            return if is_tunnel { Step::More } else { Step::This };
        }
        if record::is_hello(data) && flow.entry.find(Tag::Method) == Some(b"CONNECT") {
            return self.tls(flow, payload);
        }
        if !http::is_request(data) {
            return Step::More;
        }
        if fill_request(flow.entry, data) {
            let is_tunnel = data.starts_with(b"CONNECT ");
            return if is_tunnel { Step::More } else { Step::This };
        }
        if payload.complete && matches!(payload.transport, Transport::Tcp { .. }) {
            return self.gather(flow, payload);
        }
        Step::This
    }

    /// Takes a buffer and puts the payload at its beginning.
    pub(crate) fn gather(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        self.forget(flow.number, flow.state);
        let (initiator, sequence) = (payload.from_initiator, payload.sequence());
        flow.state.buffer = self.buffers.take(flow.number, initiator, sequence);
        self.add_segment(flow, payload)
    }

    /// Adds a segment to the flow's buffer.
    pub(crate) fn add_segment(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        let (buffer, sequence) = (flow.state.buffer, payload.sequence());
        let added = self.buffers.add_segment(buffer, sequence, payload.data);
        self.unless_overrun(added, flow)
    }

    /// Returns whether the flow has a buffer for the direction of a payload.
    pub(crate) fn is_held(&self, flow: &Flow<'_>, payload: &Payload<'_>) -> bool {
        let initiator = payload.from_initiator;
        self.buffers
            .is_held(flow.state.buffer, flow.number, initiator)
    }

    /// Converts the result of an attempt to add to a buffer.
    pub(crate) fn unless_overrun(
        &mut self,
        added: Result<(), Overrun>,
        flow: &mut Flow<'_>,
    ) -> Step {
        match added {
            Ok(()) => Step::More,
            Err(Overrun) => {
                self.counters.buffers_overrun += 1;
                self.release(flow.number, flow.state);
                Step::This
            }
        }
    }

    fn later_request(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        if self.add_segment(flow, payload) != Step::More {
            return Step::This;
        }
        if fill_request(flow.entry, self.buffers.contiguous(flow.state.buffer)) {
            self.release(flow.number, flow.state);
            return Step::This;
        }
        Step::More
    }

    /// A segment of DNS over TCP: messages have their length in front, and may span segments.
    fn dns_stream(
        &mut self,
        protocol: Protocol,
        flow: &mut Flow<'_>,
        payload: &Payload<'_>,
    ) -> Step {
        if !self.is_held(flow, payload) {
            let (data, is_whole) = first_message(payload.data);
            let message = Payload {
                data,
                complete: is_whole,
                ..*payload
            };
            // The part of a message that has come counts, in case the rest does not come.
            let step = self.dns(protocol, flow, &message);
            if is_whole || step != Step::More || !payload.complete {
                return step;
            }
            return self.gather(flow, payload);
        }
        if self.add_segment(flow, payload) != Step::More {
            return Step::This;
        }
        let (data, is_whole) = first_message(self.buffers.contiguous(flow.state.buffer));
        if !is_whole {
            return Step::More;
        }
        // The buffer is given back before the message is read, so it is copied.
        let mut scratch = std::mem::take(&mut self.scratch);
        let len = data.len().min(scratch.len());
        scratch[..len].copy_from_slice(&data[..len]);
        self.release(flow.number, flow.state);
        let message = Payload {
            data: &scratch[..len],
            complete: true,
            ..*payload
        };
        let step = self.dns(protocol, flow, &message);
        self.scratch = scratch;
        step
    }

    fn dns(&mut self, protocol: Protocol, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        let Some(message) = Message::parse(payload.data, payload.complete) else {
            return Step::More;
        };
        let question = message.question();
        if !message.is_response() {
            let Some(question) = question else {
                return Step::More;
            };
            if !flow.entry.has(Tag::DnsName) {
                put_question(protocol, flow.entry, &question.name, question.kind);
                let mut asked = [0; 10];
                asked[..8].copy_from_slice(&payload.time_ns.to_be_bytes());
                asked[8..].copy_from_slice(&message.id.to_be_bytes());
                if protocol == Protocol::Dns {
                    flow.entry.put(Tag::DnsAsked, &asked);
                }
            }
            return Step::This;
        }
        self.dns_response(protocol, flow.entry, &message, question.as_ref(), payload);
        if protocol == Protocol::Dns && !self.names.is_off() {
            flow.state.go_on();
            return Step::More;
        }
        Step::This
    }

    fn dns_response(
        &mut self,
        protocol: Protocol,
        entry: &mut Entry,
        message: &Message<'_>,
        question: Option<&Question>,
        payload: &Payload<'_>,
    ) {
        let [more, less] = message.answers.to_be_bytes();
        let answer = [message.rcode(), more, less];
        if let Some(&asked) = entry
            .find(Tag::DnsAsked)
            .and_then(<[u8]>::first_chunk::<10>)
        {
            let [time @ .., a, b] = asked;
            if message.id == u16::from_be_bytes([a, b]) {
                let latency = payload.time_ns.saturating_sub(u64::from_be_bytes(time));
                entry.replace(Tag::DnsAsked, Tag::DnsLatency, &latency.to_be_bytes());
                entry.put(Tag::DnsAnswer, &answer);
            }
        } else if !entry.has(Tag::DnsName) {
            let record = message.first_record();
            let first = question.map(|question| (&question.name, question.kind));
            if let Some((name, kind)) = first.or(record.as_ref().map(|(name, kind)| (name, *kind)))
            {
                put_question(protocol, entry, name, kind);
            }
            entry.put(Tag::DnsAnswer, &answer);
        }
        if protocol == Protocol::Dns
            && message.rcode() == 0
            && let Some(question) = question.filter(|question| question.wants_addresses())
        {
            self.learn(message, question, payload.time_ns);
        }
    }

    /// Notes the addresses of an answer under the name that was asked for.
    fn learn(&mut self, message: &Message<'_>, question: &Question, now_ns: u64) {
        if self.names.is_off() || message.answers == 0 {
            return;
        }
        let mut text = [0; LONGEST];
        let mut space = Space {
            bytes: &mut text,
            used: 0,
        };
        // A name too long is cut.
        let _ = escape(question.name.bytes(), &mut space);
        let used = space.used;
        let name = &text[..used];
        let mut place = None;
        message.addresses(question, |address, seconds| {
            if self.names.renew(address, name, now_ns, seconds) {
                return;
            }
            place = place.or_else(|| self.names.add_name(name));
            if let Some(place) = place {
                self.names.add(address, place, now_ns, seconds);
            }
        });
    }
}

/// Returns the first message of a stream, or what is there of it, and whether it is whole.
fn first_message(stream: &[u8]) -> (&[u8], bool) {
    let Some((&len, rest)) = stream.split_first_chunk() else {
        return (&[], false);
    };
    let len = usize::from(u16::from_be_bytes(len));
    (&rest[..len.min(rest.len())], len <= rest.len())
}

/// Notes the first question.
fn put_question(protocol: Protocol, entry: &mut Entry, name: &Name, kind: u16) {
    entry.put(Tag::DnsQuestion, &kind.to_be_bytes());
    let source = match protocol {
        Protocol::Mdns => Some(NameSource::Mdns),
        Protocol::Llmnr => Some(NameSource::Llmnr),
        Protocol::Nbns => Some(NameSource::Nbns),
        _ => None,
    };
    let decoded = match protocol {
        Protocol::Nbns => dns::netbios(name),
        _ => None,
    };
    match &decoded {
        Some((text, len)) => entry.put_text(Tag::DnsName, &text[..*len], DNS_NAME, true),
        None => entry.put_text(Tag::DnsName, name.bytes(), DNS_NAME, true),
    }
    if let Some(source) = source {
        entry.name_by(source);
    }
}

/// Notes what is there of a request, and returns whether no more is expected.
fn fill_request(entry: &mut Entry, data: &[u8]) -> bool {
    let asked = http::request(data);
    let has_line = data.contains(&b'\n');
    if let Some(host) = asked.host.filter(|host| !host.is_empty()) {
        entry.put_text(Tag::Host, host, HOST, true);
        entry.name_by(NameSource::Http);
    }
    let is_final = asked.is_whole || (asked.host.is_some() && asked.agent.is_some());
    // The target has what the others leave, so it comes when they are known.
    if has_line && (is_final || !entry.has(Tag::Method)) {
        entry.put_text(Tag::Method, asked.method, METHOD, true);
        // A tunnel leaves room for what comes through it.
        let is_tunnel = asked.method == b"CONNECT";
        let agent = match asked.agent {
            Some(_) if is_tunnel => 0,
            Some(agent) => AGENT.min(agent.len() + 2),
            None if is_final => 0,
            None => AGENT,
        };
        let host = if is_final || entry.has(Tag::Host) {
            0
        } else {
            HOST + 2
        };
        let most = entry.room().saturating_sub(agent + STATUS + host);
        let most = if is_tunnel { most.min(TUNNELLED) } else { most };
        entry.put_text(Tag::Path, asked.target, most, true);
    }
    if let Some(agent) = asked.agent {
        let most = entry.room().saturating_sub(STATUS);
        let is_tunnel = asked.method == b"CONNECT";
        let most = if is_tunnel { most.min(TUNNELLED) } else { most };
        entry.put_text(Tag::Agent, agent, most, true);
    }
    is_final
}
