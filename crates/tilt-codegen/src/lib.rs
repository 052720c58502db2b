//! Loop IR and its compilation to machine code.
//!
//! A compiled query is a small number of **loops** over the rows of a timeline, driven by `tilt-exec`. A [`Loop`](lir::Loop) reads columns through
//! accesses, computes eight rows at a time and stores columns, scans them or folds ranges of them: everything between loading and storing is one
//! fused body, and φ is a bit computed beside the values. Which rows are read (joins, shifts, windows) is decided before a loop runs and
//! reaches it as pointers and index columns, so a loop has no branch on data.
//!
//! | module | subject |
//! |---|---|
//! | [`lir`] | the loop IR: text form, verifier, interpreter |
//! | [`lower`] | from expressions of the temporal IR to loop bodies |
//! | [`abi`] | what a loop is called with |
//! | [`jit`] | LLVM: machine code for the host, the cache of compiled loops |
//!
//! ```
//! use std::ptr::{null, null_mut};
//! use tilt_codegen::{abi, jit, lir};
//!
//! let double = lir::parse("loop double lanes 8 { access x: i64 row  %0 = load x  %1 = add %0, %0  store %1 }")?;
//! lir::verify(&double).expect("well formed");
//! let module = jit::compile(&[double], &jit::Options::default())?;
//!
//! // A whole group of eight rows, of which five are asked for.
//! let (x, mut y) = ([1i64, 2, 3, 4, 5, 0, 0, 0], [0i64; 8]);
//! let view = abi::View { values: x.as_ptr().cast(), validity: null(), index: null(), lead: 0, len: 8 };
//! let target = abi::Target { values: y.as_mut_ptr().cast(), validity: null_mut(), len: 8 };
//! let args = abi::Args {
//!     views: &view,
//!     targets: &target,
//!     params: null(),
//!     state: null_mut(),
//!     ranges: null(),
//!     first: 0,
//!     rows: 5,
//!     ahead: abi::nothing_ahead(),
//!     step: 0,
//! };
//! // SAFETY: view and target have the whole group that five rows take.
//! unsafe { module.kernel(0)(&args) };
//! assert_eq!(y[..5], [2, 4, 6, 8, 10]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod abi;
mod arithmetic;
pub mod jit;
pub mod lir;
pub mod lower;
