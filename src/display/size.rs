//! How large entries are.

use std::ops::AddAssign;

use arrow::array::Array;
use tch::Tensor;

use crate::dict::has_strides;
use crate::tensor::{JaggedTensor, NonTensorStack};

/// Bytes of one or more entries.
#[derive(Clone, Copy, Default)]
pub(super) struct Bytes {
    counted: f64,
    /// There is something whose bytes aren't known.
    pub(super) more: bool,
    /// Not all that counts was looked at.
    about: bool,
}

impl Bytes {
    /// Of all elements; an expanded tensor has them once for each place. Not known of what has no strides.
    pub(super) fn of_tensor(tensor: &Tensor) -> Bytes {
        match tensor.f_kind() {
            Ok(kind) if has_strides(tensor) => {
                let count: f64 = tensor.size().iter().map(|size| *size as f64).product();
                Bytes::known(count * kind.elt_size_in_bytes() as f64)
            }
            _ => Bytes { more: true, ..Bytes::default() },
        }
    }

    /// Of values and offsets.
    pub(super) fn of_jagged(jagged: &JaggedTensor) -> Bytes {
        let mut bytes = Bytes::of_tensor(jagged.values());
        bytes += Bytes::of_tensor(jagged.offsets());
        bytes
    }

    pub(super) fn of_values(values: &NonTensorStack) -> Bytes {
        let size = values.values().to_data().get_slice_memory_size();
        Bytes::known(size.unwrap_or_else(|_| values.values().get_array_memory_size()) as f64)
    }

    fn known(counted: f64) -> Bytes {
        Bytes { counted, ..Bytes::default() }
    }

    /// Of as many such entries.
    pub(super) fn times(self, count: f64) -> Bytes {
        Bytes { counted: self.counted * count, more: self.more, about: self.about || count != 1.0 }
    }

    /// In units of 1024, as HTML. Nothing if nothing is known.
    pub(super) fn shown(self) -> String {
        let Bytes { counted, more, about } = self;
        let sign = match (more, about) {
            (true, _) if counted == 0.0 => return String::new(),
            (true, _) => "&gt; ",
            (false, true) => "≈ ",
            (false, false) => "",
        };
        let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut size = counted;
        let mut unit = 0;
        while size >= 1024.0 && unit + 1 < units.len() {
            size /= 1024.0;
            unit += 1;
        }
        let digits = usize::from(unit > 0 && size < 100.0);
        format!("{sign}{size:.digits$} {}", units[unit])
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.counted += other.counted;
        self.more |= other.more;
        self.about |= other.about;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_short() {
        let shown = [0.0, 1023.0, 1536.0, 2e9].map(|count| Bytes::known(count).shown());
        assert_eq!(shown, ["0 B", "1023 B", "1.5 KiB", "1.9 GiB"]);
        let mut some = Bytes::known(5.0).times(2.0);
        assert_eq!(some.shown(), "≈ 10 B");
        some += Bytes { more: true, ..Bytes::default() };
        assert_eq!(some.shown(), "&gt; 10 B");
    }
}
