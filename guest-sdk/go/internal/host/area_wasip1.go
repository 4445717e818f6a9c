package host

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

// arenaSize is the number of bytes that the host can pass at a time: the configuration and the input
// of a call, of 4 MiB each unless the host is configured otherwise, and their names.
const arenaSize = 9 << 20

// arena has the arguments and results that the host passes. The host allocates while a component may call no import, and
// Go's own heap asks for the time when it collects garbage: so this memory is none of that heap. The
// pages that are never written cost no memory of the machine.
var arena [arenaSize / 8]uint64

var (
	// used is the number of bytes of the arena that are taken.
	used uint32
	// lifting is the number of calls that read from the arena. Without one it is empty.
	lifting int
)

// realloc gives the host memory of the arena. If there is not enough, the address is at the end
// of all memory, which the host refuses.
//
//go:wasmexport cabi_realloc
//go:nosplit
func realloc(old, oldSize, _, size uint32) unsafe.Pointer {
	base := unsafe.Pointer(&arena)
	if size > arenaSize-used {
		return unsafe.Add(base, -8-int(start()))
	}
	at := unsafe.Add(base, used)
	used += (size + 7) &^ 7
	for i := range min(oldSize, size) {
		*(*byte)(unsafe.Add(at, i)) = *(*byte)(unsafe.Add(base, old-start()+i))
	}
	return at
}

//go:nosplit
func start() uint32 { return uint32(uintptr(unsafe.Pointer(&arena))) }

// Lift begins to read the arena, and Lifted ends it.
func Lift() { lifting++ }

// Lifted empties the arena, unless another goroutine reads from it.
func Lifted() {
	if lifting--; lifting == 0 {
		used = 0
	}
}

// aligned makes zeroed bytes at an address that is a multiple of 8.
func aligned(size uint32) []byte {
	words := make([]uint64, (uint64(size)+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
}

// passed are the bytes of an argument, as long as it is lifted.
func passed(at, length uint32) []byte {
	all := unsafe.Slice((*byte)(unsafe.Pointer(&arena)), arenaSize)
	return all[at-start():][:length]
}

// Take returns a copy of the bytes of an argument.
func Take(at, length uint32) []byte {
	if length == 0 {
		return nil
	}
	return bytes.Clone(passed(at, length))
}

// TakeText is Take for a text.
func TakeText(at, length uint32) string {
	if length == 0 {
		return ""
	}
	return string(passed(at, length))
}

// TakePayload returns an argument that is a payload: its parts in the order of the canonical ABI.
func TakePayload(typed, name, nameLength, form, body, length uint32) Payload {
	payload := Payload{Form: Form(form), Bytes: Take(body, length)}
	if typed != 0 {
		payload.ContentType = TakeText(name, nameLength)
	}
	return payload
}

// TakeTexts returns an argument that is a list of texts.
func TakeTexts(at, count uint32) []string {
	list := &area{bytes: Take(at, count*8)}
	texts := make([]string, count)
	for i := range texts {
		texts[i] = list.takeText(i * 8)
	}
	return texts
}

// area is memory that the host reads or writes, laid out by the canonical ABI: offsets are in bytes.
// It keeps the memory that it points to.
type area struct {
	bytes []byte
	held  []any
}

// newArea makes an area on the heap, where values do not move.
//
//go:noinline
func newArea(size int) *area {
	return &area{bytes: aligned(uint32(size))}
}

func (a *area) pointer() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(a.bytes)) }

func (a *area) byte(at int, value uint32) { a.bytes[at] = byte(value) }
func (a *area) word(at int, value uint32) { binary.LittleEndian.PutUint32(a.bytes[at:], value) }
func (a *area) long(at int, value uint64) { binary.LittleEndian.PutUint64(a.bytes[at:], value) }
func (a *area) readWord(at int) uint32    { return binary.LittleEndian.Uint32(a.bytes[at:]) }
func (a *area) readLong(at int) uint64    { return binary.LittleEndian.Uint64(a.bytes[at:]) }
func (a *area) has(at int) bool           { return a.bytes[at] != 0 }
func (a *area) takeBytes(at int) []byte   { return Take(a.readWord(at), a.readWord(at+4)) }
func (a *area) takeText(at int) string    { return TakeText(a.readWord(at), a.readWord(at+4)) }
func (a *area) optionalLong(at int, value *uint64) {
	if value != nil {
		a.byte(at, 1)
		a.long(at+8, *value)
	}
}

func (a *area) content(at int, bytes []byte) {
	a.held = append(a.held, bytes)
	a.word(at, uint32(uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))))
	a.word(at+4, uint32(len(bytes)))
}

// text writes a text; bytes that are not UTF-8 become U+FFFD.
func (a *area) text(at int, text string) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	a.held = append(a.held, text)
	a.word(at, uint32(uintptr(unsafe.Pointer(unsafe.StringData(text)))))
	a.word(at+4, uint32(len(text)))
}

// optionalText writes a text that is none if it is empty.
func (a *area) optionalText(at int, text string) {
	if text != "" {
		a.byte(at, 1)
		a.text(at+4, text)
	}
}

// list writes a list, and returns the area of its elements.
func (a *area) list(at, count, size int) *area {
	elements := newArea(count * size)
	a.held = append(a.held, elements)
	a.word(at, uint32(uintptr(elements.pointer())))
	a.word(at+4, uint32(count))
	return elements
}

func (a *area) texts(at int, texts []string) {
	list := a.list(at, len(texts), 8)
	for i, text := range texts {
		list.text(i*8, text)
	}
}

func (a *area) payload(at int, payload Payload) {
	a.optionalText(at, payload.ContentType)
	a.byte(at+12, uint32(payload.Form))
	a.content(at+16, payload.Bytes)
}

func (a *area) optionalPayload(at int, payload *Payload) {
	if payload != nil {
		a.byte(at, 1)
		a.payload(at+4, *payload)
	}
}

func (a *area) takePayload(at int) Payload {
	payload := Payload{Form: Form(a.bytes[at+12]), Bytes: a.takeBytes(at + 16)}
	if a.has(at) {
		payload.ContentType = a.takeText(at + 4)
	}
	return payload
}

func (a *area) takeOptionalPayload(at int) *Payload {
	if !a.has(at) {
		return nil
	}
	payload := a.takePayload(at + 4)
	return &payload
}

func (a *area) position(at int, position *Position) {
	if position != nil {
		a.byte(at, 1)
		a.optionalText(at+4, position.Source)
		a.word(at+16, position.Line)
		a.word(at+20, position.Column)
	}
}

func (a *area) failure(at int, failure Failure) {
	a.text(at, failure.Message)
	a.optionalPayload(at+8, failure.Details)
	a.optionalText(at+36, failure.Stack)
	a.position(at+48, failure.Position)
}

// refusal reads the error of a result; nil means success. The payload of the error is at `at` behind
// its case; sized is the case whose payload is a number.
func (a *area) refusal(at, payload int, cases []string, sized string) *Refusal {
	if !a.has(0) {
		return nil
	}
	refusal := &Refusal{Case: "other"}
	if found := int(a.bytes[at]); found < len(cases) {
		refusal.Case = cases[found]
	}
	switch refusal.Case {
	case "timeout":
	case sized:
		refusal.Detail = strconv.FormatUint(a.readLong(payload), 10)
	default:
		refusal.Detail = a.takeText(payload)
	}
	return refusal
}

// keep lets an area live until the host has read it.
func (a *area) keep() { runtime.KeepAlive(a) }
