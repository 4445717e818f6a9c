from windlass._fake import case, record

Trigger = record("Trigger", "kind", "node", "payload")
Patch = record("Patch", "vars")
Disposition_Execute = case("Disposition_Execute")
Disposition_Handled = record("Disposition_Handled")
Disposition_Later = case("Disposition_Later")
Disposition_Reject = case("Disposition_Reject")
ConsumerError_Retryable = case("ConsumerError_Retryable")
ConsumerError_Other = case("ConsumerError_Other")
