package endpoint_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
)

var (
	zoneA = mesh.Locality{Region: "r", Zone: "a"}
	zoneB = mesh.Locality{Region: "r", Zone: "b", SubZone: "s"}
)

func ends() []mesh.Endpoint {
	return []mesh.Endpoint{
		{Address: "10.0.0.3", Locality: zoneB, Weight: 5, Also: mesh.MakeOthers("fd00::3", "unix:///run/y.sock", "a name")},
		{Address: "10.0.0.1", Locality: zoneA, Health: mesh.Unhealthy, Labels: "app=reviews,version=v1"},
		{Address: "fd00::1", Locality: zoneB, Ports: "http=9090,other=1", Health: mesh.Draining, Network: "vm"},
		{Address: "unix:///run/x.sock"},
		{Address: "reviews.example.com", Locality: zoneA},
		{Address: "10.0.0.2", Locality: zoneA, Weight: 2, Labels: "app=x,app.kubernetes.io/name=y,service.istio.io/canonical-name=reviews"},
	}
}

// TestBuild reads the assignment off as one line an endpoint.
func TestBuild(t *testing.T) {
	load := endpoint.Load{Cluster: "c", Port: mesh.Port{Name: "http", Number: 80, Target: 8080}, Endpoints: ends()}
	want := []string{
		"/ weight 1: unix:///run/x.sock HEALTHY 0 ",
		"r/a weight 3: 10.0.0.1:8080 UNHEALTHY 0 workload=;;reviews;v1;",
		"r/a weight 3: 10.0.0.2:8080 HEALTHY 2 workload=;;reviews;;",
		"r/b/s weight 6: 10.0.0.3:8080|fd00::3:8080 HEALTHY 5 ",
		"r/b/s weight 6: fd00::1:9090 DRAINING 0 network=vm",
	}
	if diff := cmp.Diff(want, lines(load)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	load.Form, load.Endpoints = endpoint.Named, ends()
	got := strings.Join(lines(load), "\n")
	if !strings.Contains(got, "reviews.example.com:8080") || strings.Contains(got, "unix") || strings.Contains(got, "|") {
		t.Errorf("names: %s", got)
	}
}

func lines(l endpoint.Load) []string {
	var out []string
	for _, locality := range l.Build().Endpoints {
		place := mesh.Locality{
			Region:  locality.GetLocality().GetRegion(),
			Zone:    locality.GetLocality().GetZone(),
			SubZone: locality.GetLocality().GetSubZone(),
		}.String()
		if place == "" {
			place = "/"
		}
		for _, e := range locality.LbEndpoints {
			address := "unix://" + e.GetEndpoint().Address.GetPipe().GetPath()
			if s := e.GetEndpoint().Address.GetSocketAddress(); s != nil {
				address = fmt.Sprintf("%s:%d", s.Address, s.GetPortValue())
			}
			for _, also := range e.GetEndpoint().AdditionalAddresses {
				s := also.GetAddress().GetSocketAddress()
				address += fmt.Sprintf("|%s:%d", s.GetAddress(), s.GetPortValue())
			}
			meta := ""
			for k, v := range e.GetMetadata().GetFilterMetadata()["istio"].GetFields() {
				meta = k + "=" + v.GetStringValue()
			}
			out = append(
				out,
				fmt.Sprintf("%s weight %d: %s %s %d %s", place, locality.LoadBalancingWeight.Value, address, e.HealthStatus,
					e.LoadBalancingWeight.GetValue(), meta),
			)
		}
	}
	return out
}

func TestBuildIsTheSameInAnyOrder(t *testing.T) {
	build := func(e []mesh.Endpoint) *envoy.Encoded {
		return envoy.Encode(endpoint.Load{Cluster: "c", Port: mesh.Port{Number: 80}, Endpoints: e}.Build())
	}
	want := build(ends())
	if want.Err != nil {
		t.Fatal(want.Err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		mixed := ends()
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if got := build(mixed); !envoy.Same(got, want) {
			t.Fatalf("order changed the bytes: %v", mixed)
		}
	}
}

func TestWeightsFitTogether(t *testing.T) {
	heavy := []mesh.Endpoint{
		{
			Address:  "10.0.0.1",
			Locality: zoneA,
			Weight:   math.MaxUint32,
		},
		{Address: "10.0.0.2", Locality: zoneB, Weight: math.MaxUint32 / 2},
		{Address: "10.0.0.3", Weight: 1},
	}
	var sum uint64
	assignment := endpoint.Load{Cluster: "c", Endpoints: heavy, Port: mesh.Port{Number: 1}}.Build()
	for _, l := range assignment.Endpoints {
		sum += uint64(l.LoadBalancingWeight.Value)
	}
	if sum > math.MaxUint32 || sum < math.MaxUint32/4 {
		t.Errorf("weights sum up to %d", sum)
	}
	if err := assignment.ValidateAll(); err != nil {
		t.Error(err)
	}
}

func TestNoEndpoints(t *testing.T) {
	got := endpoint.Load{Cluster: "c"}.Build()
	if got.ClusterName != "c" || len(got.Endpoints) != 0 || got.ValidateAll() != nil {
		t.Errorf("got %v", got)
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{5, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			var size int
			for b.Loop() {
				list := make([]mesh.Endpoint, n)
				for i := range list {
					list[i] = mesh.Endpoint{
						Address:  fmt.Sprintf("10.0.%d.%d", i/256, i%256),
						Labels:   "app=reviews,version=v1",
						Locality: zoneA,
					}
				}
				size = proto.Size(
					endpoint.Load{
						Cluster:   "outbound|80||reviews.default.svc.cluster.local",
						Port:      mesh.Port{Number: 80},
						Endpoints: list,
					}.Build(),
				)
			}
			b.ReportMetric(float64(size)/float64(n), "bytes/endpoint")
		})
	}
}
