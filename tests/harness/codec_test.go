package codec

import "testing"

var sink []byte

func benchmark(b *testing.B, size int) {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i)
	}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		sink = Encode(data)
	}
}

func BenchmarkEncode(b *testing.B) {
	b.Run("size=512", func(b *testing.B) { benchmark(b, 512) })
	b.Run("size=5120", func(b *testing.B) { benchmark(b, 5120) })
}

func BenchmarkEncodeOther(b *testing.B) { benchmark(b, 64) }
