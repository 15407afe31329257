//! The last value of a notebook's cell, by the convention of evcxr, the Jupyter kernel for Rust: it calls
//! `evcxr_display` and reads from the standard output what lies between two lines of its own, one such part for each
//! type of content. The notebook shows the richest that it can.

use std::io::Write;

use crate::dict::TensorDict;
use crate::schema::TensorDictSchema;
use crate::tensor::{JaggedTensor, MultiNestedTensor, NonTensorStack};

/// Lines that are written of each part. HTML has fewer, text is cut here.
const LINES: usize = 1000;

macro_rules! display {
    ($($type:ty),*) => {$(
        impl $type {
            /// Writes [`to_html`](Self::to_html), and the text of `Display` for what shows no HTML, to the standard output
            /// as evcxr, the Jupyter kernel for Rust, takes them: it calls this for the value at the end of a cell.
            pub fn evcxr_display(&self) {
                let content = content(&[("text/html", &self.to_html()), ("text/plain", &self.to_string())]);
                // Nobody may be there to read it.
                let _ = std::io::stdout().lock().write_all(content.as_bytes());
            }
        }
    )*};
}

display!(TensorDict, TensorDictSchema, JaggedTensor, MultiNestedTensor, NonTensorStack);

fn content(parts: &[(&str, &str)]) -> String {
    let mut content = String::new();
    for (kind, text) in parts {
        content.push_str(&format!("EVCXR_BEGIN_CONTENT {kind}\n"));
        let mut lines = text.lines();
        for line in lines.by_ref().take(LINES) {
            // A line that is the kernel's own word is not one.
            let shift = if line.starts_with("EVCXR_") { " " } else { "" };
            content.push_str(&format!("{shift}{line}\n"));
        }
        match lines.count() {
            0 => {}
            more => content.push_str(&format!("… {more} more lines\n")),
        }
        content.push_str("EVCXR_END_CONTENT\n");
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_not_end_itself() {
        assert_eq!(
            content(&[("text/html", "<b>\nx"), ("text/plain", "EVCXR_END_CONTENT\ny")]),
            "EVCXR_BEGIN_CONTENT text/html\n<b>\nx\nEVCXR_END_CONTENT\n\
             EVCXR_BEGIN_CONTENT text/plain\n EVCXR_END_CONTENT\ny\nEVCXR_END_CONTENT\n"
        );
    }
}
