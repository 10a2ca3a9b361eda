//! The fields that are compared: how an entry has them, and what tshark's frames make of them.

use std::fmt;

use ringtap_inspect::{Fields, NameSource, Text};
use sha2::{Digest, Sha256};

use crate::driver::Flow;
use crate::oracle::Frame;

/// A value of an entry, as text.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Value {
    text: String,
    is_cut: bool,
}

impl Value {
    /// Whether the value is what tshark has, as far as it was kept.
    pub(crate) fn is(&self, theirs: &str) -> bool {
        let ours = unescaped(&self.text);
        if self.is_cut {
            theirs.starts_with(&ours)
        } else {
            ours == theirs
        }
    }
}

/// Text with its backslashes as tshark prints them.
fn unescaped(text: &str) -> String {
    text.replace(r"\\", r"\")
}

impl fmt::Debug for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}{}", self.text, if self.is_cut { "…" } else { "" })
    }
}

fn text(text: Option<Text<'_>>) -> Option<Value> {
    text.map(|text| Value {
        text: text.as_str().to_owned(),
        is_cut: text.is_cut(),
    })
}

fn shown(value: Option<impl fmt::Display>) -> Option<Value> {
    value.map(|value| Value {
        text: value.to_string(),
        is_cut: false,
    })
}

/// A field that is compared.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) ours: fn(&Fields<'_>) -> Option<Value>,
    pub(crate) theirs: fn(&[Frame], &Flow) -> Option<String>,
}

pub(crate) const FIELDS: &[Field] = &[
    Field {
        name: "tls_sni",
        ours: |fields| text(fields.tls_sni),
        theirs: |frames, _| {
            first(frames, "tls.handshake.extensions_server_name")
                .or_else(|| first(frames, "dtls.handshake.extensions_server_name"))
                .or_else(|| first(frames, "gquic.tag.sni"))
        },
    },
    Field {
        name: "tls_alpn",
        ours: |fields| text(fields.tls_alpn),
        theirs: |frames, _| {
            let alpn = |kind| hello(frames, kind)?.first("extensions_alpn_str");
            alpn("2").or_else(|| alpn("1")).map(str::to_owned)
        },
    },
    Field {
        name: "tls_version",
        ours: |fields| shown(fields.tls_version),
        theirs: |frames, _| tls_version(frames),
    },
    Field {
        name: "tls_cipher",
        ours: |fields| shown(fields.tls_cipher),
        theirs: |frames, _| {
            let server = hello(frames, "2").filter(|_| !is_quic(frames))?;
            // The last one is the server's where both hellos are in one frame.
            let cipher = server.all("ciphersuite").last()?;
            number(cipher).map(|cipher| cipher.to_string())
        },
    },
    Field {
        name: "tls_ja4",
        ours: |fields| shown(fields.tls_ja4),
        theirs: |frames, _| ja4(frames),
    },
    Field {
        name: "quic_version",
        ours: |fields| shown(fields.quic_version),
        theirs: |frames, _| {
            let google = || {
                first(frames, "gquic.version").map(|text| {
                    let bytes: Vec<u8> = text.bytes().take(4).collect();
                    bytes
                        .iter()
                        .fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
                        .to_string()
                })
            };
            first_number(frames, "quic.version").or_else(google)
        },
    },
    Field {
        name: "dns_query",
        ours: |fields| text(fields.dns_name.filter(|_| !is_nbns(fields))),
        theirs: |frames, _| {
            let name = first(frames, "dns.qry.name")?;
            Some(if name == "<Root>" {
                ".".to_owned()
            } else {
                name
            })
        },
    },
    Field {
        name: "dns_type",
        ours: |fields| shown(fields.dns_type.filter(|_| !is_nbns(fields))),
        theirs: |frames, _| first_number(frames, "dns.qry.type"),
    },
    Field {
        name: "dns_rcode",
        ours: |fields| shown(fields.dns_rcode.filter(|_| !is_nbns(fields))),
        theirs: |frames, _| {
            let frame = answer(frames)?;
            number(frame.first("dns.flags.rcode")?).map(|code| code.to_string())
        },
    },
    Field {
        name: "dns_answers",
        ours: |fields| shown(fields.dns_answers.filter(|_| !is_nbns(fields))),
        theirs: |frames, _| {
            answer(frames)?
                .first("dns.count.answers")
                .map(str::to_owned)
        },
    },
    Field {
        name: "dns_latency_ns",
        ours: |fields| shown(fields.dns_latency_ns.filter(|_| !is_nbns(fields))),
        theirs: |frames, _| {
            let (seconds, fraction) = answer(frames)?.first("dns.time")?.split_once('.')?;
            let digits = format!("{seconds}{fraction:0<9}");
            Some(digits.parse::<u64>().ok()?.to_string())
        },
    },
    Field {
        name: "nbns_name",
        ours: |fields| text(fields.dns_name.filter(|_| is_nbns(fields))),
        theirs: |frames, _| {
            let name = first(frames, "nbns.name")?;
            // The rest is the meaning of the last byte.
            Some(name.split(" (").next()?.to_owned())
        },
    },
    Field {
        name: "http_method",
        ours: |fields| text(fields.http_method),
        theirs: |frames, flow| {
            request(frames, flow)?
                .first("http.request.method")
                .map(str::to_owned)
        },
    },
    Field {
        name: "http_host",
        ours: |fields| text(fields.http_host),
        theirs: |frames, flow| request(frames, flow)?.first("http.host").map(str::to_owned),
    },
    Field {
        name: "http_path",
        ours: |fields| text(fields.http_path),
        theirs: |frames, flow| {
            request(frames, flow)?
                .first("http.request.uri")
                .map(str::to_owned)
        },
    },
    Field {
        name: "http_user_agent",
        ours: |fields| text(fields.http_user_agent),
        theirs: |frames, flow| {
            request(frames, flow)?
                .first("http.user_agent")
                .map(str::to_owned)
        },
    },
    Field {
        name: "http_status",
        ours: |fields| shown(fields.http_status),
        theirs: |frames, flow| first(frames, "http.response.code").filter(|_| flow.is_tcp),
    },
    Field {
        name: "ssh_banners",
        ours: |fields| {
            let is_ssh = |text: &Text<'_>| text.as_str().starts_with("SSH-");
            let banners = [fields.client_banner, fields.server_banner];
            let mut banners: Vec<&str> = banners
                .iter()
                .flatten()
                .filter(|text| is_ssh(text))
                .map(|text| text.as_str())
                .collect();
            banners.sort_unstable();
            (!banners.is_empty()).then(|| Value {
                text: banners.join(" | "),
                is_cut: false,
            })
        },
        theirs: |frames, _| {
            let mut banners: Vec<&str> = frames
                .iter()
                .filter_map(|frame| frame.first("ssh.protocol"))
                .collect();
            banners.sort_unstable();
            banners.dedup();
            (!banners.is_empty()).then(|| banners.join(" | "))
        },
    },
    Field {
        name: "ntp_stratum",
        ours: |fields| shown(fields.ntp_stratum),
        theirs: |frames, _| {
            let is_server = |frame: &&Frame| !matches!(frame.first("ntp.flags.mode"), Some("3"));
            let frame = frames
                .iter()
                .filter(|frame| frame.has("ntp.stratum"))
                .find(is_server)?;
            frame.first("ntp.stratum").map(str::to_owned)
        },
    },
    Field {
        name: "stun_method",
        ours: |fields| shown(fields.stun_method),
        theirs: |frames, _| first_number(frames, "stun.type.method"),
    },
    Field {
        name: "rtp_ssrc",
        ours: |fields| shown(fields.rtp_ssrc),
        theirs: |frames, _| first_number(frames, "rtp.ssrc"),
    },
    Field {
        name: "mqtt_client_id",
        ours: |fields| text(fields.mqtt_client_id),
        theirs: |frames, _| first(frames, "mqtt.clientid"),
    },
    Field {
        name: "rdp_cookie",
        ours: |fields| text(fields.rdp_cookie),
        theirs: |frames, _| {
            let cookie = first(frames, "rdp.rt_cookie")?;
            Some(
                cookie
                    .trim_start_matches("Cookie: mstshash=")
                    .trim()
                    .to_owned(),
            )
        },
    },
    Field {
        name: "dhcp_host",
        ours: |fields| text(fields.dhcp_host),
        theirs: |frames, _| first(frames, "dhcp.option.hostname"),
    },
    Field {
        name: "dhcp_vendor",
        ours: |fields| text(fields.dhcp_vendor),
        theirs: |frames, _| first(frames, "dhcp.option.vendor_class_id"),
    },
];

/// The first value of a field among frames.
fn first(frames: &[Frame], field: &str) -> Option<String> {
    let found = frames.iter().find_map(|frame| frame.first(field));
    found.map(str::to_owned)
}

/// A number that tshark prints in hexadecimal or in decimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn first_number(frames: &[Frame], field: &str) -> Option<String> {
    first(frames, field)
        .and_then(|text| number(&text))
        .map(|number| number.to_string())
}

fn is_nbns(fields: &Fields<'_>) -> bool {
    fields.name_source == Some(NameSource::Nbns)
}

fn is_quic(frames: &[Frame]) -> bool {
    frames.iter().any(|frame| frame.has("quic.version"))
}

/// The answer to the first question, or the first answer where no question was captured.
fn answer(frames: &[Frame]) -> Option<&Frame> {
    let is_response =
        |frame: &&Frame| matches!(frame.first("dns.flags.response"), Some("1" | "True"));
    let mut messages = frames
        .iter()
        .filter(|frame| frame.has("dns.flags.response"));
    let first = messages.next()?;
    if is_response(&first) {
        return Some(first);
    }
    let id = first.first("dns.id")?;
    let mut responses = frames.iter().filter(is_response);
    responses.find(|frame| frame.first("dns.id") == Some(id))
}

/// The first request over TCP; those over UDP are of SSDP.
fn request<'a>(frames: &'a [Frame], flow: &Flow) -> Option<&'a Frame> {
    let found = frames.iter().find(|frame| frame.has("http.request.method"));
    found.filter(|_| flow.is_tcp)
}

/// A frame with a hello, and whether it is one of DTLS.
struct Hello<'a> {
    frame: &'a Frame,
    prefix: &'static str,
}

/// The first frame with a hello of this kind.
fn hello<'a>(frames: &'a [Frame], kind: &str) -> Option<Hello<'a>> {
    let has = |frame: &Frame, field| frame.all(field).iter().any(|found| found == kind);
    frames.iter().find_map(|frame| {
        let prefix = if has(frame, "tls.handshake.type") {
            "tls.handshake."
        } else if has(frame, "dtls.handshake.type") {
            "dtls.handshake."
        } else {
            return None;
        };
        Some(Hello { frame, prefix })
    })
}

impl<'a> Hello<'a> {
    fn all(&self, field: &str) -> &'a [String] {
        self.frame.all(&format!("{}{field}", self.prefix))
    }

    fn first(&self, field: &str) -> Option<&'a str> {
        self.all(field).first().map(String::as_str)
    }

    fn numbers(&self, field: &str) -> Vec<u64> {
        self.all(field)
            .iter()
            .filter_map(|text| number(text))
            .collect()
    }

    fn is_dtls(&self) -> bool {
        self.prefix.starts_with('d')
    }
}

fn is_grease(number: u64) -> bool {
    number & 0x0f0f == 0x0a0a && number >> 8 == number & 0xff
}

/// The highest version that a client offers; those of DTLS count downwards.
fn offered(client: &Hello<'_>) -> Option<u64> {
    let versions = client.numbers("extensions.supported_version");
    let versions = versions.into_iter().filter(|version| !is_grease(*version));
    let highest = if client.is_dtls() {
        versions.min()
    } else {
        versions.max()
    };
    highest.or_else(|| number(client.first("version")?))
}

fn tls_version(frames: &[Frame]) -> Option<String> {
    let server = hello(frames, "2").filter(|_| !is_quic(frames));
    let version = match server {
        Some(server) => server
            .all("extensions.supported_version")
            .last()
            .or(server.all("version").last())
            .and_then(|text| number(text)),
        None => offered(&hello(frames, "1")?),
    };
    version.map(|version| version.to_string())
}

/// The fingerprint, put together from what tshark found in the first ClientHello: this version of tshark
/// does not know it.
fn ja4(frames: &[Frame]) -> Option<String> {
    let client = hello(frames, "1")?;
    let carrier = match (client.is_dtls(), client.frame.has("quic.version")) {
        (true, _) => 'd',
        (_, true) => 'q',
        _ => 't',
    };
    let meant = |field| {
        let numbers = client.numbers(field).into_iter();
        numbers
            .filter(|number| !is_grease(*number))
            .collect::<Vec<u64>>()
    };
    let version = match offered(&client)? {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        0xfeff => "d1",
        0xfefd => "d2",
        0xfefc => "d3",
        _ => "00",
    };
    let ciphers = meant("ciphersuite");
    let extensions = meant("extension.type");
    let name = if extensions.contains(&0) { 'd' } else { 'i' };
    let listed: Vec<u64> = extensions
        .iter()
        .copied()
        .filter(|kind| ![0, 16].contains(kind))
        .collect();
    let mut text = list(&listed, true);
    let signatures: Vec<u64> = signatures(&client)
        .into_iter()
        .filter(|it| !is_grease(*it))
        .collect();
    if !signatures.is_empty() {
        text = format!("{text}_{}", list(&signatures, false));
    }
    Some(format!(
        "{carrier}{version}{name}{:02}{:02}{}_{}_{}",
        ciphers.len().min(99),
        extensions.len().min(99),
        alpn(client.first("extensions_alpn_str").unwrap_or_default()),
        hash(&list(&ciphers, true)),
        if listed.is_empty() {
            hash("")
        } else {
            hash(&text)
        },
    ))
}

/// The algorithms in the extension for them. tshark has those of other extensions in the same field.
fn signatures(client: &Hello<'_>) -> Vec<u64> {
    const SIGNATURE_ALGORITHMS: u64 = 13;
    const WITH_ALGORITHMS: [u64; 3] = [SIGNATURE_ALGORITHMS, 34, 50];
    let all = client.numbers("sig_hash_alg");
    let lens = client.numbers("sig_hash_alg_len");
    let kinds = client.numbers("extension.type").into_iter();
    let kinds = kinds.filter(|kind| WITH_ALGORITHMS.contains(kind));
    let mut start = 0;
    for (kind, len) in kinds.zip(lens) {
        let count = usize::try_from(len / 2).unwrap_or(0);
        if kind == SIGNATURE_ALGORITHMS {
            return all.into_iter().skip(start).take(count).collect();
        }
        start += count;
    }
    Vec::new()
}

fn alpn(protocol: &str) -> String {
    match (protocol.chars().next(), protocol.chars().last()) {
        (Some(first), Some(last)) => format!("{first}{last}"),
        _ => "00".to_owned(),
    }
}

fn list(numbers: &[u64], sort: bool) -> String {
    let mut texts: Vec<String> = numbers
        .iter()
        .map(|number| format!("{number:04x}"))
        .collect();
    if sort {
        texts.sort();
    }
    texts.join(",")
}

fn hash(text: &str) -> String {
    if text.is_empty() {
        return "0".repeat(12);
    }
    let digest = Sha256::digest(text.as_bytes());
    digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
