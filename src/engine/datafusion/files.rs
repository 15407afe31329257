//! Which files a plan reads, so that a change of them between epochs shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

use crate::error::{Error, Result};

/// Files by name, each with its size and the time of its last change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Files(BTreeMap<String, (u64, i64)>);

impl Files {
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let mut files = BTreeMap::new();
        plan.apply(|node| {
            let scan = node.downcast_ref::<DataSourceExec>();
            let scan = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
            for file in scan.iter().flat_map(|scan| &scan.file_groups).flat_map(|group| group.iter()) {
                let meta = &file.object_meta;
                files.insert(meta.location.to_string(), (meta.size, meta.last_modified.timestamp_micros()));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Files(files))
    }

    /// Refuses a plan that reads others: the engine lists a table's files each time, and one that is gone it leaves out.
    pub(super) fn ensure_read_by(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let now = Files::of(plan)?;
        let changed = self.0.iter().find_map(|(name, file)| match now.0.get(name) {
            None => Some((name, "is gone")),
            Some(other) if other != file => Some((name, "was written to")),
            Some(_) => None,
        });
        let added = || now.0.keys().find(|name| !self.0.contains_key(*name)).map(|name| (name, "is new"));
        match changed.or_else(added) {
            None => Ok(()),
            Some((name, what)) => {
                let error = Error::engine(format!("the file {name} {what} since the loader was made"));
                Err(error.remedy("make a loader of the files as they are"))
            }
        }
    }
}
