package node

import (
	"unsafe"

	"windlass/internal/host"
	"windlass/internal/plug"
)

//go:wasmexport windlass:node/node@0.1.0#describe
func describe() unsafe.Pointer { return host.Describe(plug.Describe()) }

//go:wasmexport windlass:node/node@0.1.0#execute
func execute(name, nameLength, configTyped, configType, configTypeLength, configForm, config, configLength, inputTyped, inputType, inputTypeLength, inputForm, input, inputLength uint32) unsafe.Pointer {
	host.Lift()
	nodeType := host.TakeText(name, nameLength)
	with := host.TakePayload(configTyped, configType, configTypeLength, configForm, config, configLength)
	given := host.TakePayload(inputTyped, inputType, inputTypeLength, inputForm, input, inputLength)
	host.Lifted()
	node := plug.Find(nodeType)
	if node == nil {
		return host.Executed(nil, &host.Failed{Failure: host.Failure{Message: "this plugin has no node " + nodeType}})
	}
	return host.Executed(node.Execute(with, given))
}
