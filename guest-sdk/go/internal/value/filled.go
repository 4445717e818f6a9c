package value

import (
	"encoding"
	"encoding/json"
	"reflect"
	"sync"
)

// maxDepth is how deep a value is filled.
const maxDepth = 1_000

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	// lacking has, of each type, whether a value of it may have a nil slice or map.
	lacking sync.Map
)

// filled returns a value with empty slices and maps in place of nil ones, which JSON would write as
// null against the schema. The given value stays as it is. Below maxDepth nothing is filled: such a
// value refers to itself, and encoding/json says so.
func filled(value reflect.Value, depth int) reflect.Value {
	if depth == 0 || !mayLack(value.Type()) {
		return value
	}
	switch value.Kind() {
	case reflect.Slice:
		if value.IsNil() {
			return reflect.MakeSlice(value.Type(), 0, 0)
		}
		if !mayLack(value.Type().Elem()) {
			return value
		}
		copied := reflect.MakeSlice(value.Type(), value.Len(), value.Len())
		for i := range value.Len() {
			copied.Index(i).Set(filled(value.Index(i), depth-1))
		}
		return copied
	case reflect.Array:
		copied := reflect.New(value.Type()).Elem()
		for i := range value.Len() {
			copied.Index(i).Set(filled(value.Index(i), depth-1))
		}
		return copied
	case reflect.Map:
		if !value.IsNil() && !mayLack(value.Type().Elem()) {
			return value
		}
		copied := reflect.MakeMapWithSize(value.Type(), value.Len())
		for pairs := value.MapRange(); pairs.Next(); {
			copied.SetMapIndex(pairs.Key(), filled(pairs.Value(), depth-1))
		}
		return copied
	case reflect.Struct:
		copied := reflect.New(value.Type()).Elem()
		copied.Set(value)
		for i := range value.NumField() {
			if field := copied.Field(i); field.CanSet() {
				field.Set(filled(field, depth-1))
			}
		}
		return copied
	case reflect.Pointer:
		if value.IsNil() {
			return value
		}
		copied := reflect.New(value.Type().Elem())
		copied.Elem().Set(filled(value.Elem(), depth-1))
		return copied
	}
	return value
}

// mayLack tells whether a value of a type may have a nil slice or map that JSON writes as null. The
// types below an interface are unknown, and so is the schema there: it allows null.
func mayLack(of reflect.Type) bool {
	if known, found := lacking.Load(of); found {
		return known.(bool)
	}
	found := lacks(of, map[reflect.Type]bool{})
	lacking.Store(of, found)
	return found
}

func lacks(of reflect.Type, open map[reflect.Type]bool) bool {
	if open[of] || of.Implements(jsonMarshaler) || of.Implements(textMarshaler) {
		return false
	}
	open[of] = true
	switch of.Kind() {
	case reflect.Slice, reflect.Map:
		return true
	case reflect.Pointer, reflect.Array:
		return lacks(of.Elem(), open)
	case reflect.Struct:
		for i := range of.NumField() {
			if field := of.Field(i); (field.IsExported() || field.Anonymous) && lacks(field.Type, open) {
				return true
			}
		}
	}
	return false
}
