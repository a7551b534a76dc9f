package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"fairway"
	"fairway/internal/admin"
	"fairway/internal/app/lasting"
	"fairway/internal/app/lookup"
	"fairway/internal/app/memory"
	"fairway/internal/app/proof"
	"fairway/internal/app/publish"
	"fairway/internal/app/pushed"
	"fairway/internal/app/reader"
	"fairway/internal/app/secure"
	"fairway/internal/app/serving"
	"fairway/internal/app/session"
	"fairway/internal/app/standing"
	"fairway/internal/compile"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/envoy/extension"
	"fairway/internal/jwks/fetch"
	"fairway/internal/pace"
	"fairway/internal/printable"
	"fairway/internal/quota"
	"fairway/internal/resident"
	"fairway/internal/source"
	"fairway/internal/source/file"
	"fairway/internal/source/shards"
	"fairway/internal/table"
	"fairway/internal/webhook"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// RunDiscovery runs pilot-discovery until ctx ends. A mistake in files named by options is an error as a bad flag is;
// what goes wrong later wraps ErrFailed.
func RunDiscovery(ctx context.Context, opts Options) error {
	d, err := NewDiscovery(opts)
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// Discovery is one control plane. Make it with NewDiscovery, run it once.
type Discovery struct {
	opts    Options
	log     *slog.Logger
	started time.Time

	// Set up by NewDiscovery, read-only afterwards.
	graph    *compile.Graph
	library  *library.Library
	server   *xds.Server
	pacer    *pace.Pacer
	door     *door.Door
	shards   *shards.Set
	standing *standing.Standing
	sources  []joined
	clusters *clusters        // beside the own one
	registry *lasting.Sources // registries beside Kubernetes
	discover *discovers
	metrics  *admin.Metrics
	proxies  *session.Register
	machines *session.Disk
	grpc     *grpc.Server
	secure   *secure.Server // nil where nothing is served with TLS
	hooks    *webhook.Handlers
	writes   *clusterWrites // nil where no cluster is read
	keys     *fetch.Resolver
	lookups  *lookup.Resolver // nil: names of gateways are not resolved
	listens  listeners

	configSources *configSources   // says which sources the mesh configuration names,
	configured    *lasting.Sources // and these

	clusterless bool // --registries names Kubernetes, and there is none

	// Used by the loop only.
	publisher *publish.Publisher
	wants     wants
	auditor   *auditor

	// Guarded by mu.
	mu   sync.Mutex
	last table.Turn
	next chan struct{} // closed with the next turn

	asked    chan func()   // what the loop is to do between turns
	applying chan struct{} // holds a token while it is found out where objects apply

	synced  chan struct{} // closed once the first turn after every source synced is published
	leaving chan struct{} // closed once the program is to end
}

// joined is a source with the sink that is its own.
type joined struct {
	source.Source
	sink source.Sink
}

// listeners are the sockets, opened before anything else so that a taken port fails the start at once.
type listeners struct{ grpc, http, https, monitor net.Listener }

// NewDiscovery builds a control plane that listens but does not serve yet. extra sources (memory) are read beside those
// that the options name.
func NewDiscovery(opts Options, extra ...source.Source) (*Discovery, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.Log = slog.New(printable.Handler(opts.Log.Handler()))
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		return nil, err
	}
	d := &Discovery{
		opts:     opts,
		log:      opts.Log,
		started:  time.Now(),
		asked:    make(chan func()),
		applying: make(chan struct{}, 1),
		synced:   make(chan struct{}),
		leaving:  make(chan struct{}),
		next:     make(chan struct{}),
	}
	d.metrics = admin.NewMetrics(fairway.Version)
	d.declare()
	reach, err := kubeConfig(opts)
	if err != nil {
		return nil, err
	}
	d.register(reach != nil)
	if err := d.follow(reach, decoder, extra); err != nil {
		return nil, err
	}
	serving.WarnOfPlaintext(opts.GRPCAddr, opts.Log)
	if d.secure, err = secure.New(opts.Identity, secure.Program{
		Addr: opts.SecureAddr, Namespace: opts.Namespace, Revision: opts.Revision, MeshConfig: opts.MeshConfig,
		Decoder: decoder, Registry: d.metrics.Registry, Log: opts.Log, Review: reviewer(opts, reach, d.clusters),
	}); err != nil {
		return nil, err
	}
	if err := d.offer(reach, decoder); err != nil {
		d.secure.Close()
		return nil, err
	}
	return d, nil
}

// declare makes the tables, and what is published of them.
func (d *Discovery) declare() {
	opts := d.opts
	d.graph = compile.New(compile.Options{
		DomainSuffix: opts.Domain, RootNamespace: opts.Namespace, Cluster: opts.ClusterID,
		Keys:     input.Keys{Fetched: true, By: opts.KeysBy, Refresh: opts.KeysRefresh},
		Resolves: opts.ResolveGateways, ScopeGateways: opts.ScopeGateways, Variants: opts.Variants,
	})
	d.keys = newKeys(d)
	d.lookups = newLookups(d)
	if opts.HealthStart <= 0 {
		d.graph.In.HealthHeard.Set(struct{}{}, true)
	}
	d.library = library.New()
	d.publisher = publish.New(d.graph, d.library)
}

// register makes the register of connected proxies. inCluster reports whether a cluster is read, which knows machines too.
func (d *Discovery) register(inCluster bool) {
	opts := d.opts
	registering := session.Options{Linger: opts.ProxyLinger, Grace: opts.HealthGrace, Share: opts.ProxyShare, Variants: opts.Variants}
	if inCluster {
		registering.Machines = machines{d}
	}
	d.proxies = session.New(registering, d.graph, d.metrics)
	if !inCluster { // a cluster keeps their WorkloadEntries
		d.machines = session.Keep(opts.ClusterDir, d.proxies, d.log)
	}
}

// follow makes the sources and what their rows pass on the way to the tables, and has each source join.
func (d *Discovery) follow(reach *rest.Config, decoder *config.Decoder, extra []source.Source) error {
	opts := d.opts
	if err := checkFiles(opts, decoder); err != nil {
		return err
	}
	files, err := fileSource(opts, decoder, d.metrics.Unreadable)
	if err != nil {
		return err
	}
	d.door = door.New(door.Options{Grace: opts.Grace, DomainSuffix: opts.Domain, Log: opts.Log}, d.graph.In)
	d.pacer = pace.New(d.door, d.nextTurn)
	budgets := quota.New(quota.Options{DomainSuffix: opts.Domain, RootNamespace: opts.Namespace}, d.pacer)
	d.discover = newDiscovers(opts.Namespace, budgets)
	d.shards = shards.New(d.discover, opts.Log)
	d.standing = &standing.Standing{Graph: d.graph, Door: d.door, Sources: d.shards, StaleError: opts.StaleError}
	d.clusterless = reach == nil && containsFold(opts.Registries, kubernetes)
	d.clusters = newClusters(opts, decoder, d.shards, d.discover)
	platform, wanting, err := kubeSources(opts, reach, decoder, d.graph, d.seen, d.clusters, d.discover)
	if err != nil {
		return err
	}
	d.wants = wanting
	var named source.Source
	named, d.registry = newRegistries(opts, decoder, d.shards)
	d.configSources, d.configured = newConfigSources(opts, decoder, d.shards)
	for _, s := range slices.Concat([]source.Source{files}, platform, []source.Source{named, d.configSources}, extra) {
		sink, err := d.shards.Join(s.Name(), 0)
		if err != nil {
			return err
		}
		if s == files {
			sink = d.discover.files(sink)
		}
		d.sources = append(d.sources, joined{s, sink})
	}
	return nil
}

// offer makes what others call: xDS, the authority, webhooks and pages. It opens the addresses.
func (d *Discovery) offer(reach *rest.Config, decoder *config.Decoder) (err error) {
	opts := d.opts
	d.secure.PublishRoots(d.graph)
	refused := serving.NewRefusals(opts.Log, d.metrics)
	pushes := pushed.New(pushed.Options{Prove: d.secure.Certified, Refused: refused.Push, Log: opts.Log})
	d.configSources.secure, d.configSources.pushes = d.secure, pushes
	if d.hooks, err = d.webhooks(decoder); err != nil {
		return err
	}
	if d.writes, err = newClusterWrites(d, reach); err != nil {
		return err
	}
	d.server = d.newServer(refused)
	d.auditor = newAuditor(d)
	d.metrics.Watch(admin.Scrape{
		Problems: d.standing.Counts, Refusing: d.server.Refusing, Versions: d.proxies.Versions, Sources: d.shards.Phases, Updates: d.standing.Updates,
		Stale: d.standing.Staleness, LeftOut: d.standing.LeftOut,
		Clusters: d.clusters.count, Registries: d.registry.Stats,
		Reduced: d.proxies.Reduced,
		Waiting: d.door.Waits, Graph: d.graph,
	})
	served := serving.Options(d.server.GRPC(), connections(opts), refused, serving.Meter{Metrics: d.metrics})
	d.grpc = grpc.NewServer(serving.Plaintext(opts.GRPCAddr, opts.MaxMessage, served)...)
	d.server.Register(d.grpc)
	pushes.Register(d.grpc)
	d.secure.Register(served, d.server, pushes)
	return d.listen()
}

// newServer makes the server of xDS.
func (d *Discovery) newServer(refused *serving.Refusals) *xds.Server {
	opts := d.opts
	return xds.NewServer(d.library, xds.Options{
		Arrive:           d.secure.Arrive,
		Certified:        d.secure.Proved,
		Holder:           d.secure.Holder,
		Refused:          refused.Stream,
		Panicked:         refused.Panicked,
		FirstWait:        opts.FirstWait,
		SendTimeout:      opts.SendTimeout,
		MaxStreams:       opts.MaxStreams,
		StreamsPerSecond: float64(opts.NewStreams),
		MaxSubscriptions: opts.MaxNames,
		MaxRequestBytes:  opts.MaxMessage,
		Meter:            serving.Meter{Metrics: d.metrics},
		Withhold:         proof.Withhold(opts.Log),
		Services:         []xds.Service{reader.Source(opts.Namespace)},
		Reports: map[string]func(xds.Report){
			session.HealthType:        d.proxies.Healthy,
			bootstrap.PatchReportType: d.proxies.PatchesFail,
			extension.ReportType:      d.proxies.ModulesFail,
		},
	}, d.secure.Guard(serving.Patient{
		Hooks:  reader.New(reader.Options{System: opts.Namespace, Linger: opts.ProxyLinger, Log: opts.Log}, d.graph.Exported, d.proxies),
		Synced: d.synced, Leaving: d.leaving,
	}))
}

// connections says how long connections stay.
func connections(o Options) serving.Connections {
	return serving.Connections{
		IdleAfter: o.IdleAfter, KeepAlive: o.KeepAlive, KeepTimeout: o.KeepTimeout, MaxAge: o.MaxAge, Grace: o.Shutdown,
	}
}

func fileSource(opts Options, decoder *config.Decoder, unreadable func(int)) (source.Source, error) {
	o := file.Options{MeshConfig: opts.MeshConfig, MeshNetworks: opts.Networks, Decoder: decoder, Log: opts.Log, Unreadable: unreadable}
	if opts.ConfigDir != "" {
		o.Dirs = []string{opts.ConfigDir}
	}
	return file.New(o)
}

func (d *Discovery) listen() error {
	for _, l := range []struct {
		flag, addr string
		to         *net.Listener
	}{
		{"--grpcAddr", d.opts.GRPCAddr, &d.listens.grpc},
		{"--httpAddr", d.opts.HTTPAddr, &d.listens.http},
		{"--monitoringAddr", d.opts.MonitorAddr, &d.listens.monitor},
	} {
		if l.addr == "" {
			continue
		}
		socket, err := net.Listen("tcp", l.addr)
		if err != nil {
			d.listens.close()
			return fmt.Errorf("%s: %w; choose another port or stop what listens there", l.flag, err)
		}
		*l.to = socket
	}
	return d.listenHTTPS()
}

func (l *listeners) close() {
	for _, socket := range []net.Listener{l.grpc, l.http, l.https, l.monitor} {
		if socket != nil {
			socket.Close()
		}
	}
}

// addressOf is where a socket listens; empty when it is not open.
func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// GRPCAddr is where xDS is served in plaintext; empty when it is not.
func (d *Discovery) GRPCAddr() string { return addressOf(d.listens.grpc) }

// HTTPAddr is where readiness and debug pages are served; empty when they are not.
func (d *Discovery) HTTPAddr() string {
	return addressOf(d.listens.http)
}

// Run serves until ctx ends, then drains the streams over the configured window. It returns once every goroutine it started has ended.
func (d *Discovery) Run(ctx context.Context) error {
	defer d.listens.close()
	defer memory.Limit(os.Getenv)() // before sources read what may be large
	d.log.Info("listening", "version", fairway.Version, "grpc", d.GRPCAddr(), "secure", d.SecureAddr(), "http", d.HTTPAddr(),
		"https", d.HTTPSAddr(), "monitoring", addressOf(d.listens.monitor))
	if d.clusterless {
		d.log.Info("no Kubernetes is read: this is no pod of a cluster, and --kubeconfig names none")
	}
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx by the drain
	defer stopServing()
	var g errgroup.Group
	failed := make(chan struct{})
	var once sync.Once
	run := func(name string, f func() error) {
		g.Go(func() error {
			if err := f(); err != nil {
				once.Do(func() { close(failed) })
				return fmt.Errorf("%w: %s: %w", ErrFailed, name, err)
			}
			return nil
		})
	}
	run("clusters", func() error { return d.clusters.run(serving) })
	run("config sources", func() error { return d.configured.Run(serving) })
	run("registries", func() error { return d.registry.Run(serving) })
	for _, s := range d.sources {
		run("source "+s.Name(), func() error { return s.Run(serving, s.sink) })
	}
	if d.lookups != nil {
		run("gateways' names", func() error { return d.lookups.Run(serving) })
	}
	run("keys", func() error { return d.keys.Run(serving) })
	run("pace", func() error { return d.pacer.Run(serving) })
	run("door", func() error { return d.door.Run(serving) })
	run("turns", func() error { return d.loop(serving) })
	run("proxies", func() error { return d.proxies.Run(serving) })
	run("health", func() error { return d.proxies.AwaitReports(serving, d.synced, d.opts.HealthStart) })
	run("members", func() error { return d.machines.Run(serving) })
	if d.writes != nil {
		run("writes", func() error { return d.writes.run(serving, d.synced) })
	}
	trimmer := memory.Trimmer{Work: d.metrics.Work, Synced: d.synced, Drop: resident.DropProgram, Log: d.log}
	run("memory", func() error { return trimmer.Run(serving) })
	web := d.serveWeb(run)
	run("xds", d.serveXDS)
	d.secure.Run(serving, d.graph, run)

	select {
	case <-ctx.Done():
	case <-failed:
	}
	d.shutdown()
	stopServing()
	web()
	return g.Wait()
}

// serveXDS serves at once, for those who push what is there at the start. Proxies wait: see serving.Patient.
func (d *Discovery) serveXDS() error {
	if d.listens.grpc == nil {
		return nil
	}
	if err := d.grpc.Serve(d.listens.grpc); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// shutdown moves proxies elsewhere over a short window, then ends what is left.
func (d *Discovery) shutdown() {
	drained, cancel := context.WithTimeout(context.Background(), d.opts.Shutdown+5*time.Second)
	defer cancel()
	close(d.leaving)
	if err := d.server.Drain(drained, d.opts.Shutdown); err != nil {
		d.log.Warn("not every stream had ended when the window was over", "error", err)
	}
	d.grpc.Stop()
	d.secure.Stop()
}
