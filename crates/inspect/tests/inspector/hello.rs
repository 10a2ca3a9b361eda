//! ClientHellos made up from lists, and conversations with them.

use std::net::IpAddr;

use ringtap_inspect::{Entry, FlowState, Inspector, Payload, Transport, Verdict};

/// A ClientHello as lists of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hello {
    pub(crate) ciphers: Vec<u16>,
    /// Kinds in their order. Those that have content here get it; the others are empty.
    pub(crate) extensions: Vec<u16>,
    pub(crate) name: &'static str,
    pub(crate) protocols: Vec<&'static str>,
    pub(crate) signatures: Vec<u16>,
    pub(crate) versions: Vec<u16>,
    /// Bytes of a key share, which makes it long.
    pub(crate) padding: usize,
}

/// Bytes with their length in front, in `N` bytes.
fn counted<const N: usize>(bytes: &[u8]) -> Vec<u8> {
    let len = (bytes.len() as u64).to_be_bytes();
    [&len[8 - N..], bytes].concat()
}

fn numbers(list: &[u16]) -> Vec<u8> {
    list.iter()
        .flat_map(|number| number.to_be_bytes())
        .collect()
}

impl Hello {
    /// One as a browser sends it.
    pub(crate) fn browser(name: &'static str) -> Self {
        Self {
            ciphers: vec![0x8a8a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f],
            extensions: vec![
                0x1a1a, 0, 23, 65281, 10, 11, 35, 16, 5, 13, 18, 51, 45, 43, 27,
            ],
            name,
            protocols: vec!["h2", "http/1.1"],
            signatures: vec![0x0403, 0x0804, 0x0401],
            versions: vec![0x2a2a, 0x0304, 0x0303],
            padding: 1216,
        }
    }

    fn extension(&self, kind: u16) -> Vec<u8> {
        let content = match kind {
            0 => counted::<2>(&[&[0], &counted::<2>(self.name.as_bytes())[..]].concat()),
            13 => counted::<2>(&numbers(&self.signatures)),
            16 => {
                let names = self
                    .protocols
                    .iter()
                    .map(|name| counted::<1>(name.as_bytes()));
                counted::<2>(&names.collect::<Vec<_>>().concat())
            }
            43 => counted::<1>(&numbers(&self.versions)),
            51 => counted::<2>(&vec![7; self.padding]),
            _ => Vec::new(),
        };
        [&kind.to_be_bytes()[..], &counted::<2>(&content)].concat()
    }

    /// The handshake message.
    pub(crate) fn message(&self) -> Vec<u8> {
        let extensions: Vec<u8> = self
            .extensions
            .iter()
            .flat_map(|kind| self.extension(*kind))
            .collect();
        let body = [
            &[3, 3][..],
            &[9; 32],
            &counted::<1>(&[5; 32]),
            &counted::<2>(&numbers(&self.ciphers)),
            &counted::<1>(&[0]),
            &counted::<2>(&extensions),
        ]
        .concat();
        [&[1][..], &counted::<3>(&body)].concat()
    }

    /// The message in records of at most `most` bytes.
    pub(crate) fn records(&self, most: usize) -> Vec<u8> {
        let record = |piece: &[u8]| [&[22, 3, 1][..], &counted::<2>(piece)].concat();
        self.message().chunks(most).flat_map(record).collect()
    }
}

/// A server's answer: its version, its cipher suite, its choice of a protocol.
pub(crate) fn server_hello(cipher: u16, protocol: &str) -> Vec<u8> {
    let alpn = counted::<2>(&counted::<1>(protocol.as_bytes()));
    let extensions = [&[0, 43, 0, 2, 3, 4][..], &[0, 16], &counted::<2>(&alpn)].concat();
    let body = [
        &[3, 3][..],
        &[8; 32],
        &counted::<1>(&[5; 32]),
        &cipher.to_be_bytes(),
        &[0],
        &counted::<2>(&extensions),
    ]
    .concat();
    let message = [&[2][..], &counted::<3>(&body)].concat();
    [&[22, 3, 3][..], &counted::<2>(&message)].concat()
}

/// A flow and what is known of it.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) flow: u32,
    pub(crate) entry: Entry,
    pub(crate) state: FlowState,
    ports: (u16, u16),
    is_tcp: bool,
    pub(crate) time_ns: u64,
    pub(crate) responder: IpAddr,
}

impl Talk {
    pub(crate) fn new(flow: u32, is_tcp: bool, ports: (u16, u16)) -> Self {
        Self {
            flow,
            entry: Entry::new(),
            state: FlowState::default(),
            ports,
            is_tcp,
            time_ns: 1_000_000_000,
            responder: IpAddr::from([192, 0, 2, 2]),
        }
    }

    pub(crate) fn tcp(port: u16) -> Self {
        Self::new(1, true, (50_000, port))
    }

    pub(crate) fn udp(port: u16) -> Self {
        Self::new(1, false, (50_000, port))
    }

    /// Hands a payload over whether it is wanted or not.
    pub(crate) fn say(
        &mut self,
        inspector: &mut Inspector,
        from_initiator: bool,
        sequence: u32,
        data: &[u8],
    ) -> Verdict {
        let transport = if self.is_tcp {
            Transport::Tcp { sequence }
        } else {
            Transport::Udp
        };
        let payload = Payload {
            transport,
            from_initiator,
            initiator: IpAddr::from([192, 0, 2, 1]),
            responder: self.responder,
            initiator_port: self.ports.0,
            responder_port: self.ports.1,
            time_ns: self.time_ns,
            data,
            complete: true,
        };
        inspector.look(self.flow, &mut self.entry, &mut self.state, &payload)
    }
}
