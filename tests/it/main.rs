//! The integration tests, in one binary because each one will link LLVM.

mod apps;
mod engine;
mod generate;
mod golden;
mod keyed;
mod properties;
mod text;
