//! `arc4random`, which LLVM's archives call for the names of temporary files. glibc has it from version 2.36 on, newer than a wheel may ask for.
//!
//! The symbol is made by the assembler: what Rust does not mangle is exported, and the extension shows nothing but its init function.

use std::{
    arch::global_asm,
    hash::{BuildHasher, RandomState},
};

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl arc4random",
    ".hidden arc4random",
    "arc4random:",
    "jmp {0}",
    sym random
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl arc4random",
    ".hidden arc4random",
    "arc4random:",
    "b {0}",
    sym random
);

/// A random number.
extern "C" fn random() -> u32 {
    // The keys are the operating system's random bytes, and others for each state.
    RandomState::new().hash_one(0_u32) as u32
}
