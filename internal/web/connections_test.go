package web

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// Clients that open connections and send nothing neither keep other clients out nor end a connection that is used.
func TestSilentConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	crowded, _ := LimitConnections(l, 10).(*limitedListener)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") })}
	go func() { _ = s.Serve(crowded) }()
	defer s.Close()
	ask := func(c *http.Client) {
		t.Helper()
		r, err := c.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 300 {
		c, err := net.DialTimeout("tcp", l.Addr().String(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ask(client)
	}
	crowded.mu.Lock()
	defer crowded.mu.Unlock()
	if len(crowded.all) > 10 || len(crowded.of) != 1 {
		t.Errorf("there are %d connections, of %v", len(crowded.all), crowded.of)
	}
}
