//! News from the process that follows network namespaces to the process that reads packets.
//!
//! The reader has no privilege to enter a namespace. So a copy of its process (fork(2)) attaches programs there, and
//! reports each interface before it attaches a program to it. The reader takes the reports after it has seen how far
//! the rings are written, so it knows the interface of every packet up to there.

use ringtap_sys::helper::Channel;
use ringtap_sys::netlink::LinkWatch;

use crate::{Interface, LinkType, Result};

/// The longest report, in bytes. Longer names are cut.
const LONGEST: usize = 4096;
/// The kinds of reports.
const INTERFACE: u8 = 0;
const UNCOVERED: u8 = 1;

/// The two ends of the way. Each process closes the other's, so that it notices the end of that process.
#[derive(Debug)]
pub(super) struct Reports {
    sender: Option<Channel>,
    pub(super) receiver: Option<Channel>,
    /// Whether this process is the copy that follows namespaces.
    pub(super) is_follower: bool,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The next interface of the capture.
    Interface {
        /// The kernel's number in its namespace.
        index: u32,
        link_type: LinkType,
        mac: Option<[u8; 6]>,
        name: String,
        description: Option<String>,
    },
    /// An interface or namespace that is not captured.
    Uncovered { device: String, reason: String },
    /// The other process has ended.
    End,
}

impl Reports {
    /// Makes the way. `watch` reports changes in other namespaces from now on, if the kernel supports it; otherwise
    /// they are noticed by looking.
    pub(super) fn new(watch: &LinkWatch) -> Result<Self> {
        let _ = watch.include_linked_namespaces();
        let (sender, receiver) = Channel::pair()?;
        Ok(Self {
            sender: Some(sender),
            receiver: Some(receiver),
            is_follower: false,
        })
    }

    /// Reports the next interface, if this process is the follower.
    pub(super) fn send_interface(&self, interface: &Interface, index: u32) -> Result<()> {
        self.send(&Report::Interface {
            index,
            link_type: interface.link_type,
            mac: interface.mac,
            name: interface.name.clone().unwrap_or_default(),
            description: interface.description.clone(),
        })
    }

    /// Makes this process the follower.
    pub(super) fn follow(&mut self) {
        self.is_follower = true;
        self.receiver = None;
    }

    /// Makes this process the reader, now that there is a follower.
    pub(super) fn read(&mut self) {
        self.sender = None;
    }

    /// Sends a report. A reader that stands still has no room for more: the follower then tries again later.
    pub(super) fn send(&self, report: &Report) -> Result<()> {
        match self.sender.as_ref().filter(|_| self.is_follower) {
            Some(sender) => Ok(sender.try_send(&report.encode())?),
            None => Ok(()),
        }
    }

    /// Returns a report that is there already. After the end there is none.
    pub(super) fn take(&mut self) -> Result<Option<Report>> {
        let mut buffer = [0; LONGEST];
        let Some(receiver) = &self.receiver else {
            return Ok(None);
        };
        match receiver.try_receive(&mut buffer)? {
            Some(0) => {
                self.receiver = None;
                Ok(Some(Report::End))
            }
            length => Ok(length.and_then(|length| Report::decode(buffer.get(..length)?))),
        }
    }
}

impl Report {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Interface {
                index,
                link_type,
                mac,
                name,
                description,
            } => {
                bytes.push(INTERFACE);
                bytes.extend_from_slice(&index.to_ne_bytes());
                bytes.extend_from_slice(&link_type.0.to_ne_bytes());
                text(&mut bytes, mac.as_ref().map_or(&[], |mac| &mac[..]));
                text(&mut bytes, name.as_bytes());
                text(
                    &mut bytes,
                    description.as_ref().map_or(&[], |text| text.as_bytes()),
                );
            }
            Self::Uncovered { device, reason } => {
                bytes.push(UNCOVERED);
                text(&mut bytes, device.as_bytes());
                text(&mut bytes, reason.as_bytes());
            }
            // The kernel reports it.
            Self::End => {}
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, mut rest) = bytes.split_first()?;
        match kind {
            INTERFACE => {
                let (index, after) = rest.split_first_chunk()?;
                let (link_type, after) = after.split_first_chunk()?;
                rest = after;
                let mac = part(&mut rest)?.try_into().ok();
                let name = string(&mut rest)?;
                let description = string(&mut rest)?;
                Some(Self::Interface {
                    index: u32::from_ne_bytes(*index),
                    link_type: LinkType(u16::from_ne_bytes(*link_type)),
                    mac,
                    name,
                    description: (!description.is_empty()).then_some(description),
                })
            }
            UNCOVERED => Some(Self::Uncovered {
                device: string(&mut rest)?,
                reason: string(&mut rest)?,
            }),
            _ => None,
        }
    }
}

/// Appends a text with its length, cut so that a report has room for two.
fn text(bytes: &mut Vec<u8>, text: &[u8]) {
    let text = text.get(..LONGEST / 4).unwrap_or(text);
    let length = u16::try_from(text.len()).unwrap_or(0);
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(text);
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (part, after) = after.split_at_checked(usize::from(u16::from_ne_bytes(*length)))?;
    *rest = after;
    Some(part)
}

fn string(rest: &mut &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(part(rest)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_arrive_as_they_were_sent() {
        let long = Report::Uncovered {
            device: "blue/eth0".to_owned(),
            reason: "x".repeat(LONGEST),
        };
        let interface = |mac, description: Option<&str>| Report::Interface {
            index: 7,
            link_type: LinkType::ETHERNET,
            mac,
            name: "blue/eth0".to_owned(),
            description: description.map(str::to_owned),
        };
        for report in [
            interface(Some([1, 2, 3, 4, 5, 6]), Some("network namespace 1")),
            interface(None, None),
        ] {
            let bytes = report.encode();
            assert_eq!(Report::decode(&bytes), Some(report));
            for length in 0..bytes.len() {
                assert_eq!(Report::decode(&bytes[..length]), None, "{length}");
            }
        }
        let bytes = long.encode();
        assert!(bytes.len() < LONGEST);
        let Some(Report::Uncovered { device, reason }) = Report::decode(&bytes) else {
            panic!("another report");
        };
        assert_eq!((device.as_str(), reason.len()), ("blue/eth0", LONGEST / 4));
        assert_eq!(Report::decode(&[9, 0, 0]), None);
    }
}
