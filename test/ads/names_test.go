package ads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/envoy/names"
	"fairway/test/ads"
	"fairway/test/plane"
)

// entry is a service that only its name finds, with an address where one is given.
func entry(name, address string) string {
	if address != "" {
		address = "\n  addresses: [" + address + "]"
	}
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: shop}
spec:
  hosts: [%[1]s.test]%s
  ports: [{number: 5432, name: tcp, protocol: TCP}]
  resolution: STATIC
  location: MESH_EXTERNAL
  endpoints: [{address: 10.0.0.7}]
`, name, address)
}

// TestNameTables: an agent that resolves names hears of each that comes, changes and goes, in either protocol, and
// after its stream broke; one that does not resolve gets none.
func TestNameTables(t *testing.T) {
	for _, sotw := range []bool{false, true} {
		t.Run(fmt.Sprintf("sotw=%v", sotw), func(t *testing.T) {
			p := plane.Start(t, plane.Options())
			p.Apply(t, "all", entry("db", "10.96.0.1")+entry("cache", "10.96.0.2")+entry("nowhere", ""))
			resolver := plane.Proxy{Name: "web", SotW: sotw, Tables: true}
			c := p.Connect(t, resolver)
			plain := p.Connect(t, plane.Proxy{Name: "plain", IP: "10.0.0.8", SotW: sotw})

			holds(t, c, "after the first sync", "cache.test 10.96.0.2", "db.test 10.96.0.1")
			p.Apply(t, "all", entry("db", "10.96.0.9"))
			holds(t, c, "after a change", "cache.test 10.96.0.2", "db.test 10.96.0.9")
			p.Apply(t, "more", entry("more", "10.96.0.3"))
			holds(t, c, "after one came", "cache.test 10.96.0.2", "db.test 10.96.0.9", "more.test 10.96.0.3")
			p.Apply(t, "more", entry("more", "")) // the service stays, its address goes
			holds(t, c, "after an address went", "cache.test 10.96.0.2", "db.test 10.96.0.9")
			p.Delete(t, "ServiceEntry", "shop", "cache")
			holds(t, c, "after a service went", "db.test 10.96.0.9")

			c.Disconnect()
			p.Delete(t, "ServiceEntry", "shop", "db")
			c.Reconnect(t)
			holds(t, c, "after all went while it was away")
			p.Apply(t, "all", entry("db", "10.96.0.1"))
			holds(t, c, "after one came back", "db.test 10.96.0.1")
			if got := plain.Names(ads.NameTableType); len(got) > 0 {
				t.Errorf("a proxy that asks for no names got %v", got)
			}
		})
	}
}

// holds compares the names that a client would answer with.
func holds(t *testing.T, c *plane.Client, when string, want ...string) {
	t.Helper()
	var got []string
	for _, name := range c.Names(ads.NameTableType) {
		body, _ := c.Body(ads.NameTableType, name)
		entries, err := names.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			got = append(got, e.Host+" "+strings.Join(e.IPs, ","))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s it resolves %q, want %q", when, got, want)
	}
}
