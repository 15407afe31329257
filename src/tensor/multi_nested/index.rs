//! Parts of a multi-nested tensor.

use tch::Tensor;

use super::MultiNestedTensor;
use crate::error::{Error, Result};
use crate::index::{Extent, Index, Selection};
use crate::tensor::ragged;

/// Which cells: some rows, or a pair of some rows and some columns.
///
/// Whatever is an [`Index`] is an index of rows: `2..`, `[2, 0]`, `-1`, a mask. A pair is one of each, every
/// row with every column: `(.., 0)`, `([0, 2], [1, 0])`.
///
/// ```
/// use tensorquery::{CellIndex, Index};
///
/// assert_eq!(CellIndex::from(2..), CellIndex::from((2.., ..)));
/// assert_eq!(CellIndex::from((-1, [true, false])), (Index::Row(-1), Index::Mask(vec![true, false])).into());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellIndex {
    rows: Index,
    cols: Index,
}

impl<I: Into<Index>> From<I> for CellIndex {
    fn from(rows: I) -> Self {
        CellIndex { rows: rows.into(), cols: (..).into() }
    }
}

impl<R: Into<Index>, C: Into<Index>> From<(R, C)> for CellIndex {
    fn from((rows, cols): (R, C)) -> Self {
        CellIndex { rows: rows.into(), cols: cols.into() }
    }
}

impl MultiNestedTensor {
    /// Some of the rows and columns; always three dims: a number gives one row or one column.
    ///
    /// Rows of a number or a slice of step 1 share the values' storage if all columns are taken, or if it is one
    /// row and a slice of columns. All else copies the values taken, and touches no others.
    ///
    /// ```
    /// use tch::Tensor;
    /// use tensorquery::{Index, MultiNestedTensor};
    ///
    /// let list = |numbers: &[i64]| Tensor::from_slice(numbers);
    /// let mnt = MultiNestedTensor::from_tensor_mat(&[
    ///     [list(&[1, 2]), list(&[3])],
    ///     [list(&[4]), list(&[5, 6, 7])],
    ///     [list(&[8, 9]), list(&[10])],
    /// ])?;
    /// let values = |part: MultiNestedTensor| Vec::<i64>::try_from(part.values()).unwrap();
    /// assert_eq!(values(mnt.index(-1)?), [8, 9, 10]);
    /// assert_eq!(values(mnt.index((1.., 0))?), [4, 8, 9]);
    /// assert_eq!(values(mnt.index(([0, 2], [1, 0]))?), [3, 1, 2, 10, 8, 9]);
    /// assert_eq!(values(mnt.index([true, false, true])?), [1, 2, 3, 8, 9, 10]);
    /// let backwards = Index::Slice { start: None, stop: None, step: -1 };
    /// assert_eq!(values(mnt.index(backwards)?), [8, 9, 10, 4, 5, 6, 7, 1, 2, 3]);
    /// # Ok::<_, tensorquery::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a row or column out of bounds, a mask of another length, or a step of 0.
    pub fn index(&self, index: impl Into<CellIndex>) -> Result<Self> {
        let CellIndex { rows, cols } = index.into();
        let rows = rows.resolve_in(Extent::Rows(self.num_rows))?;
        let cols = cols.resolve_in(Extent::Columns(self.num_cols))?;
        let (num_rows, num_cols) = (rows.size().unwrap_or(1), cols.size().unwrap_or(1));
        let parts = match self.run(&rows, &cols) {
            Some((start, stop)) => ragged::narrow(&self.values, &self.offset, start, stop)?,
            None => {
                let (starts, ends) = self.bounds(&rows, &cols)?;
                ragged::gather(&self.values, &starts, &ends)?
            }
        };
        Ok(MultiNestedTensor::from_trusted(num_rows, num_cols, parts))
    }

    /// The first cell and the one to stop before, if the cells selected lie one after the other.
    fn run(&self, rows: &Selection, cols: &Selection) -> Option<(i64, i64)> {
        let (first, last) = steps_of_one(rows)?;
        let (left, right) = steps_of_one(cols)?;
        let whole = right - left == self.num_cols;
        let start = first * self.num_cols + left;
        (whole || last - first == 1).then(|| (start, start + (last - first) * (right - left)))
    }

    /// Where the cells selected start and end in the values, row by row.
    pub(super) fn bounds(&self, rows: &Selection, cols: &Selection) -> Result<(Tensor, Tensor)> {
        let pick = |from| -> Result<Tensor> {
            let bounds = self.offset.f_narrow(0, from, self.num_rows * self.num_cols)?;
            let bounds = bounds.f_reshape([self.num_rows, self.num_cols])?;
            Ok(ragged::pick(&ragged::pick(&bounds, 0, rows)?, 1, cols)?.f_flatten(0, 1)?)
        };
        Ok((pick(0)?, pick(1)?))
    }

    /// The cell at a row and a column: one dim, sharing the values' storage. Negative ones count from the end.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error outside the rows and columns.
    pub fn cell(&self, row: i64, col: i64) -> Result<Tensor> {
        let (row, col) = (Extent::Rows(self.num_rows).at(row)?, Extent::Columns(self.num_cols).at(col)?);
        let cell = row * self.num_cols + col;
        ragged::view(&self.values, &self.offset, cell, cell + 1)
    }

    /// Some of the rows (dim 0 or -3) or of the columns (dim 1 or -2), as [`index`](Self::index) takes them.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error as for [`index`](Self::index), and for another dim.
    pub fn select(&self, index: impl Into<Index>, dim: i64) -> Result<Self> {
        self.size(dim)?;
        match dim {
            0 | -3 => self.index(index),
            _ => self.index((.., index)),
        }
    }

    /// The rows or columns that a tensor names: integers of one dim, repeats allowed.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for anything but integers of one dim, and as for [`select`](Self::select).
    pub fn index_select(&self, dim: i64, index: &Tensor) -> Result<Self> {
        match Index::from_tensor(index)? {
            index @ Index::Rows(_) => self.select(index, dim),
            _ => Err(Error::index("index_select takes integers of one dim").remedy("use select for rows and masks")),
        }
    }

    /// `length` rows or columns from `start` on, or as many as there are.
    ///
    /// # Errors
    ///
    /// An [index](Error::is_index) error for a negative start, and for a dim that can't be indexed.
    pub fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Self> {
        if start < 0 {
            let found = format!("narrow from {start}: a start can't be negative");
            return Err(Error::index(found).remedy("count from the end with select"));
        }
        self.select(start..start.saturating_add(length.max(0)), dim)
    }

    /// The rows, each a multi-nested tensor of one row that shares the values' storage.
    pub fn iter(&self) -> impl Iterator<Item = Result<Self>> + '_ {
        (0..self.num_rows).map(|row| self.index(row))
    }
}

/// From where to where a selection goes, if it leaves nothing out between.
fn steps_of_one(selection: &Selection) -> Option<(i64, i64)> {
    match selection {
        Selection::Row(row) => Some((*row, row + 1)),
        Selection::Slice { start, stop, step: 1 } => Some((*start, *stop)),
        _ => None,
    }
}
