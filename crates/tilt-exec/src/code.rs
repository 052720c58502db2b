//! The loops of a plan as something that can be called.

use tilt_codegen::{
    abi::Args,
    jit::{self, JitError, Module},
    lir::{self, Loop},
};

/// What runs loops.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    /// Machine code.
    Native(Module),
    /// The loops' own interpreter, which checks every access.
    Interpreted,
}

impl Code {
    /// Machine code of loops.
    pub(crate) fn compile(loops: &[Loop]) -> Result<Self, JitError> {
        Ok(Self::Native(jit::compile(loops, &jit::Options::default())?))
    }

    /// Calls a loop.
    ///
    /// # Safety
    /// The arguments keep the contract of [`tilt_codegen::abi`] for this loop.
    pub(crate) unsafe fn call(&self, loops: &[Loop], number: usize, args: &Args) {
        match self {
            // SAFETY: the caller's promise.
            Self::Native(module) => unsafe { module.kernel(number)(args) },
            // SAFETY: the caller's promise.
            Self::Interpreted => unsafe { lir::interpret(&loops[number], args) },
        }
    }
}
