// The markup of all modules: templates that Preact renders. Text in them is always text, so values
// from outside cannot become markup.

import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
