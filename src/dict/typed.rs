//! Entries of a kind that the caller knows.

use tch::Tensor;

use super::{Entry, TensorDict};
use crate::error::{Error, Result};
use crate::key::NestedKey;
use crate::tensor::{JaggedTensor, MultiNestedTensor, NonTensorStack};

impl TensorDict {
    /// The dense tensor at `key`.
    ///
    /// # Errors
    ///
    /// A [key](Error::is_key) error if there is no entry or it is of another kind; what
    /// [`get`](Self::get) says.
    pub fn tensor(&self, key: impl Into<NestedKey>) -> Result<Tensor> {
        self.typed(key.into(), "tensor", |entry| match entry {
            Entry::Tensor(tensor) => Some(tensor),
            _ => None,
        })
    }

    /// The jagged tensor at `key`.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor).
    pub fn jagged(&self, key: impl Into<NestedKey>) -> Result<JaggedTensor> {
        self.typed(key.into(), "jagged", |entry| match entry {
            Entry::Jagged(jagged) => Some(jagged),
            _ => None,
        })
    }

    /// The non-tensor values at `key`.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor).
    pub fn non_tensor(&self, key: impl Into<NestedKey>) -> Result<NonTensorStack> {
        self.typed(key.into(), "non_tensor", |entry| match entry {
            Entry::NonTensor(values) => Some(values),
            _ => None,
        })
    }

    /// The nested tensordict at `key`: another handle on its tensors. What is set in it is not set here.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor).
    pub fn dict(&self, key: impl Into<NestedKey>) -> Result<TensorDict> {
        self.typed(key.into(), "dict", |entry| match entry {
            Entry::Dict(dict) => Some(dict),
            _ => None,
        })
    }

    /// The jagged tensors at these keys as the columns of one multi-nested tensor; their values are copied once.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::{JaggedTensor, TensorDict};
    ///
    /// let mut td = TensorDict::new([2]);
    /// td.set("a", JaggedTensor::from_rows(&[Tensor::from_slice(&[1i64, 2]), Tensor::from_slice(&[3i64])])?)?;
    /// td.set("b", JaggedTensor::from_rows(&[Tensor::from_slice(&[4i64]), Tensor::from_slice(&[5i64, 6])])?)?;
    /// let mnt = td.multi_nested(["a", "b"])?;
    /// assert_eq!(mnt.shape(), [2, 2, -1]);
    /// assert_eq!(Vec::<i64>::try_from(mnt.cell(1, 1)?)?, [5, 6]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`jagged`](Self::jagged), and what [`MultiNestedTensor::from_jagged`] says.
    pub fn multi_nested<K: Into<NestedKey>>(&self, keys: impl IntoIterator<Item = K>) -> Result<MultiNestedTensor> {
        let columns = keys.into_iter().map(|key| self.jagged(key)).collect::<Result<Vec<_>>>()?;
        MultiNestedTensor::from_jagged(&columns.iter().collect::<Vec<_>>())
    }

    fn typed<T>(&self, key: NestedKey, kind: &str, pick: impl Fn(Entry) -> Option<T>) -> Result<T> {
        let entry = self.entry(&key)?;
        let found = entry.kind();
        pick(entry).ok_or_else(|| Error::key(format!("the entry is of kind {found}, not {kind}")).at(key))
    }
}
