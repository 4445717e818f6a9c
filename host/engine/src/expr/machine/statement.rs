//! Evaluates statements, scopes and loops.

use minijinja::Value;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind};

use super::Machine;
use super::budget::STEP;
use super::fault::{Fault, Limit, Result};
use super::object::{Items, Kind, LoopView};
use super::text::Escape;
use super::tree::{Arg, Expr, For, LOOP, Name, Stmt, Target};

/// The limit of open scopes.
const FRAMES: usize = 64;

/// A scope.
#[derive(Default)]
pub(super) struct Frame<'a> {
    locals: Vec<(Name, Value)>,
    running: Option<Running<'a>>,
}

/// A loop in progress.
struct Running<'a> {
    of: &'a For,
    items: Vec<Value>,
    sized: bool,
    index: usize,
    depth: usize,
    /// Whether `loop` refers to this loop: the loop that only filters is not named.
    named: bool,
    changed: Option<Vec<Value>>,
}

impl Running<'_> {
    fn view(&self) -> Value {
        // MiniJinja does not count the characters of a text before a loop over it.
        #[cfg(test)]
        super::apart::note(self.items.iter().all(|item| {
            let mut chars = item.as_str().unwrap_or_default().chars();
            chars.next().is_some() && chars.next().is_none()
        }));
        let at = |index: Option<usize>| {
            let item = index.and_then(|index| self.items.get(index));
            item.cloned().unwrap_or(Value::UNDEFINED)
        };
        Value::from_object(LoopView {
            id: self.of.id,
            index: self.index,
            length: self.sized.then_some(self.items.len()),
            depth: self.depth,
            previous: at(self.index.checked_sub(1)),
            next: at(self.index.checked_add(1)),
        })
    }
}

impl<'a> Machine<'a> {
    /// The value of a name that the text itself assigns.
    pub(super) fn local(&mut self, name: Name) -> Result<Option<Value>> {
        let mut looked_at = 0_usize;
        let mut found = None;
        for frame in self.frames.iter().rev() {
            looked_at = looked_at
                .saturating_add(frame.locals.len())
                .saturating_add(1);
            let local = frame.locals.iter().find(|(known, _)| *known == name);
            if let Some((_, value)) = local {
                found = Some(value.clone());
                break;
            }
            if name == LOOP
                && let Some(running) = frame.running.as_ref().filter(|running| running.named)
            {
                self.budget.hold(std::mem::size_of::<LoopView>())?;
                found = Some(running.view());
                break;
            }
        }
        self.budget.touch(looked_at)?;
        Ok(found)
    }

    fn store(&mut self, name: Name, value: Value) -> Result<()> {
        let Some(frame) = self.frames.last_mut() else {
            return Ok(());
        };
        self.budget.touch(frame.locals.len())?;
        match frame.locals.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => frame.locals.push((name, value)),
        }
        Ok(())
    }

    fn push_frame(&mut self, frame: Frame<'a>) -> Result<()> {
        if self.frames.len() >= FRAMES {
            return Err(Fault::Limit(Limit::Depth));
        }
        self.frames.push(frame);
        Ok(())
    }

    pub(super) fn body(&mut self, stmts: &'a [Stmt]) -> Result<()> {
        self.budget.enter()?;
        for stmt in stmts {
            self.stmt(stmt)?;
        }
        self.budget.leave();
        Ok(())
    }

    fn stmt(&mut self, stmt: &'a Stmt) -> Result<()> {
        self.budget.step()?;
        match stmt {
            Stmt::Raw(text) => {
                self.budget.hold(text.len())?;
                self.out.push_str(text);
                Ok(())
            }
            Stmt::Emit(expr) => {
                let value = self.eval(expr)?;
                self.emit_value(&value)
            }
            Stmt::Recurse(arg) => self.recurse_here(arg),
            Stmt::For(stmt) => self.for_loop(stmt),
            Stmt::If(branches) => self.if_stmt(branches),
            Stmt::With(assignments, body) => self.with(assignments, body),
            Stmt::Set(target, expr) => {
                let value = self.eval(expr)?;
                self.assign(target, value)
            }
            Stmt::SetBlock(target, filter, body) => self.set_block(target, filter.as_ref(), body),
            Stmt::AutoEscape(enabled, body) => self.auto_escape(enabled, body),
            Stmt::FilterBlock(filter, body) => {
                let value = self.filter_block(filter, body)?;
                self.emit_value(&value)
            }
            Stmt::Do(expr) => self.eval(expr).map(drop),
        }
    }

    fn emit_value(&mut self, value: &Value) -> Result<()> {
        let mut out = std::mem::take(&mut self.out);
        let emitted = self.emit(value, &mut out);
        self.out = out;
        emitted
    }

    #[inline(never)]
    fn if_stmt(&mut self, branches: &'a [(Option<Expr>, Box<[Stmt]>)]) -> Result<()> {
        for (condition, body) in branches {
            let holds = match condition {
                Some(condition) => {
                    let value = self.eval(condition)?;
                    self.is_true(&value)?
                }
                None => true,
            };
            if holds {
                return self.body(body);
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn with(&mut self, assignments: &'a [(Target, Expr)], body: &'a [Stmt]) -> Result<()> {
        self.push_frame(Frame::default())?;
        for (target, expr) in assignments {
            let value = self.eval(expr)?;
            self.assign(target, value)?;
        }
        self.body(body)?;
        self.frames.pop();
        Ok(())
    }

    /// Evaluates statements and returns the text that they write.
    fn capture(&mut self, write: impl FnOnce(&mut Self) -> Result<()>) -> Result<Value> {
        let outer = std::mem::take(&mut self.out);
        let written = write(self);
        let text = std::mem::replace(&mut self.out, outer);
        written?;
        self.budget.hold(text.len())?;
        Ok(match self.escape {
            Escape::None => Value::from(text),
            Escape::Html | Escape::Json => Value::from_safe_string(text),
        })
    }

    #[inline(never)]
    fn filter_block(&mut self, filter: &'a Expr, body: &'a [Stmt]) -> Result<Value> {
        let text = self.capture(|machine| machine.body(body))?;
        self.filter_captured(filter, text)
    }

    fn filter_captured(&mut self, filter: &'a Expr, text: Value) -> Result<Value> {
        let outer = std::mem::replace(&mut self.captured, text);
        let value = self.eval(filter);
        self.captured = outer;
        value
    }

    #[inline(never)]
    fn set_block(
        &mut self,
        target: &'a Target,
        filter: Option<&'a Expr>,
        body: &'a [Stmt],
    ) -> Result<()> {
        let mut value = self.capture(|machine| machine.body(body))?;
        if let Some(filter) = filter {
            value = self.filter_captured(filter, value)?;
        }
        self.assign(target, value)
    }

    #[inline(never)]
    fn auto_escape(&mut self, enabled: &'a Expr, body: &'a [Stmt]) -> Result<()> {
        let value = self.eval(enabled)?;
        let escape = match value.as_str() {
            Some("html") => Escape::Html,
            Some("json") => Escape::Json,
            Some("none") => Escape::None,
            Some(_) => return Err(Fault::invalid("invalid value to autoescape tag")),
            None if value.kind() == ValueKind::Bool && value.is_true() => Escape::Html,
            None if value.as_object().is_none() && value == Value::from(true) => Escape::Html,
            None => Escape::None,
        };
        let outer = std::mem::replace(&mut self.escape, escape);
        self.body(body)?;
        self.escape = outer;
        Ok(())
    }

    fn assign(&mut self, target: &'a Target, value: Value) -> Result<()> {
        match target {
            Target::Name(name) => self.store(*name, value),
            Target::Unpack(targets) => {
                let Some(object) = value.as_object() else {
                    let message = "value is not iterable";
                    let error = Error::new(ErrorKind::CannotUnpack, message);
                    return Err(Fault::Error(error));
                };
                let mut items = Vec::new();
                let mut count = 0_usize;
                for item in object.try_iter().into_iter().flatten() {
                    self.budget.work(STEP)?;
                    count = count.saturating_add(1);
                    if items.len() < targets.len() {
                        items.push(item);
                    }
                }
                if count != targets.len() {
                    let message = format!(
                        "sequence of wrong length (expected {}, got {count})",
                        targets.len()
                    );
                    let error = Error::new(ErrorKind::CannotUnpack, message);
                    return Err(Fault::Error(error));
                }
                for (target, item) in targets.iter().zip(items) {
                    self.assign(target, item)?;
                }
                Ok(())
            }
            Target::Attr(of) => {
                let of = self.eval(of)?;
                let message = format!("can only assign to namespaces, not {}", of.kind());
                Err(Fault::invalid(message))
            }
        }
    }

    #[inline(never)]
    fn for_loop(&mut self, stmt: &'a For) -> Result<()> {
        let over = self.eval(&stmt.over)?;
        let (items, sized) = self.loop_items(&over)?;
        let Some(filter) = &stmt.filter else {
            return self.loop_or_else(stmt, items, sized);
        };
        self.push_frame(Frame {
            locals: Vec::new(),
            running: Some(self.running(stmt, Vec::new(), true, false)),
        })?;
        let mut kept = Vec::new();
        for item in items {
            self.budget.step()?;
            if let Some(frame) = self.frames.last_mut() {
                frame.locals.clear();
            }
            self.assign(&stmt.target, item.clone())?;
            let value = self.eval(filter)?;
            if self.is_true(&value)? {
                kept.push(item);
            }
        }
        self.frames.pop();
        self.loop_or_else(stmt, kept, true)
    }

    fn loop_or_else(&mut self, stmt: &'a For, items: Vec<Value>, sized: bool) -> Result<()> {
        if items.is_empty() && !stmt.otherwise.is_empty() {
            return self.body(&stmt.otherwise);
        }
        self.run_loop(stmt, items, sized)
    }

    fn loop_items(&mut self, over: &Value) -> Result<(Vec<Value>, bool)> {
        let endless = over
            .downcast_object_ref::<Items>()
            .is_some_and(|items| items.kind == Kind::Endless);
        Ok((self.items(over)?, !endless))
    }

    fn running(&self, of: &'a For, items: Vec<Value>, sized: bool, named: bool) -> Running<'a> {
        // The innermost loop counts, even if it is not recursive.
        let around = self
            .frames
            .iter()
            .rev()
            .find_map(|frame| frame.running.as_ref());
        let around = around.filter(|running| running.can_recurse());
        Running {
            of,
            items,
            sized,
            index: 0,
            depth: around.map_or(0, |running| running.depth.saturating_add(1)),
            named,
            changed: None,
        }
    }

    /// Runs the body of a loop for each item.
    fn run_loop(&mut self, stmt: &'a For, items: Vec<Value>, sized: bool) -> Result<()> {
        let running = self.running(stmt, items, sized, true);
        self.push_frame(Frame {
            locals: Vec::new(),
            running: Some(running),
        })?;
        let mut index = 0_usize;
        while let Some(item) = self.enter_iteration(index) {
            self.budget.step()?;
            self.assign(&stmt.target, item)?;
            self.body(&stmt.body)?;
            index = index.saturating_add(1);
        }
        self.frames.pop();
        Ok(())
    }

    fn enter_iteration(&mut self, index: usize) -> Option<Value> {
        let frame = self.frames.last_mut()?;
        let running = frame.running.as_mut()?;
        let item = running.items.get(index)?.clone();
        running.index = index;
        frame.locals.clear();
        Some(item)
    }

    /// `{{ loop(over) }}`: runs the innermost loop again, in place.
    #[inline(never)]
    fn recurse_here(&mut self, arg: &'a Arg) -> Result<()> {
        let args = self.args(None, std::slice::from_ref(arg))?;
        let innermost = self
            .frames
            .iter()
            .rev()
            .find_map(|frame| frame.running.as_ref());
        let Some(running) = innermost else {
            let error = Error::new(ErrorKind::UnknownFunction, "loop is unknown");
            return Err(Fault::Error(error));
        };
        let (of, can) = (running.of, running.can_recurse());
        let over = args.last().cloned().unwrap_or(Value::UNDEFINED);
        self.recurse(of, can, &over)
    }

    /// A call of a loop inside an expression: the text that the loop writes is the value.
    pub(super) fn recurse_captured(&mut self, id: u32, over: &Value) -> Result<Value> {
        let loops = self.frames.iter().rev();
        let mut loops = loops.filter_map(|frame| frame.running.as_ref());
        let Some(running) = loops.find(|running| running.named && running.of.id == id) else {
            return Err(Fault::invalid("cannot recurse outside of recursive loop"));
        };
        let (of, can) = (running.of, running.can_recurse());
        self.capture(|machine| machine.recurse(of, can, over))
    }

    fn recurse(&mut self, of: &'a For, can: bool, over: &Value) -> Result<()> {
        if !can {
            return Err(Fault::invalid("cannot recurse outside of recursive loop"));
        }
        let (items, sized) = self.loop_items(over)?;
        self.run_loop(of, items, sized)
    }

    /// `loop.changed(…)`
    pub(super) fn changed(&mut self, id: u32, args: Vec<Value>) -> Result<bool> {
        let find = |running: &Running<'a>| running.named && running.of.id == id;
        let frames = self.frames.iter_mut().rev();
        let mut loops = frames.filter_map(|frame| frame.running.as_mut());
        let before = loops.find(|running| find(running));
        let before = before.and_then(|running| running.changed.take());
        let mut same = before
            .as_ref()
            .is_some_and(|before| before.len() == args.len());
        for (old, new) in before.iter().flatten().zip(&args) {
            same = same && self.equal(old, new)?;
        }
        let frames = self.frames.iter_mut().rev();
        let mut loops = frames.filter_map(|frame| frame.running.as_mut());
        if let Some(running) = loops.find(|running| find(running)) {
            running.changed = Some(args);
        }
        Ok(!same)
    }
}

impl Running<'_> {
    fn can_recurse(&self) -> bool {
        self.named && self.of.recursive
    }
}
