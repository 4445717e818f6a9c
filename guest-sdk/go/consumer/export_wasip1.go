package consumer

import (
	"unsafe"

	"windlass/internal/host"
	"windlass/internal/plug"
)

//go:wasmexport windlass:consumer/consumer@0.1.0#describe
func describe() unsafe.Pointer { return host.Describe(plug.Describe()) }

//go:wasmexport windlass:consumer/consumer@0.1.0#accept
func accept(kind, kindLength, hasNode, node, nodeLength, hasPayload, typed, contentType, contentTypeLength, form, payload, payloadLength uint32) unsafe.Pointer {
	host.Lift()
	name, of := host.TakeText(kind, kindLength), ""
	if hasNode != 0 {
		of = host.TakeText(node, nodeLength)
	}
	var data *host.Payload
	if hasPayload != 0 {
		taken := host.TakePayload(typed, contentType, contentTypeLength, form, payload, payloadLength)
		data = &taken
	}
	host.Lifted()
	return host.Accepted(plug.Served().Accept(name, of, data))
}
