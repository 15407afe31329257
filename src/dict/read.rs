//! Reading the entries of members that differ.

use tch::Tensor;

use super::operand::ensure_shaped;
use super::tensordict::Body;
use super::{Entry, Nested, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::tensor::{JaggedTensor, Number, PaddingSide, pad_rows, promoted, strided_nested};

impl TensorDict {
    /// The members' entries at `key` as they are, in a list nested as the lazy stack is; of a dense
    /// tensordict, the entry. `None` if some member lacks the key.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut members = [TensorDict::new([]), TensorDict::new([])];
    /// members[0].set("a", Tensor::from_slice(&[0.0f32; 3]))?;
    /// members[1].set("a", Tensor::from_slice(&[0.0f32; 4]))?;
    /// let stack = TensorDict::lazy_stack(members, 0)?;
    /// let list = stack.get_list("a")?.unwrap().into_flat();
    /// assert_eq!(list.iter().map(|entry| entry.shape()).collect::<Vec<_>>(), [[3], [4]]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// None today but for lazy stacks inside a member that can't be stacked.
    pub fn get_list(&self, key: impl Into<NestedKey>) -> Result<Option<Nested<Entry>>> {
        let key = key.into();
        if !self.has(key.names()) {
            return Ok(None);
        }
        self.list_at(key.names(), None).map(Some).map_err(|error| error.at(key))
    }

    /// As [`get_list`](Self::get_list), with a handle on `default` in place of the members that lack the key.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let with = TensorDict::from_entries([("a", Tensor::from_slice(&[1i64, 2]))])?;
    /// let stack = TensorDict::lazy_stack([with, TensorDict::new([])], 0)?;
    /// let none = Tensor::from_slice(&[0i64; 0]);
    /// let list = stack.get_list_or("a", none.shallow_clone())?.into_flat();
    /// assert_eq!(list.iter().map(|entry| entry.shape()).collect::<Vec<_>>(), [[2], [0]]);
    /// let jagged = stack.get_jagged_or("a", &none)?;
    /// assert_eq!(jagged.shape(), [2, -1]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`get_list`](Self::get_list).
    pub fn get_list_or(&self, key: impl Into<NestedKey>, default: impl Into<Entry>) -> Result<Nested<Entry>> {
        let key = key.into();
        self.list_at(key.names(), Some(&default.into())).map_err(|error| error.at(key))
    }

    pub(super) fn list_at(&self, names: &[String], default: Option<&Entry>) -> Result<Nested<Entry>> {
        let entry = match (&self.body, names) {
            (Body::Lazy(stack), _) => {
                let items = stack.members.iter().map(|member| member.list_at(names, default));
                return items.collect::<Result<_>>().map(Nested::List);
            }
            (Body::Dense(dense), [name, below @ ..]) if !below.is_empty() => match dense.entries.get(name) {
                Some(Entry::Dict(dict)) => return dict.list_at(below, default),
                _ => None,
            },
            _ => self.find(names)?,
        };
        let entry = entry.or_else(|| default.map(Entry::shallow_clone));
        entry.map(Nested::Value).ok_or_else(|| Error::key("there is no such entry"))
    }

    /// The members' tensors at `key` as one, `[members, …]`: each dim is as long as the longest member's,
    /// and `value`, cast to the dtype, fills the rest on `side`. Members come first, whatever the stack
    /// dim; of stacks of stacks, the outer first. Jagged entries `[rows, *, …]` become `[members, rows, length, …]`.
    /// dtypes are promoted. `None` if some member lacks the key.
    ///
    /// What is padding says [`mask`](JaggedTensor::mask) of [`get_jagged`](Self::get_jagged), or
    /// [`pad_sequence`](Self::pad_sequence) for all keys at once.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::{PaddingSide, TensorDict};
    ///
    /// let mut members = [TensorDict::new([]), TensorDict::new([])];
    /// members[0].set("a", Tensor::from_slice(&[1i64, 2, 3]))?;
    /// members[1].set("a", Tensor::from_slice(&[4i64]))?;
    /// let stack = TensorDict::lazy_stack(members, 0)?;
    /// let padded = stack.get_padded("a", PaddingSide::Left, -1)?.unwrap();
    /// assert_eq!(Vec::<Vec<i64>>::try_from(padded)?, [[1, 2, 3], [-1, -1, 4]]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the tensors differ in their number of dims or have none; a
    /// [key](Error::is_key) error if an entry is no tensor; an [overflow](Error::is_overflow) error for a `value` that
    /// the dtype can't hold (see [`Number`]).
    pub fn get_padded(
        &self,
        key: impl Into<NestedKey>,
        side: PaddingSide,
        value: impl Into<Number>,
    ) -> Result<Option<Tensor>> {
        let key = key.into();
        if !self.has(key.names()) {
            return Ok(None);
        }
        self.padded_at(key.names(), side, value.into(), None).map(Some).map_err(|error| error.at(key))
    }

    /// As [`get_padded`](Self::get_padded), with `default` in place of the members that lack the key.
    ///
    /// # Errors
    ///
    /// As [`get_padded`](Self::get_padded).
    pub fn get_padded_or(
        &self,
        key: impl Into<NestedKey>,
        side: PaddingSide,
        value: impl Into<Number>,
        default: &Tensor,
    ) -> Result<Tensor> {
        let key = key.into();
        let padded =
            ensure_shaped(default).and_then(|()| self.padded_at(key.names(), side, value.into(), Some(default)));
        padded.map_err(|error| error.at(key))
    }

    fn padded_at(
        &self,
        names: &[String],
        side: PaddingSide,
        value: Number,
        default: Option<&Tensor>,
    ) -> Result<Tensor> {
        match (&self.body, names) {
            (Body::Lazy(stack), _) => {
                let tensors = stack.members.iter().map(|member| member.padded_at(names, side, value, default));
                pad_tensors(&tensors.collect::<Result<Vec<_>>>()?, side, value)
            }
            (Body::Dense(dense), [name, below @ ..]) => match dense.entries.get(name) {
                Some(Entry::Dict(dict)) if !below.is_empty() => dict.padded_at(below, side, value, default),
                Some(Entry::Tensor(tensor)) if below.is_empty() => Ok(tensor.shallow_clone()),
                Some(Entry::Jagged(jagged)) if below.is_empty() => jagged.to_padded(side, value, None),
                Some(entry) => {
                    Err(Error::key(format!("the entry is of kind {}, only tensors are padded", entry.kind()))
                        .remedy("get_list gives the members' entries one by one"))
                }
                None => default.map(Tensor::shallow_clone).ok_or_else(|| Error::key("there is no such entry")),
            },
            (Body::Dense(_), []) => Err(Error::key("the empty key holds no entry")),
        }
    }

    /// The members' tensors at `key` as the rows of a jagged tensor `[members, *, …]`, whatever the stack
    /// dim. dtypes are promoted. `None` if some member lacks the key.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the tensors have no dims or differ in another dim than their
    /// first, and for a stack of stacks, whose tensors are ragged twice; a [key](Error::is_key) error if an
    /// entry is no dense tensor.
    pub fn get_jagged(&self, key: impl Into<NestedKey>) -> Result<Option<JaggedTensor>> {
        let key = key.into();
        if !self.has(key.names()) {
            return Ok(None);
        }
        self.jagged_at(&key, None).map(Some).map_err(|error| error.at(key))
    }

    /// As [`get_jagged`](Self::get_jagged), with `default` in place of the members that lack the key.
    ///
    /// # Errors
    ///
    /// As [`get_jagged`](Self::get_jagged), and a [key](Error::is_key) error for a dense tensordict that
    /// lacks the key.
    pub fn get_jagged_or(&self, key: impl Into<NestedKey>, default: &Tensor) -> Result<JaggedTensor> {
        let key = key.into();
        self.jagged_at(&key, Some(default)).map_err(|error| error.at(key))
    }

    fn jagged_at(&self, key: &NestedKey, default: Option<&Tensor>) -> Result<JaggedTensor> {
        if !self.is_lazy()
            && let Some(Entry::Jagged(jagged)) = self.find(key.names())?
        {
            return Ok(jagged);
        }
        default.map_or(Ok(()), ensure_shaped)?;
        JaggedTensor::from_dense_rows(&self.rows_at(key, default)?).map_err(|error| {
            error.remedy(
                "get_nested takes tensors that differ in any dim, get_padded pads every dim, get_list gives them one by one",
            )
        })
    }

    /// The members' tensors at `key` as the rows of libtorch's own nested tensor of layout strided, whatever the stack
    /// dim. Their dims may all differ in size, not in number. dtypes are promoted; elements are copied. `None` if some
    /// member lacks the key.
    ///
    /// tch can't print such a tensor or ask for its sizes. libtorch's kernels for nested tensors take it, and
    /// [`JaggedTensor::from_strided_nested`] where rows differ in their first dim alone.
    ///
    /// ```
    /// use tch::{Kind, Tensor, kind};
    /// use tensorquery::TensorDict;
    ///
    /// let member = |a: Tensor| TensorDict::from_entries([("a", a)]);
    /// let (wide, tall) = (Tensor::f_ones([1, 3], kind::FLOAT_CPU)?, Tensor::f_ones([2, 2], kind::FLOAT_CPU)?);
    /// let stack = TensorDict::lazy_stack([member(wide)?, member(tall)?], 0)?;
    /// assert!(stack.get_jagged("a").unwrap_err().is_shape());
    /// let nested = stack.get_nested("a")?.unwrap();
    /// assert_eq!(nested.f_unbind(0)?[1].size(), [2, 2]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the tensors have no dims or differ in their number, there are none, and for
    /// a stack of stacks; a [device](Error::is_device) error for tensors on different devices; a
    /// [key](Error::is_key) error if an entry is no dense tensor.
    pub fn get_nested(&self, key: impl Into<NestedKey>) -> Result<Option<Tensor>> {
        let key = key.into();
        if !self.has(key.names()) {
            return Ok(None);
        }
        let nested = self.rows_at(&key, None).and_then(|rows| strided_nested(&rows));
        nested.map(Some).map_err(|error| error.at(key))
    }

    /// As [`get_nested`](Self::get_nested), with `default` in place of the members that lack the key.
    ///
    /// # Errors
    ///
    /// As [`get_nested`](Self::get_nested), and a [key](Error::is_key) error for a dense tensordict that
    /// lacks the key.
    pub fn get_nested_or(&self, key: impl Into<NestedKey>, default: &Tensor) -> Result<Tensor> {
        let key = key.into();
        let rows = ensure_shaped(default).and_then(|()| self.rows_at(&key, Some(default)));
        rows.and_then(|rows| strided_nested(&rows)).map_err(|error| error.at(key))
    }

    /// The tensor of each member, or each row of a dense tensordict's.
    fn rows_at(&self, key: &NestedKey, default: Option<&Tensor>) -> Result<Vec<Tensor>> {
        let Body::Lazy(stack) = &self.body else {
            return match self.find(key.names())? {
                Some(Entry::Jagged(jagged)) => jagged.unbind(),
                Some(Entry::Tensor(tensor)) => rows(&tensor),
                Some(entry) => Err(not_a_tensor(&entry)),
                None => Err(self.missing(key)),
            };
        };
        let tensors = stack.members.iter().map(|member| match (member.find(key.names())?, default) {
            (Some(Entry::Tensor(_)), _) if member.is_lazy() => {
                Err(Error::shape("a stack of stacks is ragged twice, a jagged or nested tensor once")
                    .remedy("reshape the stack to one dim, or use get_padded"))
            }
            (Some(Entry::Tensor(tensor)), _) => Ok(tensor),
            (Some(entry), _) => Err(not_a_tensor(&entry)),
            (None, Some(default)) => Ok(default.shallow_clone()),
            (None, None) => Err(Error::key("a member has no such entry")),
        });
        tensors.collect()
    }

    /// The shape of an entry without stacking anything: -1 where the members of a lazy stack differ, and
    /// `[-1]` where they differ in their number of dims.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::TensorDict;
    ///
    /// let mut members = [TensorDict::new([]), TensorDict::new([])];
    /// members[0].set("a", Tensor::from_slice(&[0.0f32; 3]))?;
    /// members[1].set("a", Tensor::from_slice(&[0.0f32; 4]))?;
    /// let stack = TensorDict::lazy_stack(members, 0)?;
    /// assert_eq!(stack.item_shape("a")?, [2, -1]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [key](crate::Error::is_key) error if there is no entry, or some member has none.
    pub fn item_shape(&self, key: impl Into<NestedKey>) -> Result<Vec<i64>> {
        let key = key.into();
        self.shape_at(key.names(), usize::MAX).ok_or_else(|| self.missing(&key))
    }

    /// As [`item_shape`](Self::item_shape), by the shapes of at most so many members, evenly chosen.
    pub(crate) fn shape_at(&self, names: &[String], most: usize) -> Option<Vec<i64>> {
        let Body::Lazy(stack) = &self.body else {
            return match names {
                [] => None,
                [name] => self.held_at(name).map(Entry::shape),
                [name, below @ ..] => self.held_at(name)?.as_dict()?.shape_at(below, most),
            };
        };
        let members = evenly(&stack.members, most);
        let most = most / members.len().max(1);
        let mut shapes = members.map(|member| member.shape_at(names, most));
        let mut shape = shapes.next()??;
        for theirs in shapes {
            let theirs = theirs?;
            if theirs.len() != shape.len() {
                return Some(vec![-1]);
            }
            for (size, other) in shape.iter_mut().zip(theirs) {
                if *size != other {
                    *size = -1;
                }
            }
        }
        shape.insert(stack.stack_dim.min(shape.len()), stack.members.len() as i64);
        Some(shape)
    }
}

/// At most so many of these, but one in any case: each, every second, every third …
pub(crate) fn evenly<T>(items: &[T], most: usize) -> impl ExactSizeIterator<Item = &T> {
    items.iter().step_by(items.len().div_ceil(most.max(1)).max(1))
}

fn not_a_tensor(entry: &Entry) -> Error {
    Error::key(format!("the entry is of kind {}, only tensors become rows of a jagged tensor", entry.kind()))
        .remedy("get_list gives the members' entries one by one, get_padded pads those that are jagged")
}

fn rows(tensor: &Tensor) -> Result<Vec<Tensor>> {
    if tensor.dim() == 0 {
        return Err(Error::shape("the tensor has no dims, so it has no rows"));
    }
    Ok(tensor.f_unbind(0)?)
}

/// Tensors of as many dims stacked along a new first dim, each dim as long as the longest.
pub(super) fn pad_tensors(tensors: &[Tensor], side: PaddingSide, value: Number) -> Result<Tensor> {
    let sizes: Vec<Vec<i64>> = tensors.iter().map(Tensor::size).collect();
    let Some((first, rest)) = sizes.split_first() else {
        return Err(Error::shape("there are no tensors to pad"));
    };
    if let Some(other) = rest.iter().find(|size| size.len() != first.len()) {
        return Err(Error::shape(format!(
            "tensors of different numbers of dims can't be padded to one shape: {first:?} and {other:?}"
        ))
        .remedy("get_list gives them one by one"));
    }
    if first.is_empty() {
        return Err(Error::shape("tensors without dims can't be padded").remedy("get stacks them"));
    }
    let longest: Vec<i64> =
        (0..first.len()).map(|dim| sizes.iter().map(|size| size[dim]).max().unwrap_or_default()).collect();
    let shape: Vec<i64> = std::iter::once(tensors.len() as i64).chain(longest.iter().copied()).collect();
    let (kind, device) = (promoted(tensors)?, tensors[0].device());
    let value = value.to_tensor(kind, device)?;
    if let Some(padded) = pad_rows(tensors, side, &value, longest[0])? {
        return Ok(padded);
    }
    let padded = value.f_expand(&shape, false)?.f_contiguous()?;
    for ((tensor, size), place) in tensors.iter().zip(&sizes).zip(0..) {
        let mut target = padded.f_select(0, place)?;
        for (dim, (size, longest)) in size.iter().zip(&longest).enumerate() {
            let start = if side == PaddingSide::Left { longest - size } else { 0 };
            target = target.f_narrow(dim as i64, start, *size)?;
        }
        target.f_copy_(tensor)?;
    }
    Ok(padded)
}
