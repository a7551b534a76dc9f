package kube

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"fairway/internal/config"
	"fairway/internal/reading"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/kube/answers"
	"fairway/internal/source/kube/translate"
)

// Options of a Source.
type Options struct {
	Cluster   string // its name
	Domain    string // DNS suffix of its services
	Namespace string // the root namespace, where the mesh configuration is
	Config    *rest.Config
	Decoder   *config.Decoder
	Log       *slog.Logger // nil: nothing is logged
	Meter     Meter        // nil: nothing is counted
	// Patience is how long a kind that may not be read is waited for at the start; 0 is ten seconds. One that is not
	// served is not waited for at all, and an API server that does not answer for ever.
	Patience time.Duration
	// AnswerTime is how long the API server may take for one question, and how much longer than it was asked to it may keep
	// a watch; 0 is a minute. WatchTime is how long it is asked to keep a watch at least, and up to twice that; 0 is four minutes.
	AnswerTime, WatchTime time.Duration
	// Secrets is how many of them, and of ConfigMaps with authorities, are watched at most; 0 is 10,000.
	Secrets int
	// OnLookup is called for each object that is read because it is wanted (Want), once its state has been handed over, and
	// when it is not kept up to date any more. nil: no call.
	OnLookup func(k config.Key, known bool)
	// OnObject is called with each custom resource and Ingress as the API server has it, with its status, before it is read.
	// gone: it does not exist any more, and has only its names. OnObject must not keep the object. nil: no call.
	OnObject func(o *unstructured.Unstructured, gone bool)
	// Remote says that rules, Secrets and the mesh configuration are another cluster's: this one is read only for
	// services and their endpoints.
	Remote bool
	// Remotes is called with all clusters that Secrets of Namespace say how to reach (label istio/multiCluster), each time
	// that changes, the first time before this source is synced. It is called from one goroutine. nil: no such Secret is
	// read.
	Remotes func([]Remote)
	// Revision is the control plane's: an object with the label istio.io/rev is read only if the label names this revision,
	// or a tag of it; an object without the label is always read. Empty: all are read.
	Revision string
	// WithoutGatewayAPI says that no kind of the Gateway API is read.
	WithoutGatewayAPI bool
	// Tags takes the other names that the cluster has for Revision. nil: only the source itself needs them.
	Tags *Tags
	// OnTags is called with these names each time they change, from one goroutine. nil: no call.
	OnTags func(tags []string)
	// Scoped says that Discover will be called: until then no namespace is read. Otherwise all are.
	Scoped bool
	// MeshRead is called once the mesh configuration in the cluster, if any, has been handed over. nil: no call.
	MeshRead func()

	// Bounds are what may be kept of the cluster in all; zero: RemoteBounds(RemoteMiB) of another cluster, much more of
	// the own one. Anything beyond is left out and is a problem.
	Bounds budget.Bounds

	account   *budget.Account
	lane      *reading.Lane
	seed      maphash.Seed
	slow      time.Duration // an answer that takes longer is reported
	roomPause time.Duration // between lists that are made because there may be room again
}

// Source reads one cluster.
type Source struct {
	o       Options
	clients *answers.Clients
	kinds   []kind
	wanted  *wanted
	scope   *scope
}

var _ source.Source = (*Source)(nil)

// Connect reads how to reach an API server from the current context of a kubeconfig file; without a file, it is the
// cluster that this program runs in. ErrNoCluster says that it runs in none.
func Connect(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, ErrNoCluster
		}
		return c, err
	}
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	return c, nil
}

// ErrNoCluster says that no file names a cluster, and that this program runs in none.
var ErrNoCluster = errors.New("not in a Kubernetes cluster")

// New prepares a source. It makes no calls yet: an error is one of the options.
func New(o Options) (*Source, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Patience <= 0 {
		o.Patience = 10 * time.Second
	}
	if o.AnswerTime <= 0 {
		o.AnswerTime = answers.Time
	}
	if o.WatchTime <= 0 {
		o.WatchTime = watchTime
	}
	o = o.bounded()
	var strangers *reading.Lane
	if o.Remote {
		strangers = o.lane
	}
	clients, err := answers.Connect(o.Config, strangers)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster %s: %w", o.Cluster, err)
	}
	o.Log = slog.New(clients.Secrets().Handler(o.Log.Handler())).With("cluster", o.Cluster)
	if o.Secrets <= 0 {
		o.Secrets = maxSecrets
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	if o.OnObject == nil {
		o.OnObject = func(*unstructured.Unstructured, bool) {}
	}
	if o.OnLookup == nil {
		o.OnLookup = func(config.Key, bool) {}
	}
	if o.Tags == nil {
		o.Tags = new(Tags)
	}
	if o.OnTags == nil {
		o.OnTags = func([]string) {}
	}
	s := &Source{o: o, wanted: newWanted(), scope: newScope(o.Namespace, o.Tags, o.OnTags), clients: clients}
	if s.scope.tagsKnown = o.Revision == "" || o.Remote; !o.Scoped {
		s.scope.selectBy(new(config.Discovery))
	}
	s.kinds, err = kinds(s.o, s.clients, translate.For(o.Cluster, o.Domain), s.scope)
	return s, err
}

// bounded returns the options with all bounds set.
func (o Options) bounded() Options {
	if o.Bounds == (budget.Bounds{}) {
		o.Bounds = ownBounds()
		if o.Remote {
			o.Bounds = RemoteBounds(RemoteMiB)
		}
	}
	fix := "have the cluster offer less to this mesh: discoverySelectors of the mesh configuration say which namespaces are read"
	if o.Remote {
		fix = "raise --remoteClusterMaxMiB, or " + fix
	}
	o.account = budget.NewAccount("cluster "+o.Cluster, o.Bounds, fix)
	o.lane, o.seed = reading.NewLane(), maphash.MakeSeed()
	o.slow, o.roomPause = slowAnswer, roomPause
	return o
}

// roomPause is how long it takes at least from one list to the next that is made because there may be room again.
const roomPause = 30 * time.Second

// Discover sets which namespaces are read from now on: new ones are read with everything in them, and everything in the
// others goes. It does not block, and may be called before Run and while it runs, from any goroutine.
func (s *Source) Discover(by *config.Discovery) { s.scope.selectBy(by) }

// Name returns the cluster's name, as the registry that its rows have in their keys.
func (s *Source) Name() string { return translate.For(s.o.Cluster, s.o.Domain).Name() }

const detail = 4 // of logr, which is slog's debug

// Run hands over what the API server holds, and what changes, until ctx ends.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	// client-go's messages, except its errors, are for debugging.
	ctx, stop := context.WithCancel(klog.NewContext(ctx, logr.FromSlogHandler(s.o.Log.Handler()).V(detail)))
	defer stop()
	out := newOutbox(source.Hiding(sink, s.clients.Secrets().Hide))
	out.onLookup = s.o.OnLookup
	var feeds []*feed
	for _, k := range s.kinds {
		f := newFeed(k, s.o, out)
		if k.scoped {
			f.scope = s.scope.follow(k.revised)
		}
		feeds = append(feeds, f)
	}
	var running sync.WaitGroup
	if !s.o.Remote {
		feeds = append(feeds, s.definitions(feeds))
		running.Go(func() { s.follow(ctx, out) })
	}
	for _, f := range feeds {
		running.Go(func() { f.run(ctx) })
	}
	out.run(ctx)
	running.Wait()
	s.clients.Close()
	return nil
}

// definitions returns a feed of CRDs that has no rows: it wakes the feeds of a kind when its definition changes.
func (s *Source) definitions(feeds []*feed) *feed {
	out := newOutbox(nil) // problems of this kind are only logged
	return newFeed(definitions(s.clients, func(group string) {
		for _, f := range feeds {
			if f.kind.group == group {
				f.kind.lost()
				f.wake()
			}
		}
	}), s.o, out)
}
