"""HTTP requests to addresses that the operator granted, in the manner of `requests`.

answer = http.get("https://carrier.example/prices", params={"grams": 500}, timeout=2)
answer.raise_for_status()
cents = answer.json()["cents"]
"""

import base64
import json as json_
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from windlass._call import need
from windlass._data import dumps, milliseconds, text, whole
from windlass._failure import Permanent, Retryable, host_error
from windlass._host import contract
from windlass._types import Secret

_host = contract("imports.http")
_ERRORS = {
    "denied": ("permanent", "is not granted"),
    "invalid": ("invalid", "is malformed"),
    "timeout": ("retryable", "got no answer in time"),
    "too-large": ("permanent", "answered more than the bytes allowed"),
    "unreachable": ("retryable", "could not be reached"),
    "no-secret": ("permanent", "needs a secret that is unknown or not granted"),
    "limit": ("permanent", "is over a limit"),
}

_MAX_REDIRECTS = 5


class Headers(MutableMapping[str, Any]):
    """Names and values; names are compared without case. A value is a text or a `Secret`."""

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        self.update(given or {})

    def __getitem__(self, name: str) -> Any:
        return self._values[name.lower()]

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name.lower()] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Headers({self._values!r})"


@dataclass
class Response:
    """A response, with any status."""

    status_code: int = 200
    content: bytes = b""
    headers: Headers = field(default_factory=Headers)
    url: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status_code < 400

    @property
    def text(self) -> str:
        """The content as a text in UTF-8."""
        return self.content.decode("utf-8-sig", "replace")

    def json(self) -> Any:
        """The content as JSON."""
        return json_.loads(self.content)

    def raise_for_status(self) -> None:
        """Raises for a status of 400 and more: `Retryable` for 408, 425, 429 and from 500 on, after
        the seconds that `Retry-After` says; otherwise `Permanent`. Details are `status` and `url`."""
        if self.ok:
            return
        status, shown = self.status_code, _shown(self.url)
        message, details = f"{shown} answered {status}", {"status": status, "url": shown}
        if status in (408, 425, 429) or status >= 500:
            wait = str(self.headers.get("retry-after", ""))
            raise Retryable(message, after=int(wait) if wait.isascii() and wait.isdigit() else None, details=details)
        raise Permanent(message, details=details)


class Session:
    """Requests with the same headers, address to begin with, and time limit."""

    def __init__(
        self, *, base_url: str = "", headers: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> None:
        self.base_url = base_url
        self.headers = Headers(headers)
        self.timeout = timeout

    def request(self, method: str, url: str, **options: Any) -> Response:
        """As the function of this module."""
        options["headers"] = {**self.headers, **Headers(options.get("headers"))}
        options.setdefault("timeout", self.timeout)
        return request(method, self.base_url + url, **options)

    def get(self, url: str, **options: Any) -> Response:
        """`GET`."""
        return self.request("GET", url, **options)

    def head(self, url: str, **options: Any) -> Response:
        """`HEAD`."""
        return self.request("HEAD", url, **options)

    def post(self, url: str, **options: Any) -> Response:
        """`POST`."""
        return self.request("POST", url, **options)

    def put(self, url: str, **options: Any) -> Response:
        """`PUT`."""
        return self.request("PUT", url, **options)

    def patch(self, url: str, **options: Any) -> Response:
        """`PATCH`."""
        return self.request("PATCH", url, **options)

    def delete(self, url: str, **options: Any) -> Response:
        """`DELETE`."""
        return self.request("DELETE", url, **options)


def request(
    method: str,
    url: str,
    *,
    params: Mapping[str, Any] | None = None,
    headers: Mapping[str, Any] | None = None,
    data: str | bytes | Mapping[str, Any] | None = None,
    json: Any = None,
    auth: tuple[str, str] | None = None,
    timeout: float | None = None,
    max_redirects: int = _MAX_REDIRECTS,
    max_bytes: int | None = None,
) -> Response:
    """Sends a request and waits for the response; without one it raises a `Failure`.

    The value of a header may be a `Secret` of the configuration: the host inserts it. `timeout` is
    in seconds, and the deadline of the call bounds it. `max_bytes` bounds the response. A mapping
    as `data` is sent as a form, and `json` as JSON. `auth` is a user and a password; a secret
    belongs into a header.
    """
    method = method.upper()
    need(f"http.{method.lower()}")
    sent = Headers(headers)
    body: Any = None
    if json is not None:
        body = _host.Content_Text(dumps(json))
        sent.setdefault("content-type", "application/json")
    elif isinstance(data, Mapping):
        body = _host.Content_Text(urlencode(data, doseq=True))
        sent.setdefault("content-type", "application/x-www-form-urlencoded")
    elif isinstance(data, str):
        body = _host.Content_Text(text(data))
    elif data is not None:
        body = _host.Content_Bytes(bytes(data))
    if auth is not None:
        sent["authorization"] = "Basic " + base64.b64encode(":".join(auth).encode()).decode()
    url = _with(url, params)
    asked = _host.Request(
        text(method),
        text(url),
        [_host.Header(text(name), _value(value)) for name, value in sent.items()],
        body,
        None if timeout is None else milliseconds(timeout, "timeout"),
        None if max_bytes is None else whole(max_bytes, "max_bytes"),
        whole(max_redirects, "max_redirects"),
    )
    try:
        answer = _host.fetch(asked)
    except Exception as error:
        raise host_error(f"{method} {_shown(url)}", "http", error, _ERRORS) from None
    received = Headers()
    for name, value in answer.headers:
        received[name] = f"{received[name]}, {value}" if name in received else value
    content = answer.body.value
    return Response(answer.status, content.encode() if isinstance(content, str) else bytes(content), received, url)


def get(url: str, **options: Any) -> Response:
    """`GET`; options as of `request`."""
    return request("GET", url, **options)


def head(url: str, **options: Any) -> Response:
    """`HEAD`; options as of `request`."""
    return request("HEAD", url, **options)


def post(url: str, **options: Any) -> Response:
    """`POST`; options as of `request`."""
    return request("POST", url, **options)


def put(url: str, **options: Any) -> Response:
    """`PUT`; options as of `request`."""
    return request("PUT", url, **options)


def patch(url: str, **options: Any) -> Response:
    """`PATCH`; options as of `request`."""
    return request("PATCH", url, **options)


def delete(url: str, **options: Any) -> Response:
    """`DELETE`; options as of `request`."""
    return request("DELETE", url, **options)


def _value(value: Any) -> Any:
    if isinstance(value, Secret):
        return _host.HeaderValue_Secret(text(value.secret))
    if isinstance(value, Mapping):
        return _host.HeaderValue_Secret(text(value["secret"]))
    return _host.HeaderValue_Plain(text(value))


def _with(url: str, params: Mapping[str, Any] | None) -> str:
    """An address with further parameters; those that are None are left out."""
    given = {name: value for name, value in (params or {}).items() if value is not None}
    if not given:
        return url
    parts = urlsplit(url)
    query = "&".join(filter(None, (parts.query, urlencode(given, doseq=True))))
    return urlunsplit(parts._replace(query=query))


def _shown(url: str) -> str:
    """An address for messages: the query and the user may be confidential."""
    begin, mark, rest = url.partition("#")[0].partition("?")[0].partition("://")
    if not mark:
        return begin
    host, slash, path = rest.partition("/")
    return f"{begin}://{host.rpartition('@')[2]}{slash}{path}"
