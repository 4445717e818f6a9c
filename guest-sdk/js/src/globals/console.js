import { console } from "../log.js";

globalThis.console = console;
