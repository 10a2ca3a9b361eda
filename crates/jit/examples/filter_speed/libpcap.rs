//! Debian's libpcap, loaded into this process at run time.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::time::{Duration, Instant};

use ringtap_filter::Insn;

#[repr(C)]
struct BpfProgram {
    len: c_uint,
    insns: *mut Insn,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile =
    unsafe extern "C" fn(*mut c_void, *mut BpfProgram, *const c_char, c_int, c_uint) -> c_int;
type FreeCode = unsafe extern "C" fn(*mut BpfProgram);
type Close = unsafe extern "C" fn(*mut c_void);
type Filter = unsafe extern "C" fn(*const Insn, *const u8, c_uint, c_uint) -> c_uint;

/// The functions that the comparison needs.
pub(crate) struct Libpcap {
    open_dead: OpenDead,
    compile: Compile,
    free_code: FreeCode,
    close: Close,
    filter: Filter,
}

const LIBRARY: &CStr = c"libpcap.so.0.8";
const ETHERNET: c_int = 1;

impl Libpcap {
    pub(crate) fn load() -> Result<Self, String> {
        // SAFETY: a terminated name; libpcap's initialisers have no requirements.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err("libpcap.so.0.8 is not installed".into());
        }
        let symbol = |name: &CStr| {
            // SAFETY: the handle is open and never closed; the name is terminated.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            if symbol.is_null() {
                Err(format!("libpcap has no {name:?}"))
            } else {
                Ok(symbol)
            }
        };
        // SAFETY: the types are those of pcap/pcap.h and pcap/bpf.h for these names.
        unsafe {
            Ok(Self {
                open_dead: std::mem::transmute::<*mut c_void, OpenDead>(symbol(c"pcap_open_dead")?),
                compile: std::mem::transmute::<*mut c_void, Compile>(symbol(c"pcap_compile")?),
                free_code: std::mem::transmute::<*mut c_void, FreeCode>(symbol(c"pcap_freecode")?),
                close: std::mem::transmute::<*mut c_void, Close>(symbol(c"pcap_close")?),
                filter: std::mem::transmute::<*mut c_void, Filter>(symbol(c"bpf_filter")?),
            })
        }
    }

    /// Compiles an expression for Ethernet, optimised.
    pub(crate) fn compile(&self, expression: &str) -> Option<Vec<Insn>> {
        let text = CString::new(expression).ok()?;
        self.compiled(&text, <[Insn]>::to_vec)
            .map(|(insns, _)| insns)
    }

    /// Measures one compilation for Ethernet, optimised, on a handle opened before. Returns `None`
    /// if the expression is rejected.
    pub(crate) fn compile_time(&self, expression: &CStr) -> Option<Duration> {
        self.compiled(expression, |_| ()).map(|((), time)| time)
    }

    /// Compiles an expression, and returns what `take` takes of its program, and the time.
    fn compiled<T>(&self, text: &CStr, take: impl FnOnce(&[Insn]) -> T) -> Option<(T, Duration)> {
        let mut program = BpfProgram {
            len: 0,
            insns: std::ptr::null_mut(),
        };
        // SAFETY: the handle is used between open and close; the text is terminated; on success
        // `insns` points at `len` instructions until freed, and only then it is freed.
        unsafe {
            let handle = (self.open_dead)(ETHERNET, 262_144);
            let begin = Instant::now();
            let done = (self.compile)(handle, &raw mut program, text.as_ptr(), 1, u32::MAX) == 0;
            let taken = done.then(|| {
                let insns = std::slice::from_raw_parts(program.insns, program.len as usize);
                let taken = take(insns);
                (self.free_code)(&raw mut program);
                taken
            });
            let time = begin.elapsed();
            (self.close)(handle);
            taken.map(|taken| (taken, time))
        }
    }

    /// Runs libpcap's interpreter.
    #[inline]
    pub(crate) fn filter(&self, program: &[Insn], packet: &[u8], len: u32) -> u32 {
        let caplen = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // SAFETY: `Insn` has the layout of `struct bpf_insn`; the program came from libpcap and
        // ends with a return; the packet is readable for `caplen` bytes.
        unsafe { (self.filter)(program.as_ptr(), packet.as_ptr(), len, caplen) }
    }
}
