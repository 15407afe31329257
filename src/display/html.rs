//! Tensordicts, their schemas and their leaves as HTML, for notebooks.

use super::markup::{HEAD, cell, key, level_rows, marked, more, named, notes, ragged, short, table};
use super::outline::{Level, Outline, ROWS};
use super::picture::grouped;
use super::text::{dtype, nulls_of, schema_type, tensor_device};
use crate::dict::{Entry, TensorDict};
use crate::options::device_name;
use crate::schema::{EntrySpec, TensorDictSchema};
use crate::tensor::{JaggedTensor, MultiNestedTensor, NonTensorStack};

impl TensorDict {
    /// The tensordict as HTML: a row for each entry, nested ones folded in, with kind, dtype, shape (`*` for ragged
    /// dims, and where members of a lazy stack differ), device, bytes, the share of nulls, and the values.
    ///
    /// Numbers are a small histogram and their range, NaN and infinities counted apart, booleans the share that is true,
    /// jagged tensors a histogram of the rows' lengths. Nulls are what the mask at the same path below `_mask`
    /// ([`DEFAULT_MASK_KEY`](crate::DEFAULT_MASK_KEY)) says, of non-tensor values what Arrow does; masked values are not
    /// in the picture. What isn't a dense tensor of integers, floats or booleans has no picture.
    ///
    /// However large it is, this is quick: at most 4,096 values of an entry are looked at, evenly strided, 200 entries
    /// shown, 64 levels, and 2,000 members of a lazy stack looked at (256 of them for values), none of them stacked. It
    /// says where it did so. Of tensors on a GPU only these values are copied. `bytes` counts elements: one of an
    /// expanded tensor once for each of its places.
    ///
    /// All text in it is escaped. There is no script in it, nothing is loaded, and its colours are those of the page.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let td = TensorDict::from_entries([("x<y", Tensor::from_slice(&[true, true, false, true]))])?;
    /// let html = td.to_html();
    /// assert!(html.contains("x&lt;y"));
    /// assert!(html.contains("75% true"));
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    pub fn to_html(&self) -> String {
        let (outline, level) = Outline::of(self);
        let name = if self.is_lazy() { "LazyStackedTensorDict" } else { "TensorDict" };
        let device = self.device().map_or("none".to_owned(), device_name);
        let mut facts = vec![format!("batch_size={}", ragged(&self.batch_size())), format!("device={device}")];
        if let Some(dim) = self.stack_dim() {
            facts.push(format!("stack_dim={dim}"));
            facts.push(format!("{} members", grouped(self.members().len() as u64)));
        }
        if !level.rows.is_empty() {
            facts.push(level.bytes.shown());
        }
        page(name, &facts, &level, &outline)
    }
}

impl JaggedTensor {
    /// The jagged tensor as HTML: a histogram of the rows' lengths, and one of the values. See
    /// [`TensorDict::to_html`].
    pub fn to_html(&self) -> String {
        let facts = [
            format!("shape={}", ragged(&self.shape())),
            format!("dtype={}", short(&dtype(self.values()))),
            format!("device={}", tensor_device(self.values())),
        ];
        let entries = [("rows", self.shallow_clone().into()), ("values", self.values().shallow_clone().into())];
        lone("JaggedTensor", &facts, &entries)
    }
}

impl MultiNestedTensor {
    /// The tensor as HTML: a histogram of the cells' lengths, and one of the values. See [`TensorDict::to_html`].
    pub fn to_html(&self) -> String {
        let facts = [
            format!("shape={}", ragged(&self.shape())),
            format!("dtype={}", short(&dtype(self.values()))),
            format!("device={}", tensor_device(self.values())),
        ];
        let cells = JaggedTensor::from_trusted(self.values().shallow_clone(), self.offset().shallow_clone());
        let entries = [("cells", cells.into()), ("values", self.values().shallow_clone().into())];
        lone("MultiNestedTensor", &facts, &entries)
    }
}

impl NonTensorStack {
    /// The values as HTML: their Arrow type, how many are null, and the first few. See [`TensorDict::to_html`].
    pub fn to_html(&self) -> String {
        let facts = [format!("batch_size={}", ragged(self.batch_size()))];
        lone("NonTensorStack", &facts, &[("values", self.clone().into())])
    }
}

impl TensorDictSchema {
    /// The schema as HTML: a row for each entry, nested ones folded in, with kind, type, shape, and what happens to its
    /// nulls if it may have some. See [`TensorDict::to_html`].
    pub fn to_html(&self) -> String {
        let mut rows = String::new();
        schema_rows(self, self.entries(), 0, &mut { ROWS }, &mut rows);
        let head = ["key", "kind", "dtype", "shape", "nulls"];
        table("<b>TensorDict</b>  batch_size=[n]", &head, "tq-schema", &rows, &[])
    }
}

fn page(name: &str, facts: &[String], level: &Level, outline: &Outline) -> String {
    let mut rows = String::new();
    level_rows(level, 0, &mut rows);
    let title = format!("<b>{name}</b>  {}", facts.join("  "));
    table(&title, &HEAD, "", &rows, &notes(outline.sampled, outline.skipped))
}

/// A value that is in no tensordict, by its parts.
fn lone(name: &str, facts: &[String], parts: &[(&str, Entry)]) -> String {
    let root = TensorDict::default();
    let (outline, level) = Outline::of_parts(&root, parts);
    page(name, facts, &level, &outline)
}

fn schema_rows(schema: &TensorDictSchema, entries: &[EntrySpec], depth: usize, room: &mut usize, html: &mut String) {
    for (at, entry) in entries.iter().enumerate() {
        if *room == 0 {
            return html.push_str(&more(entries.len() - at, depth));
        }
        *room -= 1;
        let name = entry.key().names().last().map_or("", String::as_str);
        let cells = [
            key(&named(name), depth),
            cell(entry.kind()),
            cell(&short(&schema_type(entry))),
            cell(&marked(&entry.shape())),
            cell(&short(&nulls_of(schema, entry))),
        ];
        let cells = cells.join(" ");
        if entry.entries().is_empty() {
            html.push_str(&format!("<div class=\"tq-row tq-schema\">{cells}</div>\n"));
        } else {
            html.push_str(&format!("<details open><summary class=\"tq-row tq-schema\">{cells}</summary>\n"));
            schema_rows(schema, entry.entries(), depth + 1, room, html);
            html.push_str("</details>\n");
        }
    }
}
