//! The texts that Wireshark reads: lines of a word and parts in braces.

use std::fmt::Write as _;

use ringtap_capture::LinkType;
use ringtap_capture::devices::DeviceInfo;

use super::interface::{self, Interface, REMOTE};
use crate::toolbar::CONTROLS;

/// The page that Wireshark's help button opens.
const HELP: &str = "file:///usr/share/doc/ringtap/how-to/use-wireshark.md";

/// Returns the list of interfaces, and the controls of their toolbar.
pub(super) fn interfaces(devices: &[DeviceInfo]) -> String {
    let mut text = String::new();
    sentence(
        &mut text,
        "extcap",
        &[
            ("version", env!("CARGO_PKG_VERSION")),
            ("help", HELP),
            ("display", "ringtap"),
        ],
    );
    for (name, description) in devices.iter().flat_map(interface::names) {
        sentence(
            &mut text,
            "interface",
            &[("value", &name), ("display", &description)],
        );
    }
    let remote = [
        ("value", REMOTE),
        ("display", "ringtap over ssh: remote capture"),
    ];
    sentence(&mut text, "interface", &remote);
    for (number, parts) in CONTROLS {
        let number = number.to_string();
        let mut all = vec![("number", number.as_str())];
        all.extend_from_slice(parts);
        sentence(&mut text, "control", &all);
    }
    text
}

/// Returns the link type of interfaces of other machines, which is known only when they are captured on.
pub(super) fn remote_link_type() -> String {
    let mut text = String::new();
    let parts = [
        // LINKTYPE_USER0.
        ("number", "147"),
        ("name", REMOTE),
        ("display", "Link type of the remote interface"),
    ];
    sentence(&mut text, "dlt", &parts);
    text
}

/// Returns the one link type of an interface.
pub(super) fn link_type(link_type: LinkType) -> String {
    let mut text = String::new();
    let number = link_type.to_dlt().to_string();
    let name = link_type.name().unwrap_or("unknown");
    let description = link_type.description().unwrap_or(name);
    sentence(
        &mut text,
        "dlt",
        &[
            ("number", &number),
            ("name", name),
            ("display", description),
        ],
    );
    text
}

/// An option: its name there and here, its type, its default, its explanation, its values.
struct Shown {
    call: &'static str,
    display: &'static str,
    kind: &'static str,
    default: Option<&'static str>,
    tooltip: &'static str,
    values: &'static [(&'static str, &'static str)],
    /// Further parts of the sentence.
    more: &'static [(&'static str, &'static str)],
    /// Whether an interface has it.
    is_of: fn(&Interface) -> bool,
}

/// An option with a text, which every interface has.
const TEXT: Shown = Shown {
    call: "",
    display: "",
    kind: "string",
    default: None,
    tooltip: "",
    values: &[],
    more: &[],
    is_of: |_| true,
};

/// An option without a value.
const FLAG: Shown = Shown {
    kind: "boolflag",
    default: Some("false"),
    ..TEXT
};

/// An option about the server of a capture on another machine.
const OF_SERVER: Shown = Shown {
    more: &[("group", "Server")],
    is_of: Interface::is_remote,
    ..TEXT
};

/// An option about the capture on that machine.
const THERE: Shown = Shown {
    more: &[("group", "Capture there")],
    is_of: Interface::is_remote,
    ..TEXT
};

const OPTIONS: [Shown; 17] = [
    Shown {
        call: "--mode",
        display: "Mode",
        kind: "selector",
        default: Some("copy"),
        tooltip: "Whether the host also sees the packets",
        values: &[
            ("copy", "copy: the host sees the packets too"),
            ("steal", "steal: packets that match do not reach the host"),
        ],
        is_of: Interface::can_steal,
        ..TEXT
    },
    Shown {
        call: "--direction",
        display: "Direction",
        kind: "selector",
        default: Some("inout"),
        tooltip: "Direction of the packets",
        values: &[
            ("inout", "received and sent"),
            ("in", "received"),
            ("out", "sent"),
        ],
        is_of: Interface::is_at_adapter,
        ..TEXT
    },
    Shown {
        call: "--snaplen",
        display: "Snapshot length",
        kind: "unsigned",
        default: Some("262144"),
        tooltip: "Bytes of each packet that are captured at most",
        ..TEXT
    },
    Shown {
        call: "--buffer",
        display: "Size of the ring",
        tooltip: "Such as 64M; empty: the default",
        ..TEXT
    },
    Shown {
        call: "--sample",
        display: "Keep one packet in",
        tooltip: "A number; every:N keeps every N-th (tcx, xdp); empty: all packets",
        is_of: Interface::is_at_adapter,
        ..TEXT
    },
    Shown {
        call: "--no-promiscuous-mode",
        display: "No promiscuous mode",
        tooltip: "Leave the interface's mode alone",
        is_of: Interface::is_at_adapter,
        ..FLAG
    },
    Shown {
        call: "--extended",
        display: "Extended filter language",
        tooltip: "Sets, packets in tunnels, IPv6 extension headers, processes",
        ..FLAG
    },
    Shown {
        call: "--who",
        display: "Processes of packets",
        tooltip: "Name the process of each packet of this host's sockets, in the packets' options",
        is_of: Interface::has_processes,
        ..FLAG
    },
    Shown {
        call: "--remote-host",
        display: "Remote host",
        tooltip: "Host name, address, or name in ssh_config(5)",
        more: &[("required", "true"), ("group", "Server")],
        is_of: Interface::is_remote,
        ..TEXT
    },
    Shown {
        call: "--remote-port",
        display: "Port of the ssh server",
        tooltip: "Empty: that of the configuration of ssh, or 22",
        ..OF_SERVER
    },
    Shown {
        call: "--remote-username",
        display: "User name there",
        tooltip: "Empty: that of the configuration of ssh, or yours",
        ..OF_SERVER
    },
    Shown {
        call: "--sshkey",
        display: "File with the private key",
        kind: "fileselect",
        tooltip: "Empty: ssh uses its agent and its own files; a key with a passphrase needs the agent",
        more: &[("mustexist", "true"), ("group", "Server")],
        is_of: Interface::is_remote,
        ..TEXT
    },
    Shown {
        call: "--proxycommand",
        display: "ProxyCommand",
        tooltip: "Command that connects to the server, as in ssh_config(5)",
        ..OF_SERVER
    },
    Shown {
        call: "--remote-interface",
        display: "Remote interface",
        tooltip: "As in ringtap dump -i, such as eth0, any or tcx:eth0; empty: the first one that is up",
        ..THERE
    },
    Shown {
        call: "--remote-sudo",
        display: "Run ringtap there with sudo",
        kind: "boolflag",
        default: Some("false"),
        tooltip: "The user there must be allowed to run it by sudo without a password",
        ..THERE
    },
    Shown {
        call: "--remote-program",
        display: "ringtap there",
        tooltip: "Name or path of the program; empty: ringtap",
        ..THERE
    },
    Shown {
        call: "--remote-copy",
        display: "Copy ringtap if it is missing there",
        kind: "boolflag",
        default: Some("false"),
        tooltip: "Copy this ringtap into a temporary file there, which is removed at the end of the capture",
        ..THERE
    },
];

/// Returns the options of an interface.
pub(super) fn options(interface: &Interface) -> String {
    let mut text = String::new();
    let options = OPTIONS.iter().filter(|option| (option.is_of)(interface));
    for (index, option) in options.enumerate() {
        let number = index.to_string();
        let mut parts = vec![
            ("number", number.as_str()),
            ("call", option.call),
            ("display", option.display),
            ("type", option.kind),
            ("tooltip", option.tooltip),
        ];
        parts.extend(option.default.map(|default| ("default", default)));
        parts.extend_from_slice(option.more);
        sentence(&mut text, "arg", &parts);
        for (value, display) in option.values {
            let is_default = if option.default == Some(*value) {
                "true"
            } else {
                "false"
            };
            let parts = [
                ("arg", number.as_str()),
                ("value", *value),
                ("display", *display),
                ("default", is_default),
            ];
            sentence(&mut text, "value", &parts);
        }
    }
    text
}

/// Adds a line. Braces would end a part early, so they are left out.
fn sentence(text: &mut String, word: &str, parts: &[(&str, &str)]) {
    text.push_str(word);
    text.push(' ');
    for (name, value) in parts {
        let value: String = value
            .chars()
            .filter(|c| !['{', '}', '\n', '\r'].contains(c))
            .collect();
        // Writing to a string cannot fail.
        let _ = write!(text, "{{{name}={value}}}");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_in_wiresharks_form() {
        let text = link_type(LinkType::ETHERNET);
        assert!(
            text.starts_with("dlt {number=1}{name=EN10MB}{display="),
            "{text}"
        );
        let mut text = String::new();
        sentence(&mut text, "x", &[("a", "b}{c\n")]);
        assert_eq!(text, "x {a=bc}\n");
    }
}
