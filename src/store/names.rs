//! Names of keys as names of files.

use crate::error::{Error, Result};

/// What says which class of Python's a directory holds, and what it holds beside tensors. An entry of such a name
/// would be taken for that.
const METADATA: [&str; 6] = ["shape", "device", "_type", "_class", "_format_version", "_names"];

/// Fails for a key that the metadata of a directory has no room for.
pub(super) fn ensure_free(name: &str) -> Result<()> {
    if METADATA.contains(&name) {
        return Err(Error::key("a directory's metadata has an item of this name, so the entry would be lost")
            .at(name)
            .remedy("rename the key, or save it as safetensors"));
    }
    Ok(())
}

/// The name of a key's file or directory, as Python's `TensorDict` encodes it: one path component, whatever the key.
pub(super) fn encoded(name: &str) -> String {
    match name {
        "" => return "%".to_owned(),
        "." => return "%2E".to_owned(),
        ".." => return "%2E%2E".to_owned(),
        _ => {}
    }
    let mut encoded = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '/' | '<' | '>' | ':' | '"' | '|' | '?' | '*' | '\\' | ' ' | '%' | '\0'..='\x1f' | '\x7f' => {
                encoded.push_str(&format!("%{:02X}", u32::from(c)));
            }
            c => encoded.push(c),
        }
    }
    encoded
}

/// A key's name as it is, where that is one path component: what older versions of Python's `TensorDict` wrote.
pub(super) fn legacy(name: &str) -> Option<&str> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    (plain && encoded(name) != name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_is_one_path_component() {
        let due = [
            ("x", "x"),
            ("", "%"),
            ("%", "%25"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("../x", "..%2Fx"),
            ("a b", "a%20b"),
            ("a.b", "a.b"),
            ("größe", "größe"),
            ("\0\n\x7f", "%00%0A%7F"),
            ("<>:\"|?*\\", "%3C%3E%3A%22%7C%3F%2A%5C"),
        ];
        for (key, file) in due {
            assert_eq!(encoded(key), file, "{key:?}");
        }
        assert_eq!(legacy("a b"), Some("a b"));
        for key in ["x", "", "..", "../x", "/etc", "a\0"] {
            assert_eq!(legacy(key), None, "{key:?}");
        }
    }
}
