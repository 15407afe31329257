//! What each column will become, told from the Arrow schema and the options alone.

mod elements;
mod entry;
#[cfg(feature = "datafusion")]
mod output;

use std::collections::HashSet;

use arrow::datatypes::{DataType, FieldRef, Fields, Schema};

pub(crate) use elements::{Elements, fixed_shape_field};
pub use entry::EntrySpec;
#[cfg(feature = "datafusion")]
pub(crate) use entry::mark_ruled_on;
pub(crate) use entry::{EntryKind, MaskRule};

use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::options::{MaskKeys, Options};

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

fn reject_duplicates(fields: &Fields, parent: &NestedKey) -> Result<()> {
    let mut seen = HashSet::new();
    match fields.iter().find(|field| !seen.insert(field.name())) {
        None => Ok(()),
        Some(field) => Err(Error::key("two columns have this name, a tensordict has room for one")
            .at(parent.child(field.name()))
            .remedy("give one of them an alias: … AS other_name")),
    }
}

/// Levels of structs, lists, maps and the like that a column's type may have. Types and values are walked
/// by recursion, so without a limit a type could exhaust the stack.
pub(crate) const MAX_LEVELS: usize = 64;

/// # Errors
///
/// A [schema](Error::is_schema) error that names the first column that nests deeper than `levels`.
pub(crate) fn reject_deep(fields: &Fields, levels: usize) -> Result<()> {
    match fields.iter().find(|field| is_deeper_than(levels, field.data_type())) {
        None => Ok(()),
        Some(field) => Err(Error::schema(format!("its type nests deeper than {levels} levels"))
            .at(field.name())
            .remedy("select fields from inside it as columns of their own, as in s['a']['b'] AS b")),
    }
}

fn is_deeper_than(levels: usize, data_type: &DataType) -> bool {
    let below = |data_type: &DataType| levels == 0 || is_deeper_than(levels - 1, data_type);
    let field_below = |field: &FieldRef| below(field.data_type());
    match data_type {
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _)
        | DataType::RunEndEncoded(_, child) => field_below(child),
        DataType::Struct(fields) => fields.iter().any(field_below),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| field_below(field)),
        DataType::Dictionary(_, values) => below(values),
        _ => false,
    }
}

impl TensorDictSchema {
    /// Resolves for a whole result: masks exist by default for the keys that had nulls.
    ///
    /// # Errors
    ///
    /// Two columns of one name; a type of more than 64 levels (less those that `mask_key` adds); a mask key that is a column (with masks asked for) or given though no
    /// masks are asked for (`mask_keys` likewise); options for a column that is not there; a malformed extension type.
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

    /// The options with the masks of `schema` decided on, where that is left to what is nullable.
    ///
    /// # Errors
    ///
    /// As [`resolve_static`](Self::resolve_static).
    #[cfg(feature = "datafusion")]
    pub(crate) fn plan_masks(schema: &Schema, options: &Options) -> Result<Options> {
        let resolved = Self::resolve_static(schema, options)?;
        if options.mask_keys_or(MaskKeys::Nullable) != MaskKeys::Nullable {
            return Ok(options.clone());
        }
        let masked = resolved.iter().filter(|entry| entry.mask == MaskRule::Always);
        Ok(options.clone().with_planned_masks(masked.map(|entry| entry.key.clone()).collect()))
    }

    fn resolve_with(schema: &Schema, options: &Options, default_masks: MaskKeys) -> Result<Self> {
        let mask_key = options.resolved_mask_key();
        // Masks lie as deep as their columns, and below the mask key.
        let above = if options.masks_anything() { mask_key.names().len() } else { 0 };
        if above > MAX_LEVELS {
            return Err(
                Error::option(format!("mask_key has {above} names")).remedy(format!("it takes at most {MAX_LEVELS}"))
            );
        }
        reject_deep(schema.fields(), MAX_LEVELS - above)?;
        if options.masks_anything() {
            match mask_key.split_first() {
                None => return Err(Error::option("mask_key has no names").remedy("it takes one name or more")),
                Some(_) if mask_key.names().iter().any(String::is_empty) => {
                    return Err(
                        Error::option(format!("mask_key is {mask_key}")).remedy("it takes names that are not empty")
                    );
                }
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
        } else if let Some(keys) = options.explicit_mask_keys() {
            return Err(Error::option(format!("mask_keys is {keys}, but no column's nulls are masked"))
                .remedy("set nulls to 'mask', or leave mask_keys out"));
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
        entry.mask.may_be().then(|| self.mask_key.join(&entry.key))
    }

    pub(crate) fn mask_key(&self) -> &NestedKey {
        &self.mask_key
    }

    fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a EntrySpec)) {
        self.entries.iter().for_each(|entry| entry.walk(visit));
    }
}
