//! The part of the format for triggers by `http`.

use schemars::JsonSchema;
use serde_json::Value;

use super::Duration;

/// A request.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Http {
    /// Default: `POST`.
    method: Option<HttpMethod>,
    /// The path after `/hooks`: like `/orders/new`, or `/orders/{id}` with a parameter.
    #[schemars(
        length(max = 256),
        regex(pattern = r"^/[A-Za-z0-9._~-]+(/([A-Za-z0-9._~-]+|\{[a-z_][a-z0-9_]*\}))*$")
    )]
    path: String,
    /// JSON Schema of the query: texts become values of the types that it names.
    query: Option<Value>,
    /// JSON Schema of the parameters of the path: texts become values of the types that it names.
    params: Option<Value>,
    /// Whether `raw` of the request has the body as it was sent, with any media type. Default:
    /// `false`, and only a form without files has it.
    raw: Option<bool>,
    /// How requests are verified. Without it, every request counts.
    verify: Option<Verify>,
    /// The answer to the sender. Default: `accepted`.
    respond: Option<Respond>,
}

/// How requests are verified: exactly one scheme.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct Verify {
    /// `X-Hub-Signature-256`, a signature of the body.
    github: Option<PlainScheme>,
    /// `Stripe-Signature`, a signature of the time and the body.
    stripe: Option<TimestampedSignature>,
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    standard_webhooks: Option<TimestampedSignature>,
    /// The HMAC-SHA256 of the body in a header.
    hmac: Option<HmacScheme>,
    /// `Authorization: Bearer`, with the secret as the token.
    bearer: Option<PlainScheme>,
    /// `Authorization: Basic`, with the secret as the password.
    basic: Option<BasicScheme>,
}

/// The name of a secret.
#[derive(JsonSchema)]
#[schemars(transparent)]
struct SecretName(
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_.-]+$"))] String,
);

/// A scheme that needs a secret.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["secret"]}, {"required": ["secrets"]}]))]
struct PlainScheme {
    /// The name of the secret.
    secret: Option<SecretName>,
    /// The names of several secrets, any of which verifies.
    #[schemars(length(min = 1, max = 4))]
    secrets: Option<Vec<SecretName>>,
}

/// A scheme that signs a time.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["secret"]}, {"required": ["secrets"]}]))]
struct TimestampedSignature {
    /// The name of the secret.
    secret: Option<SecretName>,
    /// The names of several secrets, any of which verifies.
    #[schemars(length(min = 1, max = 4))]
    secrets: Option<Vec<SecretName>>,
    /// How far the signed time may differ from the host's clock. Default: `5m`.
    tolerance: Option<Duration>,
}

/// The HMAC-SHA256 of the body in a header.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["secret"]}, {"required": ["secrets"]}]))]
struct HmacScheme {
    /// The name of the secret.
    secret: Option<SecretName>,
    /// The names of several secrets, any of which verifies.
    #[schemars(length(min = 1, max = 4))]
    secrets: Option<Vec<SecretName>>,
    /// The name of the header.
    #[schemars(length(min = 1, max = 128))]
    header: String,
    /// The encoding of the signature in the header. Default: `hex`.
    encoding: Option<Encoding>,
    /// The prefix of the signature in the header, like `sha256=`.
    #[schemars(length(max = 128))]
    prefix: Option<String>,
    /// The name of the header with the id of the delivery, which identifies repeated deliveries.
    /// Without it, requests with equal bodies are one delivery.
    #[schemars(length(min = 1, max = 128))]
    delivery: Option<String>,
}

/// A user's name and a password.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["secret"]}, {"required": ["secrets"]}]))]
struct BasicScheme {
    /// The name of the secret.
    secret: Option<SecretName>,
    /// The names of several secrets, any of which verifies.
    #[schemars(length(min = 1, max = 4))]
    secrets: Option<Vec<SecretName>>,
    /// The user's name.
    #[schemars(length(min = 1, max = 128))]
    user: String,
}

/// The encoding of a signature in a header.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum Encoding {
    /// Two hexadecimal digits for each byte.
    Hex,
    /// Base64 with the standard alphabet.
    Base64,
}

/// The answer to the sender of a request.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Respond {
    /// `accepted`: the run is stored.
    Word(RespondWord),
    /// The output of a node.
    Node(RespondNode),
}

/// The answer to the sender of a request.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum RespondWord {
    /// The run is stored.
    Accepted,
}

/// A node that answers: its output is `status`, `headers` and `body`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RespondNode {
    /// A node of the outermost level.
    node: String,
    /// How long the sender waits for it. Default: `10s`.
    within: Option<Duration>,
}

/// The method of a request.
#[derive(JsonSchema)]
#[schemars(rename_all = "UPPERCASE")]
enum HttpMethod {
    /// Starts a run, like the other methods.
    Get,
    /// The most common method.
    Post,
    /// For senders that require it.
    Put,
    /// For senders that require it.
    Patch,
    /// For senders that require it.
    Delete,
}
