//! Evaluates expressions.

use minijinja::Value;
use minijinja::machinery::ast::BinOpKind;
use minijinja::value::ValueKind;

use super::Machine;
use super::budget::{CONTAINER, STEP};
use super::fault::{Fault, Result};
use super::object::{Items, Kind, LoopView, depth_of};
use super::tree::{Arg, Compare, Expr, IfExpr, Name, Step, Unary};
use super::{functions, ops};
use crate::expr::names;

impl<'a> Machine<'a> {
    pub(super) fn eval(&mut self, expr: &'a Expr) -> Result<Value> {
        self.budget.step()?;
        match expr {
            Expr::Const(value) => Ok(value.clone()),
            Expr::Path(root, rest) => self.path(*root, rest),
            Expr::Name(name) => self.name(*name),
            Expr::Captured => Ok(self.captured.clone()),
            _ => {
                self.budget.enter()?;
                let value = self.compound(expr)?;
                self.budget.leave();
                Ok(value)
            }
        }
    }

    fn compound(&mut self, expr: &'a Expr) -> Result<Value> {
        match expr {
            Expr::Chain(chain) => self.chain(&chain.0, &chain.1),
            Expr::Unary(ops, inner) => self.unary(ops, inner),
            Expr::If(branches) => self.if_expr(branches),
            Expr::List(items) => self.literal(Kind::List, items),
            Expr::Tuple(items) => self.literal(Kind::Tuple, items),
            Expr::Map(pairs) => self.literal_map(pairs),
            Expr::Call(name, args) => self.call(*name, args),
            // These expressions have no parts.
            Expr::Const(_) | Expr::Path(..) | Expr::Name(_) | Expr::Captured => self.eval(expr),
        }
    }

    /// The value of a name; undefined if the name is unknown.
    pub(super) fn name(&mut self, name: Name) -> Result<Value> {
        if let Some(value) = self.local(name)? {
            return Ok(value);
        }
        Ok(self.root(name).unwrap_or(Value::UNDEFINED))
    }

    fn root(&self, name: Name) -> Option<Value> {
        let name = self.tree.names.get(name as usize)?;
        self.values.lookup(name, &[])
    }

    fn path(&mut self, root: Name, rest: &[Box<str>]) -> Result<Value> {
        for name in rest {
            self.budget.work(STEP)?;
            self.budget.touch(name.len())?;
        }
        let known = self.tree.names.get(root as usize);
        if let Some(value) = known.and_then(|root| self.values.lookup(root, rest)) {
            return Ok(value);
        }
        if known.is_some_and(|root| is_detail(root, rest)) {
            return Ok(ops::silent());
        }
        // A name on the path is undefined. Only the last name of a path may be.
        let mut value = self.root(root).unwrap_or(Value::UNDEFINED);
        for name in rest {
            value = value.get_attr(name)?;
        }
        Ok(value)
    }

    #[inline(never)]
    fn chain(&mut self, base: &'a Expr, steps: &'a [Step]) -> Result<Value> {
        let mut value = self.eval(base)?;
        for step in steps {
            self.budget.step()?;
            value = self.apply(value, step)?;
        }
        Ok(value)
    }

    fn apply(&mut self, value: Value, step: &'a Step) -> Result<Value> {
        match step {
            Step::Attr(name) => {
                self.budget.touch(name.len())?;
                Ok(value.get_attr(name)?)
            }
            Step::Item(key) => {
                let key = self.eval(key)?;
                self.item(&value, &key)
            }
            Step::And(right) => {
                if self.is_true(&value)? {
                    return self.eval(right);
                }
                Ok(value)
            }
            Step::Or(right) => {
                if self.is_true(&value)? {
                    return Ok(value);
                }
                self.eval(right)
            }
            Step::Binary(op, right) => {
                let right = self.eval(right)?;
                self.binary(*op, &value, &right)
            }
            Step::Order(op, right, places) => {
                let right = self.eval(right)?;
                self.compared(*op, (&value, &right), places)
                    .map(Value::from)
            }
            Step::Not => Ok(Value::from(!self.is_true(&value)?)),
            Step::Filter(filter, args) => self.filtered(value, *filter, args),
            Step::Test(check, args) => {
                let args = self.args(Some(value), args)?;
                Ok(Value::from(check.call(self, &args)?))
            }
            Step::TestOrder(check, args, name, places) => {
                let args = self.args(Some(value), args)?;
                if let [a, b] = args.as_slice() {
                    self.operands(name, (a, b), places)?;
                }
                Ok(Value::from(check.call(self, &args)?))
            }
            Step::Slice(bounds) => self.slice(&value, bounds),
            Step::Compare(ops, places) => self.compare_all(value, ops, places),
            Step::Method(name, args) => self.method(&value, name, args),
            Step::CallValue(args) => {
                self.args(None, args)?;
                Err(not_callable(&value))
            }
        }
    }

    #[inline(never)]
    fn filtered(
        &mut self,
        value: Value,
        filter: super::filters::Filter,
        args: &'a [Arg],
    ) -> Result<Value> {
        let args = self.args(Some(value), args)?;
        filter.call(self, &args)
    }

    #[inline(never)]
    fn unary(&mut self, ops: &[Unary], inner: &'a Expr) -> Result<Value> {
        let mut value = self.eval(inner)?;
        for op in ops.iter().rev() {
            self.budget.step()?;
            value = match op {
                Unary::Not => Value::from(!self.is_true(&value)?),
                Unary::Neg => self.neg(&value)?,
            };
        }
        Ok(value)
    }

    #[inline(never)]
    fn if_expr(&mut self, expr: &'a IfExpr) -> Result<Value> {
        for (condition, value) in &expr.branches {
            let condition = self.eval(condition)?;
            if self.is_true(&condition)? {
                return self.eval(value);
            }
        }
        match &expr.otherwise {
            Some(value) => self.eval(value),
            None => Ok(ops::silent()),
        }
    }

    #[inline(never)]
    fn literal(&mut self, kind: Kind, items: &'a [Expr]) -> Result<Value> {
        self.budget.charge_values(items.len())?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.eval(item)?);
        }
        self.list(kind, values)
    }

    #[inline(never)]
    fn literal_map(&mut self, pairs: &'a [(Expr, Expr)]) -> Result<Value> {
        let mut values = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            values.push((self.eval(key)?, self.eval(value)?));
        }
        self.dict(values)
    }

    #[inline(never)]
    fn compare_all(
        &mut self,
        first: Value,
        ops: &'a [(Compare, Expr)],
        places: &[Box<str>],
    ) -> Result<Value> {
        let mut left = first;
        for (at, (op, right)) in ops.iter().enumerate() {
            let right = self.eval(right)?;
            let binary = match op {
                Compare::Eq => BinOpKind::Eq,
                Compare::Ne => BinOpKind::Ne,
                Compare::Lt => BinOpKind::Lt,
                Compare::Lte => BinOpKind::Lte,
                Compare::Gt => BinOpKind::Gt,
                Compare::Gte => BinOpKind::Gte,
                Compare::In | Compare::NotIn => BinOpKind::In,
            };
            let holds = match op {
                Compare::Lt | Compare::Lte | Compare::Gt | Compare::Gte => {
                    let places = places.get(at..).unwrap_or_default();
                    self.compared(binary, (&left, &right), places)?
                }
                _ => self.binary(binary, &left, &right)?.is_true(),
            };
            if holds == matches!(op, Compare::NotIn) {
                return Ok(Value::from(false));
            }
            left = right;
        }
        Ok(Value::from(true))
    }

    pub(super) fn item(&mut self, value: &Value, key: &Value) -> Result<Value> {
        self.lookup(value.as_object(), key)?;
        match value.kind() {
            ValueKind::String => {
                let length = value.as_str().map_or(0, str::len);
                self.budget.touch_slowly(length, 2)?;
            }
            // MiniJinja would iterate up to the item.
            ValueKind::Iterable => {
                if let Some(items) = value.downcast_object_ref::<Items>() {
                    return Ok(ops::nth(items, key).unwrap_or(Value::UNDEFINED));
                }
            }
            _ => {}
        }
        Ok(value.get_item(key)?)
    }

    #[inline(never)]
    fn slice(&mut self, value: &Value, bounds: &'a [Option<Expr>; 3]) -> Result<Value> {
        let mut numbers = [const { None }; 3];
        for (number, bound) in numbers.iter_mut().zip(bounds) {
            if let Some(bound) = bound {
                *number = Some(self.eval(bound)?);
            }
        }
        let [start, stop, step] = numbers;
        self.sliced(value, start, stop, step)
    }

    /// Values have no methods, except a loop, which has two.
    #[inline(never)]
    fn method(&mut self, value: &Value, name: &str, args: &'a [Arg]) -> Result<Value> {
        let args = self.args(None, args)?;
        if let Some(view) = value.downcast_object_ref::<LoopView>() {
            match name {
                "changed" => return Ok(Value::from(self.changed(view.id, args)?)),
                "cycle" => {
                    let at = view.index.checked_rem(args.len());
                    let value = at.and_then(|at| args.get(at)).cloned();
                    return Ok(value.unwrap_or(Value::UNDEFINED));
                }
                _ => {}
            }
        }
        if let Some(property) = value.as_object().and_then(|o| o.get_value_by_str(name)) {
            return Err(not_callable(&property));
        }
        let message = format!("{} has no method named {name}", value.kind());
        let error = minijinja::Error::new(minijinja::ErrorKind::UnknownMethod, message);
        Err(Fault::Error(error))
    }

    #[inline(never)]
    fn call(&mut self, name: Name, args: &'a [Arg]) -> Result<Value> {
        let (mut args, named) = self.arguments(None, args)?;
        let known = self.tree.names.get(name as usize);
        let callee = match self.local(name)? {
            Some(value) => Some(value),
            None => self.root(name),
        };
        if callee.is_none() && known.is_some_and(|name| &**name == "dict") {
            return functions::dict(self, &args, named.unwrap_or_default());
        }
        self.append_named(&mut args, named)?;
        if let Some(callee) = callee {
            if let Some(view) = callee.downcast_object_ref::<LoopView>() {
                let [over] = args.as_slice() else {
                    return Err(Fault::invalid("loop() takes one argument"));
                };
                return self.recurse_captured(view.id, over);
            }
            return Err(not_callable(&callee));
        }
        match known.map(|name| &**name) {
            Some("range") => functions::range(self, &args),
            other => {
                let message = format!("{} is unknown", other.unwrap_or_default());
                let error = minijinja::Error::new(minijinja::ErrorKind::UnknownFunction, message);
                Err(Fault::Error(error))
            }
        }
    }

    /// The arguments of a call, behind `first`. Named arguments come last, as one value.
    pub(super) fn args(&mut self, first: Option<Value>, args: &'a [Arg]) -> Result<Vec<Value>> {
        let (mut values, named) = self.arguments(first, args)?;
        self.append_named(&mut values, named)?;
        Ok(values)
    }

    fn append_named(&mut self, values: &mut Vec<Value>, named: Option<Named>) -> Result<()> {
        let Some(named) = named else {
            return Ok(());
        };
        self.budget.hold(CONTAINER)?;
        self.budget.charge_values(named.len().saturating_mul(4))?;
        let mut texts = Vec::with_capacity(named.len());
        for (name, value) in named {
            let Some(name) = name.as_str() else {
                return Err(Fault::invalid("non string keys passed to kwargs"));
            };
            self.budget.hold(name.len())?;
            self.nests(depth_of(&value))?;
            texts.push((name.to_owned(), value));
        }
        values.push(Self::kwargs(texts));
        Ok(())
    }

    fn arguments(
        &mut self,
        first: Option<Value>,
        args: &'a [Arg],
    ) -> Result<(Vec<Value>, Option<Named>)> {
        let mut values: Vec<Value> = first.into_iter().collect();
        let mut named: Option<Named> = None;
        for arg in args {
            match arg {
                Arg::Plain(expr) => {
                    let value = self.eval(expr)?;
                    values.push(value);
                }
                Arg::Splat(expr) => {
                    let splat = self.eval(expr)?;
                    let items = self.items_or_none(&splat)?;
                    values.extend(items);
                }
                Arg::Named(name, expr) => {
                    let value = self.eval(expr)?;
                    let named = named.get_or_insert_with(Vec::new);
                    named.push((Value::from(&**name), value));
                }
                Arg::NamedSplat(expr) => {
                    let splat = self.eval(expr)?;
                    let pairs = self.named_splat(&splat)?;
                    named.get_or_insert_with(Vec::new).extend(pairs);
                }
            }
        }
        Ok((values, named))
    }

    fn named_splat(&mut self, splat: &Value) -> Result<Named> {
        self.defined(splat)?;
        let pairs = splat
            .as_object()
            .filter(|_| splat.kind() == ValueKind::Map)
            .and_then(|object| object.try_iter_pairs());
        let Some(pairs) = pairs else {
            return Err(Fault::invalid(format!(
                "attempted to apply keyword arguments from non map (got {})",
                splat.kind()
            )));
        };
        let mut named = Vec::new();
        for (key, value) in pairs {
            self.budget.charge_values(2)?;
            named.push((key, value));
        }
        Ok(named)
    }
}

/// Named arguments. A splat of a map can give them any names.
type Named = Vec<(Value, Value)>;

fn not_callable(value: &Value) -> Fault {
    Fault::invalid(format!("value of type {} is not callable", value.kind()))
}

/// Whether a path leads into the details of a failure. Failures have different details, so a
/// missing member is undefined and no mistake, at any depth.
pub(in crate::expr) fn is_detail(root: &str, rest: &[Box<str>]) -> bool {
    root == names::ERROR.0 && rest.first().is_some_and(|name| **name == *names::DETAILS)
}
