//! Defaults from the environment: `RINGTAP_*`. None of them can enable the mode steal. A program
//! that has more privileges than its user ignores them (secure_getenv(3)).

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// The values of the environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defaults {
    /// `RINGTAP_ENGINE`: `packet`, `tcx`, `xdp`, or `auto` for ringtap's own choice.
    pub(crate) engine: Option<String>,
    /// `RINGTAP_BUFFER`: bytes, or a number with `K`, `M` or `G`.
    pub(crate) buffer: Option<u64>,
    /// `RINGTAP_TIMEOUT`: milliseconds.
    pub(crate) timeout: Option<u32>,
    /// `RINGTAP_MIN_TO_COPY`: bytes, or a number with `K` or `M`.
    pub(crate) min_to_copy: Option<u32>,
    /// `RINGTAP_IMMEDIATE`: 1 or 0.
    pub(crate) immediate: Option<bool>,
}

impl Defaults {
    /// Reads the environment, and ignores invalid values.
    pub(crate) fn read() -> Self {
        Self {
            engine: text(c"RINGTAP_ENGINE"),
            buffer: text(c"RINGTAP_BUFFER").and_then(|text| size(&text)),
            timeout: text(c"RINGTAP_TIMEOUT").and_then(|text| text.parse().ok()),
            min_to_copy: text(c"RINGTAP_MIN_TO_COPY")
                .and_then(|text| u32::try_from(size(&text)?).ok()),
            immediate: text(c"RINGTAP_IMMEDIATE").map(|text| text == "1"),
        }
    }

    /// Returns the device in the form that [`ringtap_capture::open`] takes. A plain name is
    /// captured by a packet socket, which supports all that programs for libpcap expect, unless the
    /// environment names another engine.
    pub(crate) fn device(&self, given: &str) -> String {
        let engines = ringtap_capture::ENGINES.iter().map(|engine| engine.name);
        let is_engine = |prefix: &str| engines.clone().any(|name| name == prefix);
        if given
            .split_once(':')
            .is_some_and(|(prefix, _)| is_engine(prefix))
        {
            return given.to_owned();
        }
        match self.engine.as_deref() {
            Some("auto") => given.to_owned(),
            // The other engines capture on one interface only.
            Some(engine) if is_engine(engine) && given != "any" => format!("{engine}:{given}"),
            _ => format!("packet:{given}"),
        }
    }
}

fn text(name: &CStr) -> Option<String> {
    // SAFETY: the name is a string; the result is null or a string, which is copied before the
    // environment can change.
    let value = unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    value
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
}

/// Parses a number of bytes, with a suffix for powers of 1024.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_the_packet_engines() {
        let defaults = Defaults::default();
        for (given, device) in [
            ("eth0", "packet:eth0"),
            ("any", "packet:any"),
            ("eth0:1", "packet:eth0:1"),
            ("xdp:eth0", "xdp:eth0"),
            ("", "packet:"),
        ] {
            assert_eq!(defaults.device(given), device);
        }
    }

    #[test]
    fn the_environment_chooses_another() {
        let with = |engine: &str| Defaults {
            engine: Some(engine.to_owned()),
            ..Defaults::default()
        };
        assert_eq!(with("tcx").device("eth0"), "tcx:eth0");
        assert_eq!(with("tcx").device("any"), "packet:any");
        assert_eq!(with("tcx").device("packet:eth0"), "packet:eth0");
        assert_eq!(with("auto").device("eth0"), "eth0");
        assert_eq!(with("nonsense").device("eth0"), "packet:eth0");
    }

    #[test]
    fn sizes_have_suffixes() {
        let cases = [
            ("4096", Some(4096)),
            ("2M", Some(2 << 20)),
            ("1k", Some(1024)),
            ("x", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(size(text), bytes);
        }
        assert_eq!(size(""), None);
        assert_eq!(size("99999999999G"), None);
    }
}
