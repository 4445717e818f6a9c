package test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"windlass"
	"windlass/internal/host"
	"windlass/internal/schema"
	"windlass/internal/value"
	"windlass/windlasstest"
)

type address struct {
	City string `json:"city"`
}

type tree struct {
	_        struct{} `doc:"A tree."`
	Children []tree   `json:"children"`
	Parent   *tree    `json:"parent,omitempty"`
}

type order struct {
	address
	Total   int               `json:"total" doc:"In cents." schema:"minimum=0"`
	Size    string            `json:"size,omitempty" schema:"enum=small|large,default=small"`
	Items   []address         `json:"items" schema:"minItems=1"`
	Tags    map[string]string `json:"tags"`
	Note    *string           `json:"note"`
	Due     time.Time         `json:"due"`
	Key     *windlass.Secret  `json:"key"`
	Text    string            `schema:"raw,maxLength=9"`
	Byte    int8              `json:"byte"`
	Any     any               `json:"any"`
	Pair    [2]float64        `json:"pair"`
	Bytes   []byte            `json:"bytes"`
	private int
	Hidden  int `json:"-"`
}

// same compares a derived schema with its JSON.
func same(t *testing.T, role schema.Role, of any, want string) {
	t.Helper()
	derived, mistakes := schema.Of(role, reflect.TypeOf(of))
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	text, err := json.Marshal(derived)
	if err != nil {
		t.Fatal(err)
	}
	var got, wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if json.Unmarshal(text, &got); !reflect.DeepEqual(got, wanted) {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestAStructBecomesASchema(t *testing.T) {
	same(t, schema.Config, order{}, `{
		"type": "object", "additionalProperties": false,
		"properties": {
			"city": {"type": "string"},
			"total": {"type": "integer", "minimum": 0, "description": "In cents."},
			"size": {"type": "string", "enum": ["small", "large"], "default": "small"},
			"items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/address"}},
			"tags": {"type": "object", "additionalProperties": {"type": "string"}},
			"note": {"type": ["string", "null"]},
			"due": {"type": "string", "format": "date-time"},
			"key": {"anyOf": [{"$ref": "#/$defs/Secret"}, {"type": "null"}]},
			"Text": {"type": "string", "x-raw": true, "maxLength": 9},
			"byte": {"type": "integer", "minimum": -128, "maximum": 127},
			"any": true,
			"pair": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
			"bytes": {"type": "string", "contentEncoding": "base64"}
		},
		"required": ["city", "total", "items", "tags", "due", "Text", "byte", "any", "pair", "bytes"],
		"$defs": {
			"address": {"type": "object", "additionalProperties": false, "properties": {"city": {"type": "string"}}, "required": ["city"]},
			"Secret": {"type": "object", "additionalProperties": false, "properties": {"secret": {"type": "string"}}, "required": ["secret"]}
		}
	}`)
	same(t, schema.Output, tree{}, `{
		"type": "object", "description": "A tree.", "required": ["children"],
		"properties": {
			"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
			"parent": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}
		},
		"$defs": {"tree": {
			"type": "object", "description": "A tree.", "required": ["children"],
			"properties": {
				"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
				"parent": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}
			}
		}}
	}`)
	same(t, schema.Config, struct{}{}, `{"type": "object", "properties": {}, "additionalProperties": false}`)
	same(t, schema.Input, []uint16{}, `{"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 65535}}`)
	same(t, schema.Input, windlass.Raw{}, `true`)
}

func TestTypesWithoutASchemaAreRefusedWithTheField(t *testing.T) {
	type inner struct {
		Wait time.Duration
	}
	refused := func(of any, role schema.Role, want string) {
		t.Helper()
		_, mistakes := schema.Of(role, reflect.TypeOf(of))
		if len(mistakes) != 1 || !strings.HasPrefix(mistakes[0], want) {
			t.Errorf("got  %q\nwant %q", mistakes, want)
		}
	}
	type outer struct{ Inner []inner }
	refused(outer{}, schema.Input, "input: inner.Wait: time.Duration is a number of nanoseconds")
	refused(struct{ Done chan int }{}, schema.Output, "output: struct { Done chan int }.Done: chan int has no JSON")
	refused(map[int]string{}, schema.Output, "output: map[int]string: the names of an object are texts")
	refused(7, schema.Config, "config: int: a configuration is an object")
	refused(struct{ E error }{}, schema.Input, "input: struct { E error }.E: error is an interface")
	refused([]windlass.Raw{}, schema.Input, "input: []value.Raw[]: windlass.Raw is a whole input")
	refused(struct {
		A int `schema:"minimum=a"`
	}{}, schema.Input, `input: struct { A int "schema:\"minimum=a\"" }.A: the tag `)
	refused(struct {
		A int `json:"a,string"`
	}{}, schema.Input, `input: struct { A int "json:\"a,string\"" }.A: the option `)
	number := reflect.TypeFor[int]()
	twice := reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: number, Tag: `json:"x"`},
		{Name: "B", Type: number, Tag: `json:"x"`},
	})
	refused(reflect.Zero(twice).Interface(), schema.Input, "input: struct {")
}

func text(content string) host.Payload { return host.Payload{Form: host.Text, Bytes: []byte(content)} }

func TestWholeNumbersMayHaveAFraction(t *testing.T) {
	var got struct {
		A int
		B []uint8
		C float64
	}
	if err := value.Decode(text(`{"a":3.0,"b":[1e2],"c":0.5}`), &got); err != nil {
		t.Fatal(err)
	}
	equal(t, []any{got.A, got.B[0], got.C}, []any{3, uint8(100), 0.5})
	var wide int64
	for _, hostile := range []string{"1e999999999", "1.5", "9223372036854775808", "3." + strings.Repeat("0", 99), `"3"`, "", "[", "\xff"} {
		if value.Decode(text(hostile), &wide) == nil {
			t.Errorf("%.20q is %d", hostile, wide)
		}
	}
	if err := value.Decode(text("9007199254740993"), &wide); err != nil || wide != 9007199254740993 {
		t.Errorf("a wide integer is %d, %v", wide, err)
	}
}

func TestEmptyListsAreListsInJSON(t *testing.T) {
	type page struct {
		Items []address
		More  map[string][]int
		Next  *page `json:",omitempty"`
		At    time.Time
	}
	given := []page{{Next: &page{More: map[string][]int{"a": nil}}}}
	got, err := value.Marshal(given)
	at := `"At":"0001-01-01T00:00:00Z"`
	want := `[{"Items":[],"More":{},"Next":{"Items":[],"More":{"a":[]},` + at + `},` + at + `}]`
	equal(t, []any{string(got), err}, []any{want, nil})
	equal(t, given[0].Items == nil && given[0].Next.More["a"] == nil, true)
	got, err = value.Marshal("<a & é>")
	equal(t, []any{string(got), err}, []any{`"<a & é>"`, nil})
}

func TestAnOutputWithoutJSONIsAFailure(t *testing.T) {
	report := call(t, func(*windlass.Context) (float64, error) { return math.NaN(), nil })
	equal(t, report.Failure.Class, windlass.ClassPermanent)
}

func TestRawValuesKeepTheirMediaTypeAndMayBeReferences(t *testing.T) {
	echo := windlass.Node[windlass.Raw, windlass.Raw]{
		ByReference: true,
		Run:         func(_ *windlass.Context, raw windlass.Raw) (windlass.Raw, error) { return raw, nil },
	}
	for _, raw := range []windlass.Raw{{ContentType: "text/csv", Bytes: []byte("a,b")}, {ContentType: "image/png", Blob: "large"}} {
		equal(t, windlasstest.Call(t, echo, raw).Output, raw)
	}
	var typed int
	for _, payload := range []host.Payload{{ContentType: "text/csv", Bytes: []byte("1")}, {Form: host.Blob, Bytes: []byte("large")}, {ContentType: "/", Bytes: []byte("1")}} {
		if err := value.Decode(payload, &typed); err == nil || !strings.Contains(err.Error(), "windlass.Raw") {
			t.Error(err)
		}
	}
	if err := value.Decode(host.Payload{ContentType: "application/json; charset=utf-8", Bytes: []byte("1")}, &typed); err != nil {
		t.Error(err)
	}
}

func TestAWrongInputIsInvalid(t *testing.T) {
	add := windlass.Node[[]int, int]{Run: func(*windlass.Context, []int) (int, error) { return 1, nil }}
	_, failed := add.Made("add").Execute(text("{}"), text(`{"a":1}`))
	if failed == nil || failed.Class != host.Invalid {
		t.Errorf("the failure is %+v", failed)
	}
}
