package kube

import (
	"hash/maphash"
	"io"
	"log/slog"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/reading"
	"fairway/internal/source/budget"
	"fairway/internal/source/kube/translate"
)

// Bounds of the answers of another cluster's API server, which is not trusted. A watch's events have maxItem.
const (
	maxAnswer        = 64 << 20 // bytes of one answer: a page of a list
	maxRemoteObjects = 200_000  // of one kind
)

// bound limits the answers that a client takes from another cluster's API server to maxAnswer bytes. All kinds are requested at once, so
// the process reads only one large answer at a time. Lists are read object by object (stream).
func bound(c *rest.Config, lane *reading.Lane) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next: next, lane: lane} })
}

type bounded struct {
	next http.RoundTripper
	lane *reading.Lane
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") != "" {
		return answer, err
	}
	own := b.lane.Begin()
	turn := reading.From(r.Context()) // of the caller, who ends it once the answer is decoded
	if turn == nil {
		turn = own
	}
	body := http.MaxBytesReader(nil, answer.Body, maxAnswer)
	answer.Body = &answerBody{turn.Reader(r.Context(), body), body, own}
	return answer, nil
}

// answerBody is an answer that waits for its turn as soon as it is large.
type answerBody struct {
	io.Reader
	io.Closer
	own *reading.Turn // not begun if the caller has one
}

// Close implements io.Closer.
func (a *answerBody) Close() error {
	defer a.own.End()
	return a.Closer.Close()
}

// RemoteMiB is how many MiB of memory the state of another cluster may take unless options say otherwise.
const RemoteMiB = 128

// RemoteBounds returns the bounds of another cluster for so many MiB of memory: the number of things, endpoints and ports grows with it.
func RemoteBounds(mib int) budget.Bounds {
	b, n := budget.Default(), int64(max(1, mib))
	share := func(of int) int { return int(max(1, int64(of)*n/RemoteMiB)) }
	return budget.Bounds{Bytes: n << 20, Things: share(b.Things), Endpoints: share(b.Endpoints), Ports: share(b.Ports)}
}

// ownBounds returns the bounds of the cluster that the control plane is for. Its API server has bounds of its own.
func ownBounds() budget.Bounds {
	return budget.Bounds{Bytes: 4 << 30, Things: 3_000_000, Endpoints: 2_000_000, Ports: 2_000_000}
}

// Refusals that are remembered of one kind.
const (
	remoteRefusals = 1000
	ownRefusals    = 20_000
)

func newRefusals(k kind, o Options) *budget.Refusals {
	most := ownRefusals
	if o.Remote {
		most = remoteRefusals
	}
	return budget.NewRefusals(k.name+" of cluster "+o.Cluster, most)
}

// Estimates of the memory that a row takes beside its texts, in bytes: the source's own, and all that is built from the
// row.
const (
	rowBytes      = 500
	serviceBytes  = 2000
	endpointBytes = 2200
	portBytes     = 500
	wordBytes     = 32
)

// cost returns the charge for keeping an object.
func cost(from runtime.Object) budget.Cost {
	c := budget.Cost{Bytes: rowBytes, Things: 1}
	switch o := from.(type) {
	case *corev1.Service:
		c.Ports = min(len(o.Spec.Ports), budget.MaxPorts)
		c.Bytes += serviceBytes + int64(c.Ports)*portBytes + words(o.Spec.Selector)
		c.Endpoints = len(o.Spec.ExternalIPs) + len(o.Status.LoadBalancer.Ingress)
	case *discoveryv1.EndpointSlice:
		if translate.ServiceOf(o) == "" {
			return budget.Cost{} // nothing is made of it
		}
		c.Endpoints = len(o.Endpoints)
		c.Bytes += int64(c.Endpoints) * endpointBytes
	case *corev1.Pod, *corev1.Node, *corev1.Namespace:
		c.Bytes += words(from.(stored).GetLabels())
	case *unstructured.Unstructured:
		c.Bytes += 4 * treeBytes(o.Object)
	case *corev1.Secret:
		for key, value := range o.Data {
			c.Bytes += int64(len(key) + 2*len(value))
		}
	case *corev1.ConfigMap:
		c.Bytes += 2 * words(o.Data)
	case *metav1.PartialObjectMetadata:
	}
	return c
}

func words(all map[string]string) (n int64) {
	for key, value := range all {
		n += int64(len(key)+len(value)) + wordBytes
	}
	return n
}

// treeBytes returns how many bytes the texts of a tree have, with some for each value. Fields that are not read do not count.
func treeBytes(v any) (n int64) {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 1
	case []any:
		for _, one := range v {
			n += treeBytes(one)
		}
	case map[string]any:
		for key, one := range v {
			if key != "managedFields" && key != "status" && key != "annotations" {
				n += int64(len(key)) + treeBytes(one)
			}
		}
	}
	return n + 8
}

// key returns an object's key in the ledger of its part.
func (f *feed) key(o metav1.Object) uint64 {
	return maphash.Comparable(f.o.seed, object{o.GetNamespace(), o.GetName()})
}

// left returns how many objects were left out, because there was no room for them.
func (f *feed) left() (n int) {
	for _, p := range f.parts {
		n += p.costs.Left()
	}
	return n
}

// report reports things of the cluster that are left out, and the kind's problems, if they changed.
func (f *feed) report() {
	f.out.report(f.o.account, f.log)
	if list, changed := f.refused.Problem(); changed {
		f.out.put(nil, map[string][]mesh.Problem{f.title() + " refusals": list})
	}
}

// report reports things that an account leaves out, if they changed.
func (b *outbox) report(account *budget.Account, log *slog.Logger) {
	b.change(func() {
		list, changed := account.Problem()
		if !changed {
			return
		}
		if b.next.Problems == nil {
			b.next.Problems = map[string][]mesh.Problem{}
		}
		b.next.Problems[placeBudget] = list
		left := account.Left()
		b.next.LeftOut = &left
		for _, p := range list {
			log.Warn(p.Message)
		}
	})
}

// placeBudget is the place of the problem that a part of the cluster is left out.
const placeBudget = " budget"

// secretsOf returns the secrets that a client sends to the API server. It learns them from the configuration and from requests.
func secretsOf(c *rest.Config) *printable.Secrets {
	secrets := new(printable.Secrets)
	for _, known := range []string{c.BearerToken, c.Password} {
		secrets.Add(known)
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return showing{next, secrets} })
	return secrets
}

type showing struct {
	next    http.RoundTripper
	secrets *printable.Secrets
}

// RoundTrip implements http.RoundTripper.
func (s showing) RoundTrip(r *http.Request) (*http.Response, error) {
	s.secrets.Add(r.Header.Get("Authorization"))
	return s.next.RoundTrip(r)
}

// staying returns a client that follows no redirects.
func staying(client *http.Client) *http.Client {
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
