import { mathRandom } from "../random.js";

Math.random = mathRandom;
