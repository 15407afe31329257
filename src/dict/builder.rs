//! Building a lazy stack.

use tch::Device;

use super::lazy::{LazyStack, has_name, new_dim};
use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;

/// What a lazy stack is built of.
///
/// ```
/// use tensorquery::LazyStackBuilder;
///
/// let empty = LazyStackBuilder::new([]).batch_size([3, 4]).stack_dim(1).stack_dim_name("time").build()?;
/// assert_eq!(empty.batch_size(), [3, 0, 4]);
/// # Ok::<_, tensorquery::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct LazyStackBuilder {
    members: Vec<TensorDict>,
    stack_dim: i64,
    stack_dim_name: Option<String>,
    strict_shape: bool,
    batch_size: Option<Vec<i64>>,
    device: Option<Device>,
    names: Option<Vec<Option<String>>>,
    members_batch: MembersBatch,
}

/// Which batch size the members are to get.
#[derive(Debug, Default)]
enum MembersBatch {
    #[default]
    Theirs,
    Fixed(Vec<i64>),
    Leading(Option<usize>),
}

impl LazyStackBuilder {
    /// A stack of these members along dim 0.
    pub fn new(members: impl IntoIterator<Item = TensorDict>) -> Self {
        LazyStackBuilder { members: members.into_iter().collect(), ..LazyStackBuilder::default() }
    }

    /// A stack of one member per list of entries, each without batch dims unless
    /// [`members_batch_size`](Self::members_batch_size) or [`auto_batch_size`](Self::auto_batch_size) says
    /// otherwise. Keys and shapes may differ.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::LazyStackBuilder;
    ///
    /// let [short, long] = [3, 4].map(|length| [("a", Tensor::from_slice(&vec![0.0f32; length]))]);
    /// let stack = LazyStackBuilder::from_list([short, long])?.auto_batch_size(None).build()?;
    /// assert_eq!(stack.batch_size(), [2, -1]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What [`TensorDict::from_entries`] says.
    pub fn from_list<K: Into<NestedKey>, E: Into<Entry>>(
        lists: impl IntoIterator<Item = impl IntoIterator<Item = (K, E)>>,
    ) -> Result<Self> {
        let members = lists.into_iter().map(TensorDict::from_entries).collect::<Result<Vec<_>>>()?;
        Ok(LazyStackBuilder::new(members))
    }

    /// As [`from_list`](Self::from_list), of lists under the names `"0"`, `"1"`, … in any order.
    ///
    /// # Errors
    ///
    /// As [`from_list`](Self::from_list), and a [key](Error::is_key) error for other names.
    pub fn from_dict<K: Into<NestedKey>, E: Into<Entry>>(
        lists: impl IntoIterator<Item = (impl AsRef<str>, impl IntoIterator<Item = (K, E)>)>,
    ) -> Result<Self> {
        let mut numbered = Vec::new();
        for (name, list) in lists {
            let name = name.as_ref();
            // "01" and "+1" are other names.
            let number = name.parse::<usize>().ok().filter(|number| number.to_string() == name);
            let number =
                number.ok_or_else(|| Error::key("a member's name must be its number: '0', '1', …").at(name))?;
            numbered.push((number, list));
        }
        numbered.sort_by_key(|(number, _)| *number);
        if let Some((expected, (found, _))) = numbered.iter().enumerate().find(|(at, (number, _))| at != number) {
            return Err(Error::key(format!(
                "members must be numbered from '0' on: '{expected}' is missing, there is '{found}'"
            )));
        }
        LazyStackBuilder::from_list(numbered.into_iter().map(|(_, list)| list))
    }

    /// The batch size that each member is given.
    pub fn members_batch_size(mut self, batch_size: impl Into<Vec<i64>>) -> Self {
        self.members_batch = MembersBatch::Fixed(batch_size.into());
        self
    }

    /// Each member's batch size is the largest leading shape that all its entries share, of at most
    /// `max_dims` dims.
    pub fn auto_batch_size(mut self, max_dims: impl Into<Option<usize>>) -> Self {
        self.members_batch = MembersBatch::Leading(max_dims.into());
        self
    }

    /// The names of all dims of the stack, the stack dim's at its place.
    pub fn names<S: Into<String>>(mut self, names: impl IntoIterator<Item = Option<S>>) -> Self {
        self.names = Some(names.into_iter().map(|name| name.map(Into::into)).collect());
        self
    }

    /// The place of the new dim among the batch dims; negative ones count from the end.
    pub fn stack_dim(mut self, dim: i64) -> Self {
        self.stack_dim = dim;
        self
    }

    /// The name of the new dim.
    pub fn stack_dim_name(mut self, name: impl Into<String>) -> Self {
        self.stack_dim_name = Some(name.into());
        self
    }

    /// Whether members must have one batch size; if not, it is -1 where they differ.
    pub fn strict_shape(mut self, strict: bool) -> Self {
        self.strict_shape = strict;
        self
    }

    /// Of a stack without members: their batch size. With members: the batch size that the stack must
    /// have, -1 where members differ.
    pub fn batch_size(mut self, batch_size: impl Into<Vec<i64>>) -> Self {
        self.batch_size = Some(batch_size.into());
        self
    }

    /// The device label of a stack without members. With members, theirs counts.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// The stack.
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if the members differ in their number of batch dims, with
    /// `strict_shape` in their batch sizes, or don't give the batch size asked for; a
    /// [device](Error::is_device) error if they differ in device; an [index](Error::is_index) error for a
    /// stack dim out of range; a [key](Error::is_key) error for a name that one of their dims has.
    pub fn build(mut self) -> Result<TensorDict> {
        let members = std::mem::take(&mut self.members).into_iter();
        self.members = match &self.members_batch {
            MembersBatch::Theirs => members.collect(),
            MembersBatch::Fixed(sizes) => members.map(|member| member.with_batch_size(sizes)).collect::<Result<_>>()?,
            MembersBatch::Leading(max) => members.map(|member| member.auto_batch_size(*max)).collect::<Result<_>>()?,
        };
        if self.names.is_some() && self.stack_dim_name.is_some() {
            return Err(Error::option("names and stack_dim_name both name the stack dim; give one of them"));
        }
        LazyStack::check(&self.members, self.strict_shape)?;
        let blank = match self.members.first() {
            Some(member) => member.blank(),
            None => {
                let sizes = self.batch_size.clone().unwrap_or_default();
                if let Some(size) = sizes.iter().find(|size| **size < -1) {
                    return Err(Error::shape(format!("a batch size can't be {size}")));
                }
                match self.device {
                    Some(device) => TensorDict::on_device(sizes, device),
                    None => TensorDict::new(sizes),
                }
            }
        };
        let stack_dim = new_dim(self.stack_dim, blank.batch_dims())?;
        if let Some(name) = &self.stack_dim_name
            && self.members.iter().chain([&blank]).any(|member| has_name(member, name))
        {
            return Err(Error::key(format!(
                "the stack dim can't be named '{name}': a dim of the members has that name"
            )));
        }
        let empty = self.members.is_empty();
        let mut stack = LazyStack::from_trusted(self.members, stack_dim, self.stack_dim_name);
        if empty {
            *stack.blank = blank;
        }
        if let Some(asked) = self.batch_size.filter(|_| !empty)
            && asked != stack.batch_size()
        {
            return Err(Error::shape(format!(
                "the members give the batch size {:?}, not {asked:?}",
                stack.batch_size()
            )));
        }
        let mut stack = TensorDict::lazy(stack);
        if let Some(names) = self.names {
            stack.set_names(names)?;
        }
        Ok(stack)
    }
}

impl TensorDict {
    /// These entries, without batch dims.
    ///
    /// # Errors
    ///
    /// What [`set`](Self::set) says.
    pub fn from_entries<K: Into<NestedKey>, E: Into<Entry>>(
        entries: impl IntoIterator<Item = (K, E)>,
    ) -> Result<TensorDict> {
        let mut dict = TensorDict::new([]);
        entries.into_iter().try_for_each(|(key, entry)| dict.set(key, entry))?;
        Ok(dict)
    }

    /// The same entries under the largest batch size that all of them have as leading dims, of at most
    /// `max_dims` dims. Single non-tensor values have any batch size. A lazy stack keeps its own.
    ///
    /// ```
    /// use tch::{Device, Kind, Tensor};
    /// use tensorquery::TensorDict;
    ///
    /// let entries = [("a", vec![3, 4, 5]), ("b", vec![3, 4])];
    /// let entries = entries.map(|(key, shape)| (key, Tensor::zeros(shape, (Kind::Float, Device::Cpu))));
    /// let td = TensorDict::from_entries(entries)?.auto_batch_size(None)?;
    /// assert_eq!(td.batch_size(), [3, 4]);
    /// assert_eq!(td.auto_batch_size(1)?.batch_size(), [3]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [lock](Error::is_lock) error.
    pub fn auto_batch_size(self, max_dims: impl Into<Option<usize>>) -> Result<TensorDict> {
        if self.is_lazy() {
            return Ok(self);
        }
        let mut shared: Option<Vec<i64>> = None;
        for (_, entry) in self.leaves()? {
            let shape: Vec<i64> = entry.shape().into_iter().take_while(|size| *size >= 0).collect();
            if shape.is_empty() && entry.as_non_tensor().is_some() {
                continue;
            }
            let common = match shared {
                None => shape,
                Some(shared) => {
                    let same = shared.iter().zip(&shape).take_while(|(ours, theirs)| ours == theirs).count();
                    shared[..same].to_vec()
                }
            };
            shared = Some(common);
        }
        let mut batch_size = shared.unwrap_or_default();
        batch_size.truncate(max_dims.into().unwrap_or(usize::MAX));
        self.with_batch_size(&batch_size)
    }
}
