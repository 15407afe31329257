//! Tensordicts as files that outlive the process, in the forms of Python's `TensorDict`.

mod arrow_file;
mod columns;
mod json;
mod json_values;
mod kinds;
mod names;
mod open;
mod options;
mod read_memmap;
mod read_safetensors;
mod replace;
mod sink;
mod values;
mod write_memmap;
mod write_safetensors;

pub use options::{LoadOptions, SaveOptions};
pub use read_memmap::load_memmap;
pub use read_safetensors::load_safetensors;
pub use write_memmap::{MemmapWriter, save_memmap};
pub use write_safetensors::{SafetensorsWriter, save_safetensors};
