module plugin.example/__NAME__

go 1.24

require windlass v0.0.0

replace windlass => ./sdk/windlass
