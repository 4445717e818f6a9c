from windlass._fake import case, record

CheckRequest = record("CheckRequest", "node_type", "config", "unknown")
Finding = record("Finding", "message", "pointer", "position")
FindingLevel_Error = case("FindingLevel_Error")
FindingLevel_Warning = case("FindingLevel_Warning")
