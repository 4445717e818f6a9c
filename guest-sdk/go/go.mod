module windlass

go 1.24
