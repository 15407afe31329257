//! What each column will become, told from the Arrow schema and the options alone.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::options::{MaskKeys, Nulls, Options, Unsigned};

/// On a column that went through a conversion which lets its null rows be: a later one with `nulls=raise`
/// lets them pass. Only columns that are no tensors need it.
const NULLS_METADATA_KEY: &str = "tensordict.nulls";

const FIXED_SHAPE_TENSOR: &str = "arrow.fixed_shape_tensor";

/// What the columns of a query become: keys, kinds, dtypes, shapes and masks.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use tensorquery::{Options, TensorDictSchema};
///
/// let item = Field::new("item", DataType::Float32, false);
/// let schema = Schema::new(vec![
///     Field::new("id", DataType::UInt32, false),
///     Field::new("emb", DataType::FixedSizeList(item.clone().into(), 3), false),
///     Field::new("tokens", DataType::List(item.into()), false),
/// ]);
/// let schema = TensorDictSchema::resolve(&schema, &Options::default())?;
/// let shapes: Vec<_> = schema.entries().iter().map(|entry| entry.shape()).collect();
/// assert_eq!(shapes, ["[n]", "[n, 3]", "[n, *]"]);
/// assert_eq!(schema.entries()[0].dtype().unwrap().to_string(), "int64");
/// # Ok::<_, tensorquery::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TensorDictSchema {
    entries: Vec<EntrySpec>,
    mask_key: NestedKey,
}

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
    Observed,
    Always,
}

/// The elements of a tensor column: numbers or booleans with trailing dims.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Elements {
    pub(crate) dtype: DType,
    /// Trailing dims as they lie in memory.
    pub(crate) physical: Vec<usize>,
    /// Logical trailing dim `i` is physical dim `permutation[i]`.
    pub(crate) permutation: Vec<usize>,
}

impl Elements {
    /// Numbers, booleans, fixed-size lists and fixed-shape tensors of such; `None` for all else.
    fn of(field: &Field) -> Result<Option<Elements>> {
        if let DataType::FixedSizeList(child, size) = field.data_type() {
            let Some(inner) = Elements::of(child)? else {
                return Ok(None);
            };
            let size = usize::try_from(*size)
                .map_err(|_| Error::schema(format!("a fixed-size list of {size} elements can't be")))?;
            let (dims, permutation) = match fixed_shape_tensor(field)? {
                Some(tensor) => tensor,
                None if is_extension(field) => return Ok(None),
                None => (vec![size], vec![0]),
            };
            return Ok(Some(Elements {
                dtype: inner.dtype,
                permutation: permutation.into_iter().chain(inner.permutation.iter().map(|p| p + dims.len())).collect(),
                physical: dims.into_iter().chain(inner.physical).collect(),
            }));
        }
        let dtype = DType::of_arrow(field.data_type()).filter(|_| !is_extension(field));
        Ok(dtype.map(|dtype| Elements { dtype, physical: vec![], permutation: vec![] }))
    }

    /// Trailing dims as the user sees them.
    pub(crate) fn logical(&self) -> Vec<usize> {
        self.permutation.iter().map(|&dim| self.physical[dim]).collect()
    }

    /// Numbers per row.
    pub(crate) fn width(&self) -> usize {
        self.physical.iter().product()
    }
}

fn is_extension(field: &Field) -> bool {
    field.extension_type_name().is_some()
}

/// Shape and permutation of `arrow.fixed_shape_tensor`, whose metadata is a JSON object
/// (Arrow's "Canonical Extension Types"). arrow-rs' own type tells neither its shape nor takes
/// nullable elements.
fn fixed_shape_tensor(field: &Field) -> Result<Option<(Vec<usize>, Vec<usize>)>> {
    if field.extension_type_name() != Some(FIXED_SHAPE_TENSOR) {
        return Ok(None);
    }
    let malformed = |what: &str| Error::schema(format!("its {FIXED_SHAPE_TENSOR} metadata {what}"));
    let text = field.extension_type_metadata().ok_or_else(|| malformed("is missing"))?;
    let metadata: serde_json::Value =
        serde_json::from_str(text).map_err(|error| malformed(&format!("is no JSON: {error}")))?;
    let numbers = |name: &str| -> Result<Option<Vec<usize>>> {
        let numbers = match &metadata[name] {
            serde_json::Value::Null => return Ok(None),
            serde_json::Value::Array(values) => {
                values.iter().map(|value| value.as_u64().and_then(|n| usize::try_from(n).ok())).collect()
            }
            _ => None,
        };
        Some(numbers)
            .filter(Option::is_some)
            .ok_or_else(|| malformed(&format!("has a '{name}' that is no list of sizes")))
    };
    let dims = numbers("shape")?.ok_or_else(|| malformed("has no 'shape'"))?;
    let permutation = numbers("permutation")?.unwrap_or_else(|| (0..dims.len()).collect());
    let mut sorted = permutation.clone();
    sorted.sort_unstable();
    if sorted.iter().copied().ne(0..dims.len()) {
        return Err(malformed(&format!("has {permutation:?}, which is no permutation of {} dims", dims.len())));
    }
    let stored = match field.data_type() {
        DataType::FixedSizeList(_, size) => usize::try_from(*size).ok(),
        _ => None,
    };
    if stored != dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim)) {
        return Err(malformed(&format!("says shape {dims:?}, which {} can't hold", field.data_type())));
    }
    Ok(Some((dims, permutation)))
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

    fn resolve(field: &FieldRef, key: NestedKey, above: bool, options: &Options, masks: &MaskKeys) -> Result<Self> {
        let elements = |field: &Field| Elements::of(field).map_err(|error| error.at(&key));
        let extension = is_extension(field);
        let nullable = above || field.is_nullable() || field.data_type() == &DataType::Null;
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
        let ruled_on = kind == EntryKind::NonTensor && field.metadata().contains_key(NULLS_METADATA_KEY);
        if nulls == Nulls::Raise && ruled_on {
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
            (Nulls::Mask, MaskKeys::Nullable | MaskKeys::Columns(_)) => MaskRule::Never,
        };
        let unsigned = options.unsigned_at(&key);
        let output = Arc::new(output_field(field, &kind, nulls, nullable));
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
        let ruled_on = self.kind == EntryKind::NonTensor && self.field.metadata().contains_key(NULLS_METADATA_KEY);
        ruled_on || !self.may_hold_nulls()
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
    fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a EntrySpec)) {
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

fn reject_duplicates(fields: &Fields, parent: &NestedKey) -> Result<()> {
    let mut seen = HashSet::new();
    match fields.iter().find(|field| !seen.insert(field.name())) {
        None => Ok(()),
        Some(field) => Err(Error::key("two columns have this name, a tensordict has room for one")
            .at(parent.child(field.name()))
            .remedy("give one of them an alias: … AS other_name")),
    }
}

impl TensorDictSchema {
    /// Resolves for a whole result: masks exist by default for the keys that had nulls.
    ///
    /// # Errors
    ///
    /// Two columns of one name; a mask key that is a column (with masks asked for) or given though no
    /// masks are asked for; options for a column that is not there; a malformed extension type.
    pub fn resolve(schema: &Schema, options: &Options) -> Result<Self> {
        Self::resolve_with(schema, options, MaskKeys::Observed)
    }

    /// Resolves for a stream or a relation, whose keys must not depend on data: masks exist by default
    /// for all nullable keys.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve), and `mask_keys=observed`.
    pub fn resolve_static(schema: &Schema, options: &Options) -> Result<Self> {
        let resolved = Self::resolve_with(schema, options, MaskKeys::Nullable)?;
        let mut observed = false;
        resolved.walk(&mut |entry| observed |= entry.mask == MaskRule::Observed);
        if observed {
            return Err(Error::option(
                "mask_keys is 'observed', but keys of a stream or relation can't depend on its data",
            )
            .remedy("use 'nullable' or a list of columns"));
        }
        Ok(resolved)
    }

    fn resolve_with(schema: &Schema, options: &Options, default_masks: MaskKeys) -> Result<Self> {
        let mask_key = options.resolved_mask_key();
        if options.masks_anything() {
            match mask_key.split_first() {
                None => return Err(Error::option("mask_key has no names").remedy("it takes one name or more")),
                Some((root, _)) if schema.index_of(root).is_ok() => {
                    return Err(Error::key("the mask key is the name of a column")
                        .at(root)
                        .remedy("choose another with mask_key, or give the column an alias"));
                }
                Some(_) => {}
            }
        } else if let Some(key) = options.explicit_mask_key() {
            return Err(Error::option(format!("mask_key is {key}, but no column's nulls are masked"))
                .remedy("set nulls to 'mask', or leave mask_key out"));
        }
        reject_duplicates(schema.fields(), &NestedKey::default())?;
        let masks = options.mask_keys_or(default_masks);
        let entries = schema
            .fields()
            .iter()
            .map(|field| EntrySpec::resolve(field, field.name().into(), false, options, &masks))
            .collect::<Result<Vec<_>>>()?;
        let resolved = TensorDictSchema { entries, mask_key };
        let listed = match &masks {
            MaskKeys::Columns(keys) => keys.as_slice(),
            MaskKeys::Observed | MaskKeys::Nullable => &[],
        };
        for key in options.column_overrides().chain(listed) {
            if resolved.find(key).is_none() {
                let names: Vec<_> = resolved.entries.iter().map(|entry| entry.key.to_string()).collect();
                return Err(Error::key("an option names this column, which is not there")
                    .at(key)
                    .remedy(format!("the columns are {}", names.join(", "))));
            }
        }
        Ok(resolved)
    }

    /// The entries at the root, in column order.
    pub fn entries(&self) -> &[EntrySpec] {
        &self.entries
    }

    /// The entry at `key`.
    pub fn find(&self, key: &NestedKey) -> Option<&EntrySpec> {
        self.entries.iter().find_map(|entry| entry.find(key))
    }

    /// Every entry, dicts before their entries.
    pub fn iter(&self) -> impl Iterator<Item = &EntrySpec> {
        let mut all = Vec::new();
        self.walk(&mut |entry| all.push(entry));
        all.into_iter()
    }

    /// Where the mask of `entry` is, if it may have one.
    pub fn mask_key_of(&self, entry: &EntrySpec) -> Option<NestedKey> {
        (entry.mask != MaskRule::Never).then(|| self.mask_key.join(&entry.key))
    }

    /// Whether `entry` or one below it may have a mask.
    #[cfg(feature = "datafusion")]
    pub(crate) fn has_masks(&self, entry: &EntrySpec) -> bool {
        let mut masked = false;
        entry.walk(&mut |entry| masked |= entry.mask != MaskRule::Never);
        masked
    }

    pub(crate) fn mask_key(&self) -> &NestedKey {
        &self.mask_key
    }

    fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a EntrySpec)) {
        self.entries.iter().for_each(|entry| entry.walk(visit));
    }

    /// The Arrow schema after the nulls stage: the columns in their places, without nulls where they
    /// become tensors, and the masks as one struct column at the end.
    pub(crate) fn output_schema(&self, input: &Schema) -> Schema {
        let mut fields: Vec<FieldRef> = self.entries.iter().map(|entry| Arc::clone(&entry.output)).collect();
        fields.extend(self.mask_field());
        Schema::new_with_metadata(fields, input.metadata().clone())
    }

    /// The struct column of masks, where their keys are known beforehand and there are any.
    pub(crate) fn mask_field(&self) -> Option<FieldRef> {
        let masks = mask_fields(&self.entries);
        if masks.is_empty() {
            return None;
        }
        let (root, nested) = self.mask_key.split_first()?;
        let below = nested.names().iter().rev().fold(Fields::from(masks), |fields, name| {
            Fields::from(vec![Field::new(name, DataType::Struct(fields), false)])
        });
        Some(Arc::new(Field::new(root, DataType::Struct(below), false)))
    }
}

/// The field with the mark that its null rows are welcome.
pub(crate) fn mark_ruled_on(field: &Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(NULLS_METADATA_KEY.to_owned(), Nulls::Fill.to_string());
    field.clone().with_metadata(metadata)
}

fn mask_fields(entries: &[EntrySpec]) -> Vec<FieldRef> {
    let field = |entry: &EntrySpec| -> Option<FieldRef> {
        let below = mask_fields(entry.entries());
        let data_type = match entry.mask {
            MaskRule::Always => DataType::Boolean,
            MaskRule::Never | MaskRule::Observed if below.is_empty() => return None,
            MaskRule::Never | MaskRule::Observed => DataType::Struct(below.into()),
        };
        Some(Arc::new(Field::new(entry.field.name(), data_type, false)))
    };
    entries.iter().filter_map(field).collect()
}
