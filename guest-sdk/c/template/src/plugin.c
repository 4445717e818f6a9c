// The plugin `__NAME__`.

#include "plugin.h"

WL_PLUGIN(.package = "__NAME__", .version = "0.1.0")
WL_NODES(&greet)
WL_CONSUMER(&gate)
