module plugin.example/ledger

go 1.24

require windlass v0.0.0

replace windlass => ../../guest-sdk/go
