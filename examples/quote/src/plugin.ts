// The node `quote/best`: asks carriers for a price, side by side, and takes the lowest.

import { done, failure, fetch, node, type Context, type Secret, type integer } from "windlass";

/** A parcel to be sent. */
interface Parcel {
  /** In grams.
   * @minimum 1
   */
  grams: integer;
  /** Where it goes.
   * @pattern ^[A-Z]{2}$
   */
  country: string;
}

interface Config {
  /** The addresses of the carriers.
   * @minItems 1
   */
  carriers: string[];
  /** A reference to the secret that each of them knows this shop by. */
  key?: Secret;
}

interface Offer {
  carrier: string;
  cents: integer;
}

/** The lowest price for a parcel, of the carriers that answer. */
export const best = node({
  title: "Best offer",
  ports: ["done", "none"],
  capabilities: ["http", "secrets"],
  async run(parcel: Parcel, ctx: Context<Config>) {
    const offers: Offer[] = [];
    let error: unknown;
    for (const carrier of ctx.config.carriers) {
      try {
        offers.push({ carrier, cents: await price(carrier, parcel, ctx) });
      } catch (reason) {
        console.warn(carrier, "makes no offer:", reason);
        error = reason;
      }
    }
    if (!offers.length && error) throw failure.retryable("no carrier answers", { afterMs: 1000, cause: error });
    offers.sort((a, b) => a.cents - b.cents);
    return offers.length ? done(offers[0]) : done(null, "none");
  },
});

async function price(carrier: string, parcel: Parcel, ctx: Context<Config>): Promise<integer> {
  const { key } = ctx.config;
  const answer = await fetch(`${carrier}?grams=${parcel.grams}&to=${parcel.country}`, {
    headers: { "idempotency-key": ctx.idempotencyKey, ...(key && { authorization: key }) },
    timeoutMs: 2000,
  });
  if (!answer.ok) throw failure.permanent(`the carrier answers ${answer.status}`);
  return (await answer.json()).cents;
}
