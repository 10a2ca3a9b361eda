//! The oracle: the installed libpcap's results for expressions, packets and files.
//!
//! It is a small C program (`c/oracle.c`), compiled against libpcap at first use. The tests control
//! it over pipes, so that a crash of the library ends a child and not the test. Expressions compile
//! as for a file ([`pcap_open_dead`][dead]), without libpcap's rewriting for live captures. No
//! shipped code uses it. Tests that use it require [`Need::LibpcapDev`](crate::Need::LibpcapDev).
//!
//! [dead]: https://www.tcpdump.org/manpages/pcap_open_dead.3pcap.html

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::versions::{self, Version};

/// The environment variable that names another libpcap than the installed one, as arguments of the C
/// compiler: `RINGTAP_LIBPCAP="-I/opt/pcap/include /opt/pcap/lib/libpcap.a"`.
pub const LIBRARY: &str = "RINGTAP_LIBPCAP";

/// A classic-BPF instruction, like the kernel's `sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if the condition holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// A packet as libpcap reads it from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Seconds since the epoch.
    pub secs: i64,
    /// Nanoseconds beyond these seconds; a second or more if a damaged file says so.
    pub nanos: u32,
    /// Length on the wire in bytes.
    pub len: u32,
    /// The captured bytes.
    pub data: Vec<u8>,
}

/// A capture file as libpcap reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Link type as libpcap's DLT value, which is the file's LINKTYPE for most types.
    pub dlt: u32,
    /// The snaplen in bytes.
    pub snaplen: u32,
    /// The packets before the end or the damage.
    pub packets: Vec<Packet>,
    /// The reason why reading failed, if it did.
    pub damage: Option<String>,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The helper could not be built.
    #[error("cannot build the libpcap oracle: {0}")]
    Build(String),
    /// libpcap reports an error: a syntax error, a file that it cannot open, an invalid program.
    #[error("libpcap: {0}")]
    Refused(String),
    /// The helper ended, most likely by a crash of libpcap.
    #[error("the libpcap oracle was lost: {0}")]
    Lost(#[from] io::Error),
}

/// The result type of the oracle's methods.
pub type Result<T> = std::result::Result<T, OracleError>;

/// Options for compiling an expression.
#[derive(Clone, Copy, Debug)]
pub struct Compile {
    /// Link type as a DLT value.
    pub dlt: u32,
    /// The number of bytes that an accepting program returns.
    pub snaplen: u32,
    /// IPv4 netmask in host byte order (`0xffff_ff00` for /24), for `ip broadcast`.
    pub netmask: Option<u32>,
    /// Whether libpcap's optimiser runs.
    pub optimize: bool,
}

impl Default for Compile {
    /// Returns Ethernet, 262,144 bytes, no netmask, optimised: the options of `tcpdump -d`.
    fn default() -> Self {
        Self {
            dlt: 1,
            snaplen: 262_144,
            netmask: None,
            optimize: true,
        }
    }
}

/// A running helper. It is not shared between threads: a test that needs speed starts its own.
#[derive(Debug)]
pub struct Oracle {
    child: Child,
    requests: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts a helper, building it before the first time.
    ///
    /// # Errors
    /// Returns an error if it cannot be built or started.
    pub fn start() -> Result<Self> {
        let program = built()?;
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes").into());
        };
        Ok(Self {
            child,
            requests: BufWriter::new(stdin),
            answers: BufReader::new(stdout),
        })
    }

    /// Returns libpcap's program for an expression.
    ///
    /// # Errors
    /// Returns [`OracleError::Refused`] with libpcap's message if the expression is rejected.
    pub fn compile(&mut self, expression: &str, how: Compile) -> Result<Vec<Insn>> {
        self.ask(b'C')?;
        let netmask = how.netmask.unwrap_or(u32::MAX);
        for word in [how.dlt, how.snaplen, netmask, u32::from(how.optimize)] {
            self.put_u32(word)?;
        }
        self.put_bytes(expression.as_bytes())?;
        self.answered()?;
        (0..self.get_u32()?).map(|_| self.get_insn()).collect()
    }

    /// Sends the helper the packets that [`verdicts`](Self::verdicts) judges: length on the wire
    /// and captured bytes of each.
    ///
    /// # Errors
    /// Returns an error if the helper has ended.
    pub fn set_packets<'a, I>(&mut self, packets: I) -> Result<()>
    where
        I: IntoIterator<Item = (u32, &'a [u8])>,
        I::IntoIter: ExactSizeIterator,
    {
        let packets = packets.into_iter();
        self.ask(b'P')?;
        self.put_len(packets.len())?;
        for (len, data) in packets {
            self.put_u32(len)?;
            self.put_bytes(data)?;
        }
        self.answered()
    }

    /// Returns the result of `bpf_filter` for each of these packets: the bytes accepted, 0 for
    /// rejected.
    ///
    /// # Errors
    /// Returns [`OracleError::Refused`] if `bpf_validate` rejects the program.
    pub fn verdicts(&mut self, program: &[Insn]) -> Result<Vec<u32>> {
        self.ask(b'F')?;
        self.put_len(program.len())?;
        for insn in program {
            self.requests.write_all(&insn.code.to_ne_bytes())?;
            self.requests.write_all(&[insn.jt, insn.jf])?;
            self.put_u32(insn.k)?;
        }
        self.answered()?;
        (0..self.get_u32()?).map(|_| self.get_u32()).collect()
    }

    /// Returns the result for one packet, which replaces the packets set before.
    ///
    /// # Errors
    /// The same as for [`verdicts`](Self::verdicts).
    pub fn filter(&mut self, program: &[Insn], data: &[u8], len: u32) -> Result<u32> {
        self.set_packets([(len, data)])?;
        let verdict = self.verdicts(program)?.first().copied();
        verdict.ok_or_else(|| io::Error::other("no verdict").into())
    }

    /// Returns a capture file as libpcap reads it, with nanosecond timestamps.
    ///
    /// # Errors
    /// Returns [`OracleError::Refused`] if the file cannot be opened; damage after the header is in
    /// [`Capture::damage`].
    pub fn read(&mut self, file: &Path) -> Result<Capture> {
        self.ask(b'R')?;
        self.put_bytes(file.as_os_str().as_bytes())?;
        self.answered()?;
        let (dlt, snaplen) = (self.get_u32()?, self.get_u32()?);
        let mut packets = Vec::new();
        while self.get_u32()? == 1 {
            packets.push(Packet {
                secs: i64::from_ne_bytes(self.get()?),
                nanos: self.get_u32()?,
                len: self.get_u32()?,
                data: self.get_bytes()?,
            });
        }
        let message = self.get_string()?;
        let damage = (!message.is_empty()).then_some(message);
        Ok(Capture {
            dlt,
            snaplen,
            packets,
            damage,
        })
    }

    /// Returns the name and the description of a DLT value, such as `EN10MB` and `Ethernet`.
    ///
    /// # Errors
    /// Returns [`OracleError::Refused`] if libpcap does not know the link type.
    pub fn link_type(&mut self, dlt: u32) -> Result<(String, String)> {
        self.ask(b'N')?;
        self.put_u32(dlt)?;
        self.answered()?;
        Ok((self.get_string()?, self.get_string()?))
    }

    /// Returns the library's version, such as `(1, 10, 5)`.
    ///
    /// # Errors
    /// [`OracleError::Lost`] if its version string has no such numbers.
    pub fn version(&mut self) -> Result<Version> {
        self.ask(b'V')?;
        self.answered()?;
        let text = self.get_string()?;
        let version = versions::parse(&text);
        Ok(version.ok_or_else(|| io::Error::other(format!("no version in {text:?}")))?)
    }

    fn ask(&mut self, request: u8) -> Result<()> {
        Ok(self.requests.write_all(&[request])?)
    }

    /// Sends the request and reads whether it was answered or rejected.
    fn answered(&mut self) -> Result<()> {
        self.requests.flush()?;
        match self.get_u32()? {
            0 => Ok(()),
            _ => Err(OracleError::Refused(self.get_string()?)),
        }
    }

    fn put_u32(&mut self, value: u32) -> Result<()> {
        Ok(self.requests.write_all(&value.to_ne_bytes())?)
    }

    fn put_len(&mut self, len: usize) -> Result<()> {
        self.put_u32(u32::try_from(len).map_err(io::Error::other)?)
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.put_len(bytes.len())?;
        Ok(self.requests.write_all(bytes)?)
    }

    fn get<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.answers.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn get_u32(&mut self) -> Result<u32> {
        Ok(u32::from_ne_bytes(self.get()?))
    }

    fn get_insn(&mut self) -> Result<Insn> {
        let code = u16::from_ne_bytes(self.get()?);
        let [jt, jf] = self.get()?;
        Ok(Insn {
            code,
            jt,
            jf,
            k: self.get_u32()?,
        })
    }

    fn get_bytes(&mut self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.get_u32()? as usize];
        self.answers.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn get_string(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.get_bytes()?).into_owned())
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It has no state that needs an orderly end; without the wait it would stay as a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

static SHARED: LazyLock<Mutex<Oracle>> =
    LazyLock::new(|| Mutex::new(Oracle::start().expect("the libpcap oracle starts")));

fn shared() -> MutexGuard<'static, Oracle> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles like [`Oracle::compile`], with a helper that the tests of a program share.
///
/// # Errors
/// The same as for [`Oracle::compile`].
///
/// # Panics
/// Panics if the helper cannot be started.
pub fn compile(expression: &str, how: Compile) -> Result<Vec<Insn>> {
    shared().compile(expression, how)
}

/// Filters like [`Oracle::filter`], with a helper that the tests of a program share.
///
/// # Errors
/// The same as for [`Oracle::filter`].
///
/// # Panics
/// Panics if the helper cannot be started.
pub fn filter(program: &[Insn], data: &[u8], len: u32) -> Result<u32> {
    shared().filter(program, data, len)
}

/// Reads like [`Oracle::read`], with a helper that the tests of a program share.
///
/// # Errors
/// The same as for [`Oracle::read`].
///
/// # Panics
/// Panics if the helper cannot be started.
pub fn read(file: &Path) -> Result<Capture> {
    shared().read(file)
}

/// Returns the helper's path. It is built beside the running program and named after its source and
/// its library, so that only a changed one is compiled again.
fn built() -> Result<PathBuf> {
    const SOURCE: &str = include_str!("../c/oracle.c");
    let library = std::env::var(LIBRARY).unwrap_or_else(|_| "-lpcap".to_owned());
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let made_of = fnv1a(format!("{library}\n{SOURCE}").as_bytes());
    let helper = folder.join(format!("libpcap-oracle-{made_of:016x}"));
    if helper.is_file() {
        return Ok(helper);
    }
    // Two programs may build at once: each builds its own and renames it.
    let build = tempfile::tempdir_in(folder)?;
    let source = build.path().join("oracle.c");
    let output = build.path().join("oracle");
    std::fs::write(&source, SOURCE)?;
    let compiler = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-o"])
        .args([&output, &source])
        .args(library.split_whitespace())
        .output()
        .map_err(|error| OracleError::Build(format!("cc: {error}")))?;
    if !compiler.status.success() {
        let message = String::from_utf8_lossy(&compiler.stderr).into_owned();
        return Err(OracleError::Build(message));
    }
    std::fs::rename(&output, &helper)?;
    Ok(helper)
}

/// Returns the Fowler–Noll–Vo hash, version 1a, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
