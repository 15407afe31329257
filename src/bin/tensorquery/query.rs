//! Statements: parsed all at once, planned and run one after the other.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{LogicalPlan, Statement as PlanStatement};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, TokenizerError};
use futures::TryStreamExt;
use tensorquery::{DataFrameExt, Nulls, Options, SessionContextExt};

use super::failure::{Failure, plain};
use super::hints;
use super::output::Printer;
use super::progress::Meter;

/// SQL and where it came from.
pub(crate) struct Source {
    /// The file's name, for its syntax errors.
    pub(crate) name: Option<String>,
    pub(crate) sql: String,
}

/// The statements of all sources, in order. An error of syntax shows before anything runs.
pub(crate) fn parse(context: &SessionContext, sources: &[Source]) -> Result<VecDeque<Statement>, Failure> {
    let mut statements = VecDeque::new();
    for source in sources {
        let parsed = parse_one(context, &source.sql)
            .map_err(|error| Failure::from(error).with_hint(hints::on_syntax(&source.sql)));
        statements.extend(match &source.name {
            Some(name) => parsed.map_err(|failure| failure.of(name))?,
            None => parsed?,
        });
    }
    Ok(statements)
}

/// As [`DFParser::parse_statements`], whose errors don't all say where they are.
fn parse_one(context: &SessionContext, sql: &str) -> datafusion::error::Result<VecDeque<Statement>> {
    let dialect = dialect(context);
    let mut parser: DFParser = DFParserBuilder::new(sql).with_dialect(dialect.as_ref()).build()?;
    let mut statements = VecDeque::new();
    loop {
        let mut delimited = statements.is_empty();
        while parser.parser.consume_token(&Token::SemiColon) {
            delimited = true;
        }
        let next = parser.parser.peek_token();
        if next.token == Token::EOF {
            return Ok(statements);
        }
        let line = next.span.start.line;
        if !delimited {
            parser.parser.expected::<()>("end of statement", next)?;
        }
        statements.push_back(parser.parse_statement().map_err(|error| with_line(error, line))?);
    }
}

/// The parser's error with the line of its statement, where it names none: at the end of the text, and
/// where a statement nests too deep.
fn with_line(error: DataFusionError, line: u64) -> DataFusionError {
    let message = match error.find_root() {
        DataFusionError::SQL(parser, _) => plain(&parser.to_string()),
        _ => plain(&error.strip_backtrace()),
    };
    if message.contains("Line: ") {
        return error;
    }
    let located = format!("{message}, in the statement that begins at Line: {line}");
    DataFusionError::SQL(Box::new(ParserError::ParserError(located)), None)
}

/// The dialect that the session is set to.
fn dialect(context: &SessionContext) -> Box<dyn Dialect> {
    let state = context.state_ref();
    let name = state.read().config_options().sql_parser.dialect.to_string();
    dialect_from_str(name).unwrap_or_else(|| Box::new(GenericDialect {}))
}

/// Whether the text so far ends a statement: its last word is `;`.
pub(crate) fn is_complete(context: &SessionContext, sql: &str) -> bool {
    let dialect = dialect(context);
    let tokens: Result<Vec<Token>, TokenizerError> = Tokenizer::new(dialect.as_ref(), sql).tokenize();
    // A quote or comment that is still open is an error here.
    tokens.is_ok_and(|tokens| {
        let last = tokens.iter().rfind(|token| !matches!(token, Token::Whitespace(_)));
        last == Some(&Token::SemiColon)
    })
}

/// Runs all statements. Of the results only the last is shown, if any is.
pub(crate) async fn run_all(
    context: SessionContext,
    mut statements: VecDeque<Statement>,
    show_last: bool,
    printer: Arc<Printer>,
) -> Result<(), Failure> {
    while let Some(statement) = statements.pop_front() {
        if statements.is_empty() && show_last {
            show(&context, statement, Form::Usual, &printer).await?;
        } else {
            run(&context, statement, &printer).await?;
        }
    }
    Ok(())
}

/// How a result is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As a tensordict, or as a text table where it is a text about queries or the session.
    Usual,
    /// As a text table, or as this text where there are no rows.
    Table { no_rows: &'static str },
}

/// Whether there was a result to show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Result,
    Nothing,
}

/// Runs a statement for what it does. Rows that come out are counted by nobody and kept by nobody.
async fn run(context: &SessionContext, statement: Statement, printer: &Printer) -> Result<(), Failure> {
    hints::check_set(&statement)?;
    let _meter = Meter::start(printer.progress);
    let plan = context.state().statement_to_plan(statement).await?;
    if reset(context, &plan)? {
        return Ok(());
    }
    let mut batches = context.execute_logical_plan(plan).await?.execute_stream().await?;
    while batches.try_next().await?.is_some() {}
    Ok(())
}

/// Runs a statement and shows its result.
pub(crate) async fn show(
    context: &SessionContext,
    statement: Statement,
    form: Form,
    printer: &Printer,
) -> Result<Shown, Failure> {
    hints::check_set(&statement)?;
    let about_session = reads_as_text(&statement);
    let plan = context.state().statement_to_plan(statement).await?;
    let no_rows = match form {
        Form::Usual => None,
        Form::Table { no_rows } => Some(no_rows),
    };
    let reads_as_text = no_rows.is_some() || about_session || describes_tensordicts(&plan)?;
    let has_result = has_result(&plan);
    if (printer.schema && !has_result) || reset(context, &plan)? {
        return Ok(Shown::Nothing);
    }
    let meter = Meter::start(printer.progress && !printer.schema);
    let frame = context.execute_logical_plan(plan).await?;
    if !has_result {
        return Ok(Shown::Nothing);
    }
    // What describes a query or session has nulls of its own, which no option speaks about.
    let options = match reads_as_text {
        true => Options::default().nulls(Nulls::Fill),
        false => context.tensordict_options()?,
    };
    if printer.schema {
        printer.schema(&frame.tensordict_schema(&options)?)?;
    } else if reads_as_text && !printer.json {
        let batches = frame.collect().await?;
        drop(meter);
        printer.table(&batches, no_rows.unwrap_or("no rows"))?;
    } else if let Some(rows) = printer.batch_size {
        show_batches(frame, &options, rows.get(), meter, printer).await?;
    } else {
        let dict = frame.to_tensordict_with(&options, |progress| meter.update(progress.rows, progress.batches)).await?;
        drop(meter);
        printer.tensordict(&dict)?;
    }
    Ok(Shown::Result)
}

async fn show_batches(
    frame: DataFrame,
    options: &Options,
    rows: usize,
    meter: Meter,
    printer: &Printer,
) -> Result<(), Failure> {
    let mut batches = frame.tensordict_stream(options).await?.with_batch_size(rows);
    // On one terminal, results and a line that is redrawn would get in each other's way.
    let meter = (!io::stdout().is_terminal()).then_some(meter);
    let (mut shown, mut rows) = (0, 0);
    while let Some(dict) = batches.try_next().await? {
        printer.next_tensordict(&dict, shown == 0)?;
        shown += 1;
        rows += dict.batch_size().first().map_or(0, |rows| rows.unsigned_abs());
        meter.iter().for_each(|meter| meter.update(rows, shown));
    }
    Ok(())
}

/// Does what `RESET tensordict.…` says, if that is the statement: the engine resets none but its own settings.
fn reset(context: &SessionContext, plan: &LogicalPlan) -> Result<bool, Failure> {
    let LogicalPlan::Statement(PlanStatement::ResetVariable(reset)) = plan else {
        return Ok(false);
    };
    match reset.variable.strip_prefix("tensordict.") {
        Some(name) => context.reset_tensordict_option(name)?,
        None => return Ok(false),
    }
    Ok(true)
}

/// Statements whose result is a text about queries or the session.
fn reads_as_text(statement: &Statement) -> bool {
    match statement {
        Statement::Explain(_) => true,
        Statement::Statement(statement) => {
            let text = statement.to_string();
            matches!(text.split_whitespace().next(), Some("SHOW" | "EXPLAIN" | "DESCRIBE" | "DESC"))
        }
        _ => false,
    }
}

/// Whether all that the query reads is what `tensordict_schema` says of another.
fn describes_tensordicts(plan: &LogicalPlan) -> Result<bool, Failure> {
    let (mut described, mut others) = (false, false);
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::TableScan(scan) = plan {
            let describes = scan.table_name.table() == "tensordict_schema";
            described |= describes;
            others |= !describes;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(described && !others)
}

fn has_result(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Ddl(_) => false,
        LogicalPlan::Statement(statement) => matches!(statement, PlanStatement::Execute(_)),
        _ => true,
    }
}
