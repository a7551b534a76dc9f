package xds

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// The fleet of the benchmarks: what a sidecar of a mesh with 1,000 services sees, a fifth of which have two subsets.
const (
	benchClusters = 1400
	benchHosts    = 1000
	benchHeld     = 2*benchClusters + benchHosts + 1
)

func benchName(i int) string {
	return fmt.Sprintf("outbound|80||svc-%04d.default.svc.cluster.local", i)
}

// benchMesh is the whole mesh, with bodies of the sizes that Envoy's messages have.
func benchMesh() []Change {
	body := func(n int, i int) []byte { return append(make([]byte, n), fmt.Sprint(i)...) }
	out := make([]Change, 0, benchHeld+1)
	add := func(r *Resource) {
		out = append(out, Change{Shelf: "all", Type: r.Type(), Name: r.Name, Resource: r})
	}
	for i := range benchClusters {
		name := benchName(i)
		add(NewResource(ClusterType, name, uint64(i)+1, body(500, i), ResourceOptions{Load: name}))
		add(NewResource(EndpointType, name, uint64(i)+1, body(450, i), ResourceOptions{}))
	}
	part := &Part{MemberType: VirtualHostType, MemberPrefix: "80/", Field: 2}
	add(NewResource(RouteType, "80", 1, body(200, 0), ResourceOptions{Bare: part}))
	add(NewResource(ListenerType, "0.0.0.0_80", 1, body(900, 0), ResourceOptions{}))
	for i := range benchHosts {
		add(benchHost(i, 1))
	}
	return out
}

func benchHost(i int, version uint64) *Resource {
	return NewResource(VirtualHostType, fmt.Sprintf("80/svc-%04d.default.svc.cluster.local:80", i), version,
		append(make([]byte, 350), fmt.Sprint(version)...), ResourceOptions{Needs: []string{benchName(i)}})
}

// benchNames is what one stream may subscribe to by name.
const benchNames = 100_000

func numbered(format string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

// cpu returns what this process has used so far.
func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
