//! Snapshot buffers of tilt: streams over Arrow arrays.
