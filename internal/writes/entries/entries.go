package entries

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"fairway/internal/config"
	"fairway/internal/kubeclient"
	"fairway/internal/writes/work"
)

// task is the name under which reports and metrics list this task.
const task = "workloadentries"

// The annotations of an entry that is kept, as Istio has them.
const (
	ofGroup        = config.GroupAnnotation
	ofController   = "istio.io/workloadController"
	connectedAt    = "istio.io/connectedAt"
	disconnectedAt = "istio.io/disconnectedAt"
)

// Options of a Writer.
type Options struct {
	API       rest.Interface // asked by path
	Leases    *kubeclient.Clients
	Manager   string // of the fields that are written
	Namespace string // of the Leases
	Identity  string // of this control plane
	Grace     time.Duration
	// Group returns a WorkloadGroup; nil: there is none.
	Group  func(config.Key) *config.Object
	Report *work.Report
}

// entry names a WorkloadEntry.
type entry struct{ namespace, name string }

func (e entry) String() string { return "WorkloadEntry " + e.namespace + "/" + e.name }

func (e entry) path() string {
	return "/apis/networking.istio.io/v1/namespaces/" + e.namespace + "/workloadentries/" + e.name
}

// entryOf names the entry of a machine.
func entryOf(m config.Member) entry {
	k := m.Entry()
	return entry{k.Namespace, k.Name}
}

// kept is an entry that this control plane keeps.
type kept struct {
	machine config.Member
	proxies int       // connected ones
	came    time.Time // the first of them
	left    time.Time // the last of them; zero: some are connected
}

// mostKept bounds the entries of one control plane.
const mostKept = 20_000

// Writer keeps entries while it runs.
type Writer struct {
	o     Options
	queue *work.Queue[entry]
	left  *leftover

	mu   sync.Mutex
	kept map[entry]*kept
	some chan struct{} // holds a token once there are some
}

// New returns a writer that keeps nothing.
func New(o Options) *Writer {
	w := &Writer{o: o, kept: map[entry]*kept{}, some: make(chan struct{}, 1), left: newLeftover(o)}
	w.queue = work.New(work.Options[entry]{Task: task, Name: entry.String, Do: w.write, All: w.all, Report: o.Report})
	return w
}

// Run keeps the entries of the proxies that are connected here until ctx ends. It needs no leader's Lease: only this control plane knows
// these proxies.
func (w *Writer) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { w.alive(ctx) })
	w.queue.Run(ctx)
	running.Wait()
}

// Sweep deletes entries whose control planes are gone, until ctx ends. Only the leader runs it.
func (w *Writer) Sweep(ctx context.Context) { w.left.run(ctx) }

// Observe takes the current state of a WorkloadEntry in the API server; gone: it was deleted. Observe does not keep the object.
func (w *Writer) Observe(o *unstructured.Unstructured, gone bool) { w.left.observe(o, gone) }

func (w *Writer) all(add func(entry)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := range w.kept {
		add(e)
	}
}

// Connected is called when a proxy that proved the machine's service account connects.
func (w *Writer) Connected(m config.Member) {
	e := entryOf(m)
	w.mu.Lock()
	k := w.kept[e]
	if k == nil || k.machine != m {
		if len(w.kept) >= mostKept {
			w.mu.Unlock()
			return
		}
		k = &kept{machine: m}
		w.kept[e] = k
	}
	if k.proxies++; k.proxies == 1 {
		k.came, k.left = time.Now(), time.Time{}
	}
	w.mu.Unlock()
	w.Lives()
	w.queue.Add(e)
}

// Lives starts the renewal of this control plane's Lease: it keeps something that other control planes take over once it is gone.
func (w *Writer) Lives() {
	select {
	case w.some <- struct{}{}:
	default:
	}
}

// Disconnected is called when such a proxy disconnects.
func (w *Writer) Disconnected(m config.Member) {
	e := entryOf(m)
	w.mu.Lock()
	k := w.kept[e]
	if k == nil || k.machine != m || k.proxies == 0 {
		w.mu.Unlock()
		return
	}
	if k.proxies--; k.proxies == 0 {
		k.left = time.Now()
	}
	w.mu.Unlock()
	w.queue.Add(e)
}
