//! The integration tests, in one binary because each one will link LLVM.

mod apps;
mod generate;
mod golden;
mod properties;
mod text;
