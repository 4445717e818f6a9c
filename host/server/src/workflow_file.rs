//! The shapes of workflow files in the document. Their content is checked by the model.

use utoipa::openapi::schema::{
    AdditionalProperties, KnownFormat, ObjectBuilder, SchemaFormat, Type,
};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A definition as JSON.
pub(crate) enum WorkflowFile {}

impl PartialSchema for WorkflowFile {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some(
                "A workflow file, as `windlass workflow schema` describes it.",
            ))
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .into()
    }
}

impl ToSchema for WorkflowFile {}

/// The same as YAML: bytes, of which a client makes nothing.
pub(crate) enum WorkflowText {}

impl PartialSchema for WorkflowText {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
            .description(Some("The text of a workflow file, in UTF-8."))
            .into()
    }
}

impl ToSchema for WorkflowText {}
