package endpoint

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/mesh"
)

// TestFailover: the nearer locality goes first, and priorities have no gaps.
func TestFailover(t *testing.T) {
	for _, c := range []struct{ from, to, localities, want string }{
		{"", "", "r/a r/b s/a", "0 0 0"},
		{"r/a/1", "", "r/a/1 r/a/2 r/b/1 s/a/1", "0 1 2 3"},
		{"r/a/1", "", "r/b s/a", "0 1"},                      // nothing is near: the nearest begins
		{"r/a", "", "r/a s/a t/a", "0 1 1"},                  // other regions are alike
		{"r/a", "t", "r/a s/a t/a", "0 2 1"},                 // unless one is named
		{"r/a", "u", "r/a s/a t/a", "0 1 1"},                 // which has no endpoints
		{"r/a", "", "- r/a", "1 0"},                          // nobody knows where it is: it is elsewhere
		{"r", "", "r/a r", "1 0"},                            // a client that knows its region alone
		{"x/y/z", "", "r/a r/b s/a", "0 0 0"},                // all are as far
		{"r/a/1", "r", "r/a/1 r/a/2 r/b/1 s/a/1", "0 1 2 3"}, // its own region is no other
	} {
		l := Load{Cluster: "c", Port: mesh.Port{Number: 80}, Failover: Failover{mesh.ParseLocality(c.from), c.to}}
		for i, at := range strings.Fields(c.localities) {
			l.Endpoints = append(l.Endpoints, mesh.Endpoint{
				Address: fmt.Sprintf("10.0.0.%d", i+1), Locality: mesh.ParseLocality(strings.TrimPrefix(at, "-")),
			})
		}
		got := map[string]string{}
		for _, group := range l.Build().Endpoints {
			got[group.LbEndpoints[0].GetEndpoint().Address.GetSocketAddress().Address] = fmt.Sprint(group.Priority)
		}
		var list []string
		for i := range strings.Fields(c.localities) {
			list = append(list, got[fmt.Sprintf("10.0.0.%d", i+1)])
		}
		if s := strings.Join(list, " "); s != c.want {
			t.Errorf("from %q to %q, %s: %s, want %s", c.from, c.to, c.localities, s, c.want)
		}
	}
}
