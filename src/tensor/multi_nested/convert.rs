//! Jagged columns as one multi-nested tensor, and back.

use super::MultiNestedTensor;
use crate::error::{Error, Result};
use crate::index::room;
use crate::tensor::{JaggedTensor, ragged};

impl MultiNestedTensor {
    /// One tensor of several jagged columns, which have equally many rows and values of one dim: row `i` of column `j`
    /// becomes cell `(i, j)`. dtypes are promoted. Values are copied once, those that change their dtype twice.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::{JaggedTensor, MultiNestedTensor};
    ///
    /// let list = |numbers: &[i64]| Tensor::from_slice(numbers);
    /// let clicks = JaggedTensor::from_rows(&[list(&[1, 2]), list(&[])])?;
    /// let buys = JaggedTensor::from_rows(&[list(&[3]), list(&[4])])?;
    /// let mnt = MultiNestedTensor::from_jagged(&[&clicks, &buys])?;
    /// assert_eq!(mnt.shape(), [2, 2, -1]);
    /// assert_eq!(Vec::<i64>::try_from(mnt.values()).unwrap(), [1, 2, 3, 4]);
    /// assert!(mnt.to_jagged()?[1].equal(&buys)?);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [shape](Error::is_shape) error if there are no columns, their numbers of rows differ, or values have more
    /// than one dim; a [device](Error::is_device) error if columns are on different devices.
    pub fn from_jagged(columns: &[&JaggedTensor]) -> Result<Self> {
        let Some(first) = columns.first() else {
            return Err(Error::shape("no jagged columns; at least one is needed"));
        };
        for (col, column) in columns.iter().enumerate() {
            let fault = if column.values().dim() != 1 {
                format!("column {col} has shape {:?}; its values must be of one dim", column.shape())
            } else if column.num_rows() != first.num_rows() {
                format!("column {col} has {} rows, column 0 has {}", column.num_rows(), first.num_rows())
            } else {
                continue;
            };
            return Err(Error::shape(fault));
        }
        ragged::ensure_one_device(columns.iter().map(|column| column.values()))?;
        let parts: Vec<_> = columns.iter().map(|column| (column.values(), column.offsets(), 1)).collect();
        MultiNestedTensor::interleave(&parts, first.num_rows())
    }

    /// Each column as a jagged tensor; of a single column, sharing the values' storage.
    ///
    /// # Errors
    ///
    /// Only if libtorch fails.
    pub fn to_jagged(&self) -> Result<Vec<JaggedTensor>> {
        let mut columns = room(self.num_cols)?;
        for col in 0..self.num_cols {
            let MultiNestedTensor { values, offset, .. } = self.index((.., col))?;
            columns.push(JaggedTensor::from_trusted(values, offset));
        }
        Ok(columns)
    }
}
