package endpoint

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"fairway/internal/mesh"
)

// TestFailover: the nearer locality has the higher priority, and priorities have no gaps.
func TestFailover(t *testing.T) {
	for _, c := range []struct{ from, to, localities, want string }{
		{"", "", "r/a r/b s/a", "0 0 0"},
		{"r/a/1", "", "r/a/1 r/a/2 r/b/1 s/a/1", "0 1 2 3"},
		{"r/a/1", "", "r/b s/a", "0 1"},                      // nothing is near: the nearest begins
		{"r/a", "", "r/a s/a t/a", "0 1 1"},                  // other regions are alike
		{"r/a", "t", "r/a s/a t/a", "0 2 1"},                 // unless one is named
		{"r/a", "u", "r/a s/a t/a", "0 1 1"},                 // which has no endpoints
		{"r/a", "", "- r/a", "1 0"},                          // its locality is unknown: it counts as elsewhere
		{"r", "", "r/a r", "1 0"},                            // a client that knows its region alone
		{"x/y/z", "", "r/a r/b s/a", "0 0 0"},                // all are as far
		{"r/a/1", "r", "r/a/1 r/a/2 r/b/1 s/a/1", "0 1 2 3"}, // its own region is no other
	} {
		l := Load{Cluster: "c", Port: mesh.Port{Number: 80}, Nearness: Nearness{From: mesh.ParseLocality(c.from), To: c.to}}
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

// TestShares: localities that match one percentage share it in proportion to their weights; a locality that matches none gets nothing.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		shares     map[string]uint32
		localities string // with the weight of an endpoint in each
		want       string
	}{
		{map[string]uint32{"r/a/*": 80, "r/b/*": 20}, "r/a/1:1 r/b/1:1", "r/a/1=800000 r/b/1=200000"},
		{map[string]uint32{"r/*": 100}, "r/a/1:1 r/b/1:3 s/a/1:1", "r/a/1=250000 r/b/1=750000"},
		{map[string]uint32{"r/*": 40, "r/a/*": 60}, "r/a/1:1 r/b/1:1 r/b/2:1", "r/a/1=600000 r/b/1=200000 r/b/2=200000"},
		{map[string]uint32{"*": 30, "r/a/1": 70}, "r/a/1:1 s//:5", "r/a/1=700000 s//=300000"},
		{map[string]uint32{"r": 0, "s": 100}, "r/a/1:1 s/a/1:1", "s/a/1=1000000"},
		{map[string]uint32{"x/*": 100}, "r/a/1:1", ""},
		{map[string]uint32{"r/*": 1}, "r/a/1:1 r/b/1:4294967000", "r/a/1=1 r/b/1=9999"},
	} {
		l := Load{Cluster: "c", Port: mesh.Port{Number: 80}, Nearness: Nearness{Shares: MakeShares(c.shares)}}
		for i, at := range strings.Fields(c.localities) {
			place, weight, _ := strings.Cut(at, ":")
			n, err := strconv.ParseUint(weight, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			l.Endpoints = append(l.Endpoints, mesh.Endpoint{
				Address: fmt.Sprintf("10.0.0.%d", i+1), Locality: mesh.ParseLocality(place), Weight: uint32(n),
			})
		}
		var got []string
		for _, group := range l.Build().Endpoints {
			at := localityOf(group)
			got = append(got, fmt.Sprintf("%s/%s/%s=%d", at.Region, at.Zone, at.SubZone, group.LoadBalancingWeight.GetValue()))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%v of %s: %s, want %s", c.shares, c.localities, s, c.want)
		}
	}
}
