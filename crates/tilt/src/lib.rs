//! tilt: a time-centric query compiler. This crate is the facade that Rust services depend on.

pub use tilt_data as data;
pub use tilt_interp as interp;
pub use tilt_ir as ir;
