"""The plugin `letter`: writes letters to customers, and hands them to a service that sends them."""

from dataclasses import dataclass, field
from html import escape
from string import Template
from typing import Annotated

import mistune
from windlass import Context, Finding, Invalid, Secret, http, node, schema

markdown = mistune.create_markdown(escape=True, plugins=["table"])


@dataclass
class Item:
    name: str
    cents: Annotated[int, schema(minimum=0)]


@dataclass
class Order:
    """An order of a customer."""

    customer: Annotated[str, schema(minLength=1)]
    items: Annotated[list[Item], schema(minItems=1)]


@dataclass
class Layout:
    text: Annotated[str, schema(raw=True)]
    """Markdown; `$customer`, `$items` and `$total` are those of the order."""
    title: str = "Your order"


@dataclass
class Letter:
    title: str
    html: str


@node(title="Write a letter")
def write(order: Order, ctx: Context[Layout]) -> Letter:
    """Fills a template in Markdown with an order, and makes HTML of it."""
    rows = "\n".join(f"| {it.name.replace('|', ' ')} | {it.cents / 100:.2f} € |" for it in order.items)
    total = sum(it.cents for it in order.items)
    members = {
        "customer": order.customer,
        "items": f"| item | price |\n|---|---:|\n{rows}",
        "total": f"{total / 100:.2f} €",
    }
    try:
        text = Template(ctx.config.text).substitute(members)
    except (KeyError, ValueError) as error:
        raise Invalid(f"the text of the letter has a placeholder that no order has: {error}") from None
    print(f"a letter about {len(order.items)} items")
    return Letter(ctx.config.title, f"<h1>{escape(ctx.config.title)}</h1>\n{markdown(text)}")


@write.check
def _(config: dict, unknown: list[str]):
    template = Template(config.get("text", ""))
    strangers = set(template.get_identifiers()) - {"customer", "items", "total"}
    for name in sorted(strangers):
        yield Finding(f"no order has ${name}: use $customer, $items or $total", "/text")


@dataclass
class Service:
    url: str
    """The address of the service."""
    key: Secret | None = None
    """A reference to the secret that the service knows this shop by."""
    tags: list[str] = field(default_factory=list)


@dataclass
class Receipt:
    id: str


@node(title="Send a letter", capabilities=["http", "secrets"])
def send(letter: Letter, ctx: Context[Service]) -> Receipt:
    """Hands a letter to the service, once: a repeated call has the same key."""
    headers = {"idempotency-key": ctx.idempotency_key}
    if ctx.config.key:
        headers["authorization"] = ctx.config.key
    answer = http.post(ctx.config.url, params={"tag": ctx.config.tags}, headers=headers, json=letter, timeout=5)
    answer.raise_for_status()
    return Receipt(answer.json()["id"])
