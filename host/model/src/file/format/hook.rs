//! The part of the format that triggers by `http` have.

use schemars::JsonSchema;

use super::Duration;

/// A request.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Http {
    /// `POST` unless said otherwise.
    method: Option<HttpMethod>,
    /// What comes after `/hooks`: like `/orders/new`, or `/orders/{id}` with a parameter.
    #[schemars(
        length(max = 256),
        regex(pattern = r"^/[A-Za-z0-9._~-]+(/([A-Za-z0-9._~-]+|\{[a-z_][a-z0-9_]*\}))*$")
    )]
    path: String,
    /// How a request is known to come from its sender. Without it, every request counts.
    verify: Option<Verify>,
    /// What the sender is answered. `accepted` unless said otherwise.
    respond: Option<Respond>,
}

/// How a request is known to come from its sender: exactly one scheme.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct Verify {
    /// `X-Hub-Signature-256`, a signature of the body.
    github: Option<PlainScheme>,
    /// `Stripe-Signature`, a signature of the time and the body.
    stripe: Option<TimedScheme>,
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    standard_webhooks: Option<TimedScheme>,
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
    /// The names of several secrets, each of which verifies.
    #[schemars(length(min = 1, max = 4))]
    secrets: Option<Vec<SecretName>>,
}

/// A scheme that signs a time.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["secret"]}, {"required": ["secrets"]}]))]
struct TimedScheme {
    /// The name of the secret.
    secret: Option<SecretName>,
    /// The names of several secrets, each of which verifies.
    #[schemars(length(min = 1, max = 4))]
    secrets: Option<Vec<SecretName>>,
    /// How far the signed time may be from the host's clock. `5m` unless said otherwise.
    tolerance: Option<Duration>,
}

/// The HMAC-SHA256 of the body in a header.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["secret"]}, {"required": ["secrets"]}]))]
struct HmacScheme {
    /// The name of the secret.
    secret: Option<SecretName>,
    /// The names of several secrets, each of which verifies.
    #[schemars(length(min = 1, max = 4))]
    secrets: Option<Vec<SecretName>>,
    /// The name of the header.
    #[schemars(length(min = 1, max = 128))]
    header: String,
    /// How the header writes the signature. `hex` unless said otherwise.
    encoding: Option<Encoding>,
    /// What stands in the header before the signature, like `sha256=`.
    #[schemars(length(max = 128))]
    prefix: Option<String>,
    /// The name of the header with the id of the delivery, by which a repeated delivery is known.
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
    /// The names of several secrets, each of which verifies.
    #[schemars(length(min = 1, max = 4))]
    secrets: Option<Vec<SecretName>>,
    /// The user's name.
    #[schemars(length(min = 1, max = 128))]
    user: String,
}

/// How a header writes a signature.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum Encoding {
    /// Two digits for each byte.
    Hex,
    /// The standard alphabet.
    Base64,
}

/// What the sender of a request is answered.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Respond {
    /// `accepted`: that the run is written down.
    Word(RespondWord),
    /// What a node gives.
    Node(RespondNode),
}

/// What the sender of a request is answered.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum RespondWord {
    /// That the run is written down.
    Accepted,
}

/// A node that answers: its output is `status`, `headers` and `body`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RespondNode {
    /// A node of the outermost level.
    node: String,
    /// How long the sender waits for it. `10s` unless said otherwise.
    within: Option<Duration>,
}

/// The method of a request.
#[derive(JsonSchema)]
#[schemars(rename_all = "UPPERCASE")]
enum HttpMethod {
    /// Reads, elsewhere: here it begins a run like the others.
    Get,
    /// The usual one.
    Post,
    /// For senders that insist on it.
    Put,
    /// For senders that insist on it.
    Patch,
    /// For senders that insist on it.
    Delete,
}
