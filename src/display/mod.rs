//! Tensordicts for people and for machines.

mod html;
mod json;
mod markup;
mod notebook;
mod outline;
mod picture;
mod sample;
mod size;
mod text;

pub use json::write_json;
