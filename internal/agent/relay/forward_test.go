package relay

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"fairway/internal/agent/relay/cache"
	"fairway/internal/agent/relay/wire"
	"fairway/internal/disk"
)

// BenchmarkForward is what one resource in a response costs beside gRPC: reading it, keeping it, and taking its acknowledgement.
func BenchmarkForward(b *testing.B) {
	c, err := cache.Create(disk.OS, filepath.Join(b.TempDir(), cacheFile), [sha256.Size]byte{}, 1<<30, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var bodies [][]byte
	for i := range 100 {
		v := wire.Versioned{Name: fmt.Sprintf("outbound|8000||service-%d.test", i), Version: "0123456789abcdef"}
		bodies = append(bodies, wire.EncodeResource("t", v, make([]byte, 400)))
	}
	raw := wire.Response{Type: "t"}.Encode(bodies, "n")
	t := newInterest("t")
	t.wildcard = true
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r, err := wire.DecodeResponse(raw)
		if err != nil {
			b.Fatal(err)
		}
		r.Items[0].Version = fmt.Sprint(i) // it says something new
		f := &flight{nonce: "1.n", from: 1, batch: c.Add(0, raw, r)}
		for _, item := range r.Items {
			f.items = append(f.items, item.Versioned)
		}
		t.flights = append(t.flights, f)
		for _, f := range t.ack(0) {
			c.Commit(f.batch)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/resource")
}
