package windlass

import (
	"reflect"

	"windlass/internal/host"
	"windlass/internal/plug"
	"windlass/internal/schema"
	"windlass/internal/value"
)

// Node is a node without configuration. Input and Output become its schemas (see the README for
// the types that have one). Only Run is needed.
type Node[Input, Output any] struct {
	// For people. Icon is the name of an icon.
	Title, Description, Icon string
	// Ports are all that Context.Take may name; none means `done`.
	Ports []string
	// Capabilities are the rights that the operator has to grant.
	Capabilities []Capability
	// Suspends says that Run returns Suspend or Again.
	Suspends bool
	// ByReference says that a large input may arrive as a reference: Input is Raw then.
	ByReference bool
	// Resources are hints; nil means none.
	Resources *Resources
	// Run executes the node. An error fails it, by its class if it is an Error; Suspend and Again
	// are errors that are no failures.
	Run func(ctx *Context, input Input) (Output, error)
}

// NodeWith is a Node with a configuration, which is the `with` of a workflow: a struct.
type NodeWith[Config, Input, Output any] struct {
	// As of Node.
	Title, Description, Icon string
	// As of Node.
	Ports []string
	// As of Node.
	Capabilities []Capability
	// As of Node.
	Suspends bool
	// As of Node.
	ByReference bool
	// As of Node.
	Resources *Resources
	// Check finds mistakes in a configuration before anything runs; check.Func makes it.
	Check Checker
	// Run is that of Node, with the configuration.
	Run func(ctx *Context, config Config, input Input) (Output, error)
}

// Made implements Runner.
func (n Node[Input, Output]) Made(name string) *plug.Node {
	with := NodeWith[struct{}, Input, Output]{
		n.Title, n.Description, n.Icon, n.Ports, n.Capabilities, n.Suspends, n.ByReference, n.Resources, nil, nil,
	}
	if n.Run != nil {
		with.Run = func(ctx *Context, _ struct{}, input Input) (Output, error) { return n.Run(ctx, input) }
	}
	return with.Made(name)
}

// Made implements Runner.
func (n NodeWith[Config, Input, Output]) Made(name string) *plug.Node {
	made := &plug.Node{
		Name: name, Title: n.Title, Description: n.Description, Icon: n.Icon,
		Ports: n.Ports, Capabilities: n.Capabilities, ByReference: n.ByReference, Suspends: n.Suspends,
		Execute: n.execute,
	}
	if n.Resources != nil {
		made.Resources = n.Resources
	}
	if n.Check != nil {
		made.Check = n.check
	}
	derive := func(role schema.Role, of reflect.Type) schema.Schema {
		derived, mistakes := schema.Of(role, of)
		made.Mistakes = append(made.Mistakes, mistakes...)
		return derived
	}
	made.Config = derive(schema.Config, reflect.TypeFor[Config]())
	made.Input = derive(schema.Input, reflect.TypeFor[Input]())
	made.Output = derive(schema.Output, reflect.TypeFor[Output]())
	if n.Run == nil {
		made.Mistakes = append(made.Mistakes, "it has no Run")
	}
	if n.ByReference && reflect.TypeFor[Input]() != value.RawType {
		made.Mistakes = append(made.Mistakes, "input: ByReference needs the type windlass.Raw")
	}
	return made
}

func (n NodeWith[Config, Input, Output]) execute(config, input host.Payload) (outcome *host.Outcome, failed *host.Failed) {
	defer func() {
		if reason := recover(); reason != nil {
			outcome, failed = nil, panicked(reason)
		}
	}()
	var (
		with  Config
		given Input
		ctx   Context
	)
	if err := value.Decode(config, &with); err != nil {
		return nil, failure(Invalid("the configuration does not fit its type: %w", err))
	}
	if err := value.Decode(input, &given); err != nil {
		return nil, failure(Invalid("the input does not fit its type: %w", err))
	}
	output, err := n.Run(&ctx, with, given)
	if err != nil {
		return ended(err)
	}
	payload, err := value.Encode(output)
	if err != nil {
		return nil, failure(Permanent("the output has no JSON: %w", err))
	}
	return &host.Outcome{Ending: host.Done, Output: payload, Ports: ctx.ports}, nil
}
