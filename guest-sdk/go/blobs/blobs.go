// Package blobs reads and writes large values in the blob store of the host, in ranges.
package blobs

import (
	"io"
	"math"

	"windlass/internal/host"
	"windlass/internal/refused"
)

// MaxPart is the number of bytes that one call of the host reads or writes here.
const MaxPart = 1 << 20

// Open returns a reader of a blob, by its reference (windlass.Raw.Blob).
func Open(reference string) (*io.SectionReader, error) {
	size, refusal := host.BlobSize(reference)
	if refusal != nil {
		return nil, refused.By("blobs", "blobs.Open", refusal)
	}
	return io.NewSectionReader(blob(reference), 0, int64(min(size, math.MaxInt64))), nil
}

type blob string

// ReadAt implements io.ReaderAt.
func (b blob) ReadAt(to []byte, offset int64) (int, error) {
	done := 0
	for done < len(to) {
		length := min(len(to)-done, MaxPart)
		part, refusal := host.BlobRead(string(b), uint64(offset)+uint64(done), uint32(length))
		if refusal != nil {
			return done, refused.By("blobs", "blobs: read", refusal)
		}
		if len(part) == 0 {
			return done, io.EOF
		}
		done += copy(to[done:], part)
	}
	return done, nil
}

// Writer writes a blob, which lives as long as the outcome of the call.
type Writer struct{ writer uint32 }

// Create begins a blob.
func Create() (*Writer, error) {
	writer, refusal := host.BlobBegin()
	if refusal != nil {
		return nil, refused.By("blobs", "blobs.Create", refusal)
	}
	return &Writer{writer}, nil
}

// Write adds bytes.
func (w *Writer) Write(bytes []byte) (int, error) {
	done := 0
	for done < len(bytes) {
		part := bytes[done:min(len(bytes), done+MaxPart)]
		if refusal := host.BlobAppend(w.writer, part); refusal != nil {
			return done, refused.By("blobs", "blobs: write", refusal)
		}
		done += len(part)
	}
	return done, nil
}

// Finish ends the blob, and returns its reference, for windlass.Raw.Blob.
func (w *Writer) Finish() (string, error) {
	reference, refusal := host.BlobFinish(w.writer)
	return reference, refused.By("blobs", "blobs: finish", refusal)
}
