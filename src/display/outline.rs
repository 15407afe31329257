//! The entries of a tensordict as rows, which are found without stacking anything.

use std::fmt::{self, Write};

use arrow::array::Array;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use indexmap::{IndexMap, IndexSet};
use tch::Tensor;

use super::markup::escaped;
use super::picture::picture;
use super::sample::{Sample, Share, sample, sample_lengths, sample_mask};
use super::size::Bytes;
use super::text::{device_of, type_of};
use crate::dict::{Entry, TensorDict, evenly};
use crate::options::DEFAULT_MASK_KEY;
use crate::tensor::NonTensorStack;

/// Entries that are shown, of all dicts together.
pub(super) const ROWS: usize = 200;
/// Levels of dicts that are shown.
const LEVELS: usize = 64;
/// Members of a lazy stack that are looked at, of stacks in stacks all together.
pub(super) const MEMBERS: usize = 2_000;
/// Members of those whose values are.
const SAMPLED_MEMBERS: usize = 256;
/// Kinds, types and devices that are shown of one key.
const DIFFERENT: usize = 8;
/// Characters shown of values that are no numbers.
const CHARACTERS: usize = 60;

/// One entry.
pub(super) struct Row {
    pub(super) name: String,
    /// How many of the members looked at have it, and how many those are, if not all do.
    pub(super) lacking: Option<(usize, usize)>,
    pub(super) kind: String,
    pub(super) dtype: String,
    pub(super) shape: Vec<i64>,
    pub(super) device: String,
    pub(super) bytes: Bytes,
    pub(super) nulls: Option<Share>,
    /// Whether values and nulls are of a part of those that there are.
    pub(super) partial: bool,
    /// HTML.
    pub(super) values: String,
    pub(super) is_masks: bool,
    pub(super) below: Option<Level>,
}

/// The entries of one dict.
#[derive(Default)]
pub(super) struct Level {
    pub(super) rows: Vec<Row>,
    /// Entries that are not shown.
    pub(super) hidden: usize,
    pub(super) bytes: Bytes,
}

/// A dense tensordict: the one shown, or one of the members of a lazy stack.
struct Place<'a> {
    dict: &'a TensorDict,
    masks: Option<&'a TensorDict>,
    /// How many members it stands for, itself one of them.
    stands_for: f64,
}

/// What one of the places has under a key.
struct Part<'a> {
    entry: &'a Entry,
    mask: Option<&'a Entry>,
    stands_for: f64,
}

/// The walk over a tensordict.
pub(super) struct Outline<'a> {
    root: &'a TensorDict,
    room: usize,
    /// Whether values of an entry were left out of a picture or share.
    pub(super) sampled: bool,
    /// Whether members of a lazy stack were left out.
    pub(super) skipped: bool,
}

impl<'a> Outline<'a> {
    pub(super) fn of(root: &'a TensorDict) -> (Self, Level) {
        let mut outline = Outline { root, room: ROWS, sampled: false, skipped: false };
        let mut places = Vec::new();
        outline.expand(&Place { dict: root, masks: None, stands_for: 1.0 }, MEMBERS, &mut places);
        for place in &mut places {
            place.masks = place.dict.held_at(DEFAULT_MASK_KEY).and_then(Entry::as_dict);
        }
        let level = outline.level(&places, &mut Vec::new());
        (outline, level)
    }

    /// The outline of entries that are in no tensordict; `root` has none.
    pub(super) fn of_parts(root: &'a TensorDict, parts: &'a [(&str, Entry)]) -> (Self, Level) {
        let mut outline = Outline { root, room: ROWS, sampled: false, skipped: false };
        let mut level = Level::default();
        for (name, entry) in parts {
            let part = Part { entry, mask: None, stands_for: 1.0 };
            level.rows.push(outline.row(vec![part], 1, &mut vec![(*name).to_owned()]));
        }
        (outline, level)
    }

    /// The dense tensordicts of which this one is made.
    fn expand(&mut self, place: &Place<'a>, most: usize, places: &mut Vec<Place<'a>>) {
        let Place { dict, masks, stands_for } = *place;
        if !dict.is_lazy() {
            return places.push(Place { dict, masks, stands_for });
        }
        let members = evenly(dict.members(), most);
        let (looked_at, count) = (members.len(), dict.members().len());
        self.skipped |= looked_at < count;
        let stands_for = stands_for * count as f64 / looked_at.max(1) as f64;
        // Masks beside a stack are a stack of as many.
        let masks = masks.map(TensorDict::members).filter(|masks| masks.len() == count);
        let mut masks = masks.map(|masks| evenly(masks, most));
        for dict in members {
            let masks = masks.as_mut().and_then(Iterator::next);
            self.expand(&Place { dict, masks, stands_for }, most / looked_at.max(1), places);
        }
    }

    fn level(&mut self, places: &[Place<'a>], path: &mut Vec<String>) -> Level {
        let mut entries: IndexMap<&str, Vec<Part<'a>>> = IndexMap::new();
        for Place { dict, masks, stands_for } in places {
            for (name, entry) in dict.held() {
                let mask = masks.and_then(|masks| masks.held_at(name));
                entries.entry(name).or_default().push(Part { entry, mask, stands_for: *stands_for });
            }
        }
        let mut level = Level::default();
        for (name, parts) in entries {
            if self.room == 0 || path.len() >= LEVELS {
                level.hidden += 1;
                level.bytes += self.weigh_all(&parts);
                continue;
            }
            self.room -= 1;
            path.push(name.to_owned());
            let row = self.row(parts, places.len(), path);
            path.pop();
            level.bytes += row.bytes;
            level.rows.push(row);
        }
        level
    }

    fn row(&mut self, parts: Vec<Part<'a>>, places: usize, path: &mut Vec<String>) -> Row {
        let lacking = (parts.len() < places).then_some((parts.len(), places));
        let shape = match lacking {
            None => self.root.shape_at(path, MEMBERS),
            Some(_) => None,
        };
        let (nulls, partial, values) = leaf(&parts);
        self.sampled |= partial;
        let below = self.below(&parts, path);
        let different = different(&parts);
        let mut bytes = below.as_ref().map(|level| level.bytes).unwrap_or_default();
        let (_, leaves): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.entry.as_dict().is_some());
        bytes += self.weigh_all(leaves);
        Row {
            name: path.last().cloned().unwrap_or_default(),
            lacking,
            kind: listed(&different, Entry::kind),
            dtype: listed(&different, type_of),
            shape: shape.unwrap_or_else(|| shared_shape(&parts)),
            device: listed(&different, device_of),
            bytes,
            nulls,
            partial,
            values,
            is_masks: path.len() == 1 && path[0] == DEFAULT_MASK_KEY,
            below,
        }
    }

    /// The entries of the dicts among these.
    fn below(&mut self, parts: &[Part<'a>], path: &mut Vec<String>) -> Option<Level> {
        let mut places = Vec::new();
        let mut is_dict = false;
        for Part { entry, mask, stands_for } in parts {
            if let Some(dict) = entry.as_dict() {
                is_dict = true;
                let masks = mask.and_then(Entry::as_dict);
                let place = Place { dict, masks, stands_for: *stands_for };
                self.expand(&place, MEMBERS / parts.len(), &mut places);
            }
        }
        is_dict.then(|| self.level(&places, path))
    }

    fn weigh_all<'b>(&mut self, parts: impl IntoIterator<Item = &'b Part<'a>, IntoIter: ExactSizeIterator>) -> Bytes
    where
        'a: 'b,
    {
        let parts = parts.into_iter();
        let most = MEMBERS / parts.len().max(1);
        let mut bytes = Bytes::default();
        for part in parts {
            bytes += self.weigh(part, most);
            // To ask libtorch in vain takes milliseconds.
            if bytes.more {
                break;
            }
        }
        bytes
    }

    /// The bytes of an entry, with at most so many members of lazy stacks in it looked at.
    fn weigh(&mut self, part: &Part<'a>, most: usize) -> Bytes {
        let bytes = match part.entry {
            Entry::Tensor(tensor) => Bytes::of_tensor(tensor),
            Entry::Jagged(jagged) => Bytes::of_jagged(jagged),
            Entry::NonTensor(values) => Bytes::of_values(values),
            Entry::Dict(dict) => {
                let mut places = Vec::new();
                self.expand(&Place { dict, masks: None, stands_for: part.stands_for }, most, &mut places);
                let most = most / places.len().max(1);
                let mut bytes = Bytes::default();
                for Place { dict, stands_for, .. } in places {
                    dict.held()
                        .for_each(|(_, entry)| bytes += self.weigh(&Part { entry, mask: None, stands_for }, most));
                }
                return bytes;
            }
        };
        bytes.times(part.stands_for)
    }
}

/// Nulls, whether they and the values are of a part, and the values as HTML.
fn leaf(parts: &[Part]) -> (Option<Share>, bool, String) {
    let chosen: Vec<&Part> = evenly(parts, SAMPLED_MEMBERS).collect();
    let skipped = chosen.len() < parts.len();
    let tensors = chosen.iter().map(|part| Some((part.entry.as_tensor()?, part.mask.and_then(Entry::as_tensor))));
    if let Some(tensors) = tensors.collect::<Option<Vec<_>>>() {
        return shown(sample(&tensors), "", skipped);
    }
    let offsets =
        chosen.iter().map(|part| Some((part.entry.as_jagged()?.offsets(), part.mask.and_then(Entry::as_tensor))));
    if let Some(offsets) = offsets.collect::<Option<Vec<_>>>() {
        let (nulls, partial, values) = shown(sample_lengths(&offsets), "lengths ", skipped);
        let elements = chosen.iter().map(|part| Some(part.mask?.as_jagged()?.values()));
        let elements = elements.collect::<Option<Vec<_>>>().and_then(|masks| sample_mask(&masks));
        return (nulls.or(elements), partial, values);
    }
    let values = parts.iter().map(|part| part.entry.as_non_tensor());
    if let Some(values) = values.collect::<Option<Vec<_>>>() {
        let mut nulls = Share::default();
        for values in &values {
            nulls.count += nulls_of(values);
            nulls.of += values.values().len() as u64;
        }
        let first = values.iter().copied().find(|values| !values.values().is_empty());
        return (Some(nulls).filter(|nulls| nulls.count > 0), false, first.map(preview).unwrap_or_default());
    }
    // The rows of structs have a mask where their fields have none.
    let masks = chosen.iter().map(|part| part.mask.and_then(Entry::as_tensor)).collect::<Option<Vec<_>>>();
    (masks.and_then(|masks| sample_mask(&masks)), false, String::new())
}

fn shown(sample: Option<Sample>, name: &str, skipped: bool) -> (Option<Share>, bool, String) {
    match sample {
        None => (None, false, String::new()),
        Some(Sample { numbers, nulls, partial }) => {
            let partial = partial || skipped;
            let picture = picture(&numbers, name, partial);
            (nulls, partial, picture)
        }
    }
}

fn nulls_of(values: &NonTensorStack) -> u64 {
    let values = values.values();
    match values.data_type() {
        DataType::Null => values.len() as u64,
        _ => values.null_count() as u64,
    }
}

/// The first few values, none of them read further than it is shown.
fn preview(values: &NonTensorStack) -> String {
    let values = values.values();
    let options = FormatOptions::default().with_null("null");
    let Ok(formatter) = ArrayFormatter::try_new(values.as_ref(), &options) else {
        return String::new();
    };
    let is_text = matches!(values.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let mut text = Bounded { text: String::new(), room: CHARACTERS };
    for row in 0..values.len() {
        let separator = if row == 0 { "" } else { ", " };
        let quote = if is_text && values.is_valid(row) { "\"" } else { "" };
        if write!(text, "{separator}{quote}{}{quote}", formatter.value(row)).is_err() {
            text.text.push('…');
            break;
        }
    }
    format!("<bdi>{}</bdi>", escaped(&text.text))
}

/// Text of at most so many characters; it fails to take more, which ends what writes them.
struct Bounded {
    text: String,
    room: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match text.char_indices().nth(self.room) {
            None => {
                self.room -= text.chars().count();
                self.text.push_str(text);
                Ok(())
            }
            Some((end, _)) => {
                self.room = 0;
                self.text.push_str(&text[..end]);
                Err(fmt::Error)
            }
        }
    }
}

/// One of each kind, type and device; members of a lazy stack may differ.
fn different<'a>(parts: &[Part<'a>]) -> Vec<&'a Entry> {
    let mut different: Vec<&Entry> = Vec::new();
    for Part { entry, .. } in parts {
        if different.len() < DIFFERENT && !different.iter().any(|other| is_alike(entry, other)) {
            different.push(entry);
        }
    }
    different
}

fn is_alike(entry: &Entry, other: &Entry) -> bool {
    match (entry, other) {
        (Entry::Tensor(tensor), Entry::Tensor(other)) => is_tensor_alike(tensor, other),
        (Entry::Jagged(jagged), Entry::Jagged(other)) => is_tensor_alike(jagged.values(), other.values()),
        (Entry::NonTensor(values), Entry::NonTensor(other)) => values.data_type() == other.data_type(),
        (Entry::Dict(_), Entry::Dict(_)) => true,
        _ => false,
    }
}

fn is_tensor_alike(tensor: &Tensor, other: &Tensor) -> bool {
    let alike = tensor.f_kind().ok() == other.f_kind().ok() && tensor.defined() == other.defined();
    // An undefined tensor panics when it is asked for its device.
    alike && (!tensor.defined() || tensor.device() == other.device())
}

/// What is said of entries that differ.
fn listed<T: Into<String>>(entries: &[&Entry], say: impl Fn(&Entry) -> T) -> String {
    let mut words: IndexSet<String> = entries.iter().map(|entry| say(entry).into()).collect();
    words.shift_remove("");
    words.into_iter().collect::<Vec<_>>().join(" | ")
}

/// The shape that these have, each in its member: -1 where they differ.
fn shared_shape(parts: &[Part]) -> Vec<i64> {
    let mut shapes = parts.iter().map(|part| part.entry.shape());
    let mut shape = shapes.next().unwrap_or_default();
    for other in shapes {
        if other.len() != shape.len() {
            return vec![-1];
        }
        for (size, other) in shape.iter_mut().zip(other) {
            if *size != other {
                *size = -1;
            }
        }
    }
    shape
}
