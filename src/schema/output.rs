//! The Arrow schema that the operator gives.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};

use super::{EntrySpec, MaskRule, TensorDictSchema};

impl TensorDictSchema {
    /// Whether `entry` or one below it may have a mask.
    pub(crate) fn has_masks(&self, entry: &EntrySpec) -> bool {
        let mut masked = false;
        entry.walk(&mut |entry| masked |= entry.mask.may_be());
        masked
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

fn mask_fields(entries: &[EntrySpec]) -> Vec<FieldRef> {
    let field = |entry: &EntrySpec| -> Option<FieldRef> {
        let below = mask_fields(entry.entries());
        let data_type = match entry.mask {
            MaskRule::Always => DataType::Boolean,
            MaskRule::Never | MaskRule::RuledOut | MaskRule::Observed if below.is_empty() => return None,
            MaskRule::Never | MaskRule::RuledOut | MaskRule::Observed => DataType::Struct(below.into()),
        };
        Some(Arc::new(Field::new(entry.field.name(), data_type, false)))
    };
    entries.iter().filter_map(field).collect()
}
