//! Functions of SQL for addresses, networks and names.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, StringArray,
    StringBuilder,
};
use datafusion::arrow::buffer::{Buffer, ScalarBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, UInt8Type, UInt16Type,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use datafusion::prelude::SessionContext;
use ringtap_flow::schema::address_bytes;
use ringtap_packet::names;
use ringtap_packet::protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};

/// The type of addresses.
pub(crate) const ADDRESS: DataType = DataType::FixedSizeBinary(16);

/// The type of an address as a number. Its 38 digits are fewer than some of these numbers have, which are never printed.
const KEY: DataType = DataType::Decimal128(38, 0);

/// Registers all functions that users may call.
pub(crate) fn register(context: &SessionContext) {
    for kind in [
        Kind::IpText,
        Kind::Ip,
        Kind::CidrMatch,
        Kind::PortName,
        Kind::ProtocolName,
    ] {
        context.register_udf(ScalarUDF::from(Function::new(kind)));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// `ip_text(address)`: the text of an address.
    IpText,
    /// `ip(text)`: the 16 bytes of an address.
    Ip,
    /// `cidr_match(address, network)`: whether an address is in a network.
    CidrMatch,
    /// `port_name(port, protocol)`: the name of a service.
    PortName,
    /// `protocol_name(protocol)`: the name of a protocol of IP.
    ProtocolName,
    /// `address_key(address)`: the bytes of an address as a number, in plans only.
    AddressKey,
    /// `address_of_key(number)`: the address again.
    AddressOfKey,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    kind: Kind,
    signature: Signature,
}

impl Function {
    fn new(kind: Kind) -> Self {
        let types = match kind {
            Kind::IpText => vec![ADDRESS],
            Kind::Ip => vec![DataType::Utf8],
            Kind::CidrMatch => vec![ADDRESS, DataType::Utf8],
            Kind::PortName => vec![DataType::UInt16, DataType::UInt8],
            Kind::ProtocolName => vec![DataType::UInt8],
            Kind::AddressKey => vec![ADDRESS],
            Kind::AddressOfKey => vec![KEY],
        };
        Self {
            kind,
            signature: Signature::exact(types, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.kind {
            Kind::IpText => "ip_text",
            Kind::Ip => "ip",
            Kind::CidrMatch => "cidr_match",
            Kind::PortName => "port_name",
            Kind::ProtocolName => "protocol_name",
            Kind::AddressKey => "address_key",
            Kind::AddressOfKey => "address_of_key",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::IpText | Kind::PortName | Kind::ProtocolName => DataType::Utf8,
            Kind::Ip | Kind::AddressOfKey => ADDRESS,
            Kind::CidrMatch => DataType::Boolean,
            Kind::AddressKey => KEY,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        // A number is missing where its address is; plans are compared by that.
        let is_nullable = match self.kind {
            Kind::AddressKey | Kind::AddressOfKey => args.arg_fields[0].is_nullable(),
            _ => true,
        };
        let kind = self.return_type(&[])?;
        Ok(Arc::new(Field::new(self.name(), kind, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let result = match self.kind {
            Kind::IpText => texts(&arrays[0])?,
            Kind::Ip => addresses(&arrays[0])?,
            Kind::CidrMatch => matches(&arrays[0], &arrays[1])?,
            Kind::PortName => services(&arrays[0], &arrays[1])?,
            Kind::ProtocolName => protocols(&arrays[0])?,
            Kind::AddressKey => keys(&arrays[0])?,
            Kind::AddressOfKey => addresses_of_keys(&arrays[0])?,
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }

    /// A network becomes a range of addresses, by which files and row groups are left out; the number of the address of
    /// a number is that number.
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if let Some(inner) = self.undone(&args) {
            return Ok(ExprSimplifyResult::Simplified(inner.clone()));
        }
        let (Kind::CidrMatch, [_, Expr::Literal(network, _)]) = (self.kind, &args[..]) else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let Some(Some(text)) = network.try_as_str() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let (first, last) = network_range(text)?;
        let bytes = |bytes: [u8; 16]| lit(ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())));
        let address = args[0].clone();
        let is_in = address
            .clone()
            .gt_eq(bytes(first))
            .and(address.lt_eq(bytes(last)));
        Ok(ExprSimplifyResult::Simplified(is_in))
    }
}

impl Function {
    /// Returns the argument of an argument that this function reverses.
    fn undone<'a>(&self, args: &'a [Expr]) -> Option<&'a Expr> {
        let [Expr::ScalarFunction(inner)] = args else {
            return None;
        };
        let inverse = match self.kind {
            Kind::AddressKey => Kind::AddressOfKey,
            Kind::AddressOfKey => Kind::AddressKey,
            _ => return None,
        };
        (inner.func.name() == Self::new(inverse).name()).then(|| inner.args.first())?
    }
}

/// Returns an address as a number, for the engine's hash tables.
pub(crate) fn address_key(address: Expr) -> Expr {
    ScalarUDF::from(Function::new(Kind::AddressKey)).call(vec![address])
}

/// Returns the address of a number of [`address_key`].
pub(crate) fn address_of_key(key: Expr) -> Expr {
    ScalarUDF::from(Function::new(Kind::AddressOfKey)).call(vec![key])
}

/// Returns the same bytes as numbers, without a copy where memory is aligned for them.
fn keys(array: &ArrayRef) -> Result<ArrayRef> {
    let (_, bytes, nulls) = binary(array)?.clone().into_parts();
    let is_aligned = bytes.as_ptr().align_offset(align_of::<i128>()) == 0;
    let bytes = match is_aligned {
        true => bytes,
        false => Buffer::from(bytes.as_slice()),
    };
    let numbers = Decimal128Array::try_new(ScalarBuffer::from(bytes), nulls)?;
    Ok(Arc::new(numbers.with_data_type(KEY)))
}

fn addresses_of_keys(array: &ArrayRef) -> Result<ArrayRef> {
    let (_, numbers, nulls) = array.as_primitive::<Decimal128Type>().clone().into_parts();
    let addresses = FixedSizeBinaryArray::try_new(16, numbers.into_inner(), nulls)?;
    Ok(Arc::new(addresses))
}

/// Returns the text of 16 bytes.
pub(crate) fn text(bytes: &[u8]) -> Option<String> {
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    Some(Ipv6Addr::from(bytes).to_canonical().to_string())
}

fn binary(array: &ArrayRef) -> Result<&FixedSizeBinaryArray> {
    match array.as_fixed_size_binary_opt() {
        Some(array) => Ok(array),
        None => exec_err!("expected an address of 16 bytes, not {}", array.data_type()),
    }
}

/// Returns the texts of a column of addresses.
pub(crate) fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    let addresses = binary(array)?;
    let mut built = StringBuilder::with_capacity(addresses.len(), addresses.len() * 16);
    for address in addresses.iter() {
        built.append_option(address.and_then(text));
    }
    Ok(Arc::new(built.finish()))
}

fn strings(array: &ArrayRef) -> Result<StringArray> {
    Ok(cast(array, &DataType::Utf8)?.as_string::<i32>().clone())
}

fn addresses(array: &ArrayRef) -> Result<ArrayRef> {
    let parse = |text: Option<&str>| match text.map(str::parse::<IpAddr>) {
        None => Ok(None),
        Some(Ok(address)) => Ok(Some(address_bytes(address))),
        Some(Err(_)) => exec_err!("{:?} is no address", text.unwrap_or_default()),
    };
    let found = strings(array)?
        .iter()
        .map(parse)
        .collect::<Result<Vec<_>>>()?;
    let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(found.into_iter(), 16)?;
    Ok(Arc::new(array))
}

/// Returns the first and the last address of a network such as `10.0.0.0/8` or `2001:db8::/32`.
fn network_range(text: &str) -> Result<([u8; 16], [u8; 16])> {
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let parsed = address.trim().parse::<IpAddr>();
    let Ok(address) = parsed else {
        return plan_err!("{text:?} is no network such as 10.0.0.0/8");
    };
    let (most, before) = match address {
        IpAddr::V4(_) => (32, 96),
        IpAddr::V6(_) => (128, 0),
    };
    let length = match length {
        "" => Some(most),
        digits => digits.parse::<u32>().ok().filter(|length| *length <= most),
    };
    let Some(length) = length else {
        return plan_err!("{text:?} has no prefix length from 0 to {most}");
    };
    let rest = u128::MAX.checked_shr(before + length).unwrap_or(0);
    let address = u128::from_be_bytes(address_bytes(address));
    Ok((
        (address & !rest).to_be_bytes(),
        (address | rest).to_be_bytes(),
    ))
}

fn matches(array: &ArrayRef, networks: &ArrayRef) -> Result<ArrayRef> {
    let networks = strings(networks)?;
    let mut known: HashMap<&str, ([u8; 16], [u8; 16])> = HashMap::new();
    let mut found = Vec::with_capacity(array.len());
    for (address, network) in binary(array)?.iter().zip(networks.iter()) {
        let (Some(address), Some(network)) = (address, network) else {
            found.push(None);
            continue;
        };
        let range = match known.get(network) {
            Some(range) => *range,
            None => {
                let range = network_range(network)?;
                known.insert(network, range);
                range
            }
        };
        found.push(Some(address >= &range.0[..] && address <= &range.1[..]));
    }
    Ok(Arc::new(BooleanArray::from(found)))
}

/// The names of services, by protocol and port.
static SERVICES: LazyLock<HashMap<(u8, u16), String>> = LazyLock::new(|| {
    let text = std::fs::read("/etc/services").unwrap_or_default();
    let mut found = HashMap::new();
    for line in names::lines(&text) {
        let (Some(name), Some((port, protocol))) =
            (line.first(), line.second().and_then(names::service))
        else {
            continue;
        };
        let protocol = match protocol {
            "tcp" => TCP,
            "udp" => UDP,
            "sctp" => SCTP,
            _ => continue,
        };
        found
            .entry((protocol, port))
            .or_insert_with(|| name.to_owned());
    }
    found
});

/// The names of protocols.
static PROTOCOLS: LazyLock<HashMap<u8, String>> = LazyLock::new(|| {
    let text = std::fs::read("/etc/protocols").unwrap_or_default();
    let mut found: HashMap<u8, String> = [
        (ICMP, "icmp"),
        (TCP, "tcp"),
        (UDP, "udp"),
        (ICMPV6, "ipv6-icmp"),
    ]
    .map(|(number, name)| (number, name.to_owned()))
    .into();
    for line in names::lines(&text) {
        let (Some(name), Some(number)) = (line.first(), line.second()) else {
            continue;
        };
        if let Some(number) = names::number(number) {
            found.entry(number).or_insert_with(|| name.to_owned());
        }
    }
    found
});

fn services(ports: &ArrayRef, protocols: &ArrayRef) -> Result<ArrayRef> {
    let ports = ports.as_primitive::<UInt16Type>();
    let protocols = protocols.as_primitive::<UInt8Type>();
    let name = |(port, protocol): (Option<u16>, Option<u8>)| SERVICES.get(&(protocol?, port?));
    let names: StringArray = ports.iter().zip(protocols.iter()).map(name).collect();
    Ok(Arc::new(names))
}

fn protocols(array: &ArrayRef) -> Result<ArrayRef> {
    let name = |number: Option<u8>| {
        let number = number?;
        Some(
            PROTOCOLS
                .get(&number)
                .cloned()
                .unwrap_or_else(|| number.to_string()),
        )
    };
    let names: StringArray = array.as_primitive::<UInt8Type>().iter().map(name).collect();
    Ok(Arc::new(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_a_first_and_a_last_address() {
        let ends = |text: &str| {
            let (first, last) = network_range(text).expect("a network");
            (text_of(first), text_of(last))
        };
        assert_eq!(
            ends("10.0.0.0/8"),
            ("10.0.0.0".into(), "10.255.255.255".into())
        );
        assert_eq!(ends("192.0.2.7"), ("192.0.2.7".into(), "192.0.2.7".into()));
        assert_eq!(
            ends("0.0.0.0/0"),
            ("0.0.0.0".into(), "255.255.255.255".into())
        );
        assert_eq!(ends("2001:db8::/32").0, "2001:db8::");
        assert_eq!(network_range("::/0").expect("all"), ([0; 16], [255; 16]));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "x", "::/129", "10.0.0.0/-1"] {
            assert!(network_range(wrong).is_err(), "{wrong}");
        }
    }

    fn text_of(bytes: [u8; 16]) -> String {
        text(&bytes).expect("16 bytes")
    }
}
