package app

import (
	"fmt"
	"net/http"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/app/injection"
	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/inject"
	"fairway/internal/table"
	"fairway/internal/webhook"
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
	}
	return webhook.New(o), nil
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
