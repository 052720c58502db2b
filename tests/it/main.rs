//! The integration tests, in one binary because each one will link LLVM.

mod apps;
mod build;
mod cells;
mod control;
mod edges;
mod engine;
mod explain;
mod generate;
mod golden;
mod joins;
mod keyed;
mod live;
mod live_policies;
mod live_sessions;
mod live_trill;
mod long_windows;
mod numerics;
mod packed;
mod panes;
mod periodic;
mod properties;
mod reducers;
mod shapes;
mod streams;
mod text;
mod windows;
