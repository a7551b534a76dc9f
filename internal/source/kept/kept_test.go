package kept_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/kept"
)

const registry = "Kubernetes/west"

var asOf = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func cluster() kept.Cluster {
	web := mesh.ServiceKey{Host: "web.shop.svc.cluster.local", Namespace: "shop", Registry: registry, Object: "web"}
	pod := mesh.WorkloadKey{Registry: registry, Namespace: "shop", Name: "web-1"}
	n1 := mesh.MachineKey{Registry: registry, Name: "n1"}
	at := func(kind string) source.ShardKey { return source.ShardKey{Cluster: "west", Kind: kind} }
	return kept.Cluster{Registry: registry, AsOf: asOf, Shards: []source.Shard{
		{Key: at("Service"), Whole: true, Rows: source.Rows{Services: []*mesh.Service{{
			Key: web, Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}}, Addresses: []string{"10.96.0.1"},
		}}}},
		{Key: at("EndpointSlice"), Whole: true, Rows: source.Rows{Slices: []*mesh.Slice{{
			Key: mesh.SliceKey{Service: web, Name: "web-x"},
			Endpoints: []mesh.SliceEndpoint{{
				ID: "10.4.0.1", Workload: pod,
				Endpoint: mesh.Endpoint{Address: "10.4.0.1", Ports: "http=8080", ListsAll: true, Machine: n1.Ref()},
			}},
		}}}},
		{Key: at("Pod"), Whole: true, Rows: source.Rows{Workloads: []*mesh.Workload{{
			Key: pod, Addresses: "10.4.0.1", ServiceAccount: "web", Machine: n1.Ref(),
		}}}},
		{Key: at("Node"), Whole: true, Rows: source.Rows{Machines: []mesh.Machine{{
			Key: n1, Locality: mesh.Locality{Region: "r"},
		}}}},
		{Key: at("Namespace"), Whole: true, Rows: source.Rows{Namespaces: []mesh.Namespace{{
			Key: mesh.NamespaceKey{Registry: registry, Name: "shop"}, Labels: "a=b",
		}}}},
	}}
}

func encode(t testing.TB, c kept.Cluster) []byte {
	t.Helper()
	out, err := kept.Encode(c, true)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Everything comes back as it was written, except Secrets, which are not even written.
func TestThereAndBack(t *testing.T) {
	c := cluster()
	c.Shards = append(c.Shards, source.Shard{Key: source.ShardKey{Cluster: "west", Kind: "Secret"}, Rows: source.Rows{
		Objects: []*config.Object{{
			Key:  config.Key{Kind: config.Secret, Namespace: "shop", Name: "key"},
			Text: []byte("hush"), Credential: &config.Credential{Chain: []byte("hush")},
		}},
	}})
	text := encode(t, c)
	if bytes.Contains(text, []byte("hush")) {
		t.Error("a Secret is written")
	}
	got, err := kept.Decode(registry, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	got.Shards = got.Shards[:len(got.Shards)-1] // the Secret's, empty
	if diff := cmp.Diff(cluster(), got, cmpopts.EquateComparable(mesh.MachineRef{})); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
}

// signed is rows with a head that has their sum, as somebody writes it who knows how.
func signed(rows string) []byte {
	sum := sha256.Sum256([]byte(rows))
	const text = `{"Version":2,"Registry":%q,"AsOf":"2030-01-02T03:04:05Z","Sum":%q}` + "\n%s"
	return fmt.Appendf(nil, text, registry, hex.EncodeToString(sum[:]), rows)
}

// Content that Encode did not write is an error that says why, whatever it is.
func TestBroken(t *testing.T) {
	const ofWest = `[{"Slices":[{"Key":{"Service":{"Registry":"Kubernetes/west"}},`
	good := encode(t, cluster())
	if _, err := kept.Decode("Kubernetes/east", good, nil); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("another cluster's: %v", err)
	}
	for name, text := range map[string][]byte{
		"empty":                  nil,
		"no head":                []byte("[]"),
		"half":                   good[:len(good)/2],
		"one byte":               bytes.Replace(good, []byte("10.4.0.1"), []byte("10.4.0.2"), 1),
		"another version":        bytes.Replace(good, []byte(`"Version":2`), []byte(`"Version":1`), 1),
		"no JSON":                signed("{"),
		"a null":                 signed(`[{"Services":[null]}]`),
		"a null slice":           signed(`[{"Slices":[null]}]`),
		"an object":              signed(`[{"Objects":[{}]}]`),
		"another registry's":     signed(`[{"Workloads":[{"Key":{"Registry":"Kubernetes/east"}}]}]`),
		"another's workload":     signed(ofWest + `"Endpoints":[{"Workload":{"Registry":"x"}}]}]}]`),
		"on another's machine":   signed(ofWest + `"Endpoints":[{"ID":"a","Machine":"Kubernetes/east/n1"}]}]}]`),
		"run by another's":       signed(`[{"Workloads":[{"Key":{"Registry":"Kubernetes/west"},"Machine":"n1"}]}]`),
		"no workload":            signed(`[{"Workloads":[null]}]`),
		"an unknown protocol":    signed(`[{"Services":[{"Key":{"Registry":"Kubernetes/west"},"Ports":[{"Protocol":99}]}]}]`),
		"an unknown resolution":  signed(`[{"Services":[{"Key":{"Registry":"Kubernetes/west"},"Resolution":9}]}]`),
		"an unknown health":      signed(`[{"Workloads":[{"Key":{"Registry":"Kubernetes/west"},"Health":9}]}]`),
		"another's machine":      signed(`[{"Machines":[{"Key":{"Registry":"x"}}]}]`),
		"another's namespace":    signed(`[{"Namespaces":[{"Key":{"Registry":"x"}}]}]`),
		"not UTF-8":              signed("[{\"Key\":{\"Kind\":\"\xff\"}}]"),
		"what it is made of":     signed(`[{"Services":[{"Key":{"Registry":"Kubernetes/west"},"Clusters":[{"Cluster":"east"}]}]}]`),
		"deep":                   signed(strings.Repeat("[", 20_000)),
		"a head without an end":  bytes.Repeat([]byte("x"), 1<<20),
		"two of one endpoint":    signed(ofWest + `"Endpoints":[{"ID":"a"},{"ID":"a"}]}]}]`),
		"another's slice":        signed(`[{"Slices":[{"Key":{"Service":{"Registry":"x"}}}]}]`),
		"an unknown field of it": signed(`[{"Extra":1}]`),
	} {
		if got, err := kept.Decode(registry, text, nil); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

// Encode fails on a cluster that is too large before it has built all of it.
func TestTooLargeIsNotBuilt(t *testing.T) {
	c := cluster()
	one := c.Shards[1].Rows.Slices[0]
	endpoints := make([]mesh.SliceEndpoint, 1000)
	for i := range endpoints {
		endpoints[i] = one.Endpoints[0]
		endpoints[i].ID = fmt.Sprint("endpoint-", i)
	}
	large := &mesh.Slice{Key: one.Key, Endpoints: endpoints}
	for range 4000 {
		c.Shards[1].Rows.Slices = append(c.Shards[1].Rows.Slices, large)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := kept.Encode(c, true)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, kept.ErrLarge) {
		t.Fatalf("a cluster of 4 million endpoints: %v", err)
	}
	// Buffers that grow take some four times what they hold in the end, and each row is built beside it. The race detector
	// empties pools, too. All of it would be gigabytes.
	if took := after.TotalAlloc - before.TotalAlloc; took > 16*kept.MaxBytes {
		t.Errorf("%d MiB were built of it", took>>20)
	}
}

// FuzzDecode: no bytes end the program, and all rows that are read are the registry's.
func FuzzDecode(f *testing.F) {
	_, rows, _ := bytes.Cut(encode(f, cluster()), []byte{'\n'})
	f.Add(string(rows))
	f.Add(`[{"Services":[null]}]`)
	f.Add(`[{"Objects":[{"Key":{"Kind":"Gateway"},"Text":"kind: Gateway"}]}]`)
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, rows string) {
		c, err := kept.Decode(registry, signed(rows), decoder)
		if err != nil {
			return
		}
		for _, s := range c.Shards {
			for _, v := range s.Rows.Services {
				_ = v.String()
			}
			for _, v := range s.Rows.Slices {
				_ = v.String()
			}
		}
		if _, err := kept.Decode(registry, encode(t, c), decoder); err != nil {
			t.Fatalf("what was read cannot be written and read: %v", err)
		}
	})
}
