package main

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
)

const (
	highest = 60_000_000_000 // ns; a latency above it is an error
	digits  = 3
)

// A histogram counts ns with three significant digits: 1024 cells in each doubling, the first 2048 one wide.
type histogram struct {
	counts []int64
	total  int64
	top    int64
}

func cell(ns int64) int {
	bucket := max(bits.Len64(uint64(ns))-11, 0)
	return bucket<<10 + int(ns>>bucket)
}

// high is the highest value of a cell.
func high(number int) int64 {
	bucket := max(number>>10-1, 0)
	return (int64(number-bucket<<10)+1)<<bucket - 1
}

func (h *histogram) record(ns int64) {
	if ns > highest {
		fail(1, "an operation took %d ns, more than the histogram holds", ns)
	}
	number := cell(ns)
	for len(h.counts) <= number {
		h.counts = append(h.counts, 0)
	}
	h.counts[number]++
	h.total++
	h.top = max(h.top, high(number))
}

// percentile is the highest value of the cell in which the rank lies; the rank is rounded to the nearest, at least 1.
func (h *histogram) percentile(share float64) int64 {
	rank, seen := max(int64(share*float64(h.total)/100+0.5), 1), int64(0)
	for number, count := range h.counts {
		if seen += count; seen >= rank {
			return high(number)
		}
	}
	return h.top
}

// encoded is the V2 form: counts, and negative how many cells in a row hold nothing, in ZigZag LEB128; zlib; base64.
func (h *histogram) encoded() (string, error) {
	var body bytes.Buffer
	empty := int64(0)
	for _, count := range h.counts {
		if count == 0 {
			empty++
			continue
		}
		if empty > 0 {
			leb128(&body, -empty)
			empty = 0
		}
		leb128(&body, count)
	}
	var inner bytes.Buffer
	header := []any{uint32(0x1C849313), uint32(body.Len()), uint32(0), uint32(digits), uint64(1), uint64(highest), 1.0}
	for _, field := range header {
		if err := binary.Write(&inner, binary.BigEndian, field); err != nil {
			return "", err
		}
	}
	inner.Write(body.Bytes())
	var packed bytes.Buffer
	stream := zlib.NewWriter(&packed)
	if _, err := stream.Write(inner.Bytes()); err != nil {
		return "", err
	}
	if err := stream.Close(); err != nil {
		return "", err
	}
	outer := binary.BigEndian.AppendUint32(nil, 0x1C849314)
	outer = binary.BigEndian.AppendUint32(outer, uint32(packed.Len()))
	return base64.StdEncoding.EncodeToString(append(outer, packed.Bytes()...)), nil
}

func leb128(out *bytes.Buffer, number int64) {
	word := uint64(number<<1) ^ uint64(number>>63)
	for word > 127 {
		out.WriteByte(byte(word&127 | 128))
		word >>= 7
	}
	out.WriteByte(byte(word))
}

// writeLog writes an interval for each repeat and worker, in seconds since stamp A.
func writeLog(path string, passes []pass, origin int64) error {
	var text bytes.Buffer
	text.WriteString("#[Histogram log format version 1.3]\n")
	text.WriteString("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n")
	for repeat, done := range passes {
		for worker, latencies := range done.latencies {
			var h histogram
			for _, ns := range latencies {
				h.record(ns)
			}
			payload, err := h.encoded()
			if err != nil {
				return err
			}
			start, length := float64(done.start-origin)/1e9, float64(done.end-done.start)/1e9
			fmt.Fprintf(&text, "Tag=repeat-%d-worker-%d,%.6f,%.6f,%d,%s\n", repeat, worker, start, length, h.top, payload)
		}
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}
