package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// structure derives the schema of a struct from its members and their tags.
func (m *maker) structure(of reflect.Type, place string) Schema {
	properties, required := object{}, []string{}
	made := object{"type": "object", "properties": properties}
	m.members(of, place, func(name string, field reflect.StructField, isOptional bool) {
		at := place + "." + field.Name
		if properties[name] != nil {
			m.refuse(at, fmt.Sprintf("there are two members with the name %q in JSON", name))
			return
		}
		property := m.tagged(m.of(field.Type, at), field, at)
		properties[name] = property
		if m.role != Output {
			it, _ := property.(object)
			_, hasDefault := it["default"]
			isOptional = isOptional || hasDefault || field.Type.Kind() == reflect.Pointer
		}
		if !isOptional {
			required = append(required, name)
		}
	})
	if blank, found := of.FieldByName("_"); found {
		if told := blank.Tag.Get("doc"); told != "" {
			made["description"] = told
		}
	}
	if len(required) > 0 {
		made["required"] = required
	}
	if m.role == Config {
		// A misspelt key of a configuration is found when a workflow is published.
		made["additionalProperties"] = false
	}
	return made
}

// members calls a function with each member that encoding/json writes: its name, its field, and
// whether it may be absent.
func (m *maker) members(of reflect.Type, place string, each func(string, reflect.StructField, bool)) {
	for i := range of.NumField() {
		field := of.Field(i)
		tag := field.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-" || field.Name == "_":
			continue
		case field.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			m.members(inner, place, each)
			continue
		case !field.IsExported():
			continue
		}
		if name == "" {
			name = field.Name
		}
		option := func(one string) bool { return slices.Contains(strings.Split(options, ","), one) }
		if option("string") {
			m.refuse(place+"."+field.Name, "the option `string` has no schema: use a field of type string")
		}
		each(name, field, option("omitempty") || option("omitzero"))
	}
}

// The keywords of the tag `schema`: those with a value of JSON, and those with a text.
var (
	jsonKeywords = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"}
	textKeywords = []string{"pattern", "format"}
)

// tagged adds the tags `doc` and `schema` of a field to its schema.
func (m *maker) tagged(made Schema, field reflect.StructField, at string) Schema {
	told, keywords := field.Tag.Get("doc"), field.Tag.Get("schema")
	if told == "" && keywords == "" {
		return made
	}
	it, is := made.(object)
	if !is {
		it = object{}
	}
	if told != "" {
		it["description"] = told
	}
	for _, pair := range strings.Split(keywords, ",") {
		name, text, hasValue := strings.Cut(strings.TrimSpace(pair), "=")
		parsed := literal(text, field.Type)
		switch {
		case name == "" && !hasValue:
		case name == "raw" && !hasValue:
			it["x-raw"] = true
		case !hasValue:
			m.refuse(at, fmt.Sprintf("the keyword %q of the tag `schema` needs a value, like minimum=1", name))
		case slices.Contains(jsonKeywords, name) && json.Unmarshal([]byte(text), &parsed) == nil:
			it[name] = json.RawMessage(text)
		case slices.Contains(textKeywords, name):
			it[name] = text
		case name == "default":
			it[name] = parsed
		case name == "enum":
			values := []any{}
			for _, one := range strings.Split(text, "|") {
				values = append(values, literal(one, field.Type))
			}
			it[name] = values
		default:
			m.refuse(at, fmt.Sprintf("the tag `schema` cannot have %s=%s: it has %s, default, enum and raw", name, text, strings.Join(append(jsonKeywords, textKeywords...), ", ")))
		}
	}
	return it
}

// literal is the value of a text in a tag: of a field with texts the text, otherwise JSON.
func literal(text string, of reflect.Type) any {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	var parsed any
	if of.Kind() == reflect.String || json.Unmarshal([]byte(text), &parsed) != nil {
		return text
	}
	return parsed
}
