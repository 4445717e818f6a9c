from windlass._fake import case, record

Payload = record("Payload", "content_type", "body")
Body_Inline = case("Body_Inline")
Body_Text = case("Body_Text")
Body_Blob = case("Body_Blob")
Failure = record("Failure", "message", "details", "stack", "position")
Position = record("Position", "source", "line", "column")
