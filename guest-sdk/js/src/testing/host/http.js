import { bodyOf } from "../../http.js";
import { here, refuse } from "../world.js";

export function fetch({ headers, body, ...rest }) {
  const world = here();
  const values = headers.map(({ name, value }) => [
    name,
    value.tag === "plain" ? value.val : { secret: value.val },
  ]);
  const request = { ...rest, headers: Object.fromEntries(values), body: body?.val };
  world.requests.push(request);
  if (!world.http) refuse("denied", "the test gives no `http`");
  const answer = world.http(request);
  if (typeof answer === "string") refuse(answer, "the test says so");
  const content = bodyOf(answer);
  const tag = typeof content === "string" ? "text" : "bytes";
  return { status: answer.status, headers: [...answer.headers], body: { tag, val: content } };
}
