//! HTML of rows: a table whose rows fold, without scripts and without anything from elsewhere.
//!
//! `<details>` can't fold the rows of a `<table>`, so the rows are grids of one template, which lines their cells up.

use std::fmt::Write;

use super::outline::{Level, MEMBERS, Row};
use super::picture::{grouped, percent};
use super::sample::VALUES;
use super::text::{cut, shape};

/// Characters shown of a key or a type.
const CHARACTERS: usize = 80;
/// Levels by which keys are indented; those below are no further in, lest keys have no room.
const INDENTED: usize = 12;
/// Levels of dicts that are open at first.
const OPEN: usize = 3;

const STYLE: &str = "<style>\
.tensorquery{font-size:13px;line-height:1.5;overflow-x:auto;color:inherit}\
.tensorquery .tq-title{padding:4px;white-space:pre-wrap}\
.tensorquery .tq-row{display:grid;align-items:center;column-gap:10px;padding:1px 4px;min-width:67em;\
grid-template-columns:minmax(11em,1.3fr) 5.5em minmax(5.5em,.7fr) minmax(7em,.7fr) 4em 5em 4em minmax(20em,2fr);\
border-top:1px solid rgba(128,128,128,.3)}\
.tensorquery .tq-schema{min-width:44em;grid-template-columns:minmax(14em,1.4fr) 6em minmax(8em,1fr) 8em minmax(14em,1.4fr)}\
.tensorquery .tq-head{font-weight:600;border-top:0}\
.tensorquery .tq-row>span{overflow-wrap:anywhere}\
.tensorquery .tq-key{padding-left:calc(var(--tq-depth,0)*1.3em + 1.1em);position:relative;font-family:monospace}\
.tensorquery .tq-size{text-align:right;white-space:nowrap}\
.tensorquery .tq-values{display:flex;align-items:center;gap:8px;flex-wrap:wrap;font-variant-numeric:tabular-nums}\
.tensorquery .tq-values svg{width:100px;height:22px;flex:none;opacity:.65}\
.tensorquery .tq-note{opacity:.7;padding:4px}\
.tensorquery summary{cursor:pointer;list-style:none}\
.tensorquery summary::-webkit-details-marker{display:none}\
.tensorquery summary .tq-key::before{content:\"▸\";position:absolute;left:calc(var(--tq-depth,0)*1.3em)}\
.tensorquery details[open]>summary .tq-key::before{content:\"▾\"}\
.tensorquery summary:hover,.tensorquery div.tq-row:hover{background:rgba(128,128,128,.12)}\
</style>";

/// A page's part: a title in words, the rows, what was left out.
pub(super) fn table(title: &str, head: &[&str], class: &str, rows: &str, notes: &[String]) -> String {
    let mut html = format!("<div class=\"tensorquery\">\n{STYLE}\n<div class=\"tq-title\">{title}</div>\n");
    if !rows.is_empty() {
        let cells: Vec<_> = head.iter().map(|name| format!("<span>{name}</span>")).collect();
        let _ = write!(html, "<div class=\"tq-row {class} tq-head\">{}</div>\n{rows}", cells.join(" "));
    }
    for note in notes {
        let _ = writeln!(html, "<div class=\"tq-note\">{note}</div>");
    }
    html.push_str("</div>");
    html
}

/// The columns of [`level_rows`].
pub(super) const HEAD: [&str; 8] = ["key", "kind", "dtype", "shape", "device", "bytes", "nulls", "values"];

/// The rows of a level, and those below them folded in.
pub(super) fn level_rows(level: &Level, depth: usize, html: &mut String) {
    for row in &level.rows {
        let cells = cells(row, depth);
        match &row.below {
            None => {
                let _ = writeln!(html, "<div class=\"tq-row\">{cells}</div>");
            }
            Some(below) => {
                let open = if depth < OPEN && !row.is_masks { " open" } else { "" };
                let _ = writeln!(html, "<details{open}><summary class=\"tq-row\">{cells}</summary>");
                level_rows(below, depth + 1, html);
                html.push_str("</details>\n");
            }
        }
    }
    if level.hidden > 0 {
        html.push_str(&more(level.hidden, depth));
    }
}

/// Stands for so many rows that are left out.
pub(super) fn more(count: usize, depth: usize) -> String {
    format!("<div class=\"tq-row\">{}</div>\n", key(&format!("… {} more", grouped(count as u64)), depth))
}

fn cells(row: &Row, depth: usize) -> String {
    let mut name = named(&row.name);
    if let Some((have, of)) = row.lacking {
        let _ = write!(name, " <small>in {have} of {of} members</small>");
    }
    let about = if row.partial { "≈ " } else { "" };
    let nulls = row.nulls.map(|nulls| format!("{about}{}", percent(nulls))).unwrap_or_default();
    [
        key(&name, depth),
        cell(&row.kind),
        cell(&short(&row.dtype)),
        cell(&ragged(&row.shape)),
        cell(&row.device),
        format!("<span class=\"tq-size\">{}</span>", row.bytes.shown()),
        format!("<span class=\"tq-size\">{nulls}</span>"),
        format!("<span class=\"tq-values\">{}</span>", row.values),
    ]
    .join(" ")
}

pub(super) fn key(html: &str, depth: usize) -> String {
    format!("<span class=\"tq-key\" style=\"--tq-depth:{}\">{html}</span>", depth.min(INDENTED))
}

pub(super) fn cell(html: &str) -> String {
    format!("<span>{html}</span>")
}

/// A shape with its ragged dims in bold.
pub(super) fn ragged(sizes: &[i64]) -> String {
    marked(&shape(sizes))
}

pub(super) fn marked(shape: &str) -> String {
    shape.replace('*', "<b title=\"ragged\">*</b>")
}

/// A key, whatever characters it has. Marked as one that turns no text around it.
pub(super) fn named(name: &str) -> String {
    match name {
        "" => "<bdi>&quot;&quot;</bdi>".to_owned(),
        name => format!("<bdi>{}</bdi>", short(name)),
    }
}

/// Text of others, cut to what there is room for.
pub(super) fn short(text: &str) -> String {
    escaped(&cut(text, CHARACTERS))
}

/// Text of others as HTML that shows it. Characters that are not seen, or that turn the text around them, are written
/// as Rust escapes them.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c if c.is_control() || is_unseen(c) => html.extend(c.escape_default()),
            c => html.push(c),
        }
    }
    html
}

/// Separators of lines, and what has no width or decides on directions.
fn is_unseen(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// What a reader has to know of values, and of members, that were left out.
pub(super) fn notes(sampled: bool, skipped: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if sampled {
        notes.push(format!("≈ by a sample: of each entry at most {VALUES} values, evenly strided"));
    }
    if skipped {
        notes.push(format!("by at most {MEMBERS} members of lazy stacks, evenly chosen"));
    }
    notes
}
