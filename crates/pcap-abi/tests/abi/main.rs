//! Compares the library with Debian's libpcap: headers, symbols, C programs that must print the
//! same on both, also under Valgrind and AddressSanitizer, and Debian's programs.
#![forbid(unsafe_code)]

mod c_programs;
mod extensions;
mod headers;
mod library;
mod programs;
mod symbols;
mod versions;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [
        headers::tests(),
        symbols::tests(),
        c_programs::tests(),
        extensions::tests(),
        programs::tests(),
    ];
    ringtap_testkit::suite(tests.into_iter().flatten().collect())
}
