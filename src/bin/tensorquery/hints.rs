//! What to do about errors that the engine words for those who know its insides.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Set, Statement as SqlStatement};

use super::failure::Failure;
use super::prompt;

/// What SQL that can't be parsed was perhaps meant to be.
pub(crate) fn on_syntax(sql: &str) -> Option<String> {
    if let Some(word) = sql.lines().map(str::trim).find(|line| prompt::is_word(line)) {
        return Some(format!(
            "{word} is a word of the prompt, which --interactive (-i) opens; --help tells of the command"
        ));
    }
    let relation = bare_query(sql)?;
    Some(format!("a query has parentheses of its own in there: {relation}((SELECT …))"))
}

/// The relation of ours that is called with a query that has no parentheses of its own.
fn bare_query(sql: &str) -> Option<&'static str> {
    let sql = sql.to_ascii_lowercase();
    sql.match_indices("tensordict").find_map(|(at, name)| {
        let rest = &sql[at + name.len()..];
        let (relation, rest) = match rest.strip_prefix("_schema") {
            Some(rest) => ("tensordict_schema", rest),
            None => ("tensordict", rest),
        };
        let argument = rest.trim_start().strip_prefix('(')?.trim_start();
        let word = argument.split(|c: char| !c.is_ascii_alphabetic()).next()?;
        ["select", "with", "from", "values", "table"].contains(&word).then_some(relation)
    })
}

/// What to add to an error of planning or running.
pub(crate) fn on_running(message: &str) -> Option<String> {
    let table = message.strip_prefix("table '")?.strip_suffix("' not found")?;
    // A name with dots belongs to a schema, where flags put no tables.
    let bare = !table.contains('.');
    bare.then(|| format!("--table {table}=PATH makes a table of files, and FROM 'PATH' reads them without a name"))
}

/// Refuses `SET tensordict.…` to what the engine's SET can't read, which it would say in its parser's terms.
pub(crate) fn check_set(statement: &Statement) -> Result<(), Failure> {
    let Statement::Statement(statement) = statement else { return Ok(()) };
    let SqlStatement::Set(Set::SingleAssignment { variable, values, .. }) = statement.as_ref() else { return Ok(()) };
    let variable = variable.to_string();
    let Some(name) = variable.strip_prefix("tensordict.") else { return Ok(()) };
    if let [Expr::Value(_) | Expr::Identifier(_) | Expr::UnaryOp { .. }] = values.as_slice() {
        return Ok(());
    }
    let form = match name {
        "columns" => r#"a map is JSON in single quotes: SET tensordict.columns = '{"speed": {"nulls": "mask"}}'"#,
        "mask_key" | "mask_keys" => r#"a list is JSON in single quotes: '["a", "b"]'"#,
        _ => "it takes a word in single quotes",
    };
    let values: Vec<_> = values.iter().map(ToString::to_string).collect();
    Err(Failure::new("option", format!("{name} is {}, which SET can't read; {form}", values.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::{bare_query, on_running};

    #[test]
    fn queries_without_parentheses_of_their_own() {
        assert_eq!(bare_query("SELECT * FROM tensordict(SELECT 1)"), Some("tensordict"));
        assert_eq!(bare_query("FROM TensorDict_Schema (\n  with a AS"), Some("tensordict_schema"));
        for other in
            ["tensordict((SELECT 1))", "SET tensordict.nulls = 'x'", "tensordict(selected)", "tensordict", "é("]
        {
            assert_eq!(bare_query(other), None, "{other}");
        }
    }

    #[test]
    fn tables_that_are_not_there() {
        assert!(on_running("table 'x' not found").unwrap().starts_with("--table x=PATH "));
        assert_eq!(on_running("table 'a.b' not found"), None);
        assert_eq!(on_running("column 'x' not found"), None);
    }
}
