//! Primitives that belong to certain link types, and the names of the values in them: 802.11 frame
//! types, ATM and MTP fields, the pf log.

use super::ast::Relation;

/// A primitive of a link type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FramePrimitive {
    /// Type and subtype of an 802.11 frame: bits of the first byte of its control field.
    Type(Masked),
    /// To and from the distribution system: the low bits of the second byte.
    Direction(u32),
    /// A field of the ATM header and the comparisons, one of which must hold.
    Atm(AtmField, Vec<Comparison>),
    /// A kind of ATM traffic.
    Traffic(Traffic),
    /// A kind of signal unit.
    SignalUnit(SignalUnit),
    /// A field of a message signal unit and the comparisons, one of which must hold.
    Signal(SignalField, Vec<Comparison>),
    Pf(PfTest),
}

/// An address of 802.11 frames: by its place, or by its role on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameAddress {
    First,
    Second,
    Third,
    Fourth,
    Receiver,
    Transmitter,
}

/// A number under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Masked {
    pub(crate) mask: u32,
    pub(crate) number: u32,
}

/// A relation to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) relation: Relation,
    pub(crate) number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtmField {
    Path,
    Channel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// LAN emulation. Later primitives test the emulated frame.
    Lane,
    MetaSignalling,
    Broadcast,
    Signalling,
    OamSegment,
    OamEndToEnd,
    Oam,
    Ilmi,
    /// Messages that set up and release calls.
    Connections,
    MetaConnections,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalUnit {
    Fill,
    LinkStatus,
    Message,
    /// The same three, with the extended header of high-speed links.
    HighSpeedFill,
    HighSpeedLinkStatus,
    HighSpeedMessage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalField {
    pub(crate) kind: SignalFieldKind,
    /// Whether the field is after the extended header of high-speed links.
    pub(crate) high_speed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalFieldKind {
    ServiceInformation,
    Origin,
    Destination,
    LinkSelection,
}

/// A test of the pf log's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PfTest {
    Interface(String),
    RuleSet(String),
    Rule(u32),
    SubRule(u32),
    Reason(u32),
    Action(u32),
}

/// A reserved word that begins such a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameWord {
    Type,
    Subtype,
    Direction,
    Atm(AtmField),
    Traffic(Traffic),
    SignalUnit(SignalUnit),
    Signal(SignalField),
    PfInterface,
    PfRuleSet,
    PfRule,
    PfSubRule,
    PfReason,
    PfAction,
}

/// The words, for the lexer.
pub(super) const WORDS: &[(&str, FrameWord)] = &[
    ("type", FrameWord::Type),
    ("subtype", FrameWord::Subtype),
    ("direction", FrameWord::Direction),
    ("dir", FrameWord::Direction),
    ("vpi", FrameWord::Atm(AtmField::Path)),
    ("vci", FrameWord::Atm(AtmField::Channel)),
    ("lane", FrameWord::Traffic(Traffic::Lane)),
    ("metac", FrameWord::Traffic(Traffic::MetaSignalling)),
    ("bcc", FrameWord::Traffic(Traffic::Broadcast)),
    ("sc", FrameWord::Traffic(Traffic::Signalling)),
    ("oam", FrameWord::Traffic(Traffic::Oam)),
    ("oamf4", FrameWord::Traffic(Traffic::Oam)),
    ("oamf4ec", FrameWord::Traffic(Traffic::OamEndToEnd)),
    ("oamf4sc", FrameWord::Traffic(Traffic::OamSegment)),
    ("ilmic", FrameWord::Traffic(Traffic::Ilmi)),
    ("connectmsg", FrameWord::Traffic(Traffic::Connections)),
    ("metaconnect", FrameWord::Traffic(Traffic::MetaConnections)),
    ("fisu", FrameWord::SignalUnit(SignalUnit::Fill)),
    ("lssu", FrameWord::SignalUnit(SignalUnit::LinkStatus)),
    ("lsu", FrameWord::SignalUnit(SignalUnit::LinkStatus)),
    ("msu", FrameWord::SignalUnit(SignalUnit::Message)),
    ("hfisu", FrameWord::SignalUnit(SignalUnit::HighSpeedFill)),
    (
        "hlssu",
        FrameWord::SignalUnit(SignalUnit::HighSpeedLinkStatus),
    ),
    ("hmsu", FrameWord::SignalUnit(SignalUnit::HighSpeedMessage)),
    ("sio", signal(SignalFieldKind::ServiceInformation, false)),
    ("opc", signal(SignalFieldKind::Origin, false)),
    ("dpc", signal(SignalFieldKind::Destination, false)),
    ("sls", signal(SignalFieldKind::LinkSelection, false)),
    ("hsio", signal(SignalFieldKind::ServiceInformation, true)),
    ("hopc", signal(SignalFieldKind::Origin, true)),
    ("hdpc", signal(SignalFieldKind::Destination, true)),
    ("hsls", signal(SignalFieldKind::LinkSelection, true)),
    ("on", FrameWord::PfInterface),
    ("ifname", FrameWord::PfInterface),
    ("rset", FrameWord::PfRuleSet),
    ("ruleset", FrameWord::PfRuleSet),
    ("rnr", FrameWord::PfRule),
    ("rulenum", FrameWord::PfRule),
    ("srnr", FrameWord::PfSubRule),
    ("subrulenum", FrameWord::PfSubRule),
    ("reason", FrameWord::PfReason),
    ("action", FrameWord::PfAction),
];

/// The words for addresses, which are written in place of a direction.
pub(super) const ADDRESSES: &[(&str, FrameAddress)] = &[
    ("addr1", FrameAddress::First),
    ("address1", FrameAddress::First),
    ("addr2", FrameAddress::Second),
    ("address2", FrameAddress::Second),
    ("addr3", FrameAddress::Third),
    ("address3", FrameAddress::Third),
    ("addr4", FrameAddress::Fourth),
    ("address4", FrameAddress::Fourth),
    ("ra", FrameAddress::Receiver),
    ("ta", FrameAddress::Transmitter),
];

const fn signal(kind: SignalFieldKind, high_speed: bool) -> FrameWord {
    FrameWord::Signal(SignalField { kind, high_speed })
}

/// The bits of the first byte of the frame control field that hold the type.
pub(super) const TYPE_MASK: u32 = 0x0c;
/// The bits that hold the subtype.
pub(super) const SUBTYPE_MASK: u32 = 0xf0;

/// Values of the type field, in place (IEEE 802.11, table 9-1).
mod kind {
    pub(super) const MANAGEMENT: u32 = 0x00;
    pub(super) const CONTROL: u32 = 0x04;
    pub(super) const DATA: u32 = 0x08;
}

/// Names of 802.11 frame types.
pub(super) const TYPES: &[(&str, u32)] = &[
    ("data", kind::DATA),
    ("mgt", kind::MANAGEMENT),
    ("management", kind::MANAGEMENT),
    ("ctl", kind::CONTROL),
    ("control", kind::CONTROL),
];

/// Names of the subtypes of each type that has some, in place.
pub(super) const SUBTYPES: &[(u32, Names)] = &[
    (kind::MANAGEMENT, MANAGEMENT_SUBTYPES),
    (kind::CONTROL, CONTROL_SUBTYPES),
    (kind::DATA, DATA_SUBTYPES),
];

/// Names and their numbers, in small letters.
pub(super) type Names = &'static [(&'static str, u32)];

const MANAGEMENT_SUBTYPES: Names = &[
    ("assocreq", 0x00),
    ("assoc-req", 0x00),
    ("assocresp", 0x10),
    ("assoc-resp", 0x10),
    ("reassocreq", 0x20),
    ("reassoc-req", 0x20),
    ("reassocresp", 0x30),
    ("reassoc-resp", 0x30),
    ("probereq", 0x40),
    ("probe-req", 0x40),
    ("proberesp", 0x50),
    ("probe-resp", 0x50),
    ("beacon", 0x80),
    ("atim", 0x90),
    ("disassoc", 0xa0),
    ("disassociation", 0xa0),
    ("auth", 0xb0),
    ("authentication", 0xb0),
    ("deauth", 0xc0),
    ("deauthentication", 0xc0),
];

/// The first two need libpcap 1.11.
const CONTROL_SUBTYPES: Names = &[
    ("bar", 0x80),
    ("ba", 0x90),
    ("ps-poll", 0xa0),
    ("rts", 0xb0),
    ("cts", 0xc0),
    ("ack", 0xd0),
    ("cf-end", 0xe0),
    ("cf-end-ack", 0xf0),
];

const DATA_SUBTYPES: Names = &[
    ("data", 0x00),
    ("data-cf-ack", 0x10),
    ("data-cf-poll", 0x20),
    ("data-cf-ack-poll", 0x30),
    ("null", 0x40),
    ("cf-ack", 0x50),
    ("cf-poll", 0x60),
    ("cf-ack-poll", 0x70),
    ("qos-data", 0x80),
    ("qos-data-cf-ack", 0x90),
    ("qos-data-cf-poll", 0xa0),
    ("qos-data-cf-ack-poll", 0xb0),
    ("qos", 0xc0),
    ("qos-cf-poll", 0xe0),
    ("qos-cf-ack-poll", 0xf0),
];

/// Names after `dir`.
pub(super) const DIRECTIONS: Names = &[("nods", 0), ("tods", 1), ("fromds", 2), ("dstods", 3)];

/// Reasons why pf logged a packet (pflog(4)).
pub(super) const REASONS: Names = &[
    ("match", 0),
    ("bad-offset", 1),
    ("fragment", 2),
    ("short", 3),
    ("normalize", 4),
    ("memory", 5),
    ("bad-timestamp", 6),
    ("congestion", 7),
    ("ip-option", 8),
    ("proto-cksum", 9),
    ("state-mismatch", 10),
    ("state-insert", 11),
    ("state-limit", 12),
    ("src-limit", 13),
    ("synproxy", 14),
];

/// Actions of pf on a packet.
pub(super) const ACTIONS: Names = &[
    ("pass", 0),
    ("accept", 0),
    ("drop", 1),
    ("block", 1),
    ("scrub", 2),
    ("noscrub", 3),
    ("nat", 4),
    ("nonat", 5),
    ("binat", 6),
    ("nobinat", 7),
    ("rdr", 8),
    ("nordr", 9),
    ("synproxy-drop", 10),
];

/// Returns the number of a name, in capital or small letters.
pub(super) fn named(names: &[(&str, u32)], name: &str) -> Option<u32> {
    names
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|&(_, number)| number)
}
