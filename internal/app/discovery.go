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
	"fairway/internal/app/history"
	"fairway/internal/app/lasting"
	"fairway/internal/app/listen"
	"fairway/internal/app/live"
	"fairway/internal/app/lookup"
	"fairway/internal/app/loop"
	"fairway/internal/app/machines"
	"fairway/internal/app/planned"
	"fairway/internal/app/publish"
	"fairway/internal/app/pushed"
	"fairway/internal/app/recent"
	"fairway/internal/app/registries"
	"fairway/internal/app/replay"
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
	"fairway/internal/questions"
	"fairway/internal/quota"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/internal/table"
	"fairway/internal/webhook"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// Discovery is one control plane. Make it with NewDiscovery, run it once. This page lists its parts in the order that rows flow through
// them; each is made of parts above it. setup.go reads each part's options, run.go runs the parts.
type Discovery struct {
	setup setup
	incoming
	outgoing
}

// incoming are the parts that bring rows in, and the tables.
type incoming struct {
	clock    *loop.Clock          // the last turn, and whether every source has been read
	graph    *compile.Graph       // the tables
	cluster  *writeback.Writer    // writes into the own cluster; nil: there is none
	door     *door.Door           // rules wait for what they refer to
	pacer    *pace.Pacer          // large batches go on in pieces
	budgets  *quota.Gate          // objects over their budget are kept back
	selected *selectors.Selectors // which namespaces sources read
	shards   *shards.Set          // what all sources say together
	others   *clusters.Clusters   // other clusters
	own      *clusters.Own        // the own cluster; nil: there is none

	shared     *machines.Machines           // registered machines, shared with other control planes; nil: a cluster has them
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

// outgoing are the parts that send rows out.
type outgoing struct {
	library          *library.Library   // the resources to send
	publisher        *publish.Publisher // rows of the tables → the resources to send
	history          *history.Log       // the last turns
	leaving          chan struct{}      // closed once the program is to end
	server           *xds.Server        // streams
	auditor          *audit.Auditor     // compares sent resources with the tables
	loop             *loop.Loop         // turns, and what follows them
	questions        *questions.Queue   // questions about all of this, one at a time
	standing         *standing.Standing // problems
	*applies.Answers                    // the proxies that objects apply to, for the program's users too
	live             *live.Answers      // how far changes have come
	plans            *planned.Plans     // what changes would do
	hooks            *webhook.Handlers  // answers to API servers' webhooks
	grpc             *grpc.Server       // xDS in plaintext
	sockets          *listen.Sockets    // addresses, except the one with TLS, which setup has
}

// RunDiscovery runs pilot-discovery until ctx ends. A mistake in files named by options is an error like a bad flag; later failures wrap
// ErrFailed.
func RunDiscovery(ctx context.Context, opts Options) error {
	d, err := NewDiscovery(opts)
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// NewDiscovery builds a control plane that listens but does not serve yet. extra sources (memory) are read in addition to those that the
// options name.
func NewDiscovery(opts Options, extra ...source.Source) (*Discovery, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	lines := recent.New()
	opts.Log = slog.New(printable.Handler(lines.Handler(opts.Log.Handler())))
	s, err := newSetup(opts, lines)
	if err != nil {
		s.claim.Release()
		return nil, err
	}
	in, err := newIncoming(s, extra)
	var out outgoing
	if err == nil {
		out, err = newOutgoing(s, in)
	}
	if err != nil {
		s.secure.Close()
		s.claim.Release()
		return nil, err
	}
	return &Discovery{s, in, out}, nil
}

// newIncoming makes the parts that bring rows in.
func newIncoming(s setup, extra []source.Source) (in incoming, err error) {
	in.clock = loop.NewClock()
	in.graph = s.graph()
	in.door = door.New(s.door(), in.graph.In)
	if in.cluster, err = s.writer(in.graph, in.door); err != nil {
		return in, err
	}
	in.pacer = pace.New(in.door, in.clock.Next)
	in.budgets = quota.New(s.quota(), in.pacer)
	in.shards = shards.New(in.budgets, s.opts.Log)
	in.selected = selectors.New(s.opts.Namespace, in.graph.Store, in.graph.In.Mesh)
	in.others = clusters.New(s.clusters(in))
	if in.own, err = s.ownCluster(in); err != nil {
		return in, err
	}
	if s.reach == nil {
		in.shared = machines.New(machines.Tables{
			Members: in.graph.In.Members, HealthStored: in.graph.In.HealthStored, FileProblems: in.graph.In.FileProblems,
			Healths: in.graph.Registry.Healths,
		})
	}
	in.registries, in.registered = s.registries(in)
	in.refused = serving.NewRefusals(s.opts.Log, s.metrics)
	in.pushes = pushed.New(pushed.Options{Prove: s.secure.Certified, Refused: in.refused.Push, Log: s.opts.Log})
	in.named = configsources.New(s.configSources(in))
	files := in.selected.Origin(s.files, selectors.Files)
	named := []source.Source{in.registries, in.named}
	joint := in.shared.State(s.secure.Shared(), s.opts.Log)
	order := slices.Concat([]source.Source{files}, in.own.Sources(), named, joint, extra, replay.Sources(s.opts.Replay))
	if in.sources, err = join(in.shards, order); err != nil {
		return in, err
	}
	in.keys = wanted.NewKeys(in.graph.In.KeySets, s.keys())
	in.names = s.names(in.graph)
	in.proxies = session.New(s.session(in.cluster), in.graph, s.metrics)
	in.machines = s.machines(in.proxies)
	return in, nil
}

// newOutgoing makes the parts that send rows out.
func newOutgoing(s setup, in incoming) (out outgoing, err error) {
	s.secure.PublishRoots(in.graph.In.Bundles, in.graph.In.FileProblems)
	out.library = library.New()
	out.publisher = publish.New(in.graph, out.library)
	out.leaving = make(chan struct{})
	out.history = history.New(in.graph.In, in.graph.Store, out.publisher.PublishedByType, serving.Meter{Metrics: s.metrics}, s.past)
	out.server = xds.NewServer(out.library, s.streams(in, out.history),
		history.Hooks{Hooks: s.admission(in, out.leaving), Log: out.history})
	out.auditor = audit.New(audit.Options{
		Store: in.graph.Store, Publisher: out.publisher, Server: out.server, Metrics: s.metrics, Log: s.opts.Log,
	})
	out.standing = &standing.Standing{Graph: in.graph, Door: in.door, Sources: in.shards, StaleError: s.opts.StaleError}
	if out.hooks, err = s.webhooks(in).Handlers(); err != nil {
		return out, err
	}
	if out.sockets, err = listen.Open(s.addresses(in.cluster)); err != nil {
		return out, err
	}
	out.loop = loop.New(loop.Options{
		Clock: in.clock, Store: in.graph.Store, Pending: in.graph.Pending, Batches: in.shards.Turn,
		Read: in.graph.Reading(in.door.Synced, in.shards.AllRead),
		Complete: func() bool {
			return in.names == nil || s.opts.Replay != nil || wanted.NamesAnswered(in.graph.Store, in.graph.Networks.Unanswered)
		},
		Followers: followers(s, in, out), Auditor: out.auditor,
		Started: s.started(in.graph, out.standing, out.sockets),
	})
	out.questions = questions.New(questions.Options{Between: out.loop.Between, Meter: s.metrics.Questions})
	out.Answers = applies.New(applies.Options{
		Objects: in.graph.Objects, Publisher: out.publisher, Problems: out.standing.Problems, Between: out.questions.Between,
	})
	out.plans = planned.New(planned.Options{
		Shards: in.shards, Budgets: in.budgets, Door: in.door, Graph: in.graph, Between: out.questions.Between,
	})
	served := serving.Options(out.server.GRPC(), s.connections(), in.refused, serving.Meter{Metrics: s.metrics})
	out.grpc = grpc.NewServer(serving.Plaintext(s.opts.GRPCAddr, s.opts.MaxMessage, served)...)
	out.live = live.New(live.Options{
		Object: in.graph.Find, Turns: out.history, Last: in.clock.Last, Waiting: in.door.Waiting,
		Problems: out.standing.Problems, Streams: out.server,
	})
	out.server.Register(out.grpc)
	in.pushes.Register(out.grpc)
	s.secure.Register(served, out.server, in.pushes)
	s.metrics.Watch(counted(in, out))
	return out, nil
}

// followers returns the functions that pass a turn's changes on, in order.
func followers(s setup, in incoming, out outgoing) []loop.Follower {
	g, p := in.graph, out.publisher
	return replay.Followers(s.opts.Replay, slices.Concat([]loop.Follower{
		{Name: "history", Follow: out.history.Begin},
		{Name: "library", Follow: func(t loop.Turn) { p.Publish(t.Turn) }},
		{Name: "history of what was published", Follow: out.history.End},
		{
			Name: "wanted Secrets", Asks: true, Of: table.Follow(g.WantedSecrets),
			Follow: func(loop.Turn) { wanted.Secrets(g.WantedSecrets, in.own) },
		},
		{Name: "discovery selectors", Follow: func(loop.Turn) { in.selected.Follow() }},
		{
			Name: "config sources", Asks: true, Of: table.Follow(g.In.Mesh),
			Follow: func(loop.Turn) { in.named.Follow(g.In.Mesh) },
		},
		{
			Name: "wanted keys", Asks: true, Of: table.Follow(g.WantedKeys),
			Follow: func(loop.Turn) { wanted.Keys(g.WantedKeys, in.keys) },
		},
		{
			Name: "wanted names", Asks: true, Of: table.Follow(g.Networks.Names),
			Follow: func(loop.Turn) { wanted.Names(g.Networks.Names, in.names) },
		},
		{Name: "policies in force", Follow: func(loop.Turn) { g.Remember() }},
	}, in.cluster.Followers(), []loop.Follower{
		{Name: "count of machines", Follow: func(loop.Turn) { machines.Count(g.In.Members.Table, s.metrics.Machine) }},
		{Name: "shared machines", Follow: func(loop.Turn) { in.shared.Follow() }},
		{Name: "metrics and log", Follow: loop.Observer{Metrics: s.metrics, Published: p.Published, Log: s.opts.Log}.Follow},
	}))
}
