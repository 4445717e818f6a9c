from windlass._fake import case, record, refuse
from windlass._fake.world import Request as Asked
from windlass._fake.world import here
from windlass._types import Secret

HeaderValue_Plain = case("HeaderValue_Plain")
HeaderValue_Secret = case("HeaderValue_Secret")
Header = record("Header", "name", "value")
Content_Bytes = case("Content_Bytes")
Content_Text = case("Content_Text")
Request = record("Request", "method", "url", "headers", "body", "timeout", "max_response_bytes", "max_redirects")
Response = record("Response", "status", "headers", "body")
HttpError_Denied = case("HttpError_Denied")
HttpError_Invalid = case("HttpError_Invalid")
HttpError_Timeout = record("HttpError_Timeout")
HttpError_TooLarge = case("HttpError_TooLarge")
HttpError_Unreachable = case("HttpError_Unreachable")
HttpError_NoSecret = case("HttpError_NoSecret")
HttpError_Limit = case("HttpError_Limit")
HttpError_Other = case("HttpError_Other")

_ERRORS = {
    "denied": HttpError_Denied,
    "invalid": HttpError_Invalid,
    "too-large": HttpError_TooLarge,
    "unreachable": HttpError_Unreachable,
    "no-secret": HttpError_NoSecret,
    "limit": HttpError_Limit,
    "other": HttpError_Other,
}


def fetch(request):
    world = here()
    headers = {
        it.name: Secret(it.value.value) if isinstance(it.value, HeaderValue_Secret) else it.value.value
        for it in request.headers
    }
    body = None if request.body is None else request.body.value
    asked = Asked(request.method, request.url, headers, body, request.timeout, request.max_redirects)
    world.requests.append(asked)
    if world.http is None:
        refuse(HttpError_Denied, "the test gives no `http`")
    answer = world.http(asked)
    if answer == "timeout":
        refuse(HttpError_Timeout)
    if isinstance(answer, str):
        if answer not in _ERRORS:
            raise ValueError(f"`http` of the test gives {answer!r}: an error is timeout or one of {', '.join(_ERRORS)}")
        refuse(_ERRORS[answer], 0 if answer == "too-large" else "the test says so")
    return Response(answer.status_code, list(answer.headers.items()), Content_Bytes(answer.content))
