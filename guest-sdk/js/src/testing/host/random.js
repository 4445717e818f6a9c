import { randomBytes } from "node:crypto";

export const bytes = (length) => new Uint8Array(randomBytes(length));
