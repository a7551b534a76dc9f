package histories

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/internal/app"
	"fairway/internal/config"
)

// TestRegistries: the same histories, with registries beside the folder: real servers of Consul, Eureka, ZooKeeper and etcd, a stand-in for
// Nomad's, sources of MCP, one of which connects itself, another control plane, and the HTTP API. The instances there change, several
// registries have the same hosts, and rules are in etcd and in other control planes. Registries are added and removed, and servers are
// killed and come back with their data or empty, also while the control plane starts.
func TestRegistries(t *testing.T) {
	shared := newPlanes(t)
	w := newPlatforms(t, shared.decoder)
	hunt(t, hunting{usual: 25, servers: true, patience: time.Minute}, func(t *testing.T, seed uint64) (*player, error) {
		if err := w.reset(t); err != nil {
			return nil, err
		}
		p := *shared
		p.folder, p.linger, p.grace = w.folder, time.Hour, 0
		if seed%2 == 0 {
			p.grace = 5 * time.Millisecond
		}
		lives, others := p, p
		lives.adjust = func(o *app.Options) {
			o.RegistriesFile, o.ClusterDir, o.ClusterWait = w.registriesFile(), w.stateDir(), 300*time.Millisecond
		}
		return &player{
			world: w, clients: map[string]*client{}, said: map[string]saying{}, keeps: true,
			start: func(ctx context.Context) (control, error) { return w.pushed(lives).start(ctx) },
			anew:  func(ctx context.Context) (control, error) { return w.anew(ctx, others) },
		}, nil
	})
}

// TestRegistriesPrograms: the same with pilot-discovery as users run it: it is killed at each end, while registries change and are away,
// and begins with its state on disk.
func TestRegistriesPrograms(t *testing.T) {
	shared := newPlanes(t)
	w := newPlatforms(t, shared.decoder)
	path := discovery.Path(t)
	fit := func(s script) script { return killing(quietly(s)) }
	hunt(t, hunting{usual: 6, servers: true, fit: fit, patience: time.Minute}, func(t *testing.T, _ uint64) (*player, error) {
		if err := w.reset(t); err != nil {
			return nil, err
		}
		p := *shared
		p.folder, p.linger, p.grace = w.folder, time.Hour, 5*time.Millisecond
		lives, others := p, p
		lives.words = []string{"--clusterStateDir", w.stateDir()}
		lives.variables = []string{"PILOT_REMOTE_CLUSTER_TIMEOUT=300ms"}
		return &player{
			world: w, clients: map[string]*client{}, said: map[string]saying{},
			start: func(ctx context.Context) (control, error) { return w.pushed(lives).launch(ctx, path) },
			anew:  func(ctx context.Context) (control, error) { return w.anew(ctx, others) },
		}, nil
	})
}

// registries are the names that the registries file may have, of services and of rules.
var registries = []string{"consul", "nomad", "eureka", "zookeeper", "memory", "etcd", "mcp", "xds"}

// stores are the places for objects beside files.
var stores = []string{"etcd", "mcp", "xds", "pushed"}

// instance is what serves a service, as a registry knows it.
type instance struct {
	In      string `json:"in"` // which registry
	Service string `json:"service"`
	ID      string `json:"id"`
	Gone    bool   `json:"gone,omitempty"`
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"`
	Version string `json:"version,omitempty"` // a label
	Health  string `json:"health,omitempty"`  // empty: it is well
	Weight  int    `json:"weight,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Word    string `json:"word,omitempty"` // how it speaks
}

// platforms draws what happens in registries during a step.
func (w *writer) platforms(out step) step {
	if w.often(7) {
		for range 1 + w.IntN(4) {
			out = append(out, action{Instance: w.instance()})
		}
	}
	if w.often(1) {
		names := some(w.draw, registries...)
		if w.often(5) {
			names = registries
		}
		text := strings.Join(names, ",")
		out = append(out, action{Registries: &text})
	}
	restart := slices.ContainsFunc(out, func(a action) bool { return a.Restart })
	if w.often(1) || restart && w.often(7) {
		who := pick(w.draw, "consul", "nomad", "zookeeper", "etcd", "mcp", "xds", "pushed")
		how := pick(w.draw, killed, killed, emptied)
		switch {
		case restart:
			how = pick(w.draw, killed, away, away)
		case w.IntN(20) == 0: // it takes long to start
			who = "eureka"
		}
		out = append(step{{Outage: who + " " + how}}, out...)
	}
	return out
}

// The outages of a registry's server, beside those of an API server: it comes back empty and all instances register again, or it is away
// while the control plane starts.
const (
	emptied = "emptied"
	away    = "away"
)

func (w *writer) instance() *instance {
	out := &instance{
		In:      pick(w.draw, "consul", "nomad", "eureka", "zookeeper", "memory"),
		Service: pick(w.draw, "a", "a", "b", "c"), ID: pick(w.draw, "i1", "i2", "i3"),
	}
	if out.Gone = w.often(3); out.Gone {
		return out
	}
	out.Address, out.Port = pick(w.draw, workloads[:3]...), pick(w.draw, 80, 8080, 8080, 9090)
	out.Version, out.Zone = pick(w.draw, "", "v1", "v2"), pick(w.draw, "", "z1", "z2")
	out.Health, out.Weight = pick(w.draw, "", "", "", "unhealthy", "draining"), pick(w.draw, 0, 0, 3)
	out.Word = pick(w.draw, "", "", "http", "grpc", "tcp")
	return out
}

// house gives an object a place that is possible for its kind.
func (w *writer) house(d *document) {
	d.File = pick(w.draw, w.places...)
	kind := config.Kind(strings.SplitN(d.Key, "/", 2)[0])
	own := slices.ContainsFunc(config.APIs(), func(a config.API) bool { return a.Kind == kind })
	if !own && slices.Contains(stores, d.File) {
		d.File = files[0]
	}
}
