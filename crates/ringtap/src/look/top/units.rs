//! Figures of few characters, and texts of packets.

/// A number with a unit of thousands: `999`, `1.23k`, `45.6M`.
pub(super) fn short(number: f64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut number = number;
    let mut unit = 0;
    while number >= 999.5 && unit + 1 < UNITS.len() {
        number /= 1000.0;
        unit += 1;
    }
    let digits = match number {
        _ if unit == 0 => 0,
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$}{}", UNITS[unit])
}

/// The same of a whole number.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn whole(number: u64) -> String {
    short(number as f64)
}

/// A time: `12 µs`, `3.4 ms`, `5.6 s`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn time(ns: Option<u64>) -> String {
    match ns {
        None => "-".to_owned(),
        Some(ns) if ns < 1_000_000 => format!("{:.0} µs", ns as f64 / 1e3),
        Some(ns) if ns < 1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        Some(ns) => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A text without control characters, which a terminal would obey.
pub(super) fn plain(text: &str) -> String {
    let plain = |character: char| match character.is_control() {
        true => '\u{fffd}',
        false => character,
    };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let all = [0.0, 999.0, 1000.0, 12_345.0, 999_600.0, 1.5e9].map(short);
        assert_eq!(all, ["0", "999", "1.00k", "12.3k", "1.00M", "1.50G"]);
        assert_eq!(time(Some(1_500_000)), "1.5 ms");
        assert_eq!(plain("a\u{1b}[2J"), "a\u{fffd}[2J");
    }
}
