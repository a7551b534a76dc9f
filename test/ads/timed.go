package ads

import (
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"fairway/internal/xdstype"
)

// Timed is a client that notes when it was sent which load assignment, and how much came.
type Timed struct {
	*Client
	mu   sync.Mutex
	last map[string]time.Time // by cluster
	all  int
}

// NewTimed returns one that is not connected, as New does.
func NewTimed(node *corev3.Node, reader *Reader) *Timed {
	x := &Timed{last: map[string]time.Time{}}
	x.Client = New(node, reader, x.hear)
	return x
}

func (x *Timed) hear(e Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all += len(e.Names) + len(e.Removed)
	if e.Type == xdstype.EndpointURL {
		for _, name := range e.Names {
			x.last[name] = e.At
		}
	}
}

// Since is when a cluster's load assignment came, if it did after a moment.
func (x *Timed) Since(cluster string, moment time.Time) (time.Time, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.last[cluster]
	return at, at.After(moment)
}

// Count is how many resources came, or were taken away.
func (x *Timed) Count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all
}
