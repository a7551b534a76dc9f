package app

import (
	"time"

	"k8s.io/client-go/rest"

	"fairway"
	"fairway/internal/admin"
	"fairway/internal/app/clusters"
	"fairway/internal/app/configsources"
	"fairway/internal/app/environment"
	"fairway/internal/app/flagfiles"
	"fairway/internal/app/history"
	"fairway/internal/app/injection"
	"fairway/internal/app/istioctl"
	"fairway/internal/app/lasting"
	"fairway/internal/app/listen"
	"fairway/internal/app/live"
	"fairway/internal/app/lookup"
	"fairway/internal/app/proof"
	"fairway/internal/app/reader"
	"fairway/internal/app/recent"
	"fairway/internal/app/registries"
	"fairway/internal/app/replay"
	"fairway/internal/app/secure"
	"fairway/internal/app/serving"
	"fairway/internal/app/session"
	"fairway/internal/app/sharing"
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
	"fairway/internal/snapshot"
	"fairway/internal/source"
	"fairway/internal/source/file"
	"fairway/internal/source/kube"
	"fairway/internal/table"
	"fairway/internal/writes"
	"fairway/internal/xds"
)

// setup is what parts are made from, besides other parts. Making it shows mistakes in the options or in the files that they name.
type setup struct {
	lines   *recent.Log // the last of the log
	began   time.Time
	opts    Options
	decoder *config.Decoder
	reach   *rest.Config // how to reach the own cluster; nil: none is read
	metrics *admin.Metrics
	files   source.Source
	tags    *kube.Tags       // of the own cluster, for the revision
	tokens  *review.Clusters // reviews tokens of pods; nil: none are shown
	secure  *secure.Server   // the address with TLS; nil: there is none
	past    history.Past     // the turns before the start
	desk    *istioctl.Desk   // answers istioctl's questions
	claim   *sharing.Claim   // on --clusterStateDir
}

// newSetup makes it. The address with TLS is opened last.
func newSetup(opts Options, lines *recent.Log) (s setup, err error) {
	s = setup{lines: lines, began: time.Now(), opts: opts, metrics: admin.NewMetrics(fairway.Version), tags: new(kube.Tags)}
	s.desk = istioctl.NewDesk(environment.Instance(), fairway.Version)
	if s.decoder, err = config.NewDecoder(config.Options{}); err != nil {
		return s, err
	}
	if containsFold(opts.Registries, kubernetes) {
		if s.reach, err = clusters.Connect(opts.Kubeconfig); err != nil {
			return s, err
		}
	}
	if err := flagfiles.Check(opts.MeshConfig, opts.Networks, s.decoder); err != nil {
		return s, err
	}
	o := file.Options{
		MeshConfig: opts.MeshConfig, MeshNetworks: opts.Networks, Decoder: s.decoder, Log: opts.Log, Unreadable: s.metrics.Unreadable,
	}
	if opts.ConfigDir != "" {
		o.Dirs = []string{opts.ConfigDir}
	}
	if s.files, err = file.New(o); err != nil {
		return s, err
	}
	s.claim = sharing.Take(opts.ClusterDir, opts.Log)
	s.opts.ClusterDir = s.claim.Dir()
	s.past = history.Read(s.opts.ClusterDir, opts.Log)
	serving.WarnOfPlaintext(opts.GRPCAddr, opts.Log)
	if opts.SecureAddr == "" {
		return s, nil
	}
	trust, err := secure.MeshTrust(opts.Identity, opts.MeshConfig, s.decoder)
	if err != nil {
		return s, err
	}
	program := secure.Program{
		Addr: opts.SecureAddr, Namespace: opts.Namespace, Revision: opts.Revision, Trust: trust,
		Registry: s.metrics.Registry, Log: opts.Log,
	}
	if s.reach != nil {
		if s.tokens, err = clusters.Tokens(opts.ClusterID, s.reach, trust, opts.Identity.Audience, opts.Log); err != nil {
			return s, err
		}
		program.Reviewed = s.tokens
	}
	s.secure, err = secure.New(opts.Identity, program)
	return s, err
}

// tables are the options of the tables.
func (s setup) tables() snapshot.Options {
	o := s.opts
	return snapshot.Options{
		DomainSuffix: o.Domain, RootNamespace: o.Namespace, Cluster: o.ClusterID,
		Keys:     input.Keys{Fetched: true, By: o.KeysBy, Refresh: o.KeysRefresh},
		Resolves: o.ResolveGateways, ScopeGateways: o.ScopeGateways, DeployGateways: o.GatewayAPI.Deploys, Variants: o.Variants,
	}
}

// graph makes the tables.
func (s setup) graph() *compile.Graph {
	tables := s.tables().Graph()
	tables.LastTurn = s.past.Last
	out := compile.New(tables)
	replay.Stage(s.opts.Replay, out)
	s.claim.Report(out.In.FileProblems)
	if s.opts.HealthStart <= 0 {
		out.In.HealthReady.Set(struct{}{}, true)
	}
	return out
}

// writer makes the writer into the own cluster; nil: there is none.
func (s setup) writer(graph *compile.Graph, at *door.Door) (*writeback.Writer, error) {
	if s.reach == nil {
		return nil, nil
	}
	pages := s.secure != nil && s.opts.HTTPSAddr != "" // API servers can ask
	o := writes.Options{
		Config: s.reach, Namespace: s.opts.Namespace, Revision: s.opts.Revision, Tagged: s.tags.Has,
		Log: s.opts.Log, Registry: s.metrics.Registry, Grace: s.opts.HealthGrace,
		Signer: s.opts.Signer, Deploys: s.opts.GatewayAPI.Deploys, Silent: s.opts.GatewayAPI.Silent,
		Names: secure.ServerNames(s.opts.Namespace, s.opts.Revision), Injects: pages && s.opts.Injects,
	}
	if authority := s.secure.Authority(); authority != nil {
		o.Authority = authority
	}
	if pages && (o.Authority != nil || o.Signer != "") {
		o.Bundle = s.secure.Bundle
	}
	return writeback.New(o, graph, at)
}

func (s setup) door() door.Options {
	return door.Options{Grace: s.opts.Grace, DomainSuffix: s.opts.Domain, Log: s.opts.Log}
}

func (s setup) quota() quota.Options {
	return quota.Options{DomainSuffix: s.opts.Domain, RootNamespace: s.opts.Namespace}
}

func (s setup) clusters(in incoming) clusters.Options {
	o := s.opts
	return clusters.Options{
		Own: o.ClusterID, Domain: o.Domain, Decoder: s.decoder, Shards: in.shards, Selectors: in.selected, Tokens: s.tokens,
		Dir: o.ClusterDir, Wait: o.ClusterWait, TTL: o.ClusterTTL, MiB: o.ClusterMiB, Log: o.Log, Meter: s.metrics,
	}
}

// ownCluster makes the source of the own cluster; nil: there is none.
func (s setup) ownCluster(in incoming) (*clusters.Own, error) {
	if s.reach == nil {
		return nil, nil
	}
	o := s.opts
	return clusters.NewOwn(kube.Options{
		Cluster: o.ClusterID, Domain: o.Domain, Namespace: o.Namespace, Config: s.reach, Decoder: s.decoder, Log: o.Log,
		Remotes: in.others.Set, OnObject: in.cluster.Observe, Revision: o.Revision, Tags: s.tags, Meter: s.metrics,
		WithoutGatewayAPI: o.GatewayAPI.Unread,
	}, clusters.Inputs{
		Read: in.graph.Secrets.Read, OnDemand: in.graph.Secrets.OnDemand, Revised: in.graph.In.Revised,
	}, in.selected)
}

// registries makes the source that starts and ends the registries' sources, and these.
func (s setup) registries(in incoming) (*registries.Registries, *lasting.Sources) {
	o := s.opts
	sources := lasting.New(in.shards, lasting.Files{Dir: o.ClusterDir, Suffix: ".registry.json", Rules: s.decoder}, o.Log)
	return registries.New(registries.Options{
		File: o.RegistriesFile, Flags: o.flagged(), Sources: sources, Log: o.Log,
		Defaults: registries.Defaults{Wait: o.ClusterWait, Expiry: o.ClusterTTL},
		Env:      registries.Env{Decoder: s.decoder, Domain: o.Domain, Log: o.Log, Machines: in.shared},
	}), sources
}

func (s setup) configSources(in incoming) configsources.Options {
	o := s.opts
	return configsources.Options{
		MeshConfig: o.MeshConfig, Namespace: o.Namespace, Plaintext: o.GRPCAddr != "", Dir: o.ClusterDir, Wait: o.ClusterWait,
		Decoder: s.decoder, Shards: in.shards, Secure: s.secure, Pushes: in.pushes, Log: o.Log,
	}
}

func (s setup) keys() fetch.Options {
	return fetch.Options{
		Client:  fetch.NewClient(fetch.ClientOptions{Barred: s.opts.KeysBarred, Insecure: s.opts.KeysInsecure}),
		Refresh: s.opts.KeysRefresh, Log: s.opts.Log, Fetched: s.metrics.KeysFetched,
	}
}

// names makes the resolver for the names of gateways; nil: they are not resolved.
func (s setup) names(graph *compile.Graph) *lookup.Resolver {
	if !s.opts.ResolveGateways {
		return nil
	}
	return wanted.NewNames(graph.In.Resolved, s.opts.NameServers, s.opts.Log)
}

func (s setup) session(cluster *writeback.Writer) session.Options {
	o := session.Options{
		Linger: s.opts.ProxyLinger, Grace: s.opts.HealthGrace, Share: s.opts.ProxyShare, Variants: s.opts.Variants,
		Known: replay.Known(s.opts.Replay),
	}
	if cluster != nil { // a cluster knows machines too
		o.Machines = cluster
	}
	return o
}

// machines makes the store of registered machines on disk; nil: a cluster keeps them, or there is no folder.
func (s setup) machines(proxies *session.Register) *session.Disk {
	if s.reach != nil {
		return nil
	}
	return session.Keep(s.opts.ClusterDir, proxies, s.opts.Log)
}

func (s setup) streams(in incoming, meter xds.Meter) xds.Options {
	o := s.opts
	return xds.Options{
		Arrive:    s.secure.Arrive,
		Certified: s.secure.Proved,
		Holder:    s.secure.Holder,
		Refused:   in.refused.Stream, Panicked: in.refused.Panicked,
		FirstWait:        o.FirstWait,
		SendTimeout:      o.SendTimeout,
		MaxStreams:       o.MaxStreams,
		StreamsPerSecond: float64(o.NewStreams),
		MaxSubscriptions: o.MaxNames,
		MaxRequestBytes:  o.MaxMessage,
		Withhold:         proof.Withhold(o.Log),
		Services:         []xds.Service{reader.Source(o.Namespace)},
		Reports: map[string]func(xds.Report){
			session.HealthType:        in.proxies.Healthy,
			bootstrap.PatchReportType: in.proxies.PatchesFail,
			extension.ReportType:      in.proxies.ModulesFail,
		},
		Meter: meter, Warming: live.Reports(), Asker: s.desk,
	}
}

// admission returns the hooks that admit streams: authenticated ones, once every source has been read, as control planes or as
// proxies.
func (s setup) admission(in incoming, leaving <-chan struct{}) xds.Hooks {
	o := reader.Options{System: s.opts.Namespace, Linger: s.opts.ProxyLinger, Log: s.opts.Log}
	return s.secure.Guard(serving.Patient{
		Hooks: reader.New(o, in.graph.Exported, in.proxies), Synced: in.clock.Synced(), Leaving: leaving,
	})
}

func (s setup) connections() serving.Connections {
	o := s.opts
	return serving.Connections{
		IdleAfter: o.IdleAfter, KeepAlive: o.KeepAlive, KeepTimeout: o.KeepTimeout, MaxAge: o.MaxAge, Grace: o.Shutdown,
	}
}

func (s setup) webhooks(in incoming) injection.Webhooks {
	o := s.opts
	out := injection.Webhooks{
		Options: injection.Options{
			Folder:   o.InjectFolder,
			Settings: inject.Settings{Revision: o.Revision, System: o.Namespace, Cluster: o.ClusterID, Domain: o.Domain},
			Files:    disk.OS, Log: o.Log,
		},
		Injects: o.Injects, KeyFile: o.InjectKeyFile, Ready: in.clock.Ready,
		Graph: in.graph, Store: in.graph.Store, ProxyConfigs: in.graph.In.ProxyConfigs, Decoder: s.decoder, Registry: s.metrics.Registry,
		LastTurn: func() uint64 { return in.clock.Last().Version },
	}
	if in.cluster != nil {
		out.Known = in.cluster.Known
	}
	return out
}

func (s setup) addresses(cluster *writeback.Writer) listen.Addresses {
	o := s.opts
	out := listen.Addresses{GRPC: o.GRPCAddr, HTTP: o.HTTPAddr, HTTPS: o.HTTPSAddr, Monitoring: o.MonitorAddr, Log: o.Log}
	if s.secure == nil {
		return out
	}
	out.TLS = s.secure.TLS()
	if cluster != nil { // the certificate that a signer of Kubernetes made is preferred to the one that agents are shown
		out.TLS.GetCertificate = listen.Preferring(cluster.Own, out.TLS.GetCertificate)
	}
	return out
}

// started counts and logs how long it took until the first complete turn.
func (s setup) started(graph *compile.Graph, problems *standing.Standing, sockets *listen.Sockets) func(table.Turn) {
	return func(turn table.Turn) {
		took := time.Since(s.began)
		s.metrics.Started(took)
		s.opts.Log.Info("synced", "turn", turn.Version, "services", graph.Services(), "problems", len(problems.Problems()),
			"ms", took.Milliseconds(), "grpc", sockets.GRPCAddr())
	}
}
