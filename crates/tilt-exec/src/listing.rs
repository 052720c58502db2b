//! The code of a query, to be read.

use tilt_codegen::{
    jit::{self, JitError},
    lir::Loop,
};

use crate::{
    error::Error,
    query::{Backend, Compiled, Prepared},
};

impl Compiled {
    /// The LLVM IR of the loops that run on data as declared, before LLVM's passes; of a query that is interpreted a comment that says why.
    ///
    /// # Errors
    /// None today; as [`assembly`](Self::assembly).
    pub fn llvm_ir(&self) -> Result<String, Error> {
        self.listing(|loops| Ok(jit::llvm_ir(loops, &jit::Options::from_env())))
    }

    /// The assembly of the loops that run on data as declared; of a query that is interpreted a comment that says why.
    ///
    /// # Errors
    /// When LLVM has no code generator for this machine.
    pub fn assembly(&self) -> Result<String, Error> {
        self.listing(|loops| jit::assembly(loops, &jit::Options::from_env()))
    }

    fn listing(&self, text: impl Fn(&[Loop]) -> Result<String, JitError>) -> Result<String, Error> {
        let facts = match self.inner.declared_facts() {
            Ok(facts) => facts,
            Err(why) => return Ok(format!("; interpreted: {}\n", why.0)),
        };
        match &*self.inner.prepare(&facts, Backend::Loops).prepared {
            Prepared::Loops { plan, .. } => {
                text(&plan.loops).map_err(|error| Error::Internal(error.to_string()))
            }
            Prepared::Interpreted(why) => Ok(format!("; interpreted: {why}\n")),
        }
    }
}
