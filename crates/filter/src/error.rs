//! Errors of compilation: the problem, its place, and the input that would have been accepted.

use std::fmt::Write as _;
use std::ops::Range;

use crate::LinkType;
use crate::resolve::NameKind;

/// An error in an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct CompileError {
    /// The place in the expression, in bytes. Empty at the end if something is missing there.
    pub span: Range<usize>,
    /// The problem.
    pub kind: ErrorKind,
    /// The tokens that would have been accepted at this place; empty unless it is a syntax error.
    pub expected: Vec<&'static str>,
    /// Advice for a common mistake.
    pub hint: Option<Hint>,
}

/// The kinds of errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A character that cannot begin a token.
    #[error("the character {0:?} has no meaning here")]
    IllegalCharacter(char),
    /// A backslash without a name after it.
    #[error("a backslash must be followed by the name that it escapes")]
    EmptyEscape,
    /// A number that does not fit into 32 bits.
    #[error("the number does not fit into 32 bits")]
    NumberTooLarge,
    /// An octal number with a digit 8 or 9.
    #[error("a number with a leading 0 is octal and has no digit 8 or 9")]
    BadOctal,
    /// An invalid IPv4 address.
    #[error("not a valid IPv4 address")]
    BadIpv4,
    /// An invalid DECnet address.
    #[error("not a valid DECnet address, which is AREA.NODE")]
    BadDecnet,
    /// A name of a DECnet node, for which there is no database.
    #[error("DECnet nodes have no names, only addresses: AREA.NODE")]
    DecnetName,
    /// An invalid hardware or IPv6 address.
    #[error("not a valid hardware or IPv6 address")]
    BadHardwareAddress,
    /// A token that the grammar does not allow at this place.
    #[error("unexpected {0:?}")]
    Unexpected(String),
    /// The expression ends too early.
    #[error("the expression ends where more is expected")]
    UnexpectedEnd,
    /// A closing parenthesis or bracket is missing.
    #[error("{0:?} is never closed")]
    Unclosed(char),
    /// A value without qualifiers, and no earlier qualifiers to take over.
    #[error("no earlier qualifier says what this value is")]
    NothingToInherit,
    /// A link type that cannot be filtered, in libpcap either.
    #[error("filters are not supported on link type {0}")]
    UnknownLinkType(LinkType),
    /// The expression nests too deep.
    #[error("the expression nests deeper than {0} levels")]
    TooDeep(usize),
    /// The expression is too long.
    #[error("the expression is longer than {0} bytes")]
    TooLong(usize),
    /// The program is too long, or arithmetic needs too many intermediate values.
    #[error("the expression needs a program that is too large")]
    TooLarge,
    /// The program would reject every packet.
    #[error("the expression rejects every packet")]
    RejectsAll,
    /// An unknown name.
    #[error("unknown {kind} {name:?}")]
    UnknownName {
        /// The kind of name.
        kind: NameKind,
        /// The name.
        name: String,
    },
    /// The lookup of a name failed.
    #[error("cannot look up {kind} {name:?}: {reason}")]
    Lookup {
        /// The kind of name.
        kind: NameKind,
        /// The name.
        name: String,
        /// The resolver's reason.
        reason: String,
    },
    /// A name without an address of the family that the qualifier requires.
    #[error("host {0:?} has no address of this family")]
    NoAddressOfFamily(String),
    /// A service that exists for another transport protocol only.
    #[error("service {0:?} belongs to another transport protocol")]
    ServiceOfOtherProtocol(String),
    /// Qualifiers that cannot be combined with each other or with this value.
    #[error("{qualifier:?} cannot be applied to {to}")]
    BadQualifier {
        /// The qualifier.
        qualifier: &'static str,
        /// The thing that it was applied to.
        to: &'static str,
    },
    /// `proto` after a protocol that carries no other.
    #[error("{0:?} carries no protocol that can be named")]
    NoInnerProtocol(&'static str),
    /// A network with bits set beyond its mask.
    #[error("the address has bits set beyond its mask")]
    HostBitsSet,
    /// A prefix longer than the address.
    #[error("a prefix has at most {0} bits")]
    PrefixTooLong(u32),
    /// A mask after something other than a network.
    #[error("a mask or prefix length belongs to a network")]
    MaskWithoutNet,
    /// A number that is too large for its field.
    #[error("{field} {value} is greater than {max}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// The number.
        value: u32,
        /// The largest valid number.
        max: u32,
    },
    /// More transports of `deep`, or more starts of packets in tunnels, than one program can
    /// remember.
    #[error(
        "the expression has more places to remember (tunnels, \"deep\") than the 16 words of memory"
    )]
    TooManyPlaces,
    /// A number with bits set outside its field.
    #[error("{field} {value:#x} has bits outside {mask:#x}")]
    BitsOutside {
        /// The field.
        field: &'static str,
        /// The number.
        value: u32,
        /// The bits of the field.
        mask: u32,
    },
    /// A name that does not fit into its field.
    #[error("the name of an {what} has at most {max} bytes")]
    NameTooLong {
        /// The named thing.
        what: &'static str,
        /// The maximum length in bytes.
        max: usize,
    },
    /// An address of 802.11 frames that is compared with something other than a hardware address.
    #[error(
        "the addresses of 802.11 frames are hardware addresses, as in \"wlan addr1 0:1:2:3:4:5\""
    )]
    NotHardware,
    /// A question about the packet's process where packets have none.
    #[error(
        "the processes of these packets are not known; ringtap dump --who finds those of live packets"
    )]
    NoProcess,
    /// A number that no process or user has.
    #[error("there is no {field} {value}")]
    NoSuchNumber {
        /// The thing that is numbered.
        field: &'static str,
        /// The number.
        value: u32,
    },
    /// A control group that is not named by its path.
    #[error(
        "the path of a control group begins with \"/\", as in \"cgroup /system.slice/ssh.service\""
    )]
    NotAPath,
    /// More containers and control groups than one program can ask for.
    #[error(
        "an expression names at most {} containers and control groups",
        crate::program::opcode::PROCESS_QUESTIONS
    )]
    TooManyGroups,
    /// A link type whose header does not contain the payload's protocol.
    #[error(
        "packets of link type {0} have no protocol to test; use link[...], len, less, greater, inbound, outbound or ifindex"
    )]
    ProtocolsUnknown(&'static str),
    /// A packet access that is not 1, 2 or 4 bytes wide.
    #[error("an access is 1, 2 or 4 bytes wide, not {0}")]
    BadAccessSize(u32),
    /// A protocol whose header cannot be indexed.
    #[error("bytes of {0:?} cannot be accessed")]
    NotIndexable(&'static str),
    /// Division or remainder by the number 0.
    #[error("division by zero")]
    DivisionByZero,
    /// A shift by more than 31 bits.
    #[error("a shift by more than 31 bits")]
    ShiftTooFar,
    /// A primitive that changes the offsets of later primitives, used where those offsets must not
    /// change.
    #[error("{0:?} moves what follows; in \"deep\" write \"{0} inner ( … )\"")]
    MovesInDeep(&'static str),
    /// `ip broadcast` without a netmask.
    #[error("the netmask is not known, which \"ip broadcast\" needs")]
    NetmaskUnknown,
    /// `protochain` where the offset of the IP header is computed from other headers.
    #[error("protochain is not supported after headers of variable length")]
    ChainBehindVariable,
    /// A primitive that cannot be tested after `mpls` in an expression.
    #[error("{0} cannot be tested after MPLS labels")]
    BehindLabels(&'static str),
    /// A primitive that this link type does not support.
    #[error("{primitive} is not possible on link type {link}")]
    NotOnLinkType {
        /// The primitive.
        primitive: &'static str,
        /// The link type's name.
        link: &'static str,
    },
}

/// Advice for common mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Hint {
    /// The syntax of another tool's display filters.
    #[error(
        "this is the syntax of a display filter; a capture filter says \"tcp port 80\", \"host 10.0.0.1\", \"ether host 0:1:2:3:4:5\""
    )]
    DisplayFilter,
    /// A keyword used as a name.
    #[error("this word is a keyword; to use it as a name, write a backslash before it")]
    EscapeKeyword,
    /// A value without a keyword.
    #[error("add a qualifier: \"host\", \"net\", \"port\", \"ether host\"…")]
    MissingQualifier,
    /// Words side by side.
    #[error("join conditions with \"and\" or \"or\"")]
    MissingJunction,
    /// `net 10/8`.
    #[error(
        "a network with a prefix is written with at least two parts, as in 10.0/8 or 10.0.0.0/8"
    )]
    DottedPrefix,
    /// Wrong operator.
    #[error("comparisons are =, ==, !=, <, <=, >, >=; bits are tested as in \"tcp[13] & 2 != 0\"")]
    Comparison,
    /// Capital letters.
    #[error("keywords are written in small letters")]
    LowerCase,
    /// A port range.
    #[error("a range of ports is written \"portrange 80-90\"")]
    Portrange,
    /// Defaulting ended.
    #[error(
        "a value alone uses the qualifiers of the primitive before it; after a protocol, a comparison or a closed parenthesis there are none"
    )]
    Inheritance,
    /// A word or character of the extensions, which are off.
    #[error(
        "this belongs to the extensions of the language, which must be switched on (--extended)"
    )]
    Extensions,
    /// A prefix or mask after `host`.
    #[error("a prefix or mask makes a network: \"net 10.0.0.0/8\"")]
    Network,
    /// Bits beyond the prefix.
    #[error(
        "all bits after the prefix must be 0, as in \"net 10.0.0.0/8\"; a single address follows \"host\""
    )]
    ZeroBits,
    /// `net … netmask …`.
    #[error("the word is \"mask\": \"net 10.0.0.0 mask 255.0.0.0\"")]
    Mask,
    /// `ip broadcast` with an unknown netmask.
    #[error(
        "a capture takes the netmask of its device's IPv4 address, \"ringtap filter\" takes --netmask; \"dst host 255.255.255.255\" needs none"
    )]
    Netmask,
    /// A hardware address without `ether`.
    #[error("hardware addresses follow \"ether host\", \"ether src\" or \"ether dst\"")]
    EtherHost,
    /// An IP address after `ether`.
    #[error("\"ether\" takes hardware addresses; without it, \"host\" takes those of IP")]
    IpHost,
    /// `tcp host`.
    #[error("hosts and networks belong to IP: \"tcp and host 10.0.0.1\"")]
    JoinHost,
    /// `host = …`.
    #[error("a value follows its qualifier without a sign: \"host 10.0.0.1\", \"src port 80\"")]
    NoSign,
    /// Values with commas between them.
    #[error(
        "several values are joined by \"or\", as in \"port 80 or 443\"; with --extended, sets are written \"port in {{ 80, 443 }}\""
    )]
    Several,
    /// Quotes within the expression.
    #[error("quotes belong to the shell, around the whole expression")]
    Quotes,
    /// `tcp[13] = syn`.
    #[error("named numbers are written out: tcp-syn, icmp-echo, icmp6-echo")]
    NamedNumber,
    /// `icmp type 8`, `icmp echo`.
    #[error("types of ICMP are written \"icmp[icmptype] = icmp-echo\"")]
    IcmpType,
    /// A condition that is always false because of the position of `vlan` and the like.
    #[error(
        "\"vlan\", \"mpls\", \"pppoes\" and tunnels move what comes after them, and tests before them apply to the outer packet: put them first"
    )]
    MoveFirst,
}

impl CompileError {
    pub(crate) fn new(span: Range<usize>, kind: ErrorKind) -> Self {
        Self {
            span,
            kind,
            expected: Vec::new(),
            hint: None,
        }
    }

    pub(crate) fn expecting(mut self, expected: &[&'static str]) -> Self {
        self.expected = expected.to_vec();
        self
    }

    pub(crate) fn hinting(mut self, hint: Hint) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Returns the error as text: the message, the expression with the place marked by carets, the
    /// tokens that would have been accepted, and advice. `expression` is the text that was
    /// compiled. The last line has no line end.
    #[must_use]
    pub fn render(&self, expression: &str) -> String {
        let mut text = format!("{self}\n");
        let (line, before, width) = self.marked_line(expression);
        let _ = writeln!(text, "  {line}");
        let _ = write!(text, "  {}{}", " ".repeat(before), "^".repeat(width));
        if !self.expected.is_empty() {
            let _ = write!(text, "\nexpected: {}", self.expected.join(", "));
        }
        if let Some(hint) = self.hint {
            let _ = write!(text, "\nhint: {hint}");
        }
        text
    }

    /// Returns the line of the error with control characters blanked, the number of characters
    /// before the place, and its width in characters. Long lines are cut around the place.
    fn marked_line(&self, expression: &str) -> (String, usize, usize) {
        const AROUND: usize = 60;
        let start = floor_char(expression, self.span.start);
        let end = floor_char(expression, self.span.end.max(start));
        let line_start = expression[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = expression[start..]
            .find('\n')
            .map_or(expression.len(), |at| start + at);
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        let prefix: Vec<char> = expression[line_start..start].chars().map(clean).collect();
        let end = end.min(line_end).max(start);
        let marked: Vec<char> = expression[start..end].chars().map(clean).collect();
        let suffix: Vec<char> = expression[end..line_end].chars().map(clean).collect();
        let cut_front = prefix.len() > AROUND;
        let mut line = String::from(if cut_front { "…" } else { "" });
        line.extend(&prefix[prefix.len().saturating_sub(AROUND)..]);
        let before = line.chars().count();
        let shown = marked.len().min(AROUND);
        line.extend(&marked[..shown]);
        line.extend(suffix.iter().take(AROUND));
        if suffix.len() > AROUND {
            line.push('…');
        }
        (line, before, shown.max(1))
    }
}

/// Returns the nearest character boundary at or before `at`.
fn floor_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
