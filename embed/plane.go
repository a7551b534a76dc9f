package embed

import (
	"context"
	"log/slog"
	"time"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/memory"
)

// Options are those of a [ControlPlane]. Without an address nothing is served there.
type Options struct {
	// GRPCAddr is where proxies are served xDS in plaintext, and what they say of themselves is believed; bind it to 127.0.0.1.
	GRPCAddr string
	// SecureGRPCAddr is where proxies are served xDS and certificates over TLS, and prove who they are.
	SecureGRPCAddr string
	// HTTPAddr is where readiness, metrics and debug pages are served, those of details to this machine alone.
	HTTPAddr string
	// StateDir is the folder that keeps the certificate authority's root, and join tokens; empty: memory, so that a restart
	// makes another root.
	StateDir string

	// Registries are filled by the program. A registry belongs to one control plane.
	Registries []*Registry
	// ConfigDir is a folder of rules that are read too, and followed; empty: none.
	ConfigDir string
	// Kubeconfig is the file that says how a Kubernetes cluster is reached whose Services and rules are read too; empty: none.
	Kubeconfig string

	// MeshConfig is the mesh configuration (istio.mesh.v1alpha1.MeshConfig) as YAML or JSON; empty: its defaults.
	MeshConfig string
	// Domain is the DNS suffix of short names; empty: "cluster.local".
	Domain string
	// RootNamespace is that of rules for the whole mesh; empty: "istio-system".
	RootNamespace string
	// ShutdownWindow is the time over which proxies are moved elsewhere when Run ends; 0: 10 seconds, negative: none.
	ShutdownWindow time.Duration
	// Log gets what happens; nil: nobody does.
	Log *slog.Logger
}

// ControlPlane is a Fairway control plane. Make it with [New] and run it once.
type ControlPlane struct{ inner *app.Discovery }

// New returns a control plane that listens but does not serve yet; Run has to be called, which closes what it listens on.
// An option that is wrong, or an address that is taken, is an error that names it.
func New(o Options) (*ControlPlane, error) {
	opts := app.DefaultOptions()
	opts.GRPCAddr, opts.SecureAddr, opts.HTTPAddr, opts.HTTPSAddr, opts.MonitorAddr = o.GRPCAddr, o.SecureGRPCAddr, o.HTTPAddr, "", ""
	opts.ConfigDir, opts.Kubeconfig = o.ConfigDir, o.Kubeconfig
	opts.MeshConfig, opts.Networks = "", ""
	if o.Kubeconfig == "" {
		opts.Registries = []string{"Memory"} // inside of a cluster too
	}
	if o.Domain != "" {
		opts.Domain = o.Domain
	}
	if o.RootNamespace != "" {
		opts.Namespace = o.RootNamespace
	}
	if o.Log != nil {
		opts.Log = o.Log
	}
	opts.Identity.CA.State = o.StateDir
	if opts.Shutdown = max(o.ShutdownWindow, 0); o.ShutdownWindow == 0 {
		opts.Shutdown = app.DefaultOptions().Shutdown
	}
	var sources []source.Source
	for _, r := range o.Registries {
		sources = append(sources, r.source)
	}
	if o.MeshConfig != "" {
		mesh, err := meshConfig(o.MeshConfig)
		if err != nil {
			return nil, err
		}
		sources = append(sources, mesh)
	}
	d, err := app.NewDiscovery(opts, sources...)
	if err != nil {
		return nil, err
	}
	return &ControlPlane{d}, nil
}

// meshConfig is a source that has a mesh configuration.
func meshConfig(text string) (source.Source, error) {
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		return nil, err
	}
	out := memory.New("MeshConfig")
	for _, doc := range config.Split("MeshConfig", []byte(text)) {
		object, found := decoder.DecodeMeshConfig(doc)
		if object == nil {
			return nil, &Refused{"MeshConfig is refused", problems(found)}
		}
		out.Set(object)
		out.Apply(source.Update{Problems: map[string][]mesh.Problem{"MeshConfig": found}})
	}
	return out, nil
}

// Run serves until ctx ends, then moves proxies elsewhere over ShutdownWindow. It returns once all that it started has
// ended: nil, or what failed.
func (c *ControlPlane) Run(ctx context.Context) error { return c.inner.Run(ctx) }

// Ready says why proxies are not served yet; nil once they are: when all registries, files and clusters have been read.
func (c *ControlPlane) Ready() error { return c.inner.Ready() }

// Synced is closed once Ready is nil.
func (c *ControlPlane) Synced() <-chan struct{} { return c.inner.Synced() }

// Settled waits until all that was put before is in force, and acknowledged by every connected proxy; or until ctx ends,
// which is its error. Run has to run.
func (c *ControlPlane) Settled(ctx context.Context) error { return c.inner.Settled(ctx) }

// Problems lists what does not do what it says, of rules and of registries, the worst first.
func (c *ControlPlane) Problems() []Problem { return problems(c.inner.Problems()) }

// GRPCAddr is where xDS is served in plaintext, with the port that was chosen where the option has port 0; empty: nowhere.
func (c *ControlPlane) GRPCAddr() string { return c.inner.GRPCAddr() }

// SecureGRPCAddr is where xDS and certificates are served over TLS; empty: nowhere.
func (c *ControlPlane) SecureGRPCAddr() string { return c.inner.SecureAddr() }

// HTTPAddr is where pages are served; empty: nowhere.
func (c *ControlPlane) HTTPAddr() string { return c.inner.HTTPAddr() }

func problems(list []mesh.Problem) []Problem {
	out := make([]Problem, len(list))
	for i, p := range list {
		out[i] = Problem{p.Severity.String(), p.Code, p.Object.String(), p.Field, p.Message, p.Fix}
	}
	return out
}
