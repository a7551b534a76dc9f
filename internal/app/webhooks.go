package app

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/app/injection"
	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
	"fairway/internal/inject"
	"fairway/internal/table"
	"fairway/internal/webhook"
	"fairway/internal/webhook/place"
)

// webhooks makes what answers API servers on the address of the pages with TLS.
func (d *Discovery) webhooks(decoder *config.Decoder) (*webhook.Handlers, error) {
	o := webhook.Options{Decoder: decoder, Registry: d.metrics.Registry, Log: d.log}
	if d.opts.Injects {
		current, err := injection.New(injection.Options{
			Folder: d.opts.InjectFolder,
			Settings: inject.Settings{
				Revision: d.opts.Revision, System: d.opts.Namespace, Cluster: d.opts.ClusterID, Domain: d.opts.Domain,
			},
			Files: disk.OS,
			Log:   d.log,
		})
		if err != nil {
			return nil, fmt.Errorf("--injectConfigFolder: %w", err)
		}
		o.Injector = func() (*inject.Injector, error) { return d.injector(current) }
		o.ProxyConfigs = func(namespace string, labels map[string]string) (wide, own []*meshconfig.ProxyConfig) {
			d.graph.Store.Read(func(tx *table.Tx) { wide, own = d.graph.ProxyConfigs(tx, namespace, labels) })
			return wide, own
		}
		o.Configured = func() (some bool) {
			d.graph.Store.Read(func(tx *table.Tx) { some = table.Len(tx, d.graph.In.ProxyConfigs) > 0 })
			return some
		}
		keys, err := injectKeys(d.opts.InjectKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--injectKeyFile: %w", err)
		}
		o.Keyed = func() bool { return len(keys) > 0 || d.writes != nil } // of its cluster's configurations it writes the keys itself
		o.Known = func(key string) (bool, error) {
			if keys.has(key) {
				return true, nil
			}
			if d.writes == nil {
				return false, nil
			}
			return d.writes.Known(key)
		}
	}
	return webhook.New(o), nil
}

// keyring is the keys that API servers show for which no configuration of the own cluster has one.
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

// injector is the one that is in force. Until every source has been read nobody knows the mesh configuration, and a pod
// that was injected by another one would keep what it says.
func (d *Discovery) injector(current *injection.Current) (*inject.Injector, error) {
	if err := d.Ready(); err != nil {
		return nil, err
	}
	var mesh *config.Object
	d.graph.Store.Read(func(tx *table.Tx) { mesh = d.graph.Object(tx, config.Key{Kind: config.MeshConfig}) })
	return current.Injector(mesh)
}

// withWebhooks adds the pages that API servers ask. These show who they are to nobody, so everybody is answered.
func (d *Discovery) withWebhooks(pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	d.hooks.Register(mux)
	mux.Handle("/", pages)
	return mux
}
