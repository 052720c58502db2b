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

pub mod abi;
mod arithmetic;
pub mod jit;
pub mod lir;
pub mod lower;
