//! What the functions of one column share: their face to the engine, and how they read their arguments.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use crate::error::{Error, Result};

/// Where the engine's documentation lists them.
pub(super) const SECTION: DocSection = DocSection {
    include: true,
    label: "Tensor Functions",
    description: Some("Columns made ready for tensors: lengths, nulls, shapes, orders."),
};

/// The most elements of a list that a function makes of its own accord: 2^24. To plan a query the engine makes null
/// values of its columns' types, and one of a fixed-size list is an array of all of its elements.
pub(super) const MOST_ELEMENTS: i32 = 1 << 24;

/// A function of one column and constants. The type of what it gives depends on both.
pub(super) trait ColumnFunction: Debug + Default + Eq + Hash + Send + Sync + 'static {
    const NAME: &'static str;
    /// How many arguments it takes.
    const ARGUMENTS: RangeInclusive<usize>;

    /// Arguments' types and the result's, to list it by.
    fn example() -> (Vec<DataType>, DataType);

    fn documentation() -> Documentation;

    /// What the result is, told from fields and constants. Its name is of no account.
    fn field(arguments: &Arguments<'_>) -> Result<Field>;

    /// The result for `column`, the first argument, of the type that `field` gave.
    fn evaluate(arguments: &Arguments<'_>, column: ArrayRef, field: &Field) -> Result<ArrayRef>;
}

/// The function as the engine takes it.
pub(super) fn function<F: ColumnFunction>() -> Arc<ScalarUDF> {
    let signature = listed_signature(F::example().0);
    Arc::new(ScalarUDF::new_from_impl(Adapter::<F> {
        signature,
        documentation: F::documentation(),
        function: PhantomData,
    }))
}

/// Any arguments, which the function checks itself: the engine would cast constants, and so hide them. The engine lists
/// functions by the types of the first part.
pub(super) fn listed_signature(example: Vec<DataType>) -> Signature {
    let types = vec![TypeSignature::Exact(example), TypeSignature::VariadicAny];
    Signature::one_of(types, Volatility::Immutable)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Adapter<F> {
    signature: Signature,
    documentation: Documentation,
    function: PhantomData<F>,
}

impl<F: ColumnFunction> ScalarUDFImpl for Adapter<F> {
    fn name(&self) -> &str {
        F::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> datafusion::error::Result<DataType> {
        internal_err!("the type of {} depends on its constants", F::NAME)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> datafusion::error::Result<FieldRef> {
        if is_listing(&args) {
            return Ok(Arc::new(Field::new(F::NAME, F::example().1, true)));
        }
        let arguments = Arguments::planned(F::NAME, &args);
        arguments.count_is(F::ARGUMENTS, &self.documentation)?;
        Ok(Arc::new(F::field(&arguments)?.with_name(F::NAME)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> datafusion::error::Result<ColumnarValue> {
        let arguments = Arguments::given(F::NAME, &args);
        arguments.count_is(F::ARGUMENTS, &self.documentation)?;
        // A constant column comes as one row, and so goes back.
        let column = match &args.args[0] {
            ColumnarValue::Array(column) => Arc::clone(column),
            ColumnarValue::Scalar(constant) => constant.to_array()?,
        };
        Ok(ColumnarValue::Array(F::evaluate(&arguments, column, &args.return_field)?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// Whether the engine asks for the type of a made-up call, as it does to list functions: arguments of its own names,
/// and no constants among them.
pub(super) fn is_listing(args: &ReturnFieldArgs<'_>) -> bool {
    let made_up = |(place, field): (usize, &FieldRef)| *field.name() == format!("arg_{place}");
    args.scalar_arguments.iter().all(Option::is_none) && args.arg_fields.iter().enumerate().all(made_up)
}

/// The end of a list at which something is added or taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The arguments of a call: their fields, and those that are constants.
pub(super) struct Arguments<'a> {
    function: &'static str,
    fields: &'a [FieldRef],
    constants: Vec<Option<&'a ScalarValue>>,
}

impl<'a> Arguments<'a> {
    /// Those of a call that is planned.
    pub(super) fn planned(function: &'static str, args: &ReturnFieldArgs<'a>) -> Arguments<'a> {
        Arguments { function, fields: args.arg_fields, constants: args.scalar_arguments.to_vec() }
    }

    /// Those of a call that runs.
    pub(super) fn given(function: &'static str, args: &'a ScalarFunctionArgs) -> Arguments<'a> {
        let constants = args.args.iter().map(|arg| match arg {
            ColumnarValue::Scalar(constant) => Some(constant),
            ColumnarValue::Array(_) => None,
        });
        Arguments { function, fields: &args.arg_fields, constants: constants.collect() }
    }

    pub(super) fn count_is(&self, arguments: RangeInclusive<usize>, documentation: &Documentation) -> Result<()> {
        if arguments.contains(&self.fields.len()) {
            return Ok(());
        }
        let message = format!("{} got {} arguments", self.function, self.fields.len());
        Err(Error::option(message).remedy(format!("write {}", documentation.syntax_example)))
    }

    /// The field of the column, the first argument.
    pub(super) fn column(&self) -> &'a FieldRef {
        &self.fields[0]
    }

    /// An error about the column.
    pub(super) fn of_column(&self, error: Error) -> Error {
        error.at(self.column().name().as_str())
    }

    /// The column has a type that the function doesn't take.
    pub(super) fn wrong_type(&self, takes: &str) -> Error {
        let message = format!("{} takes {takes}, this is {}", self.function, self.column().data_type());
        self.of_column(Error::option(message))
    }

    /// Whether the argument is there.
    pub(super) fn has(&self, place: usize) -> bool {
        place < self.fields.len()
    }

    pub(super) fn wrong(&self, parameter: &str, is: impl std::fmt::Display) -> Error {
        Error::option(format!("{}: {parameter} is {is}", self.function))
    }

    /// The constant at `place`, which the function calls `parameter`.
    pub(super) fn constant(&self, place: usize, parameter: &str) -> Result<&'a ScalarValue> {
        self.constants.get(place).copied().flatten().ok_or_else(|| {
            let is = self.fields.get(place).map_or("missing", |field| field.name());
            self.wrong(parameter, format_args!("{is}, which is no constant"))
                .remedy("write its value: the result's type, or all of its rows, depend on it")
        })
    }

    /// How many elements: a constant from 1 to `most`.
    pub(super) fn length(&self, place: usize, parameter: &str, most: i32) -> Result<i32> {
        let constant = self.constant(place, parameter)?;
        let number = whole_number(constant).and_then(|number| i32::try_from(number).ok());
        number
            .filter(|number| (1..=most).contains(number))
            .ok_or_else(|| self.wrong(parameter, constant).remedy(format!("it takes a whole number from 1 to {most}")))
    }

    /// A number or boolean as `element`, without loss but for the rounding of floats. A null is one of that type.
    pub(super) fn value(&self, place: usize, parameter: &str, element: &DataType) -> Result<ScalarValue> {
        let constant = self.constant(place, parameter)?;
        if constant.is_null() {
            return Ok(ScalarValue::try_from(element)?);
        }
        let given = constant.data_type();
        let refused = || {
            self.wrong(parameter, format_args!("{constant}, of type {given}"))
                .remedy(format!("it takes what {element} can hold"))
        };
        if given != *element && !(given.is_numeric() && element.is_numeric()) {
            return Err(refused());
        }
        let value = constant.cast_to(element).map_err(|_| refused())?;
        let float = |scalar: &ScalarValue| match scalar.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(Some(number))) => number,
            _ => f64::NAN,
        };
        let kept = match element.is_floating() {
            true => float(&value).is_infinite() == float(constant).is_infinite(),
            false => value.cast_to(&given).is_ok_and(|back| back == *constant),
        };
        if kept { Ok(value) } else { Err(refused()) }
    }

    pub(super) fn side(&self, place: usize) -> Result<Side> {
        if !self.has(place) {
            return Ok(Side::Right);
        }
        let constant = self.constant(place, "side")?;
        match constant.try_as_str().flatten() {
            Some(side) if side.eq_ignore_ascii_case("left") => Ok(Side::Left),
            Some(side) if side.eq_ignore_ascii_case("right") => Ok(Side::Right),
            _ => Err(self.wrong("side", constant).remedy("it takes 'left' or 'right'")),
        }
    }
}

/// A constant that is a whole number.
pub(super) fn whole_number(constant: &ScalarValue) -> Option<i64> {
    if !constant.data_type().is_integer() {
        return None;
    }
    match constant.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(number)) => number,
        _ => None,
    }
}
