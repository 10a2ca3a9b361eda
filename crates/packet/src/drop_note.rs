//! Notes on dropped packets: the reason, the place in the kernel, the interface.
//!
//! A capture file holds it as text, in an option of the packet's block ([`DropNote::parse`], and `Display`
//! with `{:#}`). `Display` alone is the form for people.

use std::fmt;

/// The first word of the text in a capture file.
const SIGN: &str = "ringtap-drop";

/// The facts on a dropped packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropNote<'a> {
    /// The name of the reason, without the kernel's prefix `SKB_DROP_REASON_`; empty if the kernel does not
    /// name it.
    pub reason: &'a str,
    /// The kernel's number of the reason. Numbers differ between kernels.
    pub code: u32,
    /// The kernel's function that dropped the packet, if it is known.
    pub symbol: Option<&'a str>,
    /// The distance of the place from the function's start, in bytes.
    pub offset: u64,
    /// The address of the place in the kernel, if it is stored: without the function's name only.
    pub address: Option<u64>,
    /// The interface's name, if it is known.
    pub interface: Option<&'a str>,
    /// The interface's index in its network namespace; 0 if the packet had none.
    pub ifindex: u32,
    /// The inode number of the network namespace, if it is known.
    pub namespace: Option<u64>,
    /// Whether that is another namespace than the capture's.
    pub is_foreign: bool,
}

impl<'a> DropNote<'a> {
    /// Reads the text of a capture file. `None` if it is another text. Unknown words are passed over.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.split(' ');
        if words.next() != Some(SIGN) {
            return None;
        }
        let mut note = Self::default();
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "reason" => note.reason = value,
                "code" => note.code = value.parse().ok()?,
                "symbol" => note.symbol = Some(value),
                "offset" => note.offset = hexadecimal(value)?,
                "address" => note.address = Some(hexadecimal(value)?),
                "interface" => note.interface = Some(value),
                "ifindex" => note.ifindex = value.parse().ok()?,
                "netns" => note.namespace = Some(value.parse().ok()?),
                "foreign" => note.is_foreign = true,
                _ => {}
            }
        }
        Some(note)
    }

    /// Returns the reason as it is shown: its name, otherwise its number.
    #[must_use]
    pub fn shown_reason(&self) -> ShownReason<'a> {
        ShownReason(self.reason, self.code)
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// A reason as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct ShownReason<'a>(&'a str, u32);

impl fmt::Display for ShownReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            write!(f, "{:#x}", self.1)
        } else {
            f.write_str(self.0)
        }
    }
}

impl fmt::Display for DropNote<'_> {
    /// Writes `drop NO_SOCKET at udp_queue_rcv_skb+0x1a eth0`, or with `{:#}` the text of a capture file. Names
    /// are written as they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.stored(f);
        }
        write!(f, "drop {}", self.shown_reason())?;
        match (self.symbol, self.address) {
            (Some(symbol), _) => write!(f, " at {symbol}+{:#x}", self.offset)?,
            (None, Some(address)) => write!(f, " at {address:#x}")?,
            (None, None) => {}
        }
        match (self.interface, self.ifindex) {
            (Some(interface), _) => write!(f, " {interface}")?,
            (None, 0) => {}
            (None, index) => write!(f, " if{index}")?,
        }
        match self.namespace {
            Some(namespace) if self.is_foreign => write!(f, " net:[{namespace}]"),
            _ => Ok(()),
        }
    }
}

impl DropNote<'_> {
    fn stored(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SIGN} reason={} code={}", self.reason, self.code)?;
        if let Some(symbol) = self.symbol {
            write!(f, " symbol={symbol} offset={:#x}", self.offset)?;
        }
        if let Some(address) = self.address {
            write!(f, " address={address:#x}")?;
        }
        if let Some(interface) = self.interface {
            write!(f, " interface={interface}")?;
        }
        write!(f, " ifindex={}", self.ifindex)?;
        if let Some(namespace) = self.namespace {
            write!(f, " netns={namespace}")?;
        }
        f.write_str(if self.is_foreign { " foreign" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: DropNote<'_> = DropNote {
        reason: "NETFILTER_DROP",
        code: 8,
        symbol: Some("nf_hook_slow"),
        offset: 0x9b,
        address: None,
        interface: Some("eth0"),
        ifindex: 2,
        namespace: Some(4_026_531_840),
        is_foreign: false,
    };

    #[test]
    fn the_text_of_a_file_leads_back() {
        let hidden = DropNote {
            reason: "",
            code: 0x0002_0003,
            symbol: None,
            offset: 0,
            address: Some(0xffff_ffff_8123_4567),
            interface: None,
            ifindex: 5,
            namespace: Some(4_026_532_177),
            is_foreign: true,
        };
        for note in [NOTE, hidden, DropNote::default()] {
            let text = format!("{note:#}");
            assert_eq!(DropNote::parse(&text), Some(note), "{text}");
        }
        assert_eq!(
            format!("{hidden}"),
            "drop 0x20003 at 0xffffffff81234567 if5 net:[4026532177]"
        );
    }

    #[test]
    fn people_read_the_reason_first() {
        assert_eq!(
            NOTE.to_string(),
            "drop NETFILTER_DROP at nf_hook_slow+0x9b eth0"
        );
        assert_eq!(
            format!("{NOTE:#}"),
            "ringtap-drop reason=NETFILTER_DROP code=8 symbol=nf_hook_slow offset=0x9b \
             interface=eth0 ifindex=2 netns=4026531840"
        );
        assert_eq!(DropNote::default().to_string(), "drop 0x0");
    }

    #[test]
    fn other_texts_are_no_notes() {
        for text in [
            "",
            "ringtap",
            "ringtap-drops reason=X",
            "reason=X",
            "ringtap-drop code=x",
        ] {
            assert_eq!(DropNote::parse(text), None, "{text:?}");
        }
        let newer = DropNote::parse("ringtap-drop reason=X code=1 later=2 word");
        assert_eq!(newer.map(|note| (note.reason, note.code)), Some(("X", 1)));
    }
}
