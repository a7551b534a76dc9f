package contest_test

import (
	"slices"
	"testing"

	"fairway/internal/compile/route/contest"
	"fairway/internal/mesh"
)

// TestContests compares contests with the full search that they replace: if a host has an alias of another as its name, it is in a contest
// that the other looks at.
func TestContests(t *testing.T) {
	const suffix = "cluster.local"
	headless := &mesh.Service{Key: mesh.ServiceKey{Registry: "Kubernetes/c", Host: "a.n.svc.cluster.local"}, Resolution: mesh.Passthrough}
	for _, host := range []mesh.Host{
		"a.n.svc.cluster.local", "example.com", "a.b.c.example.com", "*.example.com", "host", "a.n", "x.y.svc", "1.2.3.4",
		"a.svc.cluster.local",
	} {
		for _, client := range []string{"", "n", "other", "com"} {
			for _, s := range []*mesh.Service{nil, headless} {
				if s != nil && host != s.Key.Host {
					continue // names below a host are those of Kubernetes' headless services
				}
				at := contest.Over(host, client, suffix)
				for _, alias := range contest.Aliases(host, s, client, suffix) {
					if c := contest.Of(mesh.Host(alias), suffix); !slices.Contains(at, c) {
						t.Errorf("%s, for clients of %q: a host %q is put at %+v, and looked for at %+v", host, client, alias, c, at)
					}
				}
			}
		}
	}
	for _, plain := range []mesh.Host{"a.n.svc.cluster.local", "a.b.c.example.com", "*.a.b.example.com"} {
		if c := contest.Of(plain, suffix); c != (contest.Contest{}) {
			t.Errorf("%s is called as nobody's alias, and put at %+v", plain, c)
		}
	}
}
