//! What one column becomes.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields};

use super::elements::{Elements, is_extension};
use super::reject_duplicates;
use crate::dtype::DType;
use crate::error::Result;
use crate::key::NestedKey;
use crate::options::{MaskKeys, Nulls, Options, Unsigned};

/// On a column that went through a conversion which lets its null rows be: a later one with `nulls=raise`
/// lets them pass. Only columns that are no tensors need it.
const NULLS_METADATA_KEY: &str = "tensordict.nulls";

/// On a column whose unsigned numbers an earlier conversion was told to reinterpret: the sink reads its mark.
const UNSIGNED_METADATA_KEY: &str = "tensordict.unsigned";

/// What one column, or one field of a struct column, becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct EntrySpec {
    pub(crate) key: NestedKey,
    pub(crate) field: FieldRef,
    pub(crate) kind: EntryKind,
    pub(crate) nullable: bool,
    pub(crate) nulls: Nulls,
    pub(crate) mask: MaskRule,
    pub(crate) unsigned: Unsigned,
    /// The field that the nulls stage gives: without nulls where it becomes a tensor.
    pub(crate) output: FieldRef,
}

/// The four kinds of entries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EntryKind {
    Dense(Elements),
    Jagged(Elements),
    Dict(Vec<EntrySpec>),
    NonTensor,
}

/// When an entry gets a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaskRule {
    Never,
    /// The schema said that there are no nulls. If some come there is no place for a mask.
    RuledOut,
    Observed,
    Always,
}

impl MaskRule {
    /// Whether there is a mask for some data.
    pub(crate) fn may_be(self) -> bool {
        matches!(self, MaskRule::Observed | MaskRule::Always)
    }
}

impl EntrySpec {
    /// The path to the entry in the tensordict.
    pub fn key(&self) -> &NestedKey {
        &self.key
    }

    /// The Arrow field that it comes from.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// `tensor`, `jagged`, `dict` or `non_tensor`.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            EntryKind::Dense(_) => "tensor",
            EntryKind::Jagged(_) => "jagged",
            EntryKind::Dict(_) => "dict",
            EntryKind::NonTensor => "non_tensor",
        }
    }

    /// The element type of a tensor or jagged tensor.
    pub fn dtype(&self) -> Option<DType> {
        match &self.kind {
            EntryKind::Dense(elements) | EntryKind::Jagged(elements) => Some(elements.dtype),
            EntryKind::Dict(_) | EntryKind::NonTensor => None,
        }
    }

    /// The shape, with `n` for the batch and `*` for the ragged dimension: `[n, *, 3]`.
    pub fn shape(&self) -> String {
        let (ragged, trailing) = match &self.kind {
            EntryKind::Dense(elements) => (false, elements.logical()),
            EntryKind::Jagged(elements) => (true, elements.logical()),
            EntryKind::Dict(_) | EntryKind::NonTensor => (false, vec![]),
        };
        let mut dims = vec!["n".to_owned()];
        dims.extend(ragged.then(|| "*".to_owned()));
        dims.extend(trailing.iter().map(ToString::to_string));
        format!("[{}]", dims.join(", "))
    }

    /// Whether rows may be null, here or in a struct above.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// What happens to its nulls.
    pub fn nulls(&self) -> Nulls {
        self.nulls
    }

    /// The entries of a dict, none for the others.
    pub fn entries(&self) -> &[EntrySpec] {
        match &self.kind {
            EntryKind::Dict(entries) => entries,
            _ => &[],
        }
    }

    pub(super) fn resolve(
        field: &FieldRef,
        key: NestedKey,
        above: bool,
        options: &Options,
        masks: &MaskKeys,
    ) -> Result<Self> {
        let elements = |field: &Field| Elements::of(field).map_err(|error| error.at(&key));
        let extension = is_extension(field);
        let nullable = above || field.is_nullable() || has_nullable_values(field.data_type());
        let kind = match field.data_type() {
            DataType::Struct(fields) if !extension => {
                reject_duplicates(fields, &key)?;
                let entries = fields
                    .iter()
                    .map(|field| EntrySpec::resolve(field, key.child(field.name()), nullable, options, masks));
                EntryKind::Dict(entries.collect::<Result<_>>()?)
            }
            DataType::List(child) | DataType::LargeList(child) if !extension => {
                elements(child)?.map_or(EntryKind::NonTensor, EntryKind::Jagged)
            }
            _ => elements(field)?.map_or(EntryKind::NonTensor, EntryKind::Dense),
        };
        let mut nulls = options.nulls_at(&key);
        if nulls == Nulls::Raise && is_ruled_on(field, &kind) {
            nulls = Nulls::Fill;
        }
        // A dict has its masks below; one without entries keeps its own.
        let leaf = !matches!(&kind, EntryKind::Dict(entries) if !entries.is_empty());
        let mask = match (nulls, masks) {
            (Nulls::Raise | Nulls::Fill, _) => MaskRule::Never,
            (Nulls::Mask, _) if !leaf => MaskRule::Never,
            (Nulls::Mask, MaskKeys::Observed) => MaskRule::Observed,
            (Nulls::Mask, MaskKeys::Nullable) if nullable => MaskRule::Always,
            (Nulls::Mask, MaskKeys::Columns(keys)) if keys.iter().any(|prefix| key.starts_with(prefix)) => {
                MaskRule::Always
            }
            (Nulls::Mask, MaskKeys::Nullable) => MaskRule::RuledOut,
            (Nulls::Mask, MaskKeys::Columns(_)) if options.masks_are_planned() => MaskRule::RuledOut,
            (Nulls::Mask, MaskKeys::Columns(_)) => MaskRule::Never,
        };
        let unsigned = match field.metadata().get(UNSIGNED_METADATA_KEY) {
            Some(mark) if *mark == Unsigned::Reinterpret.to_string() => Unsigned::Reinterpret,
            _ => options.unsigned_at(&key),
        };
        let output = output_field(field, &kind, nulls, nullable);
        let marked = unsigned == Unsigned::Reinterpret && holds_unsigned(field.data_type());
        let output = Arc::new(if marked { mark(output, UNSIGNED_METADATA_KEY, unsigned) } else { output });
        Ok(EntrySpec { key, field: Arc::clone(field), kind, nullable, nulls, mask, unsigned, output })
    }

    /// Whether a conversion leaves the values of valid and null rows alike as they are.
    #[cfg(feature = "datafusion")]
    pub(crate) fn keeps_values(&self) -> bool {
        self.nulls == Nulls::Raise || self.kind == EntryKind::NonTensor || !self.may_hold_nulls()
    }

    /// Whether a conversion lets every row pass as it is: it neither fills nor refuses anything.
    #[cfg(feature = "datafusion")]
    pub(crate) fn is_untouched(&self) -> bool {
        !self.may_hold_nulls() || (self.kind == EntryKind::NonTensor && self.nulls != Nulls::Raise)
    }

    /// Whether there is nothing to rule on: no nulls by the schema, or an earlier conversion did.
    #[cfg(feature = "datafusion")]
    pub(crate) fn needs_no_ruling(&self) -> bool {
        is_ruled_on(&self.field, &self.kind) || !self.may_hold_nulls()
    }

    /// Nulls at any depth, by the schema.
    #[cfg(feature = "datafusion")]
    fn may_hold_nulls(&self) -> bool {
        fn inside(field: &Field) -> bool {
            field.is_nullable()
                || match field.data_type() {
                    DataType::List(child)
                    | DataType::LargeList(child)
                    | DataType::ListView(child)
                    | DataType::LargeListView(child)
                    | DataType::FixedSizeList(child, _)
                    | DataType::Map(child, _) => inside(child),
                    DataType::Struct(fields) => fields.iter().any(|field| inside(field)),
                    // Their nulls aren't in the schema.
                    DataType::Null | DataType::Dictionary(..) | DataType::Union(..) | DataType::RunEndEncoded(..) => {
                        true
                    }
                    _ => false,
                }
        }
        self.nullable || inside(&self.field)
    }

    pub(crate) fn find(&self, key: &NestedKey) -> Option<&EntrySpec> {
        if &self.key == key {
            return Some(self);
        }
        self.entries().iter().find_map(|entry| entry.find(key))
    }

    /// This entry and all below it, dicts before their entries.
    pub(super) fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a EntrySpec)) {
        visit(self);
        self.entries().iter().for_each(|entry| entry.walk(visit));
    }
}

fn output_field(field: &Field, kind: &EntryKind, nulls: Nulls, nullable: bool) -> Field {
    let output = field.clone();
    match kind {
        EntryKind::Dense(_) | EntryKind::Jagged(_) => {
            output.with_data_type(without_nulls(field.data_type())).with_nullable(false)
        }
        EntryKind::Dict(entries) => {
            let fields: Fields = entries.iter().map(|entry| Arc::clone(&entry.output)).collect();
            output.with_data_type(DataType::Struct(fields)).with_nullable(false)
        }
        EntryKind::NonTensor => {
            let output = if nulls == Nulls::Raise { output } else { mark_ruled_on(&output) };
            // A null row of a struct above shows in a field that has no nulls of its own.
            output.with_nullable(nullable)
        }
    }
}

/// The type of a tensor column once no level of it has nulls.
fn without_nulls(data_type: &DataType) -> DataType {
    let child = |field: &FieldRef| {
        let data_type = without_nulls(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(data_type).with_nullable(false))
    };
    match data_type {
        DataType::List(field) => DataType::List(child(field)),
        DataType::LargeList(field) => DataType::LargeList(child(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(child(field), *size),
        other => other.clone(),
    }
}

/// Whether rows may be null though the field says nothing of it: its values have the nulls.
fn has_nullable_values(data_type: &DataType) -> bool {
    let nullable = |field: &FieldRef| field.is_nullable() || has_nullable_values(field.data_type());
    match data_type {
        DataType::Null => true,
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| nullable(field)),
        DataType::RunEndEncoded(_, values) => nullable(values),
        _ => false,
    }
}

/// Whether the numbers of a tensor column may be above `i64::MAX`.
fn holds_unsigned(data_type: &DataType) -> bool {
    match data_type {
        DataType::UInt64 => true,
        DataType::List(child) | DataType::LargeList(child) | DataType::FixedSizeList(child, _) => {
            holds_unsigned(child.data_type())
        }
        _ => false,
    }
}

/// Whether an earlier conversion left its mark.
fn is_ruled_on(field: &Field, kind: &EntryKind) -> bool {
    *kind == EntryKind::NonTensor && field.metadata().contains_key(NULLS_METADATA_KEY)
}

/// The field with the mark that its null rows are welcome.
pub(crate) fn mark_ruled_on(field: &Field) -> Field {
    mark(field.clone(), NULLS_METADATA_KEY, Nulls::Fill)
}

fn mark(field: Field, key: &str, word: impl ToString) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(key.to_owned(), word.to_string());
    field.with_metadata(metadata)
}
