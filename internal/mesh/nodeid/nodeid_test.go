package nodeid_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/mesh"
	"fairway/internal/mesh/nodeid"
)

func TestParse(t *testing.T) {
	full := nodeid.Node{
		ID: "sidecar~10.0.0.7~web.v1-abc.shop~shop.svc.cluster.local",
		Metadata: map[string]any{
			"NAMESPACE":         "shop",
			"INSTANCE_IPS":      "10.0.0.7, fe80::1,junk",
			"CLUSTER_ID":        "Kubernetes",
			"NETWORK":           "n1",
			"INTERCEPTION_MODE": "TPROXY",
			"SERVICE_ACCOUNT":   "web",
			"ISTIO_VERSION":     "1.28.0",
			"DNS_CAPTURE":       "true",
			"DNS_AUTO_ALLOCATE": true,
			"HTTP10":            "1",
			"LABELS":            map[string]any{"app": "web", "version": "v1", "n": 3.0},
		},
		Locality: mesh.Locality{Region: "eu", Zone: "eu-1"},
	}
	want := mesh.Proxy{
		ID:             mesh.ProxyID(full.ID),
		IP:             "10.0.0.7",
		Name:           "web.v1-abc",
		Namespace:      "shop",
		DNSDomain:      "shop.svc.cluster.local",
		IPs:            "10.0.0.7,fe80::1",
		Labels:         "app=web,version=v1",
		Cluster:        "Kubernetes",
		Network:        "n1",
		Locality:       full.Locality,
		Interception:   mesh.TProxy,
		ServiceAccount: "web",
		Version:        "1.28.0",
		Names:          true,
		AutoVIP:        true,
		HTTP:           mesh.HTTPSettings{HTTP10: true},
		Mutual:         true,
		Metadata:       mesh.MakeMetadata(full.Metadata),
	}
	got, err := nodeid.Parse(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestParseFallsBack(t *testing.T) {
	got, err := nodeid.Parse(nodeid.Node{ID: "router~~gw.edge~edge.svc.cluster.local", Metadata: map[string]any{
		"INSTANCE_IPS": "10.1.1.1,10.1.1.2", "LABELS": map[string]any{"istio-locality": "us", "topology.istio.io/locality": "eu.eu-1.a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Type != mesh.Router || got.IP != "10.1.1.1" || got.Name != "gw" || got.Namespace != "edge" ||
		got.Locality != (mesh.Locality{Region: "eu", Zone: "eu-1", SubZone: "a"}) {
		t.Errorf("%+v", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for id, want := range map[string]string{
		"":                                "parts",
		"sidecar~10.0.0.1~a.b":            "parts",
		"sidecar~10.0.0.1~a.b~c~d":        "parts",
		"ztunnel~10.0.0.1~a.b~c":          "neither sidecar nor router",
		"sidecar~host~a.b~c":              "not an IP address",
		"sidecar~~a.b~c":                  "not an IP address",
		"sidecar~10.0.0.1~a~c":            "names no namespace",
		"sidecar~10.0.0.1~a.~c":           "names no namespace",
		strings.Repeat("x", 2000) + "~~~": "bytes",
	} {
		_, err := nodeid.Parse(nodeid.Node{ID: id})
		if !errors.Is(err, nodeid.ErrNode) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want ErrNode with %q", id, err, want)
		}
	}
}

// A proxy is served only if its node data is within the limits and consistent.
func TestParseRefusesWhatIsSaid(t *testing.T) {
	long := strings.Repeat("x", 300)
	labels := map[string]any{}
	for n := range 300 {
		labels[fmt.Sprint("l", n)] = "v"
	}
	for _, c := range []struct {
		name, id string
		metadata map[string]any
		locality mesh.Locality
		want     string
	}{
		{name: "another namespace than the id's", metadata: map[string]any{"NAMESPACE": "bank"}, want: "another namespace"},
		{name: "an escape sequence in the id", id: "sidecar~10.0.0.1~web\x1b[2J.shop~d", want: "visible character"},
		{name: "a line feed in the id", id: "sidecar~10.0.0.1~web.shop~d\nx", want: "visible character"},
		{
			name:     "separators in the namespace",
			id:       "sidecar~10.0.0.1~web~d",
			metadata: map[string]any{"NAMESPACE": "shop/x#y"},
			want:     "not a namespace",
		},
		{name: "a bar in the namespace", id: "sidecar~10.0.0.1~web.a|b~d", want: "not a namespace"},
		{name: "a long namespace", id: "sidecar~10.0.0.1~web." + long + "~d", want: "not a namespace"},
		{name: "a long version", metadata: map[string]any{"ISTIO_VERSION": long}, want: "ISTIO_VERSION"},
		{name: "a long network", metadata: map[string]any{"NETWORK": long}, want: "NETWORK"},
		{
			name:     "seventeen addresses",
			metadata: map[string]any{"INSTANCE_IPS": strings.Repeat("10.0.0.1,", 16) + "10.0.0.2"},
			want:     "INSTANCE_IPS",
		},
		{name: "a long label", metadata: map[string]any{"LABELS": map[string]any{"app": long}}, want: "label"},
		{name: "many labels", metadata: map[string]any{"LABELS": labels}, want: "300 labels"},
		{name: "a long region", locality: mesh.Locality{Region: long}, want: "locality"},
	} {
		id := c.id
		if id == "" {
			id = "sidecar~10.0.0.1~web.shop~d"
		}
		_, err := nodeid.Parse(nodeid.Node{ID: id, Metadata: c.metadata, Locality: c.locality})
		if !errors.Is(err, nodeid.ErrNode) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want ErrNode with %q", c.name, err, c.want)
		}
	}
}

func TestNodeBringsBadConfiguration(t *testing.T) {
	_, err := nodeid.Parse(nodeid.Node{
		ID:       "router~10.0.0.1~edge.infra~infra.svc.cluster.local",
		Metadata: map[string]any{"PROXY_CONFIG": map[string]any{"gatewayTopology": map[string]any{"numTrustedProxies": "two"}}},
	})
	if err == nil || !strings.Contains(err.Error(), "PROXY_CONFIG: gatewayTopology.numTrustedProxies must be a whole number") {
		t.Errorf("a node with a bad PROXY_CONFIG: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("sidecar~10.0.0.7~web.shop~shop.svc.cluster.local", "NAMESPACE", "shop")
	f.Add("router~::1~gw.edge~edge.svc", "INSTANCE_IPS", "10.0.0.1,,x")
	f.Add("sidecar~~~", "LABELS", "=,=")
	f.Fuzz(func(t *testing.T, id, key, value string) {
		n := nodeid.Node{ID: id, Metadata: map[string]any{key: value, "LABELS": map[string]any{key: value}}}
		p, err := nodeid.Parse(n)
		if err != nil {
			if !errors.Is(err, nodeid.ErrNode) {
				t.Fatalf("%v is no ErrNode", err)
			}
			return
		}
		if p.ID != mesh.ProxyID(id) || p.Namespace == "" || p.IP == "" || !strings.HasPrefix(p.IPs, p.IP) {
			t.Fatalf("%q gives %+v", id, p)
		}
		if again, _ := nodeid.Parse(n); again != p {
			t.Fatalf("%q is read in two ways", id)
		}
	})
}
