//! Executable memory is never writable, and is unmapped on drop. A separate process, because the
//! test counts the process's mappings.

use std::fs;

use ringtap_filter::program::opcode as op;
use ringtap_filter::{Insn, Program};
use ringtap_jit::Native;

fn maps() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").expect("proc is mounted");
    maps.lines().map(str::to_owned).collect()
}

/// Returns the number of executable mappings without a file.
fn code_mappings() -> usize {
    maps()
        .iter()
        .filter(|line| line.contains("r-xp") && line.split_whitespace().count() == 5)
        .count()
}

#[test]
fn code_is_never_writable_and_is_freed() {
    let insns = [
        Insn::new(op::LD | op::H | op::ABS, 12),
        Insn::jump(op::JMP | op::JEQ, 0x0800, 0, 1),
        Insn::new(op::RET | op::K, 1),
        Insn::new(op::RET | op::K, 0),
    ];
    let program = Program::new(insns.to_vec()).expect("valid");
    let before = code_mappings();
    let native = Native::compile(&program).expect("compiles");
    assert!(
        code_mappings() > before,
        "the code has a mapping of its own"
    );
    assert!(
        !maps().iter().any(|line| line.contains("rwx")),
        "writable and executable at once"
    );
    drop(native);
    assert_eq!(code_mappings(), before);

    let mappings = maps().len();
    for _ in 0..500 {
        let native = Native::compile(&program).expect("compiles");
        assert_eq!(native.run(&[0; 14], 14), 0);
    }
    assert!(
        maps().len() <= mappings + 2,
        "from {mappings} to {} mappings",
        maps().len()
    );
}
