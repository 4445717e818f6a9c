//! For-each: a scope for each item in progress.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Fault, Mistake, Net, Phase, Scope, State};
use crate::random::flow::{Each, Kind};

/// The progress of a for-each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct List {
    items: Vec<Value>,
    next: usize,
    /// The scopes of the items in progress.
    pub(super) live: BTreeSet<u32>,
    results: Vec<Value>,
}

impl List {
    pub(super) fn of(items: Vec<Value>) -> Self {
        Self {
            results: vec![Value::Null; items.len()],
            items,
            next: 0,
            live: BTreeSet::new(),
        }
    }
}

impl State {
    fn list(&mut self, number: u32) -> &mut List {
        match &mut self.open.get_mut(&number).unwrap().phase {
            Phase::Lists(list) => list,
            other => panic!("{other:?} is no list"),
        }
    }

    /// The for-each of a node run.
    fn each<'a>(&self, net: &Net<'a>, number: u32) -> &'a Each {
        match &net.place(self.open.get(&number).unwrap().node).node.kind {
            Kind::ForEach(each) => each,
            other => panic!("{other:?} is no for-each"),
        }
    }

    /// Begins as many items as allowed, or ends.
    pub(super) fn advance(&mut self, net: &Net<'_>, number: u32) {
        let most = self.each(net, number).concurrency;
        loop {
            let list = self.list(number);
            let (next, live) = (list.next, list.live.len());
            let Some(item) = list.items.get(next).cloned() else {
                if live == 0 {
                    let results = Value::Array(std::mem::take(&mut list.results));
                    self.collect(number, Ok(results));
                }
                return;
            };
            if live == most {
                return;
            }
            list.next += 1;
            self.open_scope(net, number, next, item);
        }
    }

    fn open_scope(&mut self, net: &Net<'_>, number: u32, index: usize, item: Value) {
        let scope = self.number();
        self.list(number).live.insert(scope);
        let open = self.open.get(&number).unwrap();
        let body = net.place(open.node).inner.unwrap();
        let own = Scope {
            body,
            around: Some((open.scope, number)),
            index,
            item,
            ..Scope::default()
        };
        self.scopes.insert(scope, own);
        for node in net.entries(body) {
            self.open(net, scope, node, "next", Vec::new());
        }
    }

    /// The scope of an item in which nothing is open any more.
    pub(super) fn quiet_scope(&self) -> Option<u32> {
        let quiet = |scope: &u32| !self.open.values().any(|open| open.scope == *scope);
        self.scopes
            .keys()
            .copied()
            .filter(|scope| *scope != 0)
            .find(quiet)
    }

    /// Renders the output of an item.
    pub(super) fn emit(&mut self, net: &Net<'_>, scope: u32) {
        let local = self.scope(scope);
        let (_, number) = local.around.unwrap();
        let template = net.bodies.get(local.body).unwrap().output.as_ref();
        let made = match (&local.output, template) {
            _ if self.half_decided(net, scope) => Err(Fault::new("permanent", "WL-R004")),
            (Some(output), _) => Ok(output.clone()),
            (None, None) => Ok(Value::Null),
            (None, Some(template)) => template
                .value(&self.view(net, scope, 1))
                .map_err(|_| Fault::new("invalid", "WL-R075")),
        };
        match made {
            Ok(output) => {
                let index = local.index;
                if let Some(result) = self.list(number).results.get_mut(index) {
                    *result = output;
                }
                self.close_scope(net, scope);
                self.advance(net, number);
            }
            Err(fault) => {
                let node = self.open.get(&number).unwrap().node;
                self.incidents.push((node, fault.clone()));
                self.item_failed(net, scope, fault);
            }
        }
    }

    /// Ends an item without an output.
    pub(super) fn item_failed(&mut self, net: &Net<'_>, scope: u32, fault: Fault) {
        let (_, number) = self.scope(scope).around.unwrap();
        self.close_scope(net, scope);
        if self.each(net, number).lenient || net.makes(Mistake::ItemsFailAlone) {
            self.advance(net, number);
        } else {
            for other in self.list(number).live.clone() {
                self.close_scope(net, other);
            }
            self.collect(number, Err(fault));
        }
    }

    fn collect(&mut self, number: u32, result: Result<Value, Fault>) {
        let open = self.open.get_mut(&number).unwrap();
        open.kind = "loop";
        open.phase = Phase::Collects(result);
    }

    /// Closes a scope with everything in it.
    pub(super) fn close_scope(&mut self, net: &Net<'_>, scope: u32) {
        let (_, number) = self.scope(scope).around.unwrap();
        let open = self.open.iter();
        let inside: Vec<u32> = open
            .filter(|(_, open)| open.scope == scope)
            .map(|(number, _)| *number)
            .collect();
        for inside in inside {
            self.cancel(net, inside);
        }
        self.scopes.remove(&scope);
        if let Some(open) = self.open.get_mut(&number)
            && let Phase::Lists(list) = &mut open.phase
        {
            list.live.remove(&scope);
        }
    }
}
