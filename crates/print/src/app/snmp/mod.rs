//! SNMP: version 1 (RFC 1157), version 2 with communities (RFC 1901, RFC 3416), version 3 (RFC 3412, RFC 3414).

mod ber;

use crate::bytes::{Result, Truncated};
use crate::context::Context;
use crate::line::{end, put};
use ber::{Element, Encoded, Halt, PDUS, Value, step};

const VERSION_1: i64 = 0;
const VERSION_2: i64 = 1;
const VERSION_3: i64 = 3;
/// The default community, which is not printed.
const USUAL_COMMUNITY: &[u8] = b"public";
/// The user-based security model (RFC 3414).
const USER_BASED: i64 = 3;

const GET: u8 = 0;
const GET_NEXT: u8 = 1;
const RESPONSE: u8 = 2;
const TRAP: u8 = 4;
const GET_BULK: u8 = 5;

/// Flags of version 3 (RFC 3412 section 6.4).
const AUTHENTICATED: u8 = 1;
const ENCRYPTED: u8 = 2;
const FLAGS: [(u8, &str); 3] = [(AUTHENTICATED, "a"), (ENCRYPTED, "p"), (4, "r")];

/// RFC 3416 section 3.
const ERRORS: [&str; 19] = [
    "noError",
    "tooBig",
    "noSuchName",
    "badValue",
    "readOnly",
    "genErr",
    "noAccess",
    "wrongType",
    "wrongLength",
    "wrongEncoding",
    "wrongValue",
    "noCreation",
    "inconsistentValue",
    "resourceUnavailable",
    "commitFailed",
    "undoFailed",
    "authorizationError",
    "notWritable",
    "inconsistentName",
];
/// RFC 1157 section 4.1.6.
const TRAPS: [&str; 7] = [
    "coldStart",
    "warmStart",
    "linkDown",
    "linkUp",
    "authenticationFailure",
    "egpNeighborLoss",
    "enterpriseSpecific",
];
const ENTERPRISE_SPECIFIC: i64 = 6;

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("snmp");
    cx.line.str(" ");
    match message(cx, Encoded { data, length }) {
        Ok(()) | Err(Halt::Invalid) => Ok(()),
        Err(Halt::Missing) => Err(Truncated),
    }
}

/// Writes a note about an unexpected element, and the element.
fn unexpected<T>(cx: &mut Context<'_>, note: &str, element: &Element<'_>) -> Result<T, Halt> {
    put!(cx.line, "[{note}]");
    ber::print(cx, element);
    Err(Halt::Invalid)
}

fn sequence<'a>(
    cx: &mut Context<'_>,
    from: &mut Encoded<'a>,
    note: &str,
) -> Result<Encoded<'a>, Halt> {
    let element = step(cx, from)?;
    match element.value {
        Value::Sequence(inner) => Ok(inner),
        _ => unexpected(cx, note, &element),
    }
}

fn integer(cx: &mut Context<'_>, from: &mut Encoded<'_>, note: &str) -> Result<i64, Halt> {
    let element = step(cx, from)?;
    match element.value {
        Value::Integer(value) => Ok(value),
        _ => unexpected(cx, note, &element),
    }
}

fn octets<'a>(
    cx: &mut Context<'_>,
    from: &mut Encoded<'a>,
    note: &str,
) -> Result<(&'a [u8], Element<'a>), Halt> {
    let element = step(cx, from)?;
    match element.value {
        Value::Octets(bytes) => Ok((bytes, element)),
        _ => unexpected(cx, note, &element),
    }
}

/// Prints an element of the expected type.
fn printed(
    cx: &mut Context<'_>,
    from: &mut Encoded<'_>,
    note: &str,
    is_expected: fn(&Value<'_>) -> bool,
) -> Result<(), Halt> {
    let element = step(cx, from)?;
    if !is_expected(&element.value) {
        return unexpected(cx, note, &element);
    }
    ber::print(cx, &element);
    Ok(())
}

fn message(cx: &mut Context<'_>, mut from: Encoded<'_>) -> Result<(), Halt> {
    let mut inner = sequence(cx, &mut from, "!init SEQ")?;
    if from.length > 0 {
        put!(cx.line, "[{} extra after iSEQ]", from.length);
    }
    match integer(cx, &mut inner, "version!=INT")? {
        version @ (VERSION_1 | VERSION_2) => community(cx, inner, version),
        VERSION_3 => version_3(cx, inner),
        version => end!(cx.line, "SNMP [version = {version}]"),
    }
}

fn community(cx: &mut Context<'_>, mut from: Encoded<'_>, version: i64) -> Result<(), Halt> {
    let (name, element) = octets(cx, &mut from, "comm!=STR")?;
    if name != USUAL_COMMUNITY || cx.verbose() {
        cx.line.str("C=");
        ber::print(cx, &element);
        cx.line.str(" ");
    }
    pdu(cx, from, version)
}

fn version_3(cx: &mut Context<'_>, mut from: Encoded<'_>) -> Result<(), Halt> {
    let mut header = sequence(cx, &mut from, "!message")?;
    integer(cx, &mut header, "msgID!=INT")?;
    integer(cx, &mut header, "msgMaxSize!=INT")?;
    let (flags, _) = octets(cx, &mut header, "msgFlags!=STR")?;
    let &[flags] = flags else {
        return end!(cx.line, "[msgFlags size {}]", flags.len());
    };
    // Encryption requires authentication.
    if flags > 7 || flags & (AUTHENTICATED | ENCRYPTED) == ENCRYPTED {
        return end!(cx.line, "[msgFlags=0x{flags:02X}]");
    }
    cx.line.str("F=");
    cx.line.marks(flags, &FLAGS);
    cx.line.str(" ");
    let model = integer(cx, &mut header, "msgSecurityModel!=INT")?;
    if header.length > 0 {
        put!(cx.line, "[{} extra after message SEQ]", header.length);
    }
    if model != USER_BASED {
        return end!(cx.line, "[security model {model}]");
    }
    let (parameters, _) = octets(cx, &mut from, "msgSecurityParameters!=STR")?;
    let parameters = Encoded {
        data: parameters,
        length: parameters.len(),
    };
    // An error in the user's parameters does not make the request unreadable.
    if user(cx, parameters) == Err(Halt::Missing) {
        return Err(Halt::Missing);
    }
    scoped(cx, from)
}

fn user(cx: &mut Context<'_>, mut from: Encoded<'_>) -> Result<(), Halt> {
    let mut inner = sequence(cx, &mut from, "!usm SEQ")?;
    octets(cx, &mut inner, "msgAuthoritativeEngineID!=STR")?;
    integer(cx, &mut inner, "msgAuthoritativeEngineBoots!=INT")?;
    integer(cx, &mut inner, "msgAuthoritativeEngineTime!=INT")?;
    let (_, name) = octets(cx, &mut inner, "msgUserName!=STR")?;
    cx.line.str("U=");
    ber::print(cx, &name);
    cx.line.str(" ");
    octets(cx, &mut inner, "msgAuthenticationParameters!=STR")?;
    octets(cx, &mut inner, "msgPrivacyParameters!=STR")?;
    if inner.length > 0 {
        put!(cx.line, "[{} extra after usm SEQ]", inner.length);
    }
    Ok(())
}

/// Prints the context of a request, and the request; encrypted data are printed as bytes.
fn scoped(cx: &mut Context<'_>, mut from: Encoded<'_>) -> Result<(), Halt> {
    let mut inner = sequence(cx, &mut from, "!scoped PDU")?;
    let (engine, _) = octets(cx, &mut inner, "contextEngineID!=STR")?;
    cx.line.str("E=");
    ber::octets(cx, engine);
    cx.line.str(" ");
    let (_, name) = octets(cx, &mut inner, "contextName!=STR")?;
    cx.line.str("C=");
    ber::print(cx, &name);
    cx.line.str(" ");
    pdu(cx, inner, VERSION_3)
}

fn pdu(cx: &mut Context<'_>, mut from: Encoded<'_>, version: i64) -> Result<(), Halt> {
    let element = step(cx, &mut from)?;
    let Value::Pdu(kind, inner) = element.value else {
        return end!(cx.line, "[no PDU]");
    };
    if from.length > 0 {
        put!(cx.line, "[{} extra after PDU]", from.length);
    }
    put!(cx.line, "{}({}) ", PDUS[usize::from(kind)], element.length);
    let first_version = kind <= TRAP;
    match version {
        VERSION_1 if !first_version => end!(cx.line, "[v2 PDU in v1 message]"),
        VERSION_2 if kind == TRAP => end!(cx.line, "[v1 PDU in v2 message]"),
        _ if kind == TRAP => trap(cx, inner),
        _ => request(cx, kind, inner),
    }
}

/// Prints the name of an error.
fn print_error(cx: &mut Context<'_>, error: i64) {
    let name = usize::try_from(error)
        .ok()
        .and_then(|error| ERRORS.get(error));
    // A number is printed as an unsigned one, as in tcpdump.
    let number = error & i64::from(u32::MAX);
    cx.line.name(name.copied(), format_args!("err={number}"));
}

fn request(cx: &mut Context<'_>, kind: u8, mut from: Encoded<'_>) -> Result<(), Halt> {
    let id = integer(cx, &mut from, "reqId!=INT")?;
    if cx.verbose() {
        put!(cx.line, "R={id} ");
    }
    let status = integer(cx, &mut from, "errorStatus!=INT")?;
    match kind {
        GET_BULK => put!(cx.line, " N={status}"),
        _ if status == 0 => {}
        RESPONSE => {
            cx.line.str(" ");
            print_error(cx, status);
        }
        _ => {
            cx.line.str("[errorStatus(");
            print_error(cx, status);
            cx.line.str(")!=0]");
        }
    }
    let index = integer(cx, &mut from, "errorIndex!=INT")?;
    match kind {
        GET_BULK => put!(cx.line, " M={index}"),
        RESPONSE if status != 0 && index == 0 => cx.line.str("[errorIndex==0]"),
        RESPONSE if status != 0 => put!(cx.line, "@{index}"),
        _ if index == 0 => {}
        RESPONSE => put!(cx.line, "[errorIndex({index}) w/o errorStatus]"),
        _ => put!(cx.line, "[errorIndex({index})!=0]"),
    }
    bindings(cx, kind, from)
}

fn trap(cx: &mut Context<'_>, mut from: Encoded<'_>) -> Result<(), Halt> {
    cx.line.str(" ");
    let is_identifier = |value: &Value<'_>| matches!(value, Value::Identifier(_));
    printed(cx, &mut from, "enterprise!=OID", is_identifier)?;
    cx.line.str(" ");
    let is_address = |value: &Value<'_>| matches!(value, Value::Address(_));
    printed(cx, &mut from, "agent-addr!=INETADDR", is_address)?;
    let generic = integer(cx, &mut from, "generic-trap!=INT")?;
    let name = usize::try_from(generic)
        .ok()
        .and_then(|generic| TRAPS.get(generic));
    cx.line.str(" ");
    cx.line.name(name.copied(), format_args!("gt={generic}"));
    let specific = integer(cx, &mut from, "specific-trap!=INT")?;
    if generic == ENTERPRISE_SPECIFIC {
        put!(cx.line, " s={specific}");
    } else if specific != 0 {
        put!(cx.line, "[specific-trap({specific})!=0]");
    }
    cx.line.str(" ");
    let is_time = |value: &Value<'_>| matches!(value, Value::Unsigned(_));
    printed(cx, &mut from, "time-stamp!=TIMETICKS", is_time)?;
    bindings(cx, TRAP, from)
}

/// Prints names, with their values if there are any.
fn bindings(cx: &mut Context<'_>, kind: u8, mut from: Encoded<'_>) -> Result<(), Halt> {
    let mut list = sequence(cx, &mut from, "!SEQ of varbind")?;
    if from.length > 0 {
        put!(cx.line, "[{} extra after SEQ of varbind]", from.length);
    }
    while list.length > 0 && !cx.line.is_full() {
        cx.line.str(" ");
        let mut binding = sequence(cx, &mut list, "!varbind")?;
        let is_identifier = |value: &Value<'_>| matches!(value, Value::Identifier(_));
        printed(cx, &mut binding, "objName!=OID", is_identifier)?;
        let asks = matches!(kind, GET | GET_NEXT | GET_BULK);
        if !asks {
            cx.line.str("=");
        }
        let value = step(cx, &mut binding)?;
        if asks && !matches!(value.value, Value::Null) {
            cx.line.str("[objVal!=NULL]");
        }
        ber::print(cx, &value);
    }
    Ok(())
}
