//! Known changes between versions of tcpdump: lines that ringtap prints as tcpdump 4.99.3 does and
//! that newer versions print otherwise.
//!
//! The line of a newer version is rewritten as 4.99.3 would print it, and then compared like any
//! other line. Everything that the newer line says beyond the change must still be equal.

use std::collections::BTreeMap;

/// The number of a version, such as 4.99.5.
pub(crate) type Version = (u32, u32, u32);

/// The first version after 4.99.3. The changes were found with 4.99.5.
const AFTER_4_99_3: Version = (4, 99, 4);

/// A change of lines.
pub(crate) struct Change {
    /// The change, for the report of the test.
    pub(crate) name: &'static str,
    /// The first version that prints the newer form.
    pub(crate) since: Version,
    /// Whether `-q` prints the lines in question.
    pub(crate) in_quiet_lines: bool,
    /// Returns the older form of a packet's text; `None` if the text does not have the newer form.
    pub(crate) older: fn(&str) -> Option<String>,
    /// Texts in the newer form, and in the older one.
    pub(crate) examples: &'static [(&'static str, &'static str)],
}

/// Every known change.
pub(crate) const CHANGES: &[Change] = &[
    Change {
        name: "IPv4 packets longer than the link states",
        since: AFTER_4_99_3,
        in_quiet_lines: true,
        older: long_ipv4,
        examples: &[(
            "IP [total length 820 > length 52] (invalid) 10.0.0.1.5 > 10.0.0.2.6: UDP, length 792",
            "IP truncated-ip - 768 bytes missing! 10.0.0.1.5 > 10.0.0.2.6: UDP, length 792",
        )],
    },
    Change {
        name: "IPv6 packets longer than the link states",
        since: AFTER_4_99_3,
        in_quiet_lines: true,
        older: long_ipv6,
        examples: &[(
            "IP6 [header+payload length 90 > length 80] (invalid) ::1.5 > ::2.6: UDP, length 42",
            "IP6 truncated-ip6 - 10 bytes missing!::1.5 > ::2.6: UDP, length 42",
        )],
    },
    Change {
        name: "Kerberos",
        since: AFTER_4_99_3,
        in_quiet_lines: false,
        older: kerberos,
        examples: &[
            (
                "IP 10.0.0.1.5 > 10.0.0.2.88: kerberos v5",
                "IP 10.0.0.1.5 > 10.0.0.2.88:  v5",
            ),
            (
                "IP 10.0.0.1.5 > 10.0.0.2.88: kerberos v4 be KDC_REQUEST: a [|kerberos]",
                "IP 10.0.0.1.5 > 10.0.0.2.88:  v4 be KDC_REQUEST: a [|krb]",
            ),
            (
                "IP 10.0.0.1.88 > 10.0.0.2.5: kerberos\n\t0x0000:  4500",
                "IP 10.0.0.1.88 > 10.0.0.2.5: \n\t0x0000:  4500",
            ),
        ],
    },
    Change {
        name: "PTP, first field and minor version",
        since: AFTER_4_99_3,
        in_quiet_lines: true,
        older: ptp,
        examples: &[
            (
                "PTPv2, majorSdoId : 0x0, msg type : sync msg",
                "PTPv2, v1 compat : no, msg type : sync msg",
            ),
            (
                "PTPv2, majorSdoId : 0x1, msg type : sync msg",
                "PTPv2, v1 compat : yes, msg type : sync msg",
            ),
            (
                "PTPv2.1, majorSdoId : 0x0, msg type : sync msg\n\t0x0000:  0012",
                "PTPv18\n\t0x0000:  0012",
            ),
        ],
    },
    Change {
        name: "CDP, values that are not shown",
        since: AFTER_4_99_3,
        in_quiet_lines: true,
        older: cdp,
        examples: &[
            (
                "CDPv2, ttl: 180s, Device-ID 'S1', length 366\n\t0x0000:  02b4",
                "CDPv2, ttl: 180s, Device-ID 'S1'\n\t0x0000:  02b4",
            ),
            (
                "CDPv2, ttl: 180s, Device-ID 'S1' (malformed TLV), length 366",
                "CDPv2, ttl: 180s, Device-ID 'S1'",
            ),
        ],
    },
];

/// How many texts each change has rewritten.
pub(crate) struct Rewriter {
    version: Version,
    counts: BTreeMap<&'static str, u32>,
}

impl Rewriter {
    /// Returns a rewriter for the output of this version.
    pub(crate) fn new(version: Version) -> Self {
        Self {
            version,
            counts: BTreeMap::new(),
        }
    }

    fn changes(&self) -> impl Iterator<Item = &'static Change> + use<> {
        let version = self.version;
        CHANGES.iter().filter(move |change| version >= change.since)
    }

    /// Returns a packet's text as 4.99.3 prints it.
    pub(crate) fn rewrite(&mut self, mut text: String) -> String {
        for change in self.changes() {
            if let Some(older) = (change.older)(&text) {
                *self.counts.entry(change.name).or_default() += 1;
                text = older;
            }
        }
        text
    }

    /// Prints how many texts each change has rewritten; `quiet` states that they are lines of `-q`.
    ///
    /// # Panics
    ///
    /// Panics if the version should print a newer form and no packet of the corpus has it.
    pub(crate) fn check(&self, quiet: bool) {
        let unseen: Vec<_> = self
            .changes()
            .filter(|change| change.in_quiet_lines || !quiet)
            .map(|change| change.name)
            .filter(|name| !self.counts.contains_key(name))
            .collect();
        for (name, count) in &self.counts {
            println!("changed since tcpdump 4.99.3: {name}: {count} packets");
        }
        assert!(unseen.is_empty(), "changes without a packet: {unseen:?}");
    }
}

/// Reads the version from the first line of `tcpdump --version`.
pub(crate) fn parse(text: &str) -> Option<Version> {
    let mut words = text.lines().next()?.split_whitespace();
    if words.next()? != "tcpdump" || words.next()? != "version" {
        return None;
    }
    let mut numbers = words.next()?.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// Replaces `[NAME T > length L] (invalid) ` by the number of missing bytes.
fn missing(text: &str, name: &str, before: &str, behind: &str) -> Option<String> {
    let (head, rest) = text.split_once(name)?;
    let (numbers, tail) = rest.split_once("] (invalid) ")?;
    let (total, length) = numbers.split_once(" > length ")?;
    let total: u64 = total.parse().ok()?;
    let missing = total.checked_sub(length.parse().ok()?)?;
    Some(format!(
        "{head}{before} - {missing} bytes missing!{behind}{tail}"
    ))
}

fn long_ipv4(text: &str) -> Option<String> {
    missing(text, "[total length ", "truncated-ip", " ")
}

fn long_ipv6(text: &str) -> Option<String> {
    missing(text, "[header+payload length ", "truncated-ip6", "")
}

/// Returns the line of the other version: the name was not printed, and a shorter one was in the place of
/// truncation.
fn kerberos(text: &str) -> Option<String> {
    let (addresses, message) = text.split_once(": kerberos")?;
    addresses.starts_with("IP").then(|| {
        format!(
            "{addresses}: {}",
            message.replacen("[|kerberos]", "[|krb]", 1)
        )
    })
}

/// Returns the line of the other version: the minor version was part of the version, which then was an
/// unknown one without any field. Only the lowest bit of majorSdoId was printed.
fn ptp(text: &str) -> Option<String> {
    let (before, rest) = text.split_once("PTPv2")?;
    if let Some(rest) = rest.strip_prefix('.') {
        let (minor, fields) = rest.split_once(',')?;
        let version = minor.parse::<u8>().ok()? << 4 | 2;
        let dump = fields.find('\n').map_or("", |at| &fields[at..]);
        return Some(format!("{before}PTPv{version}{dump}"));
    }
    let (digit, fields) = rest.strip_prefix(", majorSdoId : 0x")?.split_once(',')?;
    let odd = u8::from_str_radix(digit, 16).ok()? & 1 != 0;
    let compatible = if odd { "yes" } else { "no" };
    Some(format!("{before}PTPv2, v1 compat : {compatible},{fields}"))
}

/// Values that are not shown were dumped below the line. A later note about a malformed value, and the
/// length, stood after these dumps.
fn cdp(text: &str) -> Option<String> {
    let (first, rest) = super::split(text);
    let (fields, length) = first.rsplit_once(", length ")?;
    if !first.starts_with("CDPv") || length.parse::<u32>().is_err() {
        return None;
    }
    let fields = fields.trim_end_matches(" (malformed TLV)");
    let newline = if rest.is_empty() { "" } else { "\n" };
    Some(format!("{fields}{newline}{rest}"))
}
