package xdstest

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// The fleet of the benchmarks: a sidecar's resources in a mesh with 1,000 services; a fifth of these have two subsets.
const (
	MeshClusters  = 1400
	MeshHosts     = 1000
	MeshResources = 2*MeshClusters + MeshHosts + 1
)

// MeshCluster is the name of a cluster of the mesh.
func MeshCluster(i int) string {
	return fmt.Sprintf("outbound|80||svc-%04d.default.svc.cluster.local", i)
}

// Mesh is the whole mesh, with bodies of the sizes that Envoy's messages have.
func Mesh() []library.Change {
	body := func(n int, i int) []byte { return append(make([]byte, n), fmt.Sprint(i)...) }
	out := make([]library.Change, 0, MeshResources+1)
	add := func(r *library.Resource) {
		out = append(out, library.Change{Shelf: "all", Type: r.Type(), Name: r.Name, Resource: r})
	}
	for i := range MeshClusters {
		name := MeshCluster(i)
		add(library.NewResource(xdstype.ClusterURL, name, uint64(i)+1, body(500, i), library.ResourceOptions{Load: name}))
		add(library.NewResource(xdstype.EndpointURL, name, uint64(i)+1, body(450, i), library.ResourceOptions{}))
	}
	part := &library.Part{MemberType: xdstype.VirtualHostURL, MemberPrefix: "80/", Field: 2}
	add(library.NewResource(xdstype.RouteURL, "80", 1, body(200, 0), library.ResourceOptions{StateForm: part}))
	add(library.NewResource(xdstype.ListenerURL, "0.0.0.0_80", 1, body(900, 0), library.ResourceOptions{}))
	for i := range MeshHosts {
		add(MeshHost(i, 1))
	}
	return out
}

// MeshHost is one of its virtual hosts.
func MeshHost(i int, version uint64) *library.Resource {
	return library.NewResource(xdstype.VirtualHostURL, fmt.Sprintf("80/svc-%04d.default.svc.cluster.local:80", i), version,
		append(make([]byte, 350), fmt.Sprint(version)...), library.ResourceOptions{Needs: []string{MeshCluster(i)}})
}

// ManyNames is how many names one stream may subscribe to by name.
const ManyNames = 100_000

// Numbered returns n names that differ by their number.
func Numbered(format string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

// CPU returns the CPU time of this process so far.
func CPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// LiveHeap returns the bytes of reachable memory.
func LiveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
