package memory

import (
	"runtime/debug"
	"testing"
)

// TestMemoryLimitLeavesHeadroom: the collector stays below nine tenths of the container's memory, unless GOMEMLIMIT says otherwise.
func TestMemoryLimitLeavesHeadroom(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	for _, c := range []struct {
		limit, own string
		want       int64
	}{
		{"2147483600", "", 1932735240}, {"2147483600", "1GiB", before}, {"", "", before},
		{"2Gi", "", before}, {"0", "", before}, {"-5", "", before},
	} {
		restore := Limit(func(name string) string {
			return map[string]string{memoryLimit: c.limit, "GOMEMLIMIT": c.own}[name]
		})
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%s=%q GOMEMLIMIT=%q: the limit is %d, want %d", memoryLimit, c.limit, c.own, got, c.want)
		}
		if restore(); debug.SetMemoryLimit(-1) != before {
			t.Errorf("%s=%q: the limit is not restored", memoryLimit, c.limit)
		}
	}
}
