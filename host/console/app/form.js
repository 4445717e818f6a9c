// A form for a value, from its JSON Schema. The value is JSON as text, so each number keeps the digits
// that a person has typed. What a form cannot show is a field for JSON; the host checks the value.

/** References that are followed from one place. */
const HOPS = 8;

/** Fields of a form at most. */
const FIELDS = 100;

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} title
 * @property {string} description
 * @property {boolean} required
 * @property {"text" | "long" | "number" | "integer" | "boolean" | "choice" | "json"} kind
 * @property {any[]} choices
 * @property {any} preset the default of the schema; undefined if there is none
 */

/**
 * The schema after its references.
 * @param {any} schema
 * @param {any} root
 */
function followed(schema, root) {
  let found = schema;
  for (let hop = 0; hop < HOPS && typeof found?.$ref === "string"; hop++) {
    if (!found.$ref.startsWith("#/")) return {};
    const parts = found.$ref.slice(2).split("/").map((/** @type {string} */ part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
    found = parts.reduce((/** @type {any} */ at, /** @type {string} */ part) => (at && Object.hasOwn(at, part) ? at[part] : undefined), root);
  }
  return found && typeof found === "object" ? found : {};
}

/**
 * The fields of a schema of an object; null if it is another one.
 * @param {any} schema
 * @returns {Field[] | null}
 */
export function fields(schema) {
  const root = followed(schema, schema);
  const properties = root.properties;
  if (!properties || typeof properties !== "object" || (root.type !== undefined && root.type !== "object")) return null;
  const names = Object.keys(properties);
  if (names.length === 0 || names.length > FIELDS) return null;
  const required = new Set(Array.isArray(root.required) ? root.required : []);
  const all = names.map((name) => field(name, followed(properties[name], schema), required.has(name)));
  return all.sort((a, b) => Number(b.required) - Number(a.required));
}

/**
 * @param {string} name
 * @param {any} schema
 * @param {boolean} required
 * @returns {Field}
 */
function field(name, schema, required) {
  const text = (/** @type {unknown} */ value) => (typeof value === "string" ? value : "");
  const simple = (/** @type {unknown} */ value) => value === null || typeof value !== "object";
  const choices = Array.isArray(schema.enum) && schema.enum.length <= 100 && schema.enum.every(simple) ? schema.enum : [];
  /** @type {Field["kind"]} */
  let kind = "json";
  if (choices.length > 0) kind = "choice";
  else if (schema.type === "string") kind = schema.maxLength > 200 ? "long" : "text";
  else if (schema.type === "integer" || schema.type === "number" || schema.type === "boolean") kind = schema.type;
  return { name, title: text(schema.title) || name, description: text(schema.description), required, kind, choices, preset: schema.default };
}

/**
 * The JSON of what a person has typed into a field; null for nothing.
 * @param {Field} field
 * @param {string} typed
 * @returns {string | null}
 * @throws {Error} the text is no value of the field
 */
export function json(field, typed) {
  const trimmed = typed.trim();
  switch (field.kind) {
    case "text":
    case "long":
      return typed === "" && !field.required ? null : JSON.stringify(typed);
    case "choice":
      return typed === "" ? null : JSON.stringify(field.choices[Number(typed)]);
    case "boolean":
      return typed === "" ? null : typed;
    case "integer":
    case "number": {
      if (trimmed === "") return null;
      const pattern = field.kind === "integer" ? /^-?(0|[1-9]\d*)$/ : /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
      if (!pattern.test(trimmed)) throw new Error(`${field.title}: ${trimmed} is not ${field.kind === "integer" ? "a whole number" : "a number"}`);
      return trimmed;
    }
    default:
      if (trimmed === "") return null;
      try {
        JSON.parse(trimmed);
      } catch (error) {
        throw new Error(`${field.title} is not JSON: ${/** @type {Error} */ (error).message}`);
      }
      return trimmed;
  }
}
