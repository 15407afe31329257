//! The session that the flags describe.

use std::sync::Arc;

use datafusion::catalog::{DynamicFileCatalog, UrlTableFactory};
use datafusion::common::TableReference;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tensorquery::SessionStateBuilderExt;

use super::args::Args;
use super::columns;
use super::failure::Failure;
use super::files::{PathTables, table_at};

/// A session with the flags' tables and defaults.
pub(crate) async fn open(args: Args) -> Result<SessionContext, Failure> {
    let mut config = SessionConfig::new().with_information_schema(true);
    if let Some(threads) = args.threads {
        config = config.with_target_partitions(threads.get());
    }
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(limit) = &args.memory_limit {
        runtime = runtime.with_memory_limit(limit.bytes, 1.0);
    }
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime.build_arc()?)
        .with_default_features()
        .with_tensordict()
        .build();
    for (name, value) in defaults(&args) {
        state.config_mut().options_mut().set(&format!("tensordict.{name}"), &value)?;
    }
    columns::check_in(&mut state)?;
    let path_tables = Arc::new(PathTables::default());
    let factory = Arc::clone(&path_tables) as Arc<dyn UrlTableFactory>;
    let catalogs = DynamicFileCatalog::new(Arc::clone(state.catalog_list()), factory);
    let state = SessionStateBuilder::new_from_existing(state).with_catalog_list(Arc::new(catalogs)).build();
    let context = SessionContext::new_with_state(state);
    path_tables.serve(&context);
    for (name, path) in &args.tables {
        let table = table_at(&context.state(), path).await.map_err(|error| Failure::from(error).of(name))?;
        context.register_table(TableReference::bare(name.as_str()), table)?;
    }
    Ok(context)
}

/// The options that the flags set, as `SET` would.
fn defaults(args: &Args) -> Vec<(&'static str, String)> {
    let mut defaults = Vec::new();
    defaults.extend(args.nulls.clone().map(|nulls| ("nulls", nulls)));
    match args.mask_key.as_slice() {
        [] => {}
        [name] if !name.starts_with(['[', '{']) => defaults.push(("mask_key", name.clone())),
        names => defaults.push(("mask_key", serde_json::Value::from(names).to_string())),
    }
    match args.mask_keys.as_slice() {
        [] => {}
        [one] if one.starts_with('[') || ["observed", "nullable"].iter().any(|word| one.eq_ignore_ascii_case(word)) => {
            defaults.push(("mask_keys", one.clone()));
        }
        columns => defaults.push(("mask_keys", serde_json::Value::from(columns).to_string())),
    }
    defaults.extend(args.copy.clone().map(|copy| ("copy", copy)));
    defaults.extend(args.unsigned.clone().map(|unsigned| ("unsigned", unsigned)));
    defaults.extend(args.device.clone().map(|device| ("device", device)));
    defaults
}
