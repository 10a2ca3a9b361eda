//! Rewrites of plans, for what the engine is slow at: groups and alternatives of addresses.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{AggregateFunction, InList};
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable as _, Filter, LogicalPlan, LogicalPlanBuilder,
    Operator, Union,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::prelude::SessionContext;

use crate::functions::{ADDRESS, address_key, address_of_key};

/// Adds the rewrites to a session.
pub(crate) fn register(context: &SessionContext) {
    context.add_analyzer_rule(Arc::new(FilteredAlternatives));
    context.add_optimizer_rule(Arc::new(NumberedGroups));
}

/// Groups by addresses become groups by numbers of 128 bits, for which the engine has a fast hash table.
#[derive(Debug)]
struct NumberedGroups;

impl OptimizerRule for NumberedGroups {
    fn name(&self) -> &str {
        "numbered_groups"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = plan else {
            return Ok(Transformed::no(plan));
        };
        // A plan that cannot be rewritten stays as it is.
        Ok(match numbered(&aggregate) {
            Ok(Some(plan)) => Transformed::yes(plan),
            Ok(None) | Err(_) => Transformed::no(LogicalPlan::Aggregate(aggregate)),
        })
    }
}

fn numbered(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
    if aggregate.group_expr.iter().any(is_set) {
        return Ok(None);
    }
    let schema = aggregate.input.schema();
    let mut changed = false;
    let mut is_number = Vec::new();
    let mut groups = Vec::new();
    for expr in &aggregate.group_expr {
        let is_address = expr.get_type(schema)? == ADDRESS;
        changed |= is_address;
        is_number.push(is_address);
        groups.push(match is_address {
            true => address_key(expr.clone()),
            false => expr.clone(),
        });
    }
    let mut sums = Vec::new();
    for expr in &aggregate.aggr_expr {
        let counted = expr
            .clone()
            .transform(|expr| numbered_count(expr, schema))?;
        changed |= counted.transformed;
        sums.push(counted.data);
    }
    if !changed {
        return Ok(None);
    }
    let inner = Aggregate::try_new(aggregate.input.clone(), groups, sums)?;
    let inner = LogicalPlan::Aggregate(inner);
    let columns = inner.schema().columns().into_iter().enumerate();
    let values = columns.map(|(at, column)| match is_number.get(at) {
        Some(true) => address_of_key(Expr::Column(column)),
        _ => Expr::Column(column),
    });
    let values = values.collect();
    renamed(inner, values, &aggregate.schema).map(Some)
}

/// Returns a plan's values with the names of the fields of a schema.
fn renamed(plan: LogicalPlan, values: Vec<Expr>, schema: &DFSchema) -> Result<LogicalPlan> {
    let named = values.into_iter().zip(schema.iter());
    let named = named
        .map(|(value, (qualifier, field))| value.alias_qualified(qualifier.cloned(), field.name()));
    let named: Vec<Expr> = named.collect();
    LogicalPlanBuilder::from(plan).project(named)?.build()
}

/// Returns `count(DISTINCT address)` as a count of numbers.
fn numbered_count(expr: Expr, schema: &impl ExprSchema) -> Result<Transformed<Expr>> {
    let Expr::AggregateFunction(AggregateFunction { func, mut params }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let mut changed = false;
    if params.distinct && func.name() == "count" {
        for argument in &mut params.args {
            if argument.get_type(schema)? == ADDRESS {
                *argument = address_key(argument.clone());
                changed = true;
            }
        }
    }
    let expr = Expr::AggregateFunction(AggregateFunction { func, params });
    Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
}

/// `src = A OR dst = A` becomes the rows with `src = A`, and those with `dst = A` only. The engine asks the filters of
/// files (Bloom filters, pages' statistics) for conditions of one column, and does not for such an alternative.
#[derive(Debug)]
struct FilteredAlternatives;

impl AnalyzerRule for FilteredAlternatives {
    fn name(&self) -> &str {
        "filtered_alternatives"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(split)?.data)
    }
}

/// The most columns of an alternative: each is a reading of the store.
const MOST: usize = 3;

fn split(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = plan else {
        return Ok(Transformed::no(plan));
    };
    let parts = split_conjunction(&filter.predicate);
    let found = parts.iter().enumerate().find_map(|(at, part)| {
        let alternatives = alternatives(part, &filter)?;
        Some((at, alternatives))
    });
    let Some((at, alternatives)) = found.filter(|_| is_reading(&filter.input)) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let others = parts.iter().enumerate();
    let others: Vec<Expr> = others
        .filter(|(other, _)| *other != at)
        .map(|(_, &part)| part.clone())
        .collect();
    let mut before: Vec<Expr> = Vec::new();
    let mut readings = Vec::new();
    for alternative in alternatives {
        let earlier = before.iter().cloned();
        let earlier = earlier.map(|other| Expr::IsNotTrue(other.into()));
        let others = others.iter().cloned();
        let all = std::iter::once(alternative.clone()).chain(earlier);
        let condition = conjunction(all.chain(others)).unwrap_or(alternative.clone());
        before.push(alternative);
        let reading = Filter::try_new(condition, filter.input.clone())?;
        readings.push(Arc::new(LogicalPlan::Filter(reading)));
    }
    let union = LogicalPlan::Union(Union::try_new(readings)?);
    let values = union.schema().columns().into_iter().map(Expr::Column);
    let values = values.collect();
    renamed(union, values, filter.input.schema()).map(Transformed::yes)
}

/// Whether a plan reads rows as they are.
fn is_reading(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(is_reading)
        }
        _ => false,
    }
}

/// Returns the conditions that are joined by OR, those of one column as one, if each compares an address with
/// constants, and there are several columns.
fn alternatives(expr: &Expr, filter: &Filter) -> Option<Vec<Expr>> {
    let mut order: Vec<Column> = Vec::new();
    let mut by_column: HashMap<Column, Vec<Expr>> = HashMap::new();
    let mut waiting = vec![expr];
    while let Some(expr) = waiting.pop() {
        if let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) = expr
        {
            waiting.extend([right.as_ref(), left.as_ref()]);
            continue;
        }
        let column = compared(expr)?;
        let kind = filter.input.schema().field_from_column(&column).ok()?;
        if *kind.data_type() != ADDRESS {
            return None;
        }
        if !by_column.contains_key(&column) {
            order.push(column.clone());
        }
        by_column.entry(column).or_default().push(expr.clone());
    }
    if !(2..=MOST).contains(&order.len()) {
        return None;
    }
    let one = |column: &Column| disjunction(by_column.remove(column)?);
    order.iter().map(one).collect()
}

/// Whether an expression has the same value for all rows: it is of literals alone.
fn is_constant(expr: &Expr) -> bool {
    let is_other = |expr: &Expr| {
        let known = matches!(
            expr,
            Expr::Literal(..) | Expr::Cast(_) | Expr::ScalarFunction(_)
        );
        Ok(!known)
    };
    !expr.is_volatile() && matches!(expr.exists(is_other), Ok(false))
}

/// Returns the column that an expression compares with constants.
fn compared(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), other) | (other, Expr::Column(column)) => {
                is_constant(other).then(|| column.clone())
            }
            _ => None,
        },
        Expr::InList(InList {
            expr,
            list,
            negated: false,
        }) => match expr.as_ref() {
            Expr::Column(column) => list.iter().all(is_constant).then(|| column.clone()),
            _ => None,
        },
        _ => None,
    }
}
