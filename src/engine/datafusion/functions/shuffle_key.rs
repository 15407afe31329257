//! `shuffle_key(seed, columns, …)`: the number that a loader shuffles by.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use super::column::{Arguments, SECTION, is_listing, listed_signature};
use crate::error::Error;
use crate::loader::{is_key_type, shuffle_keys};

const NAME: &str = "shuffle_key";

/// The hash of an epoch's order; in SQL that of epoch 0.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::engine::datafusion) struct ShuffleKey {
    epoch: u64,
    signature: Signature,
    documentation: Documentation,
}

impl ShuffleKey {
    pub(in crate::engine::datafusion) fn new(epoch: u64) -> Self {
        let documentation = Documentation::builder(
            SECTION,
            "Gives a number from 0 to 2^64 - 1 per row that depends on the seed and the columns' values alone: XXH64, the \
             same on every machine and in every version. Rows ordered by it, then by the columns, come as in a loader's \
             epoch 0 of `Order::shuffled(seed, columns)`; `shuffle_key(7, id) % 10 < 8` is a part of the rows that stays \
             the same. A null is a value.",
            "shuffle_key(seed, column [, …])",
        )
        .with_sql_example("```sql\n> SELECT * FROM visits ORDER BY shuffle_key(7, id), id;\n```")
        .with_argument("seed", "A constant from 0 to 2^64 - 1.")
        .with_argument("column", "Whole numbers, booleans, strings, binaries, dates or times, one column or more.")
        .build();
        let signature = listed_signature(vec![DataType::Int64, DataType::Int64]);
        ShuffleKey { epoch, signature, documentation }
    }
}

impl ScalarUDFImpl for ShuffleKey {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if !is_listing(&args) {
            let arguments = Arguments::planned(NAME, &args);
            arguments.count_is(2..=usize::MAX, &self.documentation)?;
            seed_of(&arguments)?;
            if let Some(key) = args.arg_fields[1..].iter().find(|key| !is_key_type(key.data_type())) {
                let message = format!("rows can't be told apart by {}", key.data_type());
                let remedy = "use columns of integers, booleans, strings, binaries, dates or times";
                return Err(Error::option(message).at(key.name().as_str()).remedy(remedy).into());
            }
        }
        Ok(Arc::new(Field::new(NAME, DataType::UInt64, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = Arguments::given(NAME, &args);
        arguments.count_is(2..=usize::MAX, &self.documentation)?;
        let seed = seed_of(&arguments)?;
        let keys = ColumnarValue::values_to_arrays(&args.args[1..])?;
        // Constants alone come as arrays of one row.
        let rows = keys.first().map_or(args.number_rows, |key| key.len());
        Ok(ColumnarValue::Array(Arc::new(shuffle_keys(seed, self.epoch, &keys, rows)?)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

fn seed_of(arguments: &Arguments<'_>) -> crate::error::Result<u64> {
    let constant = arguments.constant(0, "seed")?;
    let number = match constant.data_type().is_integer() {
        true => constant.cast_to(&DataType::UInt64).ok(),
        false => None,
    };
    match number {
        Some(ScalarValue::UInt64(Some(seed))) => Ok(seed),
        _ => Err(arguments.wrong("seed", constant).remedy(format!("it takes a whole number from 0 to {}", u64::MAX))),
    }
}
