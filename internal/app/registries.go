package app

import (
	"fairway/internal/app/lasting"
	"fairway/internal/app/registries"
	"fairway/internal/config"
	"fairway/internal/source/shards"
)

// consulRegistry is the registry that --registries names and --consulserverURL leads to.
const consulRegistry = "Consul"

// flagged are the registries that flags name, beside Kubernetes.
func (o *Options) flagged() []registries.Entry {
	if !containsFold(o.Registries, consulRegistry) {
		return nil
	}
	return []registries.Entry{registries.Consul(o.ConsulURL)}
}

// newRegistries is the source that has the registries' sources come and go, and these.
func newRegistries(opts Options, decoder *config.Decoder, all *shards.Set) (*registries.Registries, *lasting.Sources) {
	sources := lasting.New(all, lasting.Files{Dir: opts.ClusterDir, Suffix: ".registry.json", Rules: decoder}, opts.Log)
	return registries.New(registries.Options{
		File: opts.RegistriesFile, Flags: opts.flagged(), Sources: sources, Log: opts.Log,
		Defaults: registries.Defaults{Wait: opts.ClusterWait, Expiry: opts.ClusterTTL},
		Env:      registries.Env{Decoder: decoder, Domain: opts.Domain, Log: opts.Log},
	}), sources
}
