//! `arc4random`, which LLVM's archives call for the names of temporary files. glibc has it from version 2.36 on, newer than a wheel may ask for.

use std::hash::{BuildHasher, RandomState};

/// A random number.
#[unsafe(no_mangle)]
extern "C" fn arc4random() -> u32 {
    // The keys are the operating system's random bytes, and others for each state.
    RandomState::new().hash_one(0_u32) as u32
}
