package app

import (
	"context"
	"log/slog"
	"slices"

	"google.golang.org/grpc"

	"fairway/internal/app/applies"
	"fairway/internal/app/audit"
	"fairway/internal/app/clusters"
	"fairway/internal/app/configsources"
	"fairway/internal/app/lasting"
	"fairway/internal/app/listen"
	"fairway/internal/app/lookup"
	"fairway/internal/app/loop"
	"fairway/internal/app/publish"
	"fairway/internal/app/pushed"
	"fairway/internal/app/registries"
	"fairway/internal/app/selectors"
	"fairway/internal/app/serving"
	"fairway/internal/app/session"
	"fairway/internal/app/standing"
	"fairway/internal/app/wanted"
	"fairway/internal/app/writeback"
	"fairway/internal/compile"
	"fairway/internal/door"
	"fairway/internal/jwks/fetch"
	"fairway/internal/pace"
	"fairway/internal/printable"
	"fairway/internal/quota"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/internal/webhook"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// Discovery is one control plane. Make it with NewDiscovery, run it once. This page lists its parts, in the order in which rows flow; each
// is made of parts above it. given.go says what each is given of the options, run.go what runs.
type Discovery struct {
	given given
	incoming
	outgoing
}

// incoming are the parts by which rows come in, and the tables.
type incoming struct {
	clock    *loop.Clock          // the last turn, and whether every source has been read
	graph    *compile.Graph       // the tables
	cluster  *writeback.Writer    // what is written into the own cluster; nil: there is none
	door     *door.Door           // rules wait for what they refer to
	pacer    *pace.Pacer          // large batches go on in pieces
	budgets  *quota.Gate          // objects over their budget are kept back
	selected *selectors.Selectors // which namespaces sources read
	shards   *shards.Set          // what all sources say together
	others   *clusters.Clusters   // other clusters
	own      *clusters.Own        // the own cluster; nil: there is none

	registries *registries.Registries       // registries beside Kubernetes
	registered *lasting.Sources             // their sources
	refused    *serving.Refusals            // streams that are refused
	pushes     *pushed.Entries              // control planes that push configuration
	named      *configsources.ConfigSources // sources that the mesh configuration names
	sources    []joined                     // files, the own cluster and all sources that run from the start
	keys       *fetch.Resolver              // keys of issuers of requests' tokens
	names      *lookup.Resolver             // addresses of gateways' names; nil: names are not resolved
	proxies    *session.Register            // connected proxies
	machines   *session.Disk                // registered machines; nil: they are not kept on disk
}

// outgoing are the parts by which rows go out.
type outgoing struct {
	library   *library.Library   // what is to be sent
	publisher *publish.Publisher // rows of the tables → what is to be sent
	leaving   chan struct{}      // closed once the program is to end
	server    *xds.Server        // streams
	auditor   *audit.Auditor     // compares what was sent with the tables
	loop      *loop.Loop         // turns, and what follows them
	standing  *standing.Standing // problems
	applies   *applies.Answers   // where objects apply
	hooks     *webhook.Handlers  // what API servers ask
	grpc      *grpc.Server       // xDS in plaintext
	sockets   *listen.Sockets    // addresses, but for the one with TLS, which given has
}

// RunDiscovery runs pilot-discovery until ctx ends. A mistake in files named by options is an error as a bad flag is;
// what goes wrong later wraps ErrFailed.
func RunDiscovery(ctx context.Context, opts Options) error {
	d, err := NewDiscovery(opts)
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// NewDiscovery builds a control plane that listens but does not serve yet. extra sources (memory) are read beside those
// that the options name.
func NewDiscovery(opts Options, extra ...source.Source) (*Discovery, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.Log = slog.New(printable.Handler(opts.Log.Handler()))
	g, err := give(opts)
	if err != nil {
		return nil, err
	}
	in, err := receive(g, extra)
	if err != nil {
		g.secure.Close()
		return nil, err
	}
	out, err := send(g, in)
	if err != nil {
		g.secure.Close()
		return nil, err
	}
	return &Discovery{g, in, out}, nil
}

// receive makes the parts by which rows come in.
func receive(g given, extra []source.Source) (in incoming, err error) {
	in.clock = loop.NewClock()
	in.graph = g.graph()
	if in.cluster, err = g.writer(in.graph); err != nil {
		return in, err
	}
	in.door = door.New(g.door(), in.graph.In)
	in.pacer = pace.New(in.door, in.clock.Next)
	in.budgets = quota.New(g.quota(), in.pacer)
	in.selected = selectors.New(g.opts.Namespace, in.budgets)
	in.shards = shards.New(in.selected, g.opts.Log)
	in.others = clusters.New(g.clusters(in))
	if in.own, err = g.ownCluster(in); err != nil {
		return in, err
	}
	in.registries, in.registered = g.registries(in.shards)
	in.refused = serving.NewRefusals(g.opts.Log, g.metrics)
	in.pushes = pushed.New(pushed.Options{Prove: g.secure.Certified, Refused: in.refused.Push, Log: g.opts.Log})
	in.named = configsources.New(g.configSources(in))
	files := in.selected.Origin(g.files, selectors.Files)
	order := slices.Concat([]source.Source{files}, in.own.Sources(), []source.Source{in.registries, in.named}, extra)
	if in.sources, err = join(in.shards, order); err != nil {
		return in, err
	}
	in.keys = wanted.NewKeys(in.graph, g.keys())
	in.names = g.names(in.graph)
	in.proxies = session.New(g.session(in.cluster), in.graph, g.metrics)
	in.machines = g.machines(in.proxies)
	return in, nil
}

// send makes the parts by which rows go out.
func send(g given, in incoming) (out outgoing, err error) {
	g.secure.PublishRoots(in.graph)
	out.library = library.New()
	out.publisher = publish.New(in.graph, out.library)
	out.leaving = make(chan struct{})
	out.server = xds.NewServer(out.library, g.streams(in), g.admission(in, out.leaving))
	out.auditor = audit.New(audit.Options{
		Graph: in.graph, Publisher: out.publisher, Server: out.server, Metrics: g.metrics, Log: g.opts.Log,
	})
	out.standing = &standing.Standing{Graph: in.graph, Door: in.door, Sources: in.shards, StaleError: g.opts.StaleError}
	if out.hooks, err = g.webhooks(in).Handlers(); err != nil {
		return out, err
	}
	if out.sockets, err = listen.Open(g.addresses(in.cluster)); err != nil {
		return out, err
	}
	out.loop = loop.New(loop.Options{
		Clock: in.clock, Graph: in.graph, Batches: in.shards.Turn, Read: in.door.Synced, Auditor: out.auditor,
		Complete:  func() bool { return in.names == nil || wanted.NamesAnswered(in.graph) },
		Followers: followers(g, in, out.publisher),
		Started:   g.started(in.graph, out.standing, out.sockets),
	})
	out.applies = applies.New(applies.Options{
		Graph: in.graph, Publisher: out.publisher, Problems: out.standing.Problems, Between: out.loop.Between,
	})
	served := serving.Options(out.server.GRPC(), g.connections(), in.refused, serving.Meter{Metrics: g.metrics})
	out.grpc = grpc.NewServer(serving.Plaintext(g.opts.GRPCAddr, g.opts.MaxMessage, served)...)
	out.server.Register(out.grpc)
	in.pushes.Register(out.grpc)
	g.secure.Register(served, out.server, in.pushes)
	g.metrics.Watch(scrape(in, out))
	return out, nil
}

// followers are what takes the changes of a turn to the outside, in order.
func followers(g given, in incoming, p *publish.Publisher) []loop.Follower {
	return []loop.Follower{
		{Name: "library", Follow: func(t loop.Turn) { p.Publish(t.Turn) }},
		{Name: "wanted Secrets", Follow: func(loop.Turn) { wanted.Secrets(in.graph, in.own) }},
		{Name: "config sources", Follow: func(loop.Turn) { in.named.Follow(in.graph) }},
		{Name: "wanted keys", Follow: func(loop.Turn) { wanted.Keys(in.graph, in.keys) }},
		{Name: "wanted names", Follow: func(loop.Turn) { wanted.Names(in.graph, in.names) }},
		{Name: "policies in force", Follow: func(loop.Turn) { in.graph.Remember() }},
		{Name: "own cluster", Follow: func(loop.Turn) { in.cluster.Follow() }},
		{Name: "metrics and log", Follow: loop.Observer{Metrics: g.metrics, Published: p.Published, Log: g.opts.Log}.Follow},
	}
}
