// Package schema derives JSON Schemas from types of Go.
package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"windlass/internal/value"
)

// Schema is a JSON Schema: an object, or true.
type Schema = any

type object = map[string]any

// Role is the use of a type.
type Role string

// The roles.
const (
	Config Role = "config"
	Input  Role = "input"
	Output Role = "output"
)

// described is a type that has its own schema, as JSON.
type described interface{ JSONSchema() string }

var (
	describedType   = reflect.TypeFor[described]()
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType        = reflect.TypeFor[time.Time]()
	durationType    = reflect.TypeFor[time.Duration]()
	numberType      = reflect.TypeFor[json.Number]()
	rawMessageType  = reflect.TypeFor[json.RawMessage]()
)

// maker derives one schema.
type maker struct {
	role     Role
	names    map[reflect.Type]string
	defs     object
	mistakes []string
}

// Of derives the schema of a type. Each mistake is a type that has none, with its place, such as
// `Order.Items[].Price`.
func Of(role Role, of reflect.Type) (Schema, []string) {
	if of == value.RawType && role != Config {
		return true, nil
	}
	m := &maker{role: role, names: map[reflect.Type]string{}, defs: object{}}
	place := of.String()
	if of.Name() != "" {
		place = of.Name()
	}
	if role == Config && of.Kind() != reflect.Struct && of.Kind() != reflect.Map {
		m.refuse(place, "a configuration is an object: use a struct")
	}
	return m.root(m.of(of, place)), m.mistakes
}

// root writes the definition of the root in its place: a host looks for its members there.
func (m *maker) root(made Schema) Schema {
	root, is := made.(object)
	if !is {
		return made
	}
	if reference, is := root["$ref"].(string); is {
		name := strings.TrimPrefix(reference, "#/$defs/")
		root = m.defs[name].(object)
		if text, err := json.Marshal(m.defs); err == nil && !strings.Contains(string(text), `"`+reference+`"`) {
			delete(m.defs, name)
		} else {
			copied := object{}
			for keyword, it := range root {
				copied[keyword] = it
			}
			root = copied
		}
	}
	if len(m.defs) > 0 {
		root["$defs"] = m.defs
	}
	return root
}

func (m *maker) refuse(place, why string) Schema {
	text := fmt.Sprintf("%s: %s: %s", m.role, place, why)
	if !slices.Contains(m.mistakes, text) {
		m.mistakes = append(m.mistakes, text)
	}
	return true
}

func (m *maker) of(of reflect.Type, place string) Schema {
	switch of {
	case timeType:
		return object{"type": "string", "format": "date-time"}
	case durationType:
		return m.refuse(place, "time.Duration is a number of nanoseconds in JSON: use a number whose name has the unit, or a string and time.ParseDuration")
	case numberType:
		return object{"type": "number"}
	case rawMessageType:
		return true
	case value.RawType:
		return m.refuse(place, "windlass.Raw is a whole input or output, and no part of one")
	}
	if of.Kind() != reflect.Pointer && reflect.PointerTo(of).Implements(describedType) {
		return m.own(of, place)
	}
	switch reads, writes := m.encodes(of); {
	case of.Kind() == reflect.Pointer:
		return nullable(m.of(of.Elem(), place))
	case reads:
		return m.refuse(place, fmt.Sprintf("%s has its own form in JSON: give it the method JSONSchema() string", of))
	case writes:
		return object{"type": "string"}
	}
	switch kind := of.Kind(); kind {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		most := int64(1)<<(of.Bits()-1) - 1
		return object{"type": "integer", "minimum": -most - 1, "maximum": most}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return object{"type": "integer", "minimum": 0, "maximum": int64(math.MaxUint32) >> (32 - of.Bits())}
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return listOf(m.of(of.Elem(), place+"[]"), object{"type": "array"})
	case reflect.Array:
		return listOf(m.of(of.Elem(), place+"[]"), object{"type": "array", "minItems": of.Len(), "maxItems": of.Len()})
	case reflect.Map:
		if of.Key().Kind() != reflect.String {
			return m.refuse(place, fmt.Sprintf("the names of an object are texts: use map[string]%s", of.Elem()))
		}
		made := object{"type": "object"}
		if values := m.of(of.Elem(), place+".*"); values != true {
			made["additionalProperties"] = values
		}
		return made
	case reflect.Interface:
		if of.NumMethod() == 0 {
			return true
		}
		return m.refuse(place, fmt.Sprintf("%s is an interface, and JSON does not say which type is in it: use a struct, or any", of))
	case reflect.Struct:
		return m.named(of, place)
	default:
		return m.refuse(place, fmt.Sprintf("%s has no JSON", of))
	}
}

// encodes tells whether a type has its own JSON, or else its own text, in the direction of the role.
func (m *maker) encodes(of reflect.Type) (asJSON, asText bool) {
	ownJSON, ownText := jsonUnmarshaler, textUnmarshaler
	if m.role == Output {
		ownJSON, ownText = jsonMarshaler, textMarshaler
	}
	pointer := reflect.PointerTo(of)
	return pointer.Implements(ownJSON), pointer.Implements(ownText)
}

// own reads the schema that a type has itself.
func (m *maker) own(of reflect.Type, place string) Schema {
	var made Schema
	text := reflect.New(of).Interface().(described).JSONSchema()
	err := json.Unmarshal([]byte(text), &made)
	_, isObject := made.(object)
	if err != nil || !isObject && made != true {
		return m.refuse(place, fmt.Sprintf("JSONSchema of %s returns no schema: %.100q", of, text))
	}
	return made
}

// named returns a reference to the definition of a struct, or the schema of one without a name.
func (m *maker) named(of reflect.Type, place string) Schema {
	if of.Name() == "" {
		return m.structure(of, place)
	}
	name, found := m.names[of]
	if !found {
		plain := strings.Map(func(c rune) rune {
			if c == '[' || c == ']' || c == '/' || c == '.' || c == '~' || c == ',' || c == ' ' {
				return '_'
			}
			return c
		}, of.Name())
		name = plain
		for number := 2; m.defs[name] != nil; number++ {
			name = fmt.Sprint(plain, number)
		}
		m.names[of] = name
		m.defs[name] = object{}
		m.defs[name] = m.structure(of, of.Name())
	}
	return object{"$ref": "#/$defs/" + name}
}

func listOf(items Schema, made object) Schema {
	if items != true {
		made["items"] = items
	}
	return made
}

// nullable allows null beside a schema.
func nullable(made Schema) Schema {
	it, is := made.(object)
	if !is {
		return made
	}
	if kind, is := it["type"].(string); is && it["enum"] == nil {
		it["type"] = []string{kind, "null"}
		return it
	}
	return object{"anyOf": []Schema{it, object{"type": "null"}}}
}
