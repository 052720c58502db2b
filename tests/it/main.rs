//! The integration tests, in one binary because each one will link LLVM.

mod apps;
mod edges;
mod engine;
mod explain;
mod generate;
mod golden;
mod joins;
mod keyed;
mod numerics;
mod properties;
mod shapes;
mod text;
mod windows;
