//! Saved tensordicts in SQL: `COPY … STORED AS TENSORDICT`, `read_tensordict('dir')`, `CREATE EXTERNAL TABLE`.

mod columns;
mod copy;
mod form;
mod functions;
mod scan;
mod sink;
mod table;

use std::sync::Arc;

use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::session_state::SessionStateBuilder;

use self::copy::SavedFormatFactory;
use self::form::Form;
use self::functions::ReadFunctions;
use self::table::SavedTableFactory;

/// Adds all that a session needs to write and read saved tensordicts.
pub(super) fn register(builder: &mut SessionStateBuilder) {
    builder.relation_planners().get_or_insert_default().insert(0, Arc::new(ReadFunctions));
    for form in Form::ALL {
        let format: Arc<dyn FileFormatFactory> = Arc::new(SavedFormatFactory(form));
        builder.file_formats().get_or_insert_default().push(format);
        let tables = builder.table_factories().get_or_insert_default();
        tables.insert(form.word().to_ascii_uppercase(), Arc::new(SavedTableFactory(form)));
    }
}
