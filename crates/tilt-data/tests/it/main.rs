//! Tests of the public surface, one binary.

mod chunks;
mod cut;
mod errors;
mod ingress;
mod keys;
mod round_trip;
mod support;
mod timeline;
