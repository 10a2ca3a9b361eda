//! Measures the time of a packet in the interpreter, for a decimal program on standard input (the
//! form of `tcpdump -ddd`): nanoseconds, over a set of packets that stays in the cache.

use std::hint::black_box;
use std::io::Read as _;
use std::time::Instant;

use ringtap_filter::{Insn, Program};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut insns = Vec::new();
    for line in text.lines().skip(1) {
        let numbers = line
            .split(' ')
            .map(str::parse::<i64>)
            .collect::<Result<Vec<_>, _>>()?;
        let [code, jt, jf, k] = numbers[..] else {
            return Err("four numbers a line".into());
        };
        insns.push(Insn {
            code: u16::try_from(code)?,
            jt: u8::try_from(jt)?,
            jf: u8::try_from(jf)?,
            k: u32::try_from(k & 0xffff_ffff)?,
        });
    }
    let program = Program::new(insns)?;
    let packets: Vec<[u8; 96]> = (0..=255_u8).map(packet).collect();
    let mut rounds = Vec::new();
    for _ in 0..45 {
        const ROUNDS: u32 = 4000;
        let start = Instant::now();
        let mut accepted = 0_u64;
        for _ in 0..ROUNDS {
            for packet in &packets {
                accepted += u64::from(black_box(&program).run(black_box(packet), 96) > 0);
            }
        }
        black_box(accepted);
        rounds.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS) / 256.0);
    }
    rounds.sort_by(f64::total_cmp);
    println!(
        "{:.2} ns a packet (median of 45, best {:.2})",
        rounds[22], rounds[0]
    );
    Ok(())
}

/// Returns TCP or UDP over IPv4 with addresses and ports that vary with `n`.
fn packet(n: u8) -> [u8; 96] {
    let mut bytes = [0; 96];
    bytes[..12].copy_from_slice(&[6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 6]);
    bytes[12] = 8;
    bytes[14] = 0x45;
    bytes[23] = if n.is_multiple_of(2) { 6 } else { 17 };
    bytes[26..34].copy_from_slice(&[10, 0, 0, n, 10, 0, 1, n.wrapping_mul(7)]);
    bytes[34..38].copy_from_slice(&[0, n, 1, n.wrapping_mul(3)]);
    bytes
}
