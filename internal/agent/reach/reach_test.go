package reach_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"fairway/internal/agent/reach"
)

func TestWhy(t *testing.T) {
	plain := listen(t)
	server := grpc.NewServer()
	go func() { _ = server.Serve(plain) }()
	t.Cleanup(server.Stop)
	http1 := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(http1.Close)
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	closing := listen(t)
	go func() {
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	silent := listen(t)
	gone := listen(t)
	gone.Close()
	for name, c := range map[string]struct {
		at   net.Addr
		want string
	}{
		"a control plane": {plain.Addr(), ""},
		"another server":  {http1.Listener.Addr(), "speaks HTTP/1"},
		"the TLS port":    {tls.Listener.Addr(), "speaks TLS, and this workload has no identity"},
		"one that closes": {closing.Addr(), "what listens at"},
		"one that waits":  {silent.Addr(), "does not answer as a control plane"},
		"nothing":         {gone.Addr(), "the control plane cannot be reached: dial tcp"},
	} {
		err := reach.Why(t.Context(), c.at.String())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
