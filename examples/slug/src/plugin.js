// The node `slug/slug`: a name for the address of a page, from its title.

import slugify from "slugify";
import { failure, node } from "windlass";

export const slug = node({
  title: "Slug",
  config: {
    type: "object",
    properties: { separator: { type: "string", maxLength: 1, default: "-" } },
    additionalProperties: false,
  },
  input: {
    type: "object",
    properties: { title: { type: "string" } },
    required: ["title"],
  },
  output: {
    type: "object",
    properties: { slug: { type: "string" } },
    required: ["slug"],
  },
  run({ title }, { config }) {
    const slug = slugify(title, { lower: true, strict: true, replacement: config.separator });
    if (slug === "") throw failure.invalid("the title has no letter and no digit");
    return { slug };
  },
});
