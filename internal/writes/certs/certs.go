package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"fairway/internal/config"
	"fairway/internal/kubeclient"
	"fairway/internal/writes/follow"
	"fairway/internal/writes/work"
)

// kind is the type of the Secrets, and these are their keys, as Istio's control plane wrote them.
const (
	kind  = "istio.io/dns-key-and-cert"
	chain = "cert-chain.pem"
	key   = "key.pem"
	root  = "root-cert.pem"
)

// task is the name under which reports and metrics list this task.
const task = "certificates"

// Options of a Writer.
type Options struct {
	Client    *kubeclient.Clients
	Namespace string // of the control plane, and of the Secrets
	Manager   string // of the fields that are written
	By        Issuer
	Report    *work.Report
}

// Issuer signs.
type Issuer interface {
	// Certificate makes a key and a certificate for DNS names.
	Certificate(ctx context.Context, names []string) (*tls.Certificate, error)
	Roots() []byte            // in PEM
	Changed() <-chan struct{} // closed when there are others
}

// Writer keeps the Secrets up to date while Run runs.
type Writer struct {
	o       Options
	queue   *work.Queue[string]
	secrets *follow.Follower[secretParts]
	wanted  *work.Setting[[]config.Certificate]
}

// secretParts holds the used parts of a Secret.
type secretParts struct {
	leaf  *x509.Certificate // nil: no certificate that fits the key
	roots string
}

// New returns a writer that follows no Secrets yet and has no list of wanted certificates.
func New(o Options) *Writer {
	w := &Writer{o: o, wanted: work.NewSetting(func(a, b []config.Certificate) bool {
		return slices.EqualFunc(a, b, config.Certificate.Equal)
	})}
	w.queue = work.New(work.Options[string]{
		Task: task, Name: func(name string) string { return "Secret " + o.Namespace + "/" + name },
		Do: w.write, All: w.all, Report: o.Report,
	})
	return w
}

// Want sets which certificates are kept from now on. Secrets of other owners stay unchanged.
func (w *Writer) Want(list []config.Certificate) { w.wanted.Set(list) }

func (w *Writer) wants(secret string) (config.Certificate, bool) {
	list := w.wanted.Value()
	i := slices.IndexFunc(list, func(c config.Certificate) bool { return c.Secret == secret })
	if i < 0 {
		return config.Certificate{}, false
	}
	return list[i], true
}

func (w *Writer) all(add func(string)) {
	for _, c := range w.wanted.Value() {
		add(c.Secret)
	}
}

// Run keeps the Secrets up to date until ctx ends. While no certificate is wanted it sends no requests to the API server.
func (w *Writer) Run(ctx context.Context) {
	for {
		list, others := w.wanted.Get()
		if len(list) > 0 {
			break
		}
		select {
		case <-others:
		case <-ctx.Done():
			return
		}
	}
	secrets := w.o.Client.Secrets(w.o.Namespace)
	w.secrets = follow.New(follow.Options[secretParts]{
		Task: task, Kind: "Secrets " + kind, Object: &corev1.Secret{}, Report: w.o.Report,
		Select:  metav1.ListOptions{FieldSelector: "type=" + kind},
		List:    func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) { return secrets.List(ctx, by) },
		Watch:   secrets.Watch,
		Keep:    func(o runtime.Object) secretParts { return read(o.(*corev1.Secret)) },
		Changed: func(_, name string) { w.queue.Add(name) },
	})
	var running sync.WaitGroup
	running.Go(func() { w.secrets.Run(ctx) })
	running.Go(func() { w.queue.AddAllWhen(ctx, w.o.By.Changed) }) // the roots have changed
	running.Go(func() { w.queue.AddAllWhen(ctx, w.wanted.Changed) })
	w.queue.Run(ctx)
	running.Wait()
}

func read(s *corev1.Secret) secretParts {
	out := secretParts{roots: string(s.Data[root])}
	if pair, err := tls.X509KeyPair(s.Data[chain], s.Data[key]); err == nil {
		out.leaf = pair.Leaf
	}
	return out
}

// left returns for how long a certificate need not be replaced: half of its life. Negative: it has to be replaced now.
func (h secretParts) left(names []string, roots string, now time.Time) time.Duration {
	if h.leaf == nil || h.roots != roots || !slices.Equal(slices.Sorted(slices.Values(h.leaf.DNSNames)), names) {
		return -1
	}
	return work.RenewIn(h.leaf, now)
}

// write brings one Secret up to date.
func (w *Writer) write(ctx context.Context, secret string) error {
	want, wanted := w.wants(secret)
	if !wanted {
		return nil
	}
	if !w.secrets.Synced() {
		return work.ErrWait
	}
	roots := w.o.By.Roots()
	is, there := w.secrets.Get(w.o.Namespace, secret)
	if left := is.left(want.Names, string(roots), time.Now()); there && left > 0 {
		w.queue.AddAfter(secret, left)
		return nil
	}
	made, err := w.o.By.Certificate(ctx, want.Names)
	if err != nil {
		return fmt.Errorf("sign a certificate for Secret %s/%s: %w", w.o.Namespace, secret, err)
	}
	data, err := dataOf(made, roots)
	if err != nil {
		return err
	}
	if err := w.queue.Pace(ctx); err != nil {
		return err
	}
	err = w.put(ctx, secret, data, there)
	switch {
	case err == nil:
		w.o.Report.Wrote(task)
	case there && apierrors.IsNotFound(err):
		return work.ErrWait // its watch event follows
	case !there && apierrors.IsAlreadyExists(err):
		return fmt.Errorf("Secret %s/%s is there and not of type %s: it is left as it is; name another one in the mesh configuration's "+
			"certificates, or delete it", w.o.Namespace, secret, kind)
	}
	return err
}

func dataOf(made *tls.Certificate, roots []byte) (map[string][]byte, error) {
	private, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	var all []byte
	for _, der := range made.Certificate {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return map[string][]byte{chain: all, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), root: roots}, nil
}

func (w *Writer) put(ctx context.Context, name string, data map[string][]byte, there bool) error {
	secrets := w.o.Client.Secrets(w.o.Namespace)
	if !there {
		_, err := secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, Data: data,
		}, metav1.CreateOptions{FieldManager: w.o.Manager})
		return err
	}
	body, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return err
	}
	_, err = secrets.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: w.o.Manager})
	return err
}
