// Package value turns payloads into values of Go and back.
package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"mime"
	"reflect"
	"strings"

	"windlass/internal/host"
)

// Raw is a value of another media type than JSON, or a large one. An empty ContentType means JSON.
// Blob is a reference to the bytes in the blob store of the host; Bytes is nil then.
type Raw struct {
	ContentType string
	Bytes       []byte
	Blob        string
}

// RawType is the type of Raw.
var RawType = reflect.TypeFor[Raw]()

// Decode reads a payload into the value that `to` points to.
func Decode(payload host.Payload, to any) error {
	if raw, is := to.(*Raw); is {
		*raw = Raw{ContentType: payload.ContentType}
		if payload.Form == host.Blob {
			raw.Blob = string(payload.Bytes)
		} else {
			raw.Bytes = payload.Bytes
		}
		return nil
	}
	if payload.Form == host.Blob {
		return errors.New("it is a reference to a blob: take it as windlass.Raw")
	}
	if payload.ContentType != "" {
		kind, _, err := mime.ParseMediaType(payload.ContentType)
		if err != nil || kind != "application/json" {
			return fmt.Errorf("its media type is %q: take it as windlass.Raw", payload.ContentType)
		}
	}
	return Unmarshal(payload.Bytes, to)
}

// Unmarshal reads JSON. A whole number may be written like 3.0, as JSON Schema allows.
func Unmarshal(text []byte, to any) error {
	err := json.Unmarshal(text, to)
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) || !strings.HasPrefix(mismatch.Value, "number") {
		return err
	}
	var any any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&any) != nil {
		return err
	}
	whole, failed := json.Marshal(wholeNumbers(any))
	if failed != nil {
		return err
	}
	reflect.ValueOf(to).Elem().SetZero()
	return json.Unmarshal(whole, to)
}

// wholeNumbers writes whole numbers without fraction and exponent, as far as they fit 64 bits.
func wholeNumbers(value any) any {
	switch it := value.(type) {
	case []any:
		for i := range it {
			it[i] = wholeNumbers(it[i])
		}
	case map[string]any:
		for name := range it {
			it[name] = wholeNumbers(it[name])
		}
	case json.Number:
		// A longer number is no whole one of 64 bits, and a large exponent costs memory.
		if len(it) > 40 {
			return it
		}
		float, err := it.Float64()
		if err != nil || float > 1e20 || float < -1e20 {
			return it
		}
		if exact, ok := new(big.Rat).SetString(string(it)); ok && exact.IsInt() {
			return json.Number(exact.Num().String())
		}
	}
	return value
}

// Encode writes a value as a payload. Nil slices and maps below it become empty ones.
func Encode(value any) (host.Payload, error) {
	if raw, is := value.(Raw); is {
		if raw.Blob != "" {
			return host.Payload{ContentType: raw.ContentType, Form: host.Blob, Bytes: []byte(raw.Blob)}, nil
		}
		return host.Payload{ContentType: raw.ContentType, Bytes: raw.Bytes}, nil
	}
	text, err := Marshal(value)
	return host.Payload{Form: host.Text, Bytes: text}, err
}

// EncodeOptional is Encode of a value that may be nil, which is no payload.
func EncodeOptional(value any) (*host.Payload, error) {
	if value == nil {
		return nil, nil
	}
	payload, err := Encode(value)
	if err != nil {
		return nil, err
	}
	return &payload, nil
}

// Marshal writes a value as JSON.
func Marshal(value any) ([]byte, error) {
	if value != nil {
		value = filled(reflect.ValueOf(value), maxDepth).Interface()
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
