//! Sampling: `pcap_setsampling`.

use crate::boundary::export;
use crate::handle::Pcap;
use crate::state::sampling::Samp;

export! {
    /// Returns the structure in which the program sets the sampling; it belongs to the handle.
    fn pcap_setsampling(handle: Option<&Pcap>) -> *mut Samp {
        let Some(handle) = handle else { return std::ptr::null_mut() };
        handle.sampling.place()
    } else std::ptr::null_mut();
}
