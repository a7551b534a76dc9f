package writeback

import (
	"context"
	"slices"
	"sync"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairway/internal/app/environment"
	"fairway/internal/app/loop"
	"fairway/internal/app/reached"
	"fairway/internal/app/session"
	"fairway/internal/compile"
	"fairway/internal/compile/gatewayapi/owners"
	wants "fairway/internal/compile/status"
	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/writes"
	"fairway/internal/writes/address"
	"fairway/internal/writes/condition"
	"fairway/internal/writes/health"
	"fairway/internal/writes/status"
)

// Writer passes on the changes of turns to the writers into the cluster. A nil one passes on nothing.
type Writer struct {
	*writes.Writer
	graph  *compile.Graph
	root   string // the root namespace
	signer string // of Kubernetes; empty: the mesh's authority signs
	live   *reached.Tracker
	door   *door.Door
}

var _ session.Machines = (*Writer)(nil)

// New returns a writer for the cluster of o.Config. It reads the mesh from g, and what waits from at.
func New(o writes.Options, g *compile.Graph, at *door.Door) (*Writer, error) {
	o.Identity = environment.Replica()
	out := &Writer{graph: g, root: o.Namespace, signer: o.Signer, door: at}
	out.live = reached.New(func(k config.Key) { out.Changed(k) }, func(text string) { out.Reached(text) })
	o.Status, o.Routed, o.Controller = out.wanted, out.routed, owners.IsOurs
	o.Deployed, o.AllDeployed, o.OnTaken = out.deployed, out.allDeployed, out.taken
	o.OnReached, o.OnServed = out.live.Peer, out.servedElsewhere
	o.Refusals = func(by string, list []mesh.Problem) {
		if len(list) > 0 {
			g.Status.Refused.Set(by, list)
		} else {
			g.Status.Refused.Delete(by)
		}
	}
	o.Group = func(k config.Key) (o *config.Object) {
		g.Store.Read(func(tx *table.Tx) { o = g.Object(tx, k) })
		return o
	}
	o.OnProblems = out.missingRights
	w, err := writes.New(o)
	if err != nil {
		return nil, err
	}
	out.Writer = w
	out.configure(nil)
	return out, nil
}

// wanted returns what the status of an object should hold.
func (w *Writer) wanted(k config.Key) (out status.Wanted) {
	g := w.graph
	g.Store.Read(func(tx *table.Tx) {
		written, _ := table.Lookup(tx, g.In.Written.Table, k)
		is := g.Status.Lookup(tx, wants.Key{Object: k})
		out = status.Wanted{Version: written.Stored, InForce: conditionOf(is.InForce), Newest: conditionOf(is.Newest)}
	})
	out.Live = liveCondition(w.live.Outcome(k, out.Version.Generation))
	if waits, is := w.door.Wait(k); is {
		out.Waits = waitingCondition(waits)
	}
	return out
}

func conditionOf(c wants.Condition) condition.Condition {
	return condition.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
}

// Observe takes an object as the cluster has it.
func (w *Writer) Observe(o *unstructured.Unstructured, gone bool) {
	if o.GetKind() == string(config.WorkloadEntry) {
		w.storedHealth(o, gone)
	}
	w.Writer.Observe(o, gone)
}

// storedHealth applies the health that another control plane wrote about a WorkloadEntry's application. The agent is connected to
// that control plane.
func (w *Writer) storedHealth(o *unstructured.Unstructured, gone bool) {
	k := config.Key{Kind: config.WorkloadEntry, Namespace: o.GetNamespace(), Name: o.GetName()}
	if well, known := health.Stored(o); known && !gone {
		w.graph.In.HealthStored.Set(k, well)
	} else {
		w.graph.In.HealthStored.Delete(k)
	}
}

// Connected implements session.Machines: it registers a machine with an authenticated proxy.
func (w *Writer) Connected(of config.Member) { w.Entries().Connected(of) }

// Disconnected implements session.Machines.
func (w *Writer) Disconnected(of config.Member) { w.Entries().Disconnected(of) }

// missingRights reports rights that a task misses as problems.
func (w *Writer) missingRights(task string, problems []mesh.Problem) {
	at := source.Place{Source: "writes", Name: task}
	if len(problems) == 0 {
		w.graph.In.FileProblems.Delete(at)
	} else {
		w.graph.In.FileProblems.Set(at, problems)
	}
}

// lookEvery is how often Run checks the rejections by proxies, and what waits.
const lookEvery = time.Second

// looks passes on rejections by proxies, and which objects wait at the door, until ctx ends. It runs apart from the turns: these are few,
// and the search for them must not slow down a change.
func (w *Writer) looks(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var refused []mesh.Problem
	waiting := map[config.Key]bool{}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if now := w.graph.Refusals(); !slices.Equal(now, refused) {
			w.Refused(now)
			refused = now
		}
		still := map[config.Key]bool{}
		for _, k := range w.door.WaitingObjects() {
			if still[k] = true; !waiting[k] {
				w.Changed(k)
			}
		}
		waiting = still
	}
}

// RunAfter writes from the time when synced is closed until ctx ends. Before all sources have been read, the problems of an object
// are not known.
func (w *Writer) RunAfter(ctx context.Context, synced <-chan struct{}, streams reached.Streams, turns reached.Turns) error {
	select {
	case <-synced:
	case <-ctx.Done():
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { w.looks(ctx) })
	beside.Go(func() { w.live.Run(ctx, synced, streams, turns) })
	defer beside.Wait()
	defer stop()
	w.Run(ctx)
	return nil
}

// Followers returns the functions that pass the changes of turns on. A nil Writer has none.
func (w *Writer) Followers() []loop.Follower {
	if w == nil {
		return nil
	}
	g := w.graph
	return []loop.Follower{
		{Name: "statuses", Of: table.Follow(g.Status.Statuses), Follow: func(loop.Turn) {
			for c := range table.Changes(g.Status.Statuses) {
				w.Changed(c.Key.Object)
			}
		}},
		{Name: "statuses of the Gateway API", Of: table.Follow(g.GatewayAPI.Statuses), Follow: func(loop.Turn) {
			for c := range table.Changes(g.GatewayAPI.Statuses) {
				w.Changed(c.Key)
			}
		}},
		{Name: "deployments of Gateways", Of: table.Follow(g.GatewayAPI.Deployments), Follow: func(loop.Turn) {
			for c := range table.Changes(g.GatewayAPI.Deployments) {
				w.Deploy(c.Key)
			}
		}},
		{Name: "Gateways with proxies", Of: table.Follow(g.GatewayAPI.Here), Follow: func(loop.Turn) { w.servedHere() }},
		{Name: "versions in force", Of: table.Follow(g.In.Written.Table), Follow: func(t loop.Turn) {
			for c := range table.Changes(g.In.Written.Table) {
				w.inForce(c, t.Version)
				w.Changed(c.Key)
			}
		}},
		{Name: "health in the cluster", Of: table.Follow(g.Registry.Healths), Follow: func(loop.Turn) {
			for c := range table.Changes(g.Registry.Healths) {
				w.Health().Report(c.Key, c.New, c.Has)
			}
		}},
		{Name: "Ingresses", Of: table.Follow(g.In.Gateways), Follow: func(loop.Turn) { w.ingresses() }},
		{Name: "settings of the cluster", Of: table.Follow(g.In.Mesh), Follow: func(loop.Turn) {
			for c := range table.Changes(g.In.Mesh) {
				if c.Key.Kind == config.MeshConfig {
					w.configure(c.New)
				}
			}
		}},
	}
}

// inForce has an object followed to the proxies, if it is one of Istio's in the cluster, in another version than before.
func (w *Writer) inForce(c table.Change[config.Key, config.Written], turn uint64) {
	is, was := c.New.Stored, c.Old.Stored
	switch {
	case !c.Has:
		w.live.Gone(c.Key)
	case is.UID == "" || is.UID == was.UID && is.Generation == was.Generation:
	default:
		w.live.InForce(c.Key, is.Generation, turn)
	}
}

// ingresses passes on the turn's changes of Gateways that are made from Ingresses.
func (w *Writer) ingresses() {
	for c := range table.Changes(w.graph.In.Gateways) {
		made := c.New
		if !c.Has {
			made = c.Old
		}
		if made.Made != nil && made.Ref.Kind == string(config.Ingress) {
			w.Ingress().Ours(address.Name{Namespace: made.Ref.Namespace, Name: made.Ref.Name}, c.Has)
		}
	}
}

// configure passes on which gateways implement Ingresses, which namespaces are in the mesh, and which certificates it keeps. o is
// nil if there is no mesh configuration.
func (w *Writer) configure(o *config.Object) {
	meshConfig := config.DefaultMeshConfig()
	if o != nil {
		meshConfig = config.Spec[*meshconfig.MeshConfig](o)
	}
	w.Discover(config.DiscoveryOf(o, w.root))
	certificates, _ := config.CertificatesOf(meshConfig)
	w.Certificates(certificates)
	w.SignerRoots(config.SignerRoots(meshConfig, w.signer))
	w.Ingress().By(address.Gateways{Service: meshConfig.GetIngressService(), Selector: meshConfig.GetIngressSelector()})
}
