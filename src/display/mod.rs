//! Tensordicts for people and for machines.

mod json;
mod text;

pub use json::write_json;
