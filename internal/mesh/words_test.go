package mesh_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fairway/internal/mesh"
)

func TestHostMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, other mesh.Host
		want           bool
	}{
		{"*", "a.example.com", true}, {"*", "*.example.com", true}, {"*.example.com", "a.example.com", true},
		{"*.example.com", "*.a.example.com", true},
		{"*.example.com", "example.com", false}, {"*.example.com", "badexample.com", false}, {"*.a.example.com", "*.example.com", false},
		{"a.example.com", "a.example.com", true}, {"a.example.com", "*.example.com", false},
	} {
		if got := c.pattern.Matches(c.other); got != c.want {
			t.Errorf("%s matches %s: %t", c.pattern, c.other, got)
		}
	}
}

// Wildcards lists exactly the patterns that cover a host, other than the host.
func TestWildcardsCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := mesh.Host(rapid.StringMatching(`(\*\.)?([abc]\.){0,3}[abc]`).Draw(t, "host"))
		wild := mesh.Host(rapid.StringMatching(`\*(\.[abc]){0,3}`).Draw(t, "wild"))
		if got, want := slices.Contains(host.Wildcards(), wild), wild.Matches(host) && wild != host; got != want {
			t.Fatalf("%q among the wildcards of %q: %t, want %t", wild, host, got, want)
		}
	})
}

func TestFullHost(t *testing.T) {
	for name, want := range map[string]mesh.Host{
		"reviews": "reviews.shop.svc.cluster.local", "Reviews.Other": "reviews.other", "*": "*", "*.example.com": "*.example.com",
	} {
		if got := mesh.FullHost(name, "shop", "cluster.local"); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestExported(t *testing.T) {
	for _, c := range []struct {
		exportTo     []string
		viewer       string
		want, public bool
	}{
		{nil, "bank", true, true}, {[]string{"*"}, "bank", true, true}, {[]string{"."}, "shop", true, false},
		{[]string{"."}, "bank", false, false},
		{[]string{"~"}, "shop", false, false}, {[]string{"bank", "mall"}, "bank", true, false},
		{[]string{"bank"}, "shop", false, false}, {[]string{".", "*"}, "bank", true, true},
	} {
		if got := mesh.Exported(c.exportTo, "shop", c.viewer); got != c.want {
			t.Errorf("%v in %s: %t", c.exportTo, c.viewer, got)
		}
		if got := mesh.Exported(c.exportTo, "shop", ""); got != c.public {
			t.Errorf("%v for everybody: %t", c.exportTo, got)
		}
	}
}

func TestLabels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,3}`)
		m := rapid.MapOf(word, word).Draw(t, "labels")
		l := mesh.MakeLabels(m)
		if len(l.Map()) != len(m) || mesh.MakeLabels(l.Map()) != l {
			t.Fatalf("%v becomes %q", m, l)
		}
		for k, v := range m {
			if got, ok := l.Get(k); !ok || got != v || !l.SelectedBy(mesh.Labels(k+"="+v)) || l.SelectedBy(mesh.Labels(k+"=other")) {
				t.Fatalf("%s of %q: %q %t", k, l, got, ok)
			}
		}
	})
}

func TestEndpointOn(t *testing.T) {
	e := mesh.Endpoint{Ports: "http=8080,bad=x,zero=0"}
	for _, c := range []struct {
		port mesh.Port
		want uint32
	}{
		{mesh.Port{Name: "http", Number: 80, Target: 1}, 8080}, {mesh.Port{Name: "grpc", Number: 90, Target: 9090}, 9090},
		{mesh.Port{Name: "grpc", Number: 90}, 90},
		{mesh.Port{Name: "bad", Number: 80}, 80}, {mesh.Port{Name: "zero", Number: 80}, 80},
	} {
		if got := e.On(c.port); got != c.want {
			t.Errorf("%v is served on %d, want %d", c.port, got, c.want)
		}
	}
}

func TestServiceEqual(t *testing.T) {
	a := &mesh.Service{Key: mesh.ServiceKey{Host: "a"}, Ports: []mesh.Port{{Number: 80}}, ExportTo: []string{"*"}}
	b := *a
	b.Ports = []mesh.Port{{Number: 80}}
	if !a.Equal(&b) || a.Equal(nil) {
		t.Error("equal services differ, or one equals none")
	}
	b.Ports[0].Name = "http"
	if a.Equal(&b) {
		t.Error("services with different ports are equal")
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"outbound|80|v1|a.example": mesh.ClusterKey{Port: 80, Subset: "v1", Host: "a.example"}.String(),
		"inbound|8080||":           mesh.ClusterKey{Inbound: true, Port: 8080}.String(),
		"BlackHoleCluster":         mesh.ClusterKey{Special: "BlackHoleCluster"}.String(),
		"sidecar/shop/shop/web#vip": mesh.Shelf{
			Layer: mesh.Layer{Kind: mesh.SidecarLayer, Namespace: "shop", Name: "shop/web"},
			Part:  "vip",
		}.String(),
		"public": mesh.Public.String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
