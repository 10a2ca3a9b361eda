//! The fields that tshark prints for the packets of a capture file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The fields asked for.
const FIELDS: [&str; 50] = [
    "frame.number",
    "ip.src",
    "ipv6.src",
    "tls.handshake.type",
    "tls.handshake.extensions_server_name",
    "tls.handshake.extensions_alpn_str",
    "tls.handshake.ciphersuite",
    "tls.handshake.version",
    "tls.handshake.extension.type",
    "tls.handshake.sig_hash_alg",
    "tls.handshake.sig_hash_alg_len",
    "tls.handshake.extensions.supported_version",
    "dtls.handshake.type",
    "dtls.handshake.extensions_server_name",
    "dtls.handshake.extensions_alpn_str",
    "dtls.handshake.ciphersuite",
    "dtls.handshake.version",
    "dtls.handshake.extension.type",
    "dtls.handshake.sig_hash_alg",
    "dtls.handshake.sig_hash_alg_len",
    "dtls.handshake.extensions.supported_version",
    "quic.version",
    "gquic.version",
    "gquic.tag.sni",
    "dns.qry.name",
    "dns.qry.type",
    "dns.flags.response",
    "dns.flags.rcode",
    "dns.count.answers",
    "dns.id",
    "dns.time",
    "http.request.method",
    "http.host",
    "http.request.uri",
    "http.user_agent",
    "http.response.code",
    "ssh.protocol",
    "ntp.stratum",
    "ntp.flags.mode",
    "mqtt.clientid",
    "dhcp.option.hostname",
    "dhcp.option.vendor_class_id",
    "nbns.name",
    "mysql.version",
    "rdp.rt_cookie",
    "stun.type.method",
    "rtp.p_type",
    "rtp.ssrc",
    "smtp.rsp.parameter",
    "smtp.response.code",
];

/// The character between fields, and that between values of one.
const FIELD: char = '\u{1e}';
const VALUE: char = '\u{1f}';

/// A packet's fields, those that it has.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) number: usize,
    fields: BTreeMap<&'static str, Vec<String>>,
}

impl Frame {
    /// All values of a field.
    pub(crate) fn all(&self, field: &str) -> &[String] {
        self.fields.get(field).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn first(&self, field: &str) -> Option<&str> {
        self.all(field).first().map(String::as_str)
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        !self.all(field).is_empty()
    }

    /// Whether it has more than one header of IP, so that others than the outermost ends speak.
    pub(crate) fn is_nested(&self) -> bool {
        self.all("ip.src").len() + self.all("ipv6.src").len() > 1
    }
}

/// Returns the version of tshark, such as `4.0.17`.
pub(crate) fn version() -> String {
    let asked = Command::new("tshark").arg("--version").output();
    let text = asked.expect("tshark runs").stdout;
    let text = String::from_utf8_lossy(&text);
    let mut words = text.split_whitespace();
    let version = words.find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
    version.expect("a version").to_owned()
}

/// Runs tshark on a file.
pub(crate) fn frames(file: &Path) -> Vec<Frame> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields"]);
    // A response counts by its head, even if its body was not captured whole.
    command.args(["-o", "http.desegment_body:FALSE"]);
    command.args(["-E", &format!("separator={FIELD}")]);
    command.args(["-E", &format!("aggregator={VALUE}")]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(frame).collect()
}

fn frame(line: &str) -> Option<Frame> {
    let mut fields = BTreeMap::new();
    for (field, values) in FIELDS.iter().zip(line.split(FIELD)) {
        if !values.is_empty() {
            fields.insert(*field, values.split(VALUE).map(str::to_owned).collect());
        }
    }
    let frame = Frame { number: 0, fields };
    let number = frame.first("frame.number")?.parse().ok()?;
    Some(Frame { number, ..frame })
}
