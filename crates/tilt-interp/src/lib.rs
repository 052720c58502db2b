//! The oracle of tilt.
