package live

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"fairway/build/envoybin"
	"fairway/internal/config"
	"fairway/test/rig"
)

// Ports that every mesh has to itself, since its addresses are its own.
const (
	HTTPPort  = 8000  // where clients send HTTP through the sidecar made by Client
	OtherPort = 8001  // a second HTTP port of it
	Backing   = 8080  // where backends serve
	adminPort = 15000 // Envoys' administration, each on an address of its own
)

// Options of a mesh. The zero value is useful.
type Options struct {
	// Folder has the control plane read a real folder instead of memory; Mesh.Folder names it.
	Folder bool
	// Grace is how long a rule waits for the objects that it refers to; 0: the program's default.
	Grace time.Duration
	// MeshConfig is the mesh configuration as YAML; empty: the defaults.
	MeshConfig string
	// Networks are the mesh's networks as YAML (MeshNetworks); ${ip:NAME} is an address of the mesh. Empty: there are none.
	Networks string
	// MayRefuse says that proxies may refuse a resource: the test is about that.
	MayRefuse bool
}

// Mesh is a control plane with its rules, and the addresses that belong to it.
type Mesh struct {
	Plane  *Plane
	Folder string // of rules, where Options.Folder asked for one

	block   *block
	decoder *config.Decoder
	dir     string // for what Envoys read and write
	envoy   string

	mu      sync.Mutex // guards proxies
	proxies []*Envoy
}

// Start starts a mesh without proxies and stops it when the test ends. It skips the test where there is no Envoy, and with -short.
func Start(t testing.TB, o Options) *Mesh {
	t.Helper()
	binary := NeedEnvoy(t)
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &Mesh{block: newBlock(t), decoder: decoder, dir: t.TempDir(), envoy: binary}
	if o.Folder {
		m.Folder = t.TempDir()
	}
	m.Plane = startPlane(t, m, o)
	return m
}

// NeedEnvoy returns the Envoy to run, or skips the test.
func NeedEnvoy(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("live traffic takes an Envoy and more than seconds: not with -short")
	}
	binary, err := envoybin.Find()
	if err != nil {
		t.Skip(err)
	}
	return binary
}

// IP is the address of a name in this mesh; the first call makes it.
func (m *Mesh) IP(name string) string { return m.block.ip(name) }

// Addr is a port of a named address.
func (m *Mesh) Addr(name string, port int) string {
	return net.JoinHostPort(m.IP(name), strconv.Itoa(port))
}

// Settle waits until all that was set so far is in force in every connected proxy.
func (m *Mesh) Settle(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	defer cancel()
	if err := m.Plane.discovery.Settled(ctx); err != nil {
		t.Fatalf("not in force after %s: %v\n%s%s", rig.Bound, err, m.describe(), m.Logs())
	}
}

// Logs is the end of what the mesh's Envoys wrote, for a failed test.
func (m *Mesh) Logs() string {
	out := ""
	for _, e := range m.proxies {
		text, err := os.ReadFile(e.logFile)
		if err != nil {
			continue
		}
		out += "--- " + e.Name + "\n" + string(text[max(0, len(text)-4000):])
	}
	return out
}
