package peers

import (
	"context"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/kubeclient"
	"fairway/internal/writes/work"
)

// yes is the value of the label that selects the Leases of one w.o.Task.
const yes = "true"

// A Lease is renewed while there is a text. One that has not been renewed for aliveFor no longer counts: its control plane is gone.
const (
	aliveEvery = 4 * time.Second
	aliveFor   = 15 * time.Second
	answerTime = 7 * time.Second // for one request
	byeTime    = 2 * time.Second // for deleting the own Lease
)

// Options of a Writer.
type Options struct {
	Leases    *kubeclient.Clients
	Namespace string // of the Leases
	Identity  string // of this control plane: unlike that of any other
	Task      string // the name under which reports and metrics list it
	Prefix    string // of the Leases' names
	Marked    string // the label of the Leases, and the annotation that holds the text
	// OnText takes the text of another control plane from now on, in place of the one before; empty: it has none, or is gone. An error says
	// that the text cannot be read.
	OnText func(by, text string) error
	Report *work.Report
}

// Writer keeps this control plane's Lease while Run runs, unless this one leads, and reads the others' while Listen runs.
type Writer struct {
	o    Options
	name string        // of its own Lease
	news chan struct{} // holds a token when the Lease may have to change

	mu    sync.Mutex
	text  string // the wanted text of the Lease; empty: no Lease
	leads bool

	lease  *coordinationv1.Lease // the current one; nil: none; only Run uses it
	looked bool                  // the Lease was read again, and has not been written since
}

// New returns a writer without a text.
func New(o Options) *Writer {
	return &Writer{o: o, name: o.Prefix + leaseOf(o.Identity), news: make(chan struct{}, 1)}
}

// leaseOf returns the part of a Lease's name that is the control plane's.
func leaseOf(identity string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(identity)), "-")
}

// Set sets the text of this control plane; empty: none. It does not block; any goroutine may call it.
func (w *Writer) Set(text string) {
	w.mu.Lock()
	w.text = text
	w.mu.Unlock()
	w.wake()
}

// lead sets whether this control plane writes statuses itself: its Lease is not needed then.
func (w *Writer) lead(is bool) {
	w.mu.Lock()
	w.leads = is
	w.mu.Unlock()
	w.wake()
}

func (w *Writer) wake() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Run keeps the Lease up to date until ctx ends; then it deletes the Lease.
func (w *Writer) Run(ctx context.Context) {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.news:
		case <-tick.C:
		case <-ctx.Done():
			if w.lease != nil { // else the leader does it
				bye, stop := context.WithTimeout(context.WithoutCancel(ctx), byeTime)
				defer stop()
				_ = w.remove(bye)
			}
			return
		}
		w.mu.Lock()
		text := w.text
		if w.leads {
			text = ""
		}
		w.mu.Unlock()
		if err := w.keep(ctx, text); err != nil {
			w.o.Report.Failed(w.o.Task, "Lease "+w.name, err)
		} else {
			w.o.Report.Settled(w.o.Task, "Lease "+w.name)
		}
	}
}

// keep writes and renews the Lease with a text; without a text it deletes the Lease.
func (w *Writer) keep(ctx context.Context, text string) error {
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	if text == "" {
		if w.lease == nil {
			return nil
		}
		return w.remove(ctx)
	}
	leases := w.o.Leases.Leases(w.o.Namespace)
	lease := w.lease
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	}
	lease = lease.DeepCopy()
	lease.Labels, lease.Annotations = map[string]string{w.o.Marked: yes}, map[string]string{w.o.Marked: text}
	now, lasts := metav1.NowMicro(), int32(aliveFor/time.Second)
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &w.o.Identity, &now, &lasts
	var err error
	if w.lease == nil {
		lease, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		if w.lease == nil || w.lease.Annotations[w.o.Marked] != text {
			w.o.Report.Wrote(w.o.Task)
		}
		w.lease, w.looked = lease, false
		return nil
	case w.looked: // it is not another client: the namespace may be missing; the next tick tries again
		w.looked = false
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err): // another client changed it
		w.looked = true
		return w.look(ctx)
	}
	return err
}

// look reads the Lease again, and wakes Run to write it.
func (w *Writer) look(ctx context.Context) error {
	lease, err := w.o.Leases.Leases(w.o.Namespace).Get(ctx, w.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		w.lease = nil
	case err != nil:
		return err
	default:
		w.lease = lease
	}
	w.wake()
	return nil
}

// remove deletes the Lease.
func (w *Writer) remove(ctx context.Context) error {
	err := w.o.Leases.Leases(w.o.Namespace).Delete(ctx, w.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	w.lease = nil
	return nil
}
