package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/internal/agent/admin"
)

// envoy is a fake administration: it notes each POST, and once it drains, its connections close one by one.
type envoy struct {
	mu          sync.Mutex
	told        []string
	connections int
	idle, other int // connections of HTTP beside them, and of something else, which stay
	going       bool
}

func (e *envoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Method == http.MethodPost {
		e.told = append(e.told, r.URL.String())
		e.going = e.going || strings.HasPrefix(r.URL.Path, "/drain")
		return
	}
	fmt.Fprintf(
		w,
		"listener.admin.downstream_cx_active: 1\nlistener.0.0.0.0_15021.downstream_cx_active: "+
			"2\nlistener.0.0.0.0_8080.downstream_cx_active: %d\n"+
			"listener.0.0.0.0_8080.worker_0.downstream_cx_active: 9\nhttp.inbound_0.0.0.0_8080;.downstream_cx_active: %d\n"+
			"http.inbound_0.0.0.0_8080;.downstream_rq_active: %d\nhttp.inbound_0.0.0.0_8080;.downstream_cx_tx_bytes_buffered: 0\n",
		e.connections+e.idle+e.other,
		e.connections+e.idle,
		e.connections,
	)
	if e.going && e.connections > 0 {
		e.connections--
	}
}

func start(t *testing.T, connections int) (*envoy, Options) {
	e := &envoy{connections: connections}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return e, Options{
		Admin:  admin.New(strings.TrimPrefix(server.URL, "http://")),
		Limit:  20 * time.Second,
		Poll:   time.Millisecond,
		Ignore: []uint16{15021},
		Log:    slog.New(slog.DiscardHandler),
	}
}

func TestTheOrder(t *testing.T) {
	e, o := start(t, 3)
	o.Minimum, o.Inbound = 20*time.Millisecond, true
	r, err := Run(t.Context(), o)
	if err != nil || r.Left != 0 || r.Took < o.Minimum {
		t.Errorf("%+v, %v", r, err)
	}
	if got := strings.Join(e.told, " "); got != "/healthcheck/fail /drain_listeners?graceful&skip_exit&inboundonly" {
		t.Errorf("told: %s", got)
	}
}

func TestTimeIsUp(t *testing.T) {
	e, o := start(t, 0)
	e.other = 1
	o.Limit = 10 * time.Millisecond
	if r, err := Run(t.Context(), o); err != nil || r.Left != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheWholeTime(t *testing.T) {
	_, o := start(t, 0)
	o.Whole, o.Limit, o.Inbound = true, 30*time.Millisecond, true
	if r, err := Run(t.Context(), o); err != nil || r.Took < o.Limit {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCutShort(t *testing.T) {
	_, o := start(t, 1)
	o.Minimum = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	o.Admin = admin.New("127.0.0.1:1")
	if _, err := Run(t.Context(), o); err == nil {
		t.Error("drained an Envoy that is not there")
	}
}

func TestConnections(t *testing.T) {
	stats := map[string]int64{
		"listener.0.0.0.0_80.downstream_cx_active":          2,
		"listener.127.0.0.1_15090.downstream_cx_active":     4,
		"listener.admin.downstream_cx_active":               8,
		"listener.0.0.0.0_80.worker_1.downstream_cx_active": 16,
		"http.inbound_x;.downstream_cx_active":              32,
		"tcp.inbound|9000||;.downstream_cx_active":          64,
	}
	if got := Connections(stats, false, []uint16{15090}); got != (Count{Busy: 32}) {
		t.Errorf("of all listeners %+v, want 32 of one that does not count requests", got)
	}
	if got := Connections(stats, true, nil); got != (Count{Busy: 96}) {
		t.Errorf("inbound %+v, want 96", got)
	}
	stats = map[string]int64{
		"listener.0.0.0.0_80.downstream_cx_active":         10,
		"listener.0.0.0.0_90.downstream_cx_active":         3,
		"listener.0.0.0.0_15021.downstream_cx_active":      1,
		"http.inbound_a;.downstream_cx_active":             4,
		"http.inbound_a;.downstream_rq_active":             0,
		"http.inbound_a;.downstream_cx_tx_bytes_buffered":  0,
		"http.outbound_b;.downstream_cx_active":            2,
		"http.outbound_b;.downstream_rq_active":            0,
		"http.outbound_b;.downstream_cx_tx_bytes_buffered": 7,
		"http.outbound_c;.downstream_cx_active":            4,
		"http.outbound_c;.downstream_rq_active":            3,
		"http.outbound_c;.downstream_cx_tx_bytes_buffered": 0,
		"http.readiness.downstream_cx_active":              1,
		"http.readiness.downstream_rq_active":              1,
		"http.admin.downstream_cx_active":                  1,
		"tcp.inbound|9000||;.downstream_cx_active":         2,
	}
	if got := Connections(stats, false, []uint16{15021}); got != (Count{Busy: 0 + 1 + 3 + (13 - 10), Idle: 4 + 1 + 1}) {
		t.Errorf("of all listeners %+v", got)
	}
	if got := Connections(stats, true, nil); got != (Count{Busy: 2, Idle: 4}) {
		t.Errorf("inbound %+v", got)
	}
}

// TestIdleConnectionsAreNotWaitedFor: the drain asks idle connections to close and does not wait for them; it waits for busy ones.
func TestIdleConnectionsAreNotWaitedFor(t *testing.T) {
	e, o := start(t, 0)
	e.idle = 5
	told := 0
	o.Limit, o.Idle = time.Hour, func() error { told++; return errors.New("as well as can be") }
	if r, err := Run(t.Context(), o); err != nil || r.Left != 0 || r.Took < settle || told != 1 {
		t.Errorf("%+v, %v, told %d times", r, err, told)
	}
	e, o = start(t, 3)
	e.idle = 5
	o.Poll, o.Inbound, o.Idle = settle, true, func() error { told++; return nil }
	if r, err := Run(t.Context(), o); err != nil || r.Left != 0 || r.Took < 3*settle || told != 1 {
		t.Errorf("%+v, %v, told %d times: what the application calls is not drained", r, err, told)
	}
}
