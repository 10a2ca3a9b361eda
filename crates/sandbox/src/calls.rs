//! Restricts system calls with seccomp.
//!
//! There are two filters; the kernel uses the stricter answer. One allows the calls that a run
//! needs and answers all others with `ENOSYS`: a future C library may try an unknown call, and
//! works without it, as on older kernels. The other ends the process at calls that only an attacker
//! makes.
//!
//! `clone3` is excluded on purpose: its flags are in memory that a filter cannot read. The C
//! library then uses `clone`, which is allowed for threads only.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

use super::{Needs, Obstacle};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

pub(super) fn restrict(needs: &Needs) -> Result<usize, Obstacle> {
    let allowed = allowed(needs)?;
    let count = allowed.len();
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let fatal = FATAL.iter().map(|&call| (call, Vec::new())).collect();
    for (rules, others, these) in [
        (fatal, SeccompAction::Allow, SeccompAction::KillProcess),
        (allowed, absent, SeccompAction::Allow),
    ] {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let filter: BpfProgram = SeccompFilter::new(rules, others, these, arch)?.try_into()?;
        apply_filter_all_threads(&filter)?;
    }
    Ok(count)
}

/// The calls that every run needs.
const BASE: &[c_long] = &[
    // Open descriptors.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_sync_file_range,
    libc::SYS_fadvise64,
    libc::SYS_copy_file_range,
    libc::SYS_splice,
    libc::SYS_sendfile,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    // Waiting.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_restart_syscall,
    // Time and random numbers.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_mincore,
    libc::SYS_brk,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    // Threads and their processors.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getparam,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_getcpu,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // The process's own identity.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_getrusage,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getcwd,
    // Files; Landlock restricts which ones.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_getdents64,
    // Messages on open sockets: one leads to the helper process.
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    // The last child process, if one was started before.
    libc::SYS_wait4,
];

/// Calls that only this processor architecture has.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// Calls with the same number on all architectures.
const NEW: &[c_long] = &[
    439, // faccessat2
    449, // futex_waitv
    451, // cachestat
];

/// Calls that create and remove files.
const WRITING: &[c_long] = &[
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Calls that create and remove folders and change names, beside [`WRITING`].
const ARRANGING: &[c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// Calls to communicate with other hosts. Without them a packet socket keeps its interface and
/// filter, and the sockets of the host's services cannot be reached.
const NETWORK: &[c_long] = &[libc::SYS_connect, libc::SYS_bind, libc::SYS_setsockopt];

/// Calls that only an attacker makes.
const FATAL: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setgroups,
    libc::SYS_capset,
];

/// Commands of bpf(2) that use objects loaded before.
const BPF_COMMANDS: &[u64] = &[
    1,  // BPF_MAP_LOOKUP_ELEM
    2,  // BPF_MAP_UPDATE_ELEM
    3,  // BPF_MAP_DELETE_ELEM
    4,  // BPF_MAP_GET_NEXT_KEY
    10, // BPF_PROG_RUN
    15, // BPF_OBJ_GET_INFO_BY_FD
    16, // BPF_PROG_QUERY
    24, // BPF_MAP_LOOKUP_BATCH
    28, // BPF_LINK_CREATE
    29, // BPF_LINK_UPDATE
    34, // BPF_LINK_DETACH
];

fn allowed(needs: &Needs) -> Result<Rules, Obstacle> {
    let mut calls = [BASE, OLD, NEW].concat();
    if !needs.write.is_empty() || !needs.arrange.is_empty() {
        calls.extend(WRITING);
    }
    if !needs.arrange.is_empty() {
        calls.extend(ARRANGING);
    }
    if needs.network {
        calls.extend(NETWORK);
    }
    let mut rules: Rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let threads = libc::CLONE_THREAD.unsigned_abs().into();
    let of_threads = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(threads),
        threads,
    )?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![of_threads])?]);
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_kill, one_of(0, &[own])?);
    rules.insert(libc::SYS_tgkill, one_of(0, &[own])?);
    // Limits of the process itself may be read, not set.
    let reading = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![reading])?]);
    let names = [
        libc::PR_SET_NAME,
        libc::PR_GET_NAME,
        libc::PR_SET_VMA,
        libc::PR_SET_TIMERSLACK,
        libc::PR_GET_TIMERSLACK,
    ];
    let names = names.map(|option| u64::from(option.unsigned_abs()));
    rules.insert(libc::SYS_prctl, one_of(0, &names)?);
    rules.insert(libc::SYS_ioctl, one_of(1, &requests(needs))?);
    rules.insert(libc::SYS_socketpair, families(&[libc::AF_UNIX])?);
    let mut sockets = Vec::new();
    if needs.devices {
        // Interfaces are queried with netlink, and with ioctl(2) on a socket of any kind. Internet
        // sockets are excluded: Landlock restricts only TCP on them, and only in part.
        sockets.extend([libc::AF_NETLINK, libc::AF_UNIX]);
        if !needs.network {
            rules.insert(libc::SYS_setsockopt, socket_options()?);
        }
        rules.insert(libc::SYS_bpf, one_of(0, BPF_COMMANDS)?);
        // A capture accepts connections from other captures that steal its packets.
        rules.insert(libc::SYS_accept4, Vec::new());
    }
    if needs.serves {
        rules.insert(libc::SYS_accept4, Vec::new());
    }
    if needs.network {
        sockets.extend([
            libc::AF_INET,
            libc::AF_INET6,
            libc::AF_UNIX,
            libc::AF_NETLINK,
        ]);
    }
    if !sockets.is_empty() {
        rules.insert(libc::SYS_socket, families(&sockets)?);
    }
    Ok(rules)
}

/// Returns the allowed requests of ioctl(2): those of terminals and streams, and queries of
/// interfaces.
fn requests(needs: &Needs) -> Vec<u64> {
    let mut all: Vec<libc::Ioctl> = vec![
        libc::TCGETS,
        libc::TIOCGWINSZ,
        libc::TIOCGPGRP,
        libc::FIONREAD,
        libc::FIONBIO,
        libc::FIOCLEX,
    ];
    if needs.devices {
        // These are unsigned in musl, too, whose other requests are signed.
        let interfaces = [
            libc::SIOCGIFNAME,
            libc::SIOCGIFINDEX,
            libc::SIOCGIFFLAGS,
            libc::SIOCGIFHWADDR,
            libc::SIOCGIFMTU,
            libc::SIOCETHTOOL,
            libc::SIOCGHWTSTAMP,
            libc::SIOCSHWTSTAMP,
        ];
        all.extend(interfaces.map(|request| request as libc::Ioctl));
    }
    if needs.terminal {
        all.extend([libc::TCSETS, libc::TCSETSW, libc::TCSETSF]);
        all.extend([libc::TCGETS2, libc::TCSETS2, libc::TCSETSW2, libc::TCSETSF2]);
    }
    // In musl, they are signed. The lower half is compared.
    all.into_iter().map(|request| request as _).collect()
}

/// Returns the options that are set on open sockets: netlink's answers, and the removal of a
/// transmit ring.
fn socket_options() -> Result<Vec<SeccompRule>, Obstacle> {
    let is = |argument, value: libc::c_int| {
        let value = u64::from(value.unsigned_abs());
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
    };
    let of_netlink = SeccompRule::new(vec![is(1, libc::SOL_NETLINK)?])?;
    let of_ring = vec![is(1, libc::SOL_PACKET)?, is(2, libc::PACKET_TX_RING)?];
    Ok(vec![of_netlink, SeccompRule::new(of_ring)?])
}

fn families(list: &[libc::c_int]) -> Result<Vec<SeccompRule>, Obstacle> {
    let list: Vec<u64> = list
        .iter()
        .map(|one| u64::from(one.unsigned_abs()))
        .collect();
    one_of(0, &list)
}

/// Allows a call if an argument has one of these values (compared in its lower half, which is what
/// the kernel uses for such numbers).
fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, Obstacle> {
    let rules = values.iter().map(|&value| {
        let length = SeccompCmpArgLen::Dword;
        let condition = SeccompCondition::new(argument, length, SeccompCmpOp::Eq, value)?;
        Ok(SeccompRule::new(vec![condition])?)
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fatal_is_never_allowed() {
        let all = Needs {
            read: vec!["/".into()],
            write: vec!["/".into()],
            arrange: vec!["/".into()],
            devices: true,
            network: true,
            serves: true,
            terminal: true,
        };
        let rules = allowed(&all).expect("rules");
        for call in FATAL {
            assert!(!rules.contains_key(call), "call {call}");
        }
        assert!(!rules.contains_key(&libc::SYS_clone3));
    }

    #[test]
    fn captures_speak_with_nobody() {
        let rules = allowed(&Needs::of_devices()).expect("rules");
        for call in [libc::SYS_connect, libc::SYS_bind] {
            assert!(!rules.contains_key(&call), "call {call}");
        }
        // Only some kinds are allowed.
        for call in [libc::SYS_socket, libc::SYS_setsockopt] {
            assert!(!rules[&call].is_empty(), "call {call}");
        }
        let inet = families(&[libc::AF_INET]).expect("a rule");
        assert!(!rules[&libc::SYS_socket].contains(&inet[0]));
        let reading = allowed(&Needs::default()).expect("rules");
        for call in [libc::SYS_socket, libc::SYS_setsockopt] {
            assert!(!reading.contains_key(&call), "call {call}");
        }
        let exporting = Needs {
            network: true,
            ..Needs::of_devices()
        };
        let rules = allowed(&exporting).expect("rules");
        assert!(rules[&libc::SYS_setsockopt].is_empty(), "all of them");
    }

    #[test]
    fn filters_compile_for_every_processor_that_is_supported() {
        for arch in [TargetArch::x86_64, TargetArch::aarch64] {
            let rules = allowed(&Needs::default()).expect("rules");
            let filter =
                SeccompFilter::new(rules, SeccompAction::Errno(1), SeccompAction::Allow, arch);
            let program: Result<BpfProgram, _> = filter.expect("a filter").try_into();
            // The kernel accepts at most this many instructions.
            assert!(program.expect("a program").len() < 4096);
        }
    }
}
