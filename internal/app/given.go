package app

import (
	"time"

	"k8s.io/client-go/rest"

	"fairway"
	"fairway/internal/admin"
	"fairway/internal/app/clusters"
	"fairway/internal/app/configsources"
	"fairway/internal/app/injection"
	"fairway/internal/app/lasting"
	"fairway/internal/app/listen"
	"fairway/internal/app/lookup"
	"fairway/internal/app/proof"
	"fairway/internal/app/reader"
	"fairway/internal/app/registries"
	"fairway/internal/app/secure"
	"fairway/internal/app/serving"
	"fairway/internal/app/session"
	"fairway/internal/app/standing"
	"fairway/internal/app/wanted"
	"fairway/internal/app/writeback"
	"fairway/internal/compile"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/door"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/envoy/extension"
	"fairway/internal/identity/review"
	"fairway/internal/inject"
	"fairway/internal/jwks/fetch"
	"fairway/internal/quota"
	"fairway/internal/source"
	"fairway/internal/source/file"
	"fairway/internal/source/kube"
	"fairway/internal/source/shards"
	"fairway/internal/table"
	"fairway/internal/writes"
	"fairway/internal/xds"
)

// given is what parts are made of besides other parts. A mistake in the options or in the files that they name shows when it is made.
type given struct {
	began   time.Time
	opts    Options
	decoder *config.Decoder
	reach   *rest.Config // how to reach the own cluster; nil: none is read
	metrics *admin.Metrics
	files   source.Source
	tags    *kube.Tags       // of the own cluster, for the revision
	tokens  *review.Clusters // reviews tokens of pods; nil: none are shown
	secure  *secure.Server   // the address with TLS; nil: there is none
}

// give makes it. The address with TLS is opened last.
func give(opts Options) (g given, err error) {
	g = given{began: time.Now(), opts: opts, metrics: admin.NewMetrics(fairway.Version), tags: new(kube.Tags)}
	if g.decoder, err = config.NewDecoder(config.Options{}); err != nil {
		return g, err
	}
	if containsFold(opts.Registries, kubernetes) {
		if g.reach, err = clusters.Connect(opts.Kubeconfig); err != nil {
			return g, err
		}
	}
	if err := checkFiles(opts, g.decoder); err != nil {
		return g, err
	}
	o := file.Options{
		MeshConfig: opts.MeshConfig, MeshNetworks: opts.Networks, Decoder: g.decoder, Log: opts.Log, Unreadable: g.metrics.Unreadable,
	}
	if opts.ConfigDir != "" {
		o.Dirs = []string{opts.ConfigDir}
	}
	if g.files, err = file.New(o); err != nil {
		return g, err
	}
	serving.WarnOfPlaintext(opts.GRPCAddr, opts.Log)
	if opts.SecureAddr == "" {
		return g, nil
	}
	trust, err := secure.MeshTrust(opts.Identity, opts.MeshConfig, g.decoder)
	if err != nil {
		return g, err
	}
	program := secure.Program{
		Addr: opts.SecureAddr, Namespace: opts.Namespace, Revision: opts.Revision, Trust: trust,
		Registry: g.metrics.Registry, Log: opts.Log,
	}
	if g.reach != nil {
		if g.tokens, err = clusters.Tokens(opts.ClusterID, g.reach, trust, opts.Identity.Audience, opts.Log); err != nil {
			return g, err
		}
		program.Reviewed = g.tokens
	}
	g.secure, err = secure.New(opts.Identity, program)
	return g, err
}

// graph makes the tables.
func (g given) graph() *compile.Graph {
	o := g.opts
	out := compile.New(compile.Options{
		DomainSuffix: o.Domain, RootNamespace: o.Namespace, Cluster: o.ClusterID,
		Keys:     input.Keys{Fetched: true, By: o.KeysBy, Refresh: o.KeysRefresh},
		Resolves: o.ResolveGateways, ScopeGateways: o.ScopeGateways, Variants: o.Variants,
	})
	if o.HealthStart <= 0 {
		out.In.HealthHeard.Set(struct{}{}, true)
	}
	return out
}

// writer makes what writes into the own cluster; nil: there is none.
func (g given) writer(graph *compile.Graph) (*writeback.Writer, error) {
	if g.reach == nil {
		return nil, nil
	}
	pages := g.secure != nil && g.opts.HTTPSAddr != "" // API servers can ask
	o := writes.Options{
		Config: g.reach, Namespace: g.opts.Namespace, Revision: g.opts.Revision, Tagged: g.tags.Has,
		Log: g.opts.Log, Registry: g.metrics.Registry, Grace: g.opts.HealthGrace,
		Signer: g.opts.Signer, Names: secure.ServerNames(g.opts.Namespace, g.opts.Revision), Injects: pages && g.opts.Injects,
	}
	if authority := g.secure.Authority(); authority != nil {
		o.Authority = authority
	}
	if pages && (o.Authority != nil || o.Signer != "") {
		o.Bundle = g.secure.Bundle
	}
	return writeback.New(o, graph)
}

func (g given) door() door.Options {
	return door.Options{Grace: g.opts.Grace, DomainSuffix: g.opts.Domain, Log: g.opts.Log}
}

func (g given) quota() quota.Options {
	return quota.Options{DomainSuffix: g.opts.Domain, RootNamespace: g.opts.Namespace}
}

func (g given) clusters(in incoming) clusters.Options {
	o := g.opts
	return clusters.Options{
		Own: o.ClusterID, Domain: o.Domain, Decoder: g.decoder, Shards: in.shards, Selectors: in.selected, Tokens: g.tokens,
		Dir: o.ClusterDir, Wait: o.ClusterWait, TTL: o.ClusterTTL, MiB: o.ClusterMiB, Log: o.Log,
	}
}

// ownCluster makes the source of the own cluster; nil: there is none.
func (g given) ownCluster(in incoming) (*clusters.Own, error) {
	if g.reach == nil {
		return nil, nil
	}
	o := g.opts
	return clusters.NewOwn(kube.Options{
		Cluster: o.ClusterID, Domain: o.Domain, Namespace: o.Namespace, Config: g.reach, Decoder: g.decoder, Log: o.Log,
		Remotes: in.others.Set, Seen: in.cluster.Seen, Revision: o.Revision, Tags: g.tags,
	}, in.graph, in.selected)
}

// registries makes the source that starts and ends the registries' sources, and these.
func (g given) registries(all *shards.Set) (*registries.Registries, *lasting.Sources) {
	o := g.opts
	sources := lasting.New(all, lasting.Files{Dir: o.ClusterDir, Suffix: ".registry.json", Rules: g.decoder}, o.Log)
	return registries.New(registries.Options{
		File: o.RegistriesFile, Flags: o.flagged(), Sources: sources, Log: o.Log,
		Defaults: registries.Defaults{Wait: o.ClusterWait, Expiry: o.ClusterTTL},
		Env:      registries.Env{Decoder: g.decoder, Domain: o.Domain, Log: o.Log},
	}), sources
}

func (g given) configSources(in incoming) configsources.Options {
	o := g.opts
	return configsources.Options{
		MeshConfig: o.MeshConfig, Namespace: o.Namespace, Plaintext: o.GRPCAddr != "", Dir: o.ClusterDir, Wait: o.ClusterWait,
		Decoder: g.decoder, Shards: in.shards, Secure: g.secure, Pushes: in.pushes, Log: o.Log,
	}
}

func (g given) keys() fetch.Options {
	return fetch.Options{
		Client:  fetch.NewClient(fetch.ClientOptions{Barred: g.opts.KeysBarred, Insecure: g.opts.KeysInsecure}),
		Refresh: g.opts.KeysRefresh, Log: g.opts.Log, Fetched: g.metrics.KeysFetched,
	}
}

// names makes what resolves names of gateways; nil: they are not resolved.
func (g given) names(graph *compile.Graph) *lookup.Resolver {
	if !g.opts.ResolveGateways {
		return nil
	}
	return wanted.NewNames(graph, g.opts.NameServers, g.opts.Log)
}

func (g given) session(cluster *writeback.Writer) session.Options {
	o := session.Options{
		Linger: g.opts.ProxyLinger, Grace: g.opts.HealthGrace, Share: g.opts.ProxyShare, Variants: g.opts.Variants,
	}
	if cluster != nil { // a cluster knows machines too
		o.Machines = cluster
	}
	return o
}

// machines makes what keeps registered machines on disk; nil: a cluster does, or there is no folder.
func (g given) machines(proxies *session.Register) *session.Disk {
	if g.reach != nil {
		return nil
	}
	return session.Keep(g.opts.ClusterDir, proxies, g.opts.Log)
}

func (g given) streams(in incoming) xds.Options {
	o := g.opts
	return xds.Options{
		Arrive:           g.secure.Arrive,
		Certified:        g.secure.Proved,
		Holder:           g.secure.Holder,
		Refused:          in.refused.Stream,
		Panicked:         in.refused.Panicked,
		FirstWait:        o.FirstWait,
		SendTimeout:      o.SendTimeout,
		MaxStreams:       o.MaxStreams,
		StreamsPerSecond: float64(o.NewStreams),
		MaxSubscriptions: o.MaxNames,
		MaxRequestBytes:  o.MaxMessage,
		Meter:            serving.Meter{Metrics: g.metrics},
		Withhold:         proof.Withhold(o.Log),
		Services:         []xds.Service{reader.Source(o.Namespace)},
		Reports: map[string]func(xds.Report){
			session.HealthType:        in.proxies.Healthy,
			bootstrap.PatchReportType: in.proxies.PatchesFail,
			extension.ReportType:      in.proxies.ModulesFail,
		},
	}
}

// admission says which streams are let in: those that prove who they are, once every source has been read, as control planes or as proxies.
func (g given) admission(in incoming, leaving <-chan struct{}) xds.Hooks {
	o := reader.Options{System: g.opts.Namespace, Linger: g.opts.ProxyLinger, Log: g.opts.Log}
	return g.secure.Guard(serving.Patient{
		Hooks: reader.New(o, in.graph.Exported, in.proxies), Synced: in.clock.Synced(), Leaving: leaving,
	})
}

func (g given) connections() serving.Connections {
	o := g.opts
	return serving.Connections{
		IdleAfter: o.IdleAfter, KeepAlive: o.KeepAlive, KeepTimeout: o.KeepTimeout, MaxAge: o.MaxAge, Grace: o.Shutdown,
	}
}

func (g given) webhooks(in incoming) injection.Webhooks {
	o := g.opts
	out := injection.Webhooks{
		Options: injection.Options{
			Folder:   o.InjectFolder,
			Settings: inject.Settings{Revision: o.Revision, System: o.Namespace, Cluster: o.ClusterID, Domain: o.Domain},
			Files:    disk.OS, Log: o.Log,
		},
		Injects: o.Injects, KeyFile: o.InjectKeyFile, Ready: in.clock.Ready,
		Graph: in.graph, Decoder: g.decoder, Registry: g.metrics.Registry,
	}
	if in.cluster != nil {
		out.Known = in.cluster.Known
	}
	return out
}

func (g given) addresses(cluster *writeback.Writer) listen.Addresses {
	o := g.opts
	out := listen.Addresses{GRPC: o.GRPCAddr, HTTP: o.HTTPAddr, HTTPS: o.HTTPSAddr, Monitoring: o.MonitorAddr, Log: o.Log}
	if g.secure == nil {
		return out
	}
	out.TLS = g.secure.TLS()
	if cluster != nil { // the certificate that a signer of Kubernetes made is preferred to the one that agents are shown
		out.TLS.GetCertificate = listen.Preferring(cluster.Own, out.TLS.GetCertificate)
	}
	return out
}

// started counts and logs how long it took until the first complete turn.
func (g given) started(graph *compile.Graph, problems *standing.Standing, sockets *listen.Sockets) func(table.Turn) {
	return func(turn table.Turn) {
		took := time.Since(g.began)
		g.metrics.Started(took)
		g.opts.Log.Info("synced", "turn", turn.Version, "services", graph.Services(), "problems", len(problems.Problems()),
			"ms", took.Milliseconds(), "grpc", sockets.GRPCAddr())
	}
}
