//! Passes: meaning-preserving rewrites of a verified program, one a file.
//!
//! A [`Pipeline`] runs them in order. In debug builds it verifies after each one. Three environment variables help to look
//! inside and to bisect:
//! - `TILT_DUMP=fuse,cse` (or `all`) prints the program to standard error after these passes, when they changed it;
//! - `TILT_DISABLE_PASS=fuse,cse` leaves passes out;
//! - `TILT_PASS_LIMIT=n` stops after the first `n` passes that changed something.

mod cse;
pub(crate) mod dce;
mod fold;
mod fuse;
pub(crate) mod rewrite;
mod share_windows;
mod simplify;
mod split;
#[cfg(test)]
mod tests;

pub use cse::Cse;
pub use dce::Dce;
pub use fold::Fold;
pub use fuse::Fuse;
pub use share_windows::ShareWindows;
pub use simplify::Simplify;
pub use split::Split;

use crate::{program::Program, verify::verify};

/// A rewrite that keeps the meaning of every verified program, bit for bit.
pub trait Pass: Sync {
    /// The name by which it is dumped and disabled.
    fn name(&self) -> &'static str;

    /// Rewrites `program` and says whether anything changed.
    fn run(&self, program: &mut Program) -> bool;
}

/// The standard passes in order. Folding and simplification run again where the passes before expose new work to them.
pub const PASSES: &[&dyn Pass] = &[
    &Fold,
    &Simplify,
    &Fuse,
    &Fold,
    &Simplify,
    &ShareWindows,
    &Split,
    &Cse,
    &Fold,
    &Simplify,
    &Dce,
];

/// An ordered list of passes with the switches that control it.
#[derive(Clone, Default)]
pub struct Pipeline {
    passes: Vec<&'static dyn Pass>,
    dump: Vec<String>,
    disabled: Vec<String>,
    limit: Option<usize>,
}

impl Pipeline {
    /// The standard passes, without looking at the environment.
    pub fn standard() -> Self {
        Self::of(PASSES)
    }

    /// Only these passes.
    pub fn of(passes: &[&'static dyn Pass]) -> Self {
        Self {
            passes: passes.to_vec(),
            ..Self::default()
        }
    }

    /// The standard passes as the environment variables of the module's documentation control them.
    pub fn from_env() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The standard passes as `variable` controls them, which gives the value of an environment variable.
    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let names = |name| {
            let value = variable(name).unwrap_or_default();
            value.split(',').map(|n| n.trim().to_owned()).collect()
        };
        Self {
            passes: PASSES.to_vec(),
            dump: names("TILT_DUMP"),
            disabled: names("TILT_DISABLE_PASS"),
            limit: variable("TILT_PASS_LIMIT").and_then(|n| n.trim().parse().ok()),
        }
    }

    /// Leaves out every pass called `name`.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.disabled.push(name.to_owned());
        self
    }

    /// Stops after `limit` passes that changed something.
    #[must_use]
    pub fn limited(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Runs the passes on a verified program.
    pub fn run(&self, program: &mut Program) {
        self.run_observed(program, |_, _| {});
    }

    /// Runs the passes and calls `observe` after each one that changed the program.
    ///
    /// # Panics
    /// In debug builds, when a pass leaves a program that does not verify.
    pub fn run_observed(&self, program: &mut Program, mut observe: impl FnMut(&str, &Program)) {
        let listed = |list: &[String], name: &str| list.iter().any(|n| n == name);
        let mut changes = 0;
        for pass in &self.passes {
            let name = pass.name();
            if listed(&self.disabled, name) {
                continue;
            }
            if self.limit.is_some_and(|limit| changes >= limit) {
                break;
            }
            if !pass.run(program) {
                continue;
            }
            changes += 1;
            if cfg!(debug_assertions)
                && let Err(error) = verify(program)
            {
                panic!(
                    "pass {name} broke the program (this is a bug in tilt):\n{error}\n{program}"
                );
            }
            if listed(&self.dump, name) || listed(&self.dump, "all") {
                eprintln!("// after {name}\n{program}");
            }
            observe(name, program);
        }
    }
}

/// Runs the standard passes, under the control of the environment.
///
/// ```
/// let program = tilt_ir::parse(
///     "query q unit s { input ~x: f64 point
///        ~a[t] = ~x[t] + 1.0
///        ~b[t] = ~a[t] * 2.0
///        output ~b }",
/// )?;
/// let fused = tilt_ir::optimize(&program);
/// assert!(fused.to_string().contains("~b[t] = (~x[t] + 1.0) * 2.0"));
/// # Ok::<(), tilt_ir::ParseError>(())
/// ```
pub fn optimize(program: &Program) -> Program {
    let mut program = program.clone();
    Pipeline::from_env().run(&mut program);
    program
}
