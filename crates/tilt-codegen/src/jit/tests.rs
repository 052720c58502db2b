//! Kernels against plain computations in Rust.

mod cache;
mod derived;
mod guarded_windows;
mod guards;
mod harness;
mod near;
mod recurrences;
mod reductions;
mod slides;
mod speed;
mod stores;
