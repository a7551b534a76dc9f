package app

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"sync"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"fairway/internal/app/secure"
	"fairway/internal/compile"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/writes"
	"fairway/internal/writes/address"
	"fairway/internal/writes/health"
)

// clusterWrites tells the writer of what turns change. A nil one tells nobody.
type clusterWrites struct {
	*writes.Writer
	graph  *compile.Graph
	root   string // the root namespace
	signer string // of Kubernetes; empty: the mesh's authority signs
}

// newClusterWrites makes what writes into the cluster that is read; nil where there is none.
func newClusterWrites(d *Discovery, reach *rest.Config) (*clusterWrites, error) {
	if reach == nil {
		return nil, nil
	}
	o := writes.Options{
		Config: reach, Namespace: d.opts.Namespace, Revision: d.opts.Revision, Tagged: d.discover.tagged, Identity: ownName(),
		Log: d.log, Registry: d.metrics.Registry,
		Written: d.written, Tell: d.tellRights, Group: d.object, Grace: d.opts.HealthGrace,
		Signer: d.opts.Signer, Names: secure.ServerNames(d.opts.Namespace, d.opts.Revision),
	}
	if authority := d.secure.Authority(); authority != nil {
		o.Authority = authority
	}
	if d.secure != nil && d.opts.HTTPSAddr != "" && (o.Authority != nil || o.Signer != "") {
		o.Bundle = d.secure.Bundle
	}
	o.Injects = d.secure != nil && d.opts.HTTPSAddr != "" && d.opts.Injects
	w, err := writes.New(o)
	if err != nil {
		return nil, err
	}
	out := &clusterWrites{w, d.graph, d.opts.Namespace, d.opts.Signer}
	out.by(nil)
	return out, nil
}

// ownName tells this replica from all others.
func ownName() string {
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname() // without one the rest tells it apart
	}
	return name + "_" + rand.Text()[:8]
}

// seen is told of objects as the cluster has them.
func (d *Discovery) seen(o *unstructured.Unstructured, gone bool) {
	if o.GetKind() == string(config.WorkloadEntry) {
		d.storedHealth(o, gone)
	}
	d.writes.Seen(o, gone)
}

// storedHealth takes in what another control plane wrote of the application of a WorkloadEntry whose agent speaks to it.
func (d *Discovery) storedHealth(o *unstructured.Unstructured, gone bool) {
	k := config.Key{Kind: config.WorkloadEntry, Namespace: o.GetNamespace(), Name: o.GetName()}
	if well, known := health.Stored(o); known && !gone {
		d.graph.In.HealthStored.Set(k, well)
	} else {
		d.graph.In.HealthStored.Delete(k)
	}
}

// written is the version of an object that is in force.
func (d *Discovery) written(k config.Key) (out config.Written) {
	d.graph.Store.Read(func(tx *table.Tx) { out, _ = table.Lookup(tx, d.graph.In.Written.Table, k) })
	return out
}

// tellRights makes problems of rights that are missing.
func (d *Discovery) tellRights(task string, problems []mesh.Problem) {
	at := source.Place{Source: "writes", Name: task}
	if len(problems) == 0 {
		d.graph.In.FileProblems.Delete(at)
	} else {
		d.graph.In.FileProblems.Set(at, problems)
	}
}

// refusedEvery is how often it is looked what proxies refuse.
const refusedEvery = time.Second

// refusals passes on what proxies refuse, until ctx ends. It stands beside the turns: refusals are few, and to go through them
// is not to cost a change anything.
func (w *clusterWrites) refusals(ctx context.Context) {
	tick := time.NewTicker(refusedEvery)
	defer tick.Stop()
	var told []mesh.Problem
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if now := w.graph.Refusals(); !slices.Equal(now, told) {
			w.Refused(now)
			told = now
		}
	}
}

// run writes once everything has been read: until then nobody knows what is wrong with an object.
func (w *clusterWrites) run(ctx context.Context, synced <-chan struct{}) error {
	select {
	case <-synced:
	case <-ctx.Done():
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { w.refusals(ctx) })
	defer beside.Wait()
	defer stop()
	w.Run(ctx)
	return nil
}

// tell passes on what a turn changed. Its cost is that of what changed.
func (w *clusterWrites) tell() {
	if w == nil {
		return
	}
	for n := range w.graph.Store.NoteChanges() {
		w.Status().Noted(n.Table == input.SourceNotes, n.Old, n.New)
	}
	for c := range table.Changes(w.graph.In.Written.Table) {
		w.Status().Changed(c.Key)
	}
	for c := range table.Changes(w.graph.Registry.Healths) {
		w.Health().Said(c.Key, c.New, c.Has)
	}
	for c := range table.Changes(w.graph.In.Gateways) {
		made := c.New
		if !c.Has {
			made = c.Old
		}
		if made.Made != nil && made.Ref.Kind == string(config.Ingress) {
			w.Ingress().Ours(address.Name{Namespace: made.Ref.Namespace, Name: made.Ref.Name}, c.Has)
		}
	}
	for c := range table.Changes(w.graph.In.Mesh) {
		if c.Key.Kind == config.MeshConfig {
			w.by(c.New)
		}
	}
}

// by passes on which gateways carry out Ingresses, which namespaces the mesh sees, and which certificates it keeps. o is nil
// where there is no mesh configuration.
func (w *clusterWrites) by(o *config.Object) {
	said := config.DefaultMeshConfig()
	if o != nil {
		said = config.Spec[*meshconfig.MeshConfig](o)
	}
	w.Discover(config.DiscoveryOf(o, w.root))
	wanted, _ := config.CertificatesOf(said)
	w.Certificates(wanted)
	w.SignerRoots(config.SignerRoots(said, w.signer))
	w.Ingress().By(address.Gateways{Service: said.GetIngressService(), Selector: said.GetIngressSelector()})
}
