// Package consumer makes a component export a trigger consumer. A plugin with one imports it.
package consumer

import (
	"windlass"
	"windlass/internal/plug"
)

// Serve makes a consumer a part of the component. It is called once, in an init function.
func Serve(about windlass.Plugin, consumer windlass.Consumer) {
	plug.Serve(about, nil, consumer.Made())
}
