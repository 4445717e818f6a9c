// A node executor in Go, by Go's own compiler: the functions of the contract by hand, as the
// canonical ABI lays them out.
package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"
)

const about = `{"windlass":1,"package":"go","version":"1.0.0","nodes":[
	{"name":"upper"},{"name":"looks"},{"name":"sleeps"},{"name":"panics"},{"name":"exits"}]}`

func upper(input []byte) (any, error) {
	var in struct{ Text string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	fmt.Println("to stdout:", in.Text)
	fmt.Fprintln(os.Stderr, "to stderr")
	return strings.ToUpper(in.Text), nil
}

// looks finds what a program may look for and what is not there.
func looks() (any, error) {
	_, err := os.ReadFile("/etc/passwd")
	key := make([]byte, 17)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	return map[string]any{
		"file":      err != nil,
		"arguments": len(os.Args),
		"variables": len(os.Environ()),
		"second":    time.Now().Unix(),
		"random":    strings.Trim(string(key), "\x00") != "",
	}, nil
}

// sleeps has two goroutines that wait for each other and for the time.
func sleeps() (any, error) {
	began := time.Now()
	done := make(chan bool)
	go func() {
		time.Sleep(20 * time.Millisecond)
		done <- true
	}()
	<-done
	return time.Since(began) >= 20*time.Millisecond, nil
}

func run(name string, input []byte) (any, error) {
	switch name {
	case "go/upper":
		return upper(input)
	case "go/looks":
		return looks()
	case "go/sleeps":
		return sleeps()
	case "go/panics":
		var none map[string]int
		none["a"] = 1
	case "go/exits":
		os.Exit(3)
	}
	return nil, fmt.Errorf("no node %s", name)
}

// kept has the arguments, which the host writes before it calls.
var kept = map[unsafe.Pointer][]uint64{}

//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	if size == 0 {
		return unsafe.Pointer(uintptr(align))
	}
	words := make([]uint64, (size+7)/8)
	at := unsafe.Pointer(unsafe.SliceData(words))
	if old != nil {
		copy(unsafe.Slice((*byte)(at), size), unsafe.Slice((*byte)(old), oldSize))
		delete(kept, old)
	}
	kept[at] = words
	return at
}

// answer is a result of any kind, and the text that it points to.
var answer struct {
	words [32]uint32
	text  []byte
}

func say(at int, text []byte) unsafe.Pointer {
	answer.text = text
	answer.words[at] = uint32(uintptr(unsafe.Pointer(unsafe.SliceData(text))))
	answer.words[at+1] = uint32(len(text))
	return unsafe.Pointer(&answer.words)
}

//go:wasmexport windlass:node/node@0.1.0#describe
func describe() unsafe.Pointer {
	clear(answer.words[:])
	return say(4, []byte(about))
}

//go:wasmexport windlass:node/node@0.1.0#execute
func execute(name *byte, nameLength uint32, _, _, _, _ uint32, _ *byte, _ uint32, _, _, _, _ uint32, input *byte, inputLength uint32) unsafe.Pointer {
	output, err := run(unsafe.String(name, nameLength), unsafe.Slice(input, inputLength))
	clear(kept)
	clear(answer.words[:])
	if err != nil {
		answer.words[0] = 1 // an error, of class invalid
		return say(4, []byte(err.Error()))
	}
	text, err := json.Marshal(output)
	if err != nil {
		panic(err)
	}
	return say(8, text)
}

func main() {}
