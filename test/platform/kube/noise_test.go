package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"fairway/test/rig"
)

// share is what two processes took of a core each over a span.
type share struct{ program, decoding float64 }

// measure tells what the program took while something was done, and what a process that decodes the same events and drops them did.
func (p *program) measure(t *testing.T, decoding *rig.Process, do func()) (of share, took time.Duration) {
	begun, own, other := time.Now(), p.CPU(t), decoding.CPU(t)
	do()
	took = time.Since(begun)
	of.program, of.decoding = (p.CPU(t)-own).Seconds()/took.Seconds(), (decoding.CPU(t)-other).Seconds()/took.Seconds()
	return of, took
}

// noise makes updates that do not matter to a mesh: annotations, statuses, heartbeats. It reports their cost beside the cost for a process
// that decodes the same events and drops them.
func (p *program) noise(t *testing.T) {
	const span = 10 * time.Second
	decoding, writers := startDecoding(t, p.cluster), p.idlers(t)
	// Half a minute after the start agents have had the time to say how applications are, which makes a turn.
	rig.Eventually(t, func() error {
		rows, err := p.page("/debug/tablez?table=health/heard&format=text")
		if err == nil && !strings.Contains(rows, "true") {
			err = errors.New("agents may still take their time: " + rows)
		}
		return err
	})
	idle, _ := p.measure(t, decoding, func() { p.atRest(t) })
	turns, log, before := p.turns(t), len(p.Log.String()), make([]int, len(p.clients))
	for i, l := range p.clients {
		before[i] = l.Count()
	}
	var made atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), span)
	defer stop()
	pace := rate.NewLimiter(1000, 50)
	go p.profile(t, "profile?seconds=5")
	busy, took := p.measure(t, decoding, func() {
		var workers sync.WaitGroup
		for _, w := range writers {
			workers.Go(func() {
				for n := 0; pace.Wait(ctx) == nil; n++ {
					if err := w.write(ctx, n); err == nil {
						made.Add(1)
					} else if ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
		}
		workers.Wait()
	})
	perSecond := float64(made.Load()) / took.Seconds()
	own, other := busy.program-idle.program, busy.decoding-idle.decoding
	t.Logf("%.0f updates a second took %.1f %% of a core, %.0f µs each, beside the %.2f %% that nothing takes",
		perSecond, own*100, own/perSecond*1e6, idle.program*100)
	t.Logf("decoding them alone took %.1f %%, %.0f µs each", other*100, other/perSecond*1e6)
	beyond := (own - other) / perSecond * 1000
	t.Logf("1,000 a second would take %.1f %% of a core beyond decoding", beyond*100)
	if beyond > 0.10 { // twice the promised share, for machines with other work
		t.Errorf("1,000 updates a second would take %.1f %% of a core beyond decoding", beyond*100)
	}
	if now := p.turns(t); now != turns {
		t.Errorf("they made %d turns:\n%s", now-turns, p.Log.String()[log:])
	}
	for i, l := range p.clients {
		if now := l.Count(); now != before[i] {
			t.Errorf("proxy %d was sent %d resources", i, now-before[i])
		}
	}
}

// object is one that can be stored.
type object interface {
	metav1.Object
	runtime.Object
}

// writers is how many write at once. Each has objects of its own.
const writers = 16

// idler changes objects in ways that change nothing for a mesh. It writes them into the store itself.
type idler struct {
	p     *program
	codec runtime.Serializer
	known map[string]object // as this one wrote them last
	of    int               // which of the writers it is
}

// idlers makes for each writer a rule and a Lease. No control plane writes the rules' statuses: there is no root namespace, and so no
// leader.
func (p *program) idlers(t *testing.T) (out []*idler) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	codec := protobuf.NewSerializer(scheme, scheme)
	for w := range writers {
		p.cluster.Apply(t, fmt.Sprintf(`
kind: DestinationRule
apiVersion: networking.istio.io/v1
metadata: {name: idle-%[1]d, namespace: %[2]s}
spec: {host: s-%[1]d.%[2]s.svc.cluster.local, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1000}}}}
---
kind: Lease
apiVersion: coordination.k8s.io/v1
metadata: {name: idle-%[1]d, namespace: kube-node-lease}
spec: {holderIdentity: idle}
`, w, namespace(w, p.services)))
		out = append(out, &idler{p, codec, map[string]object{}, w})
	}
	return out
}

func (w *idler) rule() string {
	return fmt.Sprintf("/registry/networking.istio.io/destinationrules/%s/idle-%d", namespace(w.of, w.p.services), w.of)
}

// write makes the n-th change: to each sixth object of a kind's, in turn.
func (w *idler) write(ctx context.Context, n int) error {
	i := (w.of + n/6*writers) % (w.p.services / writers * writers)
	ns, said := namespace(i, w.p.services), strconv.Itoa(n)
	annotate := func(o object) { o.SetAnnotations(map[string]string{"n": said}) }
	switch n % 6 {
	case 0:
		return w.change(ctx, fmt.Sprintf("/registry/pods/%s/p-%d", ns, i*5), annotate)
	case 1:
		return w.change(ctx, fmt.Sprintf("/registry/services/specs/%s/s-%d", ns, i), annotate)
	case 2:
		i = w.of + n/6*writers%max(w.p.services/10-writers, 1)/writers*writers
		return w.change(ctx, fmt.Sprintf("/registry/minions/n-%d", i), func(o object) {
			o.(*corev1.Node).Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Unix(int64(n), 0)},
			}
		})
	case 3:
		return w.change(ctx, fmt.Sprintf("/registry/pods/%s/p-%d", ns, i*5+1), func(o object) {
			o.(*corev1.Pod).Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: "app", ImageID: said, Ready: true}}
		})
	case 4:
		return w.change(ctx, fmt.Sprintf("/registry/leases/kube-node-lease/idle-%d", w.of), func(o object) {
			o.(*coordinationv1.Lease).Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(int64(n), 0)}
		})
	}
	return w.change(ctx, w.rule(), func(o object) {
		annotate(o)
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "idle-" + said, Operation: metav1.ManagedFieldsOperationApply}})
	})
}

// change writes an object as it was written last, but for an edit.
func (w *idler) change(ctx context.Context, key string, edit func(object)) error {
	o, ok := w.known[key]
	if !ok {
		value, err := w.p.cluster.Value(ctx, key)
		if err != nil {
			return err
		}
		got, _, err := w.coding(value).Decode(value, nil, nil)
		if err != nil {
			return err
		}
		if o, ok = got.(object); !ok {
			return fmt.Errorf("%s is a %T", key, got)
		}
		w.known[key] = o
	}
	edit(o)
	var out bytes.Buffer
	coding := w.codec
	if _, custom := o.(*unstructured.Unstructured); custom {
		coding = unstructured.UnstructuredJSONScheme
	}
	if err := coding.Encode(o, &out); err != nil {
		return err
	}
	return w.p.cluster.SetValue(ctx, key, out.Bytes())
}

// coding is how API servers wrote a value: those of custom resources are JSON.
func (w *idler) coding(value []byte) runtime.Decoder {
	if bytes.HasPrefix(value, []byte("{")) {
		return unstructured.UnstructuredJSONScheme
	}
	return w.codec
}
