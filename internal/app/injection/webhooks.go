package injection

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/identity/safefile"
	"fairway/internal/inject"
	"fairway/internal/table"
	"fairway/internal/webhook"
	"fairway/internal/webhook/place"
)

// Graph finds objects in the tables.
type Graph interface {
	// ProxyConfigs returns the ProxyConfigs for pods with these labels, from the widest to the narrowest.
	ProxyConfigs(tx *table.Tx, namespace string, labels map[string]string) (wide, own []*meshconfig.ProxyConfig)
	Object(tx *table.Tx, k config.Key) *config.Object
}

// Webhooks are the options of the handlers for API servers.
type Webhooks struct {
	Options
	Injects bool   // pods are injected; otherwise objects are validated alone
	KeyFile string // with keys that API servers show, one a line; empty: none
	// Known reports whether a key is one of the own cluster's webhook configurations; nil: no cluster is read.
	Known func(key string) (bool, error)
	// Ready returns an error until every source has been read. Before that the mesh configuration is not known, and a pod that is
	// injected with another one would keep it.
	Ready func() error
	Graph Graph
	Store *table.Store
	// ProxyConfigs are the ProxyConfig resources.
	ProxyConfigs *input.Objects
	LastTurn     func() uint64
	Decoder      *config.Decoder
	Registry     prometheus.Registerer
}

// Handlers makes the handlers for API servers.
func (w Webhooks) Handlers() (*webhook.Handlers, error) {
	o := webhook.Options{LastTurn: w.LastTurn, Decoder: w.Decoder, Registry: w.Registry, Log: w.Log}
	if !w.Injects {
		return webhook.New(o), nil
	}
	current, err := New(w.Options)
	if err != nil {
		return nil, fmt.Errorf("--injectConfigFolder: %w", err)
	}
	o.Injector = func() (*inject.Injector, error) { return w.injector(current) }
	o.ProxyConfigs = func(namespace string, labels map[string]string) (wide, own []*meshconfig.ProxyConfig) {
		w.Store.Read(func(tx *table.Tx) { wide, own = w.Graph.ProxyConfigs(tx, namespace, labels) })
		return wide, own
	}
	o.Configured = func() (some bool) {
		w.Store.Read(func(tx *table.Tx) { some = table.Len(tx, w.ProxyConfigs) > 0 })
		return some
	}
	keys, err := injectKeys(w.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--injectKeyFile: %w", err)
	}
	o.Keyed = func() bool { return len(keys) > 0 || w.Known != nil } // keys of the own cluster are written by us
	o.Known = func(key string) (bool, error) {
		if keys.has(key) {
			return true, nil
		}
		if w.Known == nil {
			return false, nil
		}
		return w.Known(key)
	}
	return webhook.New(o), nil
}

// injector returns the one in force.
func (w Webhooks) injector(current *Current) (*inject.Injector, error) {
	if err := w.Ready(); err != nil {
		return nil, err
	}
	var mesh *config.Object
	w.Store.Read(func(tx *table.Tx) { mesh = w.Graph.Object(tx, config.Key{Kind: config.MeshConfig}) })
	return current.Injector(mesh)
}

// WithHooks adds the pages for API servers to other pages. API servers are not authenticated, so every caller is answered.
func WithHooks(hooks *webhook.Handlers, pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	hooks.Register(mux)
	mux.Handle("/", pages)
	return mux
}

// keyring has the keys that API servers of other clusters show.
type keyring []string

// injectKeys reads a file with one key a line; without a name there are none.
func injectKeys(file string) (out keyring, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := safefile.Read(file, 64<<10)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		key := strings.TrimSpace(line)
		if key == "" {
			continue
		}
		if !place.IsKey(key) {
			return nil, fmt.Errorf("%s: a key has 20 to 64 lower-case letters and digits, one key a line", file)
		}
		out = append(out, key)
	}
	return out, nil
}

// has reports whether a key is one of them, in the same time whichever it is.
func (k keyring) has(key string) bool {
	known := 0
	for _, one := range k {
		known |= subtle.ConstantTimeCompare([]byte(one), []byte(key))
	}
	return known == 1
}
