package proxy

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"fairway/internal/agent/epoch"
	"fairway/internal/agent/status"
)

// TestSystemdIsTold once the proxy is ready, and not before.
func TestSystemdIsTold(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	asked := make(chan struct{}, 100)
	state := make(chan epoch.State, 1)
	state <- epoch.State{}
	a := &agent{notify: socket, log: slog.New(slog.DiscardHandler), ready: &status.Readiness{
		Draining: func() bool { return false },
		Epochs: func() epoch.State {
			st := <-state
			state <- st
			select {
			case asked <- struct{}{}:
			default: // the test counts no more calls
			}
			return st
		},
	}}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- a.notifyReady(ctx, func() {}) }()
	<-asked
	<-asked
	conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	buffer := make([]byte, 100)
	if n, err := conn.Read(buffer); err == nil {
		t.Errorf("told %q before it was ready", buffer[:n])
	}
	<-state
	state <- epoch.State{Serving: &epoch.Process{Live: true}}
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := conn.Read(buffer); err != nil || string(buffer[:n]) != "READY=1\n" {
		t.Errorf("told %q, %v", buffer[:n], err)
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
