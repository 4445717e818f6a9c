package check

import (
	"unsafe"

	"windlass/internal/host"
	"windlass/internal/plug"
)

//go:wasmexport windlass:check/check@0.1.0#check
func check(name, nameLength, typed, contentType, contentTypeLength, form, config, configLength, unknown, unknownCount uint32) unsafe.Pointer {
	host.Lift()
	nodeType := host.TakeText(name, nameLength)
	with := host.TakePayload(typed, contentType, contentTypeLength, form, config, configLength)
	absent := host.TakeTexts(unknown, unknownCount)
	host.Lifted()
	node := plug.Find(nodeType)
	if node == nil || node.Check == nil {
		return host.Checked(nil)
	}
	return host.Checked(node.Check(with, absent))
}
