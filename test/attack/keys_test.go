package attack

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestKeysAreNotFetchedFromThisMachine: a rule's jwksUri leads the control plane neither to its own debug pages nor to any other
// server of its machine, however the address is spelled.
func TestKeysAreNotFetchedFromThisMachine(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { calls.Add(1) }))
	t.Cleanup(server.Close)
	p := startFiles(t, func(string) {})
	p.connect(t, sidecarIn("evil"))
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	_, own, _ := strings.Cut(strings.TrimPrefix(p.url, "http://"), ":")
	uris := []string{
		p.url + "/debug/pprof/heap", "http://localhost:" + own + "/debug/config_dump", server.URL, "http://0.0.0.0:" + port,
		"http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://127.9.9.9:" + port,
	}
	p.put(t, "keys.yaml", objectText("RequestAuthentication", securityGroup, "keys",
		"{jwtRules: [{issuer: a, jwksUri: '"+strings.Join(uris, "'}, {issuer: a, jwksUri: '")+"'}]}"))
	for _, uri := range uris {
		p.says(t, "the keys of \\\""+uri+"\\\" cannot be fetched, so every token for this rule is refused: its address, or one that")
	}
	if n := calls.Load(); n > 0 {
		t.Errorf("a server of this machine was called %d times", n)
	}
}
