package serving

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/admin"
)

// slowWire is a stream as far as its context is looked at.
type slowWire struct {
	grpc.ServerStream
	ctx context.Context
}

func (w slowWire) Context() context.Context { return w.ctx }

// TestWriteTimeoutsAreCounted: only streams that the server cut.
func TestWriteTimeoutsAreCounted(t *testing.T) {
	m := Meter{admin.NewMetrics("test")}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late := status.Error(codes.DeadlineExceeded, "late")
	for _, c := range []struct {
		ctx context.Context
		err error
	}{{t.Context(), late}, {ended, late}, {t.Context(), nil}, {t.Context(), errors.New("other")}} {
		err := m.cut(nil, slowWire{ctx: c.ctx}, nil, func(any, grpc.ServerStream) error { return c.err })
		if !errors.Is(err, c.err) {
			t.Errorf("the status %v became %v", c.err, err)
		}
	}
	families, err := m.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "pilot_xds_write_timeout" && n != 1 {
			t.Errorf("counted %v, want 1", n)
		}
	}
}
