// JSON Schemas of configurations, inputs and outputs, from the types of a plugin.

import { readFile } from "node:fs/promises";
import path from "node:path";
import { BuildError, at } from "./errors.js";

/** The annotations that make a source in JavaScript worth the compiler's time. */
const JSDOC = /@(param|type|typedef|returns)\s*\{/;

/** Classes that JSON does not keep, and what to write instead. */
const NOT_JSON = {
  Date: "a text, such as that of toISOString()",
  Map: "an object or an array",
  Set: "an array",
  WeakMap: "an object",
  WeakSet: "an array",
  RegExp: "a text",
  Promise: "the value, with await",
  Error: "its message",
  ArrayBuffer: "Raw, for bytes",
  Uint8Array: "Raw, for bytes",
  Buffer: "Raw, for bytes",
  URL: "a text",
};

/** The schemas by the name of the export: `{ config, input, output, description }`. */
export async function schemas({ directory, source }) {
  const typed = /\.[cm]?ts$/.test(source);
  if (!typed && !JSDOC.test(await readFile(source, "utf8"))) return {};
  const { default: ts } = await import("typescript");
  const { default: generators } = await import("typescript-json-schema");

  const settings = options(ts, directory, typed);
  // Types of packages are looked for from here.
  const host = { ...ts.createCompilerHost(settings), getCurrentDirectory: () => directory };
  const program = ts.createProgram([source], settings, host);
  const file = program.getSourceFile(source);
  const checker = program.getTypeChecker();
  const show = (position, text, inFile = file) => {
    const { line, character } = inFile.getLineAndCharacterOfPosition(position);
    return at(path.relative(directory, inFile.fileName), line + 1, character + 1, text);
  };
  if (typed) {
    const found = ts.getPreEmitDiagnostics(program).filter(({ category }) => category === 1);
    if (found.length) {
      throw new BuildError(
        found.map((one) => {
          const text = ts.flattenDiagnosticMessageText(one.messageText, " ");
          return one.file ? show(one.start, `${text} (TS${one.code})`, one.file) : text;
        }),
      );
    }
  }

  const generator = quietly(() =>
    generators.buildGenerator(program, {
      ref: true,
      required: true,
      strictNullChecks: true,
      ignoreErrors: true,
      validationKeywords: ["raw"],
    }),
  );
  const mistakes = [];
  const all = {};
  const module = checker.getSymbolAtLocation(file);
  for (const symbol of module ? checker.getExportsOfModule(module) : []) {
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    const declaration = target.valueDeclaration ?? target.declarations?.[0];
    const definition = declaration && checker.getTypeOfSymbolAtLocation(target, declaration);
    if (!definition?.getProperty("$input")) continue;
    const about = { description: ts.displayPartsToString(target.getDocumentationComment(checker)) || undefined };
    for (const role of ["config", "input", "output"]) {
      const type = checker.getTypeOfSymbolAtLocation(definition.getProperty(`$${role}`), declaration);
      const before = mistakes.length;
      refuse({ ts, checker, mistakes, show }, type, declaration, role, new Set());
      if (mistakes.length === before) {
        about[role] = quietly(() => schema(ts, generator, type, role, typed));
      }
    }
    all[symbol.name] = about;
  }
  if (mistakes.length) throw new BuildError([...new Set(mistakes)]);
  return all;
}

/** The generator prints what it cannot evaluate, which is of no use to an author. */
function quietly(work) {
  const { log, warn, error } = console;
  Object.assign(console, { log() {}, warn() {}, error() {} });
  try {
    return work();
  } finally {
    Object.assign(console, { log, warn, error });
  }
}

function options(ts, directory, typed) {
  const file = ["tsconfig.json", "jsconfig.json"]
    .map((name) => path.join(directory, name))
    .find((name) => ts.sys.fileExists(name));
  let found = {};
  if (file) {
    const { config, error } = ts.readConfigFile(file, ts.sys.readFile);
    if (error) throw new BuildError(`${file}: ${ts.flattenDiagnosticMessageText(error.messageText, " ")}`);
    found = ts.parseJsonConfigFileContent(config, ts.sys, directory).options;
  }
  return {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ["lib.es2023.d.ts"],
    types: ["windlass/globals"],
    ...found,
    strict: found.strict ?? true,
    skipLibCheck: true,
    allowJs: !typed,
    checkJs: false,
    noEmit: true,
    incremental: false,
    composite: false,
  };
}

/** Notes the parts of a type that have no JSON, each with the place of its declaration. */
function refuse(tools, type, place, where, seen) {
  if (seen.has(type)) return;
  seen.add(type);
  const { ts, checker, mistakes, show } = tools;
  const say = (text) =>
    mistakes.push(show(place.getStart(), `${where}: ${text}`, place.getSourceFile()));
  const { TypeFlags } = ts;
  if (type.flags & TypeFlags.BigIntLike) return say("a bigint has no schema; use number, or string");
  if (type.flags & TypeFlags.ESSymbolLike) return say("a symbol has no JSON");
  if (type.flags & TypeFlags.TypeParameter) return say("a type parameter has no schema; name a type");
  if (type.isUnionOrIntersection()) {
    for (const part of type.types) refuse(tools, part, place, where, seen);
    return;
  }
  if (!(type.flags & TypeFlags.Object)) return;
  const name = type.symbol?.name;
  if (isLibrary(type) && NOT_JSON[name]) return say(`${name} has no JSON; use ${NOT_JSON[name]}`);
  if (type.getCallSignatures().length || type.getConstructSignatures().length) {
    return say("a function has no JSON");
  }
  if (["Raw", "Blob"].includes(name)) return;
  if (checker.isArrayType(type) || checker.isTupleType(type)) {
    for (const part of checker.getTypeArguments(type)) refuse(tools, part, place, where, seen);
    return;
  }
  for (const { type: part } of checker.getIndexInfosOfType(type)) refuse(tools, part, place, where, seen);
  for (const property of type.getProperties()) {
    const declared = property.valueDeclaration ?? property.declarations?.[0] ?? place;
    const part = checker.getTypeOfSymbolAtLocation(property, declared);
    const inside = declared.getSourceFile().isDeclarationFile ? place : declared;
    refuse(tools, part, inside, `${where}.${property.name}`, seen);
  }
}

const isLibrary = (type) =>
  type.symbol?.declarations?.some((one) => one.getSourceFile().isDeclarationFile) ?? false;

/** The schema of a type; undefined if it takes anything. */
function schema(ts, generator, type, role, typed) {
  if (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown | ts.TypeFlags.Never)) return undefined;
  if (type.flags & (ts.TypeFlags.Void | ts.TypeFlags.Undefined)) return { type: "null" };
  if (["Raw", "Blob"].includes(type.symbol?.name)) return undefined;
  if (type.symbol?.name === "NoConfig") {
    return typed ? { type: "object", additionalProperties: false } : undefined;
  }
  const root = generator.getTypeDefinition(type, false, undefined, undefined, undefined, undefined, true);
  const definitions = {};
  collect(root, generator.ReffedDefinitions ?? generator.reffedDefinitions, definitions);
  const made = modern({ ...root, ...(Object.keys(definitions).length ? { definitions } : {}) });
  if (role === "config") return closed(made);
  return role === "output" ? plain(made) : made;
}

/** The generator takes the values of an object literal for defaults, and repeats equal types. */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  const { default: _, ...rest } = value;
  const made = Object.fromEntries(Object.entries(rest).map(([name, part]) => [name, plain(part)]));
  if (!made.anyOf) return made;
  const distinct = new Map(made.anyOf.map((part) => [JSON.stringify(part), part]));
  made.anyOf = [...distinct.values()];
  if (made.anyOf.length > 1) return made;
  const { anyOf, ...others } = made;
  return { ...anyOf[0], ...others };
}

/** The definitions that a schema refers to, directly or not. */
function collect(value, known, found) {
  if (Array.isArray(value)) return value.forEach((item) => collect(item, known, found));
  if (typeof value !== "object" || value === null) return;
  const name = typeof value.$ref === "string" && decodeURIComponent(value.$ref.replace("#/definitions/", ""));
  if (name && !found[name] && known[name]) {
    found[name] = known[name];
    collect(known[name], known, found);
  }
  for (const part of Object.values(value)) collect(part, known, found);
}

/** Draft 7, which the generator writes, as draft 2020-12. */
function modern(value, isMap = false) {
  if (Array.isArray(value)) return value.map((item) => modern(item));
  if (typeof value !== "object" || value === null) return value;
  const made = {};
  for (const [name, part] of Object.entries(value)) {
    if (isMap) made[name] = modern(part);
    else if (name === "definitions") made.$defs = modern(part, true);
    else if (name === "properties" || name === "patternProperties") made[name] = modern(part, true);
    else if (name === "$ref") made.$ref = part.replace("#/definitions/", "#/$defs/");
    else if (name === "items" && Array.isArray(part)) made.prefixItems = modern(part);
    else if (name === "additionalItems") made.items = modern(part);
    else if (name === "raw") made["x-raw"] = true;
    else if (["default", "const", "enum", "examples"].includes(name)) made[name] = part;
    else if (!["$schema", "propertyOrder", "defaultProperties"].includes(name)) made[name] = modern(part);
  }
  return made;
}

/** A misspelt key of a configuration is found when a workflow is published. */
function closed(made) {
  const open = ["allOf", "anyOf", "oneOf", "$ref", "additionalProperties"].some((name) => name in made);
  if (made.type !== "object" || open) return made;
  return { ...made, additionalProperties: false };
}
