//! Prepares a definition to run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use windlass_engine::{Analysis, Facts, Graph, NodeIx, Plan, PlanKind};
use windlass_model::definition::{Node, NodeKind, StartTrigger, UseRef};
use windlass_model::http::Respond;
use windlass_model::schema::{Refused, Schema};
use windlass_model::secrets::{self, Marked};
use windlass_model::stimulus::INCIDENT;
use windlass_model::weight::{block, list, tree};
use windlass_model::{Class, Definition, Diagnostic, Digest, Failure, Place};
use windlass_plugins::{Host, NodeType, Plugin, Purity, bind_secrets};
use windlass_store::Store;
use windlass_store::rows::{DefinitionRow, PinsRow};

use super::checks;
use super::outside::{self, Others};
use super::pins::Pins;
use super::requests;
use super::{Executor, Prepared};
use super::{answers, texts};
use crate::codes;
use crate::components;
use crate::entry::{self, Entry};
use crate::error::Error;

/// The texts in the name of a node type.
const USE_BYTES: usize = 256;

/// The plugins and node types that a definition uses.
pub(super) type Uses = BTreeMap<UseRef, (Arc<Plugin>, Arc<NodeType>)>;

/// The components that a definition uses and the configuration denies.
type Denied = BTreeMap<UseRef, Digest>;

/// Everything about a definition that its author has to know, on the current plugins.
#[derive(Debug, Default)]
pub struct Report {
    /// Mistakes in its graph, its expressions, and every configuration that can be checked before
    /// it runs: the definition cannot be published.
    pub mistakes: Vec<Diagnostic>,
    /// Behaviour that the author may not expect. A warning does not prevent a definition from
    /// running.
    pub warnings: Vec<Diagnostic>,
}

impl Report {
    /// Makes warnings of the mistakes that only the analysis finds: definitions that are older than
    /// it may have them.
    pub(crate) fn forgive(&mut self) {
        use windlass_engine::codes::{ENDLESS, NO_MEMBER, NOT_RUN};
        let older = |found: &Diagnostic| ![ENDLESS, NO_MEMBER, NOT_RUN].contains(&found.code);
        let (kept, forgiven) = std::mem::take(&mut self.mistakes)
            .into_iter()
            .partition(older);
        self.mistakes = kept;
        self.warnings.extend::<Vec<_>>(forgiven);
    }
}

/// The warnings about a definition that is about to run, without those of plugins. Does not block.
pub fn warnings_before_run(
    definition: &Definition,
    plugins: &Host,
    others: &dyn Others,
) -> Vec<Diagnostic> {
    let (uses, _) = find(definition, plugins);
    let mut found = analyse(definition, &uses).warnings;
    found.extend(outside::destinations(definition, &uses));
    found.extend(outside::secrets_of_nodes(definition, &uses));
    found.extend(outside::children(definition, others));
    found.extend(texts::with_secrets(definition));
    found
}

/// Checks a definition. Plugins check the configurations of their nodes, each for up to 3 s.
/// Blocks.
pub fn check(definition: &Definition, plugins: &Host, others: Option<&dyn Others>) -> Report {
    let mut report = runnable(definition, plugins);
    let by_plugins = std::mem::replace(&mut report.warnings, warnings(definition, plugins));
    report.warnings.extend(by_plugins);
    report.mistakes.extend(schedule_inputs(definition));
    report.mistakes.extend(answering_nodes(definition));
    report.mistakes.extend(requests::mistakes(definition));
    report.mistakes.extend(answers::constant(definition));
    if let Some(others) = others {
        report
            .warnings
            .extend(outside::children(definition, others));
        report
            .warnings
            .extend(outside::answered_twice(definition, others));
    }
    report
}

/// Why runs of a stored definition cannot begin or must fail on the current plugins: node types that
/// are missing, and configurations that their schemas refuse. No plugin is asked.
pub fn cannot_run(row: &DefinitionRow, plugins: &Host) -> Vec<Diagnostic> {
    let definition = match windlass_model::file::read_canonical(&row.json) {
        Ok(definition) => definition,
        Err(mistakes) => return mistakes,
    };
    let (uses, mut mistakes) = find(&definition, plugins);
    if mistakes.is_empty() {
        let compiled = Graph::compile(&definition, &|node_type| raw(&uses, node_type));
        mistakes.extend(compiled.err().unwrap_or_default());
        mistakes.extend(checks::configurations(&definition, &uses).by_schema());
    }
    mistakes
}

/// Whether a run of a definition can begin, its triggers aside. Blocks as [`check`] does.
///
/// Every stage runs, also if another one finds mistakes: each omits the parts that it cannot read.
pub(super) fn runnable(definition: &Definition, plugins: &Host) -> Report {
    let (uses, missing) = find(definition, plugins);
    let mut report = Report::default();
    let compiled = Graph::compile(definition, &|node_type| raw(&uses, node_type));
    let unknown = nodes_of_missing(definition, &uses);
    // The members that a missing node type takes as written are unknown, so all its expressions are.
    let found = compiled.err().unwrap_or_default().into_iter();
    let found = found.filter(|found| !is_below(&found.place.pointer, &unknown));
    report.mistakes.extend(missing);
    report.mistakes.extend(found);
    let analysis = analyse(definition, &uses);
    let configurations = checks::configurations(definition, &uses);
    report.mistakes.extend(ports(definition, &uses));
    report.mistakes.extend(analysis.mistakes);
    report.mistakes.extend(configurations.by_schema());
    let found = configurations.by_plugins();
    report.mistakes.extend(found.mistakes);
    report.warnings.extend(analysis.warnings);
    report.warnings.extend(found.warnings);
    report.warnings.extend(outside::routes(definition, plugins));
    report
        .warnings
        .extend(outside::destinations(definition, &uses));
    report
        .warnings
        .extend(outside::secrets_of_nodes(definition, &uses));
    report
}

fn analyse(definition: &Definition, uses: &Uses) -> Analysis {
    windlass_engine::analyse(definition, &|node_type| {
        let (_, node) = uses.get(node_type)?;
        Some(Facts {
            ports: node.ports.as_slice(),
            raw: node.raw.iter().cloned().collect(),
            output: &node.output,
            suspends: node.suspends,
        })
    })
}

/// The configurations of the nodes whose node type is missing.
fn nodes_of_missing(definition: &Definition, uses: &Uses) -> BTreeSet<String> {
    let all = definition.all_nodes().into_iter();
    let missing = all.filter(|(_, _, node)| match &node.kind {
        NodeKind::Use { node_type, .. } => !uses.contains_key(node_type),
        _ => false,
    });
    missing
        .map(|(pointer, ..)| format!("{pointer}/with"))
        .collect()
}

/// Whether a place is one of these or inside of one.
pub(super) fn is_below(pointer: &str, places: &BTreeSet<String>) -> bool {
    let ends = pointer
        .match_indices('/')
        .map(|(at, _)| at)
        .chain([pointer.len()]);
    let mut around = ends.filter_map(|end| pointer.get(..end));
    around.any(|around| places.contains(around))
}

/// The edges from ports that the plugins do not declare, and from `error` of nodes that do not
/// route their failures.
fn ports(definition: &Definition, uses: &Uses) -> Vec<Diagnostic> {
    windlass_engine::ports(definition, &|node_type| {
        let (_, node) = uses.get(node_type)?;
        Some(node.ports.as_slice())
    })
}

/// The nodes that answer requests and are not at the outermost level. A published workflow keeps
/// its answering nodes.
pub(crate) fn answering_nodes(definition: &Definition) -> Vec<Diagnostic> {
    let of = |(key, trigger): (&String, &StartTrigger)| {
        let StartTrigger::Http {
            respond: Respond::Node { node, .. },
            ..
        } = trigger
        else {
            return None;
        };
        if definition.nodes.contains_key(node) {
            return None;
        }
        let place = Place::at(format!("/triggers/{key}/http/respond/node"));
        let message = format!("the outermost level of the workflow has no node `{node}`");
        let mut found = Diagnostic::new(windlass_model::codes::NO_ANSWER_NODE, message, place);
        let names = definition.nodes.keys().map(String::as_str);
        found.help = windlass_model::nearest::nearest(node, names)
            .map(|near| format!("did you mean `{near}`?"));
        Some(found)
    };
    definition.triggers.iter().filter_map(of).collect()
}

/// The schedule inputs that the workflow's schema refuses: no occurrence of these schedules could
/// begin. A workflow that is already published still starts by its other triggers.
pub(crate) fn schedule_inputs(definition: &Definition) -> Vec<Diagnostic> {
    let schema = definition.input.as_ref().map(Schema::compile);
    let Some(Ok(schema)) = schema else {
        // A refused schema is reported elsewhere.
        return Vec::new();
    };
    let mut wrong = Vec::new();
    for (key, trigger) in &definition.triggers {
        let (StartTrigger::Cron { timing, .. } | StartTrigger::Every { timing, .. }) = trigger
        else {
            continue;
        };
        let pointer = format!("/triggers/{key}/input");
        let found = match schema.completed(timing.input.clone(), &pointer) {
            Ok(completed) => schema.check(&completed, &pointer),
            Err(found) => vec![*found],
        };
        wrong.extend(found.into_iter().map(|found| {
            let message = format!("the trigger `{key}` can start nothing: {}", found.message);
            Diagnostic {
                code: codes::SCHEDULE_INPUT,
                message,
                ..found
            }
        }));
    }
    wrong
}

fn warnings(definition: &Definition, plugins: &Host) -> Vec<Diagnostic> {
    let suspends = |asked: &UseRef| {
        let found = plugins.registry().node(asked);
        found.is_ok_and(|(_, node)| node.suspends)
    };
    let mut found = windlass_engine::warnings(definition, &suspends);
    found.extend(missing_secrets(definition, plugins));
    found.extend(texts::with_secrets(definition));
    found
}

/// Secrets that verify requests to hooks, and that this host lacks for the workflow. This is a
/// warning, because the process that publishes may not be the process that serves.
fn missing_secrets(definition: &Definition, plugins: &Host) -> Vec<Diagnostic> {
    let (known, mut found) = (plugins.secrets(), Vec::new());
    for (key, trigger) in &definition.triggers {
        let StartTrigger::Http {
            verify: Some(verify),
            ..
        } = trigger
        else {
            continue;
        };
        let names = verify.secrets().iter();
        for name in names.filter(|name| known.for_workflow(name, &definition.name).is_none()) {
            let message = format!("this host has no secret `{name}` to verify requests by");
            let place = Place::at(format!("/triggers/{key}/http/verify"));
            let mut warning = Diagnostic::new(windlass_model::codes::NO_SECRET, message, place);
            let workflow = &definition.name;
            warning.help = Some(format!(
                "add `{name}` to [secrets], for the workflow `{workflow}`"
            ));
            found.push(warning);
        }
    }
    found
}

/// The error of a definition with these mistakes. If plugins are missing that may be compiled at
/// present, it waits for them: until then, the mistakes are not known.
pub(crate) fn mistaken(definition: &Definition, wrong: Vec<Diagnostic>, plugins: &Host) -> Error {
    let missing = asked_for(definition).into_iter();
    let mut missing = missing.filter(|asked| plugins.registry().node(asked).is_err());
    match missing.find_map(|asked| Some((plugins.may_come(&asked.package)?, asked))) {
        Some((why, asked)) => Error::compiling(format!("the plugin of `{asked}`"), why),
        None => Error::Definition(wrong),
    }
}

/// The components of a run that starts now.
pub(super) fn resolve(definition: &Definition, plugins: &Host) -> Result<PinsRow, Error> {
    let (uses, wrong) = find(definition, plugins);
    if !wrong.is_empty() {
        return Err(mistaken(definition, wrong, plugins));
    }
    let uses = uses
        .iter()
        .map(|(asked, (plugin, _))| (asked.to_string(), plugin.digest))
        .collect();
    Ok(Pins::new(uses).to_row())
}

/// Whether a run could begin with a definition that [`check`] has accepted.
pub(crate) fn begins(
    definition: &Definition,
    row: &DefinitionRow,
    plugins: &Host,
) -> Result<(), Error> {
    let pins = resolve(definition, plugins)?;
    assemble(definition, row.clone(), pins, plugins, true).map(drop)
}

/// The components of a run that starts now, as far as they are loaded.
pub(crate) fn uses(row: &DefinitionRow, plugins: &Host) -> Vec<Digest> {
    let Ok(definition) = windlass_model::file::read_canonical(&row.json) else {
        return Vec::new();
    };
    let (uses, _) = find(&definition, plugins);
    uses.values().map(|(plugin, _)| plugin.digest).collect()
}

/// Prepares a definition for the first time: every mistake that the host itself finds is an error.
/// Plugins are not asked: a schedule, a stimulus and a parent must not wait for them. `is_checked`:
/// the configurations of its nodes were found right.
pub(super) fn assemble(
    definition: &Definition,
    row: DefinitionRow,
    pins: PinsRow,
    plugins: &Host,
    is_checked: bool,
) -> Result<Prepared, Error> {
    let (uses, denied) = pinned(definition, &pins, None, plugins)?;
    let prepared = build(definition, row, pins, &uses, &denied)?;
    if let Some(Err(refused)) = &prepared.input {
        return Err(Error::Definition(vec![input_refused(refused)]));
    }
    let mut wrong = match is_checked {
        true => Vec::new(),
        false => checks::configurations(definition, &uses).by_schema(),
    };
    wrong.extend(entry::compile(definition).err().unwrap_or_default());
    // A component that is newer than the workflow may decide where its predecessor did not: the
    // edges would then be taken for no answer.
    let decided = ports(definition, &uses).into_iter();
    wrong.extend(decided.filter(|found| found.code == windlass_engine::codes::DECISION));
    if wrong.is_empty() {
        Ok(prepared)
    } else {
        Err(Error::Definition(wrong))
    }
}

/// Prepares the definition and the components of an existing run. They were checked when the run
/// started.
pub(super) fn from_store(
    row: DefinitionRow,
    pins: PinsRow,
    store: &dyn Store,
    plugins: &Host,
) -> Result<Prepared, Error> {
    let definition = windlass_model::file::read_canonical(&row.json).map_err(Error::Definition)?;
    let (uses, denied) = pinned(&definition, &pins, Some(store), plugins)?;
    build(&definition, row, pins, &uses, &denied)
}

fn find(definition: &Definition, plugins: &Host) -> (Uses, Vec<Diagnostic>) {
    let mut uses = Uses::new();
    let mut wrong = Vec::new();
    for (pointer, _, node) in definition.all_nodes() {
        let NodeKind::Use { node_type, .. } = &node.kind else {
            continue;
        };
        if uses.contains_key(node_type) {
            continue;
        }
        match plugins.registry().node(node_type) {
            Ok(found) => {
                uses.insert(node_type.clone(), found);
            }
            Err(missing) => {
                let place = Place::at(format!("{pointer}/use"));
                let diagnostic =
                    Diagnostic::new(codes::PLUGIN_MISSING, missing.message.clone(), place);
                // The nearest name of another package is no help for a package that is known.
                let library = missing
                    .is_package
                    .then(|| plugins.library_help(&node_type.package));
                let help = match (library.flatten(), &missing.nearest) {
                    (Some(library), _) => library,
                    (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
                    (None, None) => {
                        "`windlass plugin list` lists the plugins; put the component into \
                             the plugin directory"
                            .to_owned()
                    }
                };
                wrong.push(diagnostic.help(help));
            }
        }
    }
    (uses, wrong)
}

/// The pinned components, from the content store if needed, and those that are denied. A run that
/// has begun continues, and fails when it calls a denied component.
fn pinned(
    definition: &Definition,
    pins: &PinsRow,
    store: Option<&dyn Store>,
    plugins: &Host,
) -> Result<(Uses, Denied), Error> {
    let pins = Pins::from_row(pins).map_err(Error::Unreadable)?;
    let (mut uses, mut denied) = (Uses::new(), Denied::new());
    for asked in asked_for(definition) {
        let digest: Digest = *pins.uses.get(&asked.to_string()).ok_or_else(|| {
            Error::Unreadable(format!(
                "the run's pins do not say which component `{asked}` is"
            ))
        })?;
        if plugins.is_denied(&digest) {
            denied.insert(asked, digest);
            continue;
        }
        let plugin = match store {
            Some(store) => components::find(store, plugins, &digest)?,
            None => plugins.plugin(&digest)?,
        };
        let Some(node) = plugin.node(&asked.name).map(Arc::clone) else {
            return Err(Error::Unreadable(format!(
                "component {digest} does not have `{asked}`"
            )));
        };
        uses.insert(asked, (plugin, node));
    }
    Ok((uses, denied))
}

fn asked_for(definition: &Definition) -> BTreeSet<UseRef> {
    let uses = definition
        .all_nodes()
        .into_iter()
        .filter_map(|(_, _, node)| match &node.kind {
            NodeKind::Use { node_type, .. } => Some(node_type.clone()),
            _ => None,
        });
    uses.collect()
}

fn raw(uses: &Uses, node_type: &UseRef) -> Vec<String> {
    uses.get(node_type)
        .map(|(_, node)| node.raw.iter().cloned().collect())
        .unwrap_or_default()
}

fn build(
    definition: &Definition,
    row: DefinitionRow,
    pins: PinsRow,
    uses: &Uses,
    denied: &Denied,
) -> Result<Prepared, Error> {
    let (bound, secrets) = bind_references(definition);
    let bound = bound.as_ref().unwrap_or(definition);
    let graph =
        Graph::compile(bound, &|node_type| raw(uses, node_type)).map_err(Error::Definition)?;
    let schemas = schemas(uses);
    let executor = |plan: &Plan| {
        let secrets = secrets.get(&plan.name).cloned().unwrap_or_default();
        let mut executor = executor(&plan.name, &plan.kind, uses, &schemas, secrets);
        executor.refused = refusal(&plan.kind, denied);
        executor
    };
    let numbers = (0..).map(NodeIx).take(graph.node_count());
    let nodes = numbers.map(|at| graph.node(at).map(executor)).collect();
    let vars = definition
        .vars
        .iter()
        .map(|(name, value)| (name.clone(), Bytes::from(value.to_string())))
        .collect();
    let mut prepared = Prepared {
        name: Arc::from(definition.name.as_str()),
        definition: Arc::new(row),
        pins: Arc::new(pins),
        uses: uses
            .iter()
            .map(|(asked, (plugin, _))| (asked.clone(), plugin.digest))
            .chain(
                denied
                    .iter()
                    .map(|(asked, digest)| (asked.clone(), *digest)),
            )
            .collect(),
        current_in: AtomicU64::new(u64::MAX),
        entries: entry::compile(definition).unwrap_or_default(),
        hears_incidents: definition.triggers.values().any(hears_incidents),
        graph,
        nodes,
        input: definition.input.as_ref().map(Schema::compile),
        vars,
        weight: 0,
        runs: OnceLock::new(),
    };
    let schemas = schemas.values().map(|schema| schema.weight());
    prepared.weight = prepared.weigh() + schemas.sum::<usize>() as u64;
    Ok(prepared)
}

impl Prepared {
    /// An estimate of the memory that it takes in bytes, without components and the schemas of node
    /// types.
    fn weigh(&self) -> u64 {
        let documents = self.definition.json.len() + self.pins.json.len();
        let executors = self.nodes.iter().flatten().map(|executor| {
            let names = 2 * block(executor.name.len());
            let completed = executor
                .completed
                .as_ref()
                .map_or(0, |json| block(json.len()));
            let secrets = executor.secrets.iter().map(Marked::weight);
            // The histograms of an execution.
            names + completed + secrets.sum::<usize>() + block(size_of::<super::Times>())
        });
        let input = match &self.input {
            Some(Ok(schema)) => schema.weight(),
            Some(Err(_)) | None => 0,
        };
        let entries = self.entries.iter();
        let entries = entries.map(|(key, entry)| block(key.capacity()) + entry.weight());
        let vars = self.vars.iter();
        let vars = vars.map(|(name, json)| block(name.capacity()) + block(json.len()));
        let sum = size_of::<Self>()
            + documents
            + self.graph.weight()
            + list::<Option<Executor>>(self.nodes.capacity())
            + executors.sum::<usize>()
            + list::<(UseRef, Digest)>(self.uses.capacity())
            + self.uses.len() * USE_BYTES
            + input
            + tree::<(String, Entry)>(self.entries.len())
            + entries.sum::<usize>()
            + list::<(String, Bytes)>(self.vars.capacity())
            + vars.sum::<usize>();
        sum as u64
    }
}

/// The secret references of a definition, by node.
type References = HashMap<String, Arc<[Marked]>>;

/// The definition with marks in place of the names in its secret references, if it has any.
fn bind_references(definition: &Definition) -> (Option<Definition>, References) {
    let mut references = References::new();
    let refers = |(_, _, node): (_, _, &Node)| match &node.kind {
        NodeKind::Use { with, .. } => secrets::are_in(with),
        _ => false,
    };
    if !definition.all_nodes().into_iter().any(refers) {
        return (None, references);
    }
    let mut bound = definition.clone();
    let mut open = vec![&mut bound.nodes];
    while let Some(nodes) = open.pop() {
        for (name, node) in nodes {
            match &mut node.kind {
                NodeKind::Use { with, .. } => {
                    references.insert(name.clone(), bind_secrets(with));
                }
                NodeKind::ForEach(each) => open.push(&mut each.body.nodes),
                _ => {}
            }
        }
    }
    (Some(bound), references)
}

fn hears_incidents(trigger: &StartTrigger) -> bool {
    matches!(trigger, StartTrigger::Event { name, .. } if name == INCIDENT)
}

/// The configuration schemas, compiled once for all nodes of a type. A plugin's schemas are checked
/// when the plugin is loaded.
type Schemas<'a> = HashMap<&'a UseRef, Arc<Schema>>;

fn schemas(uses: &Uses) -> Schemas<'_> {
    uses.iter()
        .filter_map(|(asked, (_, node))| {
            let schema = Schema::of_plugin(&node.config).ok()?;
            Some((asked, Arc::new(schema)))
        })
        .collect()
}

/// The diagnostic for a refused input schema of a workflow.
fn input_refused(refused: &Refused) -> Diagnostic {
    let place = Place::at(format!("/input{}", refused.pointer));
    let diagnostic = Diagnostic::new(refused.code.clone(), refused.message.clone(), place);
    match &refused.help {
        Some(help) => diagnostic.help(help.clone()),
        None => diagnostic,
    }
}

/// The failure of a node whose component is denied.
fn refusal(kind: &PlanKind, denied: &Denied) -> Option<Box<Failure>> {
    let PlanKind::Use { node_type, .. } = kind else {
        return None;
    };
    let digest = denied.get(node_type)?;
    let message = format!("the component {digest} of `{node_type}` is denied by the configuration");
    let code = windlass_plugins::codes::DENIED;
    Some(Box::new(Failure::new(Class::Permanent, code, message)))
}

fn executor(
    name: &str,
    kind: &PlanKind,
    uses: &Uses,
    schemas: &Schemas<'_>,
    secrets: Arc<[Marked]>,
) -> Executor {
    let name = Arc::from(name);
    let found = match kind {
        PlanKind::Use { node_type, .. } => uses.get_key_value(node_type),
        _ => None,
    };
    let Some((asked, (plugin, node))) = found else {
        return Executor {
            name,
            plugin: None,
            node_type: Arc::from(""),
            refused: None,
            config: None,
            completed: None,
            secrets: Arc::default(),
            reads: false,
            pure: true,
            times: OnceLock::new(),
            count: OnceLock::new(),
        };
    };
    Executor {
        name,
        plugin: Some(Arc::clone(plugin)),
        node_type: Arc::clone(&node.id),
        refused: None,
        config: schemas.get(asked).map(Arc::clone),
        completed: completed(kind, schemas.get(asked)),
        secrets,
        reads: plugin.reads,
        pure: is_pure(plugin),
        times: OnceLock::new(),
        count: OnceLock::new(),
    }
}

/// A constant configuration with the defaults of its schema, if it lacks any. That they are within
/// bounds is checked before a run.
fn completed(kind: &PlanKind, schema: Option<&Arc<Schema>>) -> Option<Bytes> {
    let PlanKind::Use { with, .. } = kind else {
        return None;
    };
    let completed = schema?.complete(with.constant()?, "").ok()??;
    Some(Bytes::from(completed))
}

/// Whether a plugin has no effects and reads nothing but its input.
pub(crate) fn is_pure(plugin: &Plugin) -> bool {
    plugin.purity == Purity::Pure && !plugin.reads
}
