//! Dumps of a packet's bytes below its line.

use super::options::DumpForm;

/// The number of bytes in a row.
const ROW: usize = 16;

/// Writes the rows of `data`, each beginning with a line feed; there is none after the last.
pub(crate) fn dump(out: &mut Vec<u8>, form: DumpForm, data: &[u8]) {
    if form == DumpForm::Ascii {
        out.push(b'\n');
        for (at, &byte) in data.iter().enumerate() {
            match byte {
                b'\r' if data.get(at + 1) == Some(&b'\n') => {}
                b'\n' | b'\t' | b' ' => out.push(byte),
                _ => out.push(visible(byte)),
            }
        }
        return;
    }
    for (index, row) in data.chunks(ROW).enumerate() {
        row_of(out, index * ROW, row, form == DumpForm::HexAscii);
    }
}

/// The columns of the digits of a full row.
const HEX_WIDTH: usize = ROW * 2 + ROW / 2 - 1;

fn row_of(out: &mut Vec<u8>, offset: usize, row: &[u8], ascii: bool) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\n\t0x");
    let digits = (usize::BITS - offset.leading_zeros()).div_ceil(4).max(4);
    for place in (0..digits).rev() {
        out.push(DIGITS[offset >> (4 * place) & 15]);
    }
    out.extend_from_slice(b":  ");
    let start = out.len();
    for (column, &byte) in row.iter().enumerate() {
        if column > 0 && column % 2 == 0 {
            out.push(b' ');
        }
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
    if ascii {
        out.resize(start + HEX_WIDTH + 2, b' ');
        out.extend(row.iter().map(|&byte| visible(byte)));
    }
}

/// Returns the byte if it is a visible ASCII character, otherwise a dot.
fn visible(byte: u8) -> u8 {
    if byte.is_ascii_graphic() { byte } else { b'.' }
}
