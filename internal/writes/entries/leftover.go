package entries

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairway/internal/writes/work"
)

// A control plane that keeps entries renews a Lease.
const (
	aliveEvery = 4 * time.Second
	aliveFor   = 15 * time.Second
	lookEvery  = 5 * time.Second // at entries of control planes that may be gone
	byeTime    = 2 * time.Second // for deleting the own Lease
)

// leaseOf returns the name of the Lease that a control plane renews while it runs.
func leaseOf(identity string) string {
	return "istio-registrar-" + strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(identity)), "-")
}

// alive keeps this control plane's Lease while it keeps entries, until ctx ends.
func (w *Writer) alive(ctx context.Context) {
	select {
	case <-w.some:
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		of := "Lease " + leaseOf(w.o.Identity)
		if err := w.renew(ctx); err != nil {
			w.o.Report.Failed(task, of, err)
		} else {
			w.o.Report.Settled(task, of)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	bye, stop := context.WithTimeout(context.WithoutCancel(ctx), byeTime)
	defer stop()
	_ = w.o.Leases.Leases(w.o.Namespace).Delete(bye, leaseOf(w.o.Identity), metav1.DeleteOptions{}) // else the leader deletes it
}

func (w *Writer) renew(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, aliveFor/2)
	defer stop()
	leases, name := w.o.Leases.Leases(w.o.Namespace), leaseOf(w.o.Identity)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	now, lasts := metav1.NowMicro(), int32(aliveFor/time.Second)
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &w.o.Identity, &now, &lasts
	if missing {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// leftover knows all entries that control planes keep, and deletes an entry when its keeper is gone.
type leftover struct {
	o        Options
	queue    *work.Queue[entry]
	listener *Listener

	mu   sync.Mutex
	all  map[entry]keeping
	of   map[string]int  // how many each keeper has
	gone map[string]bool // keepers
}

// keeping is the last known state of an entry.
type keeping struct {
	uid, version, controller string
}

func newLeftover(o Options) *leftover {
	l := &leftover{
		o: o, all: map[entry]keeping{}, of: map[string]int{}, gone: map[string]bool{}, listener: NewListener(o.Leases, o.Namespace),
	}
	l.queue = work.New(work.Options[entry]{
		Task: task + " left", Name: entry.String, Do: l.look, All: l.each, Report: o.Report,
	})
	return l
}

func (l *leftover) observe(o *unstructured.Unstructured, gone bool) {
	e, notes := entry{o.GetNamespace(), o.GetName()}, o.GetAnnotations()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(e)
	if gone || notes[ofGroup] == "" || notes[ofController] == "" {
		return
	}
	l.all[e] = keeping{uid: string(o.GetUID()), version: o.GetResourceVersion(), controller: notes[ofController]}
	l.of[notes[ofController]]++
}

// forget removes an entry that no longer exists. It returns how many entries its keeper has left. mu is held.
func (l *leftover) forget(e entry) int {
	k, there := l.all[e]
	if !there {
		return l.of[k.controller]
	}
	delete(l.all, e)
	if l.of[k.controller]--; l.of[k.controller] == 0 {
		delete(l.of, k.controller)
	}
	return l.of[k.controller]
}

// each adds the entries of all keepers that are gone.
func (l *leftover) each(add func(entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e, k := range l.all {
		if l.gone[k.controller] {
			add(e)
		}
	}
}

func (l *leftover) run(ctx context.Context) {
	l.listener.Only(nil)
	l.mu.Lock()
	clear(l.gone)
	l.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.listen(ctx)
				l.each(l.queue.Add)
			case <-ctx.Done():
				return
			}
		}
	})
	l.queue.Run(ctx)
	running.Wait()
}

// listen finds out which keepers are gone: those that have not renewed their Lease for the grace period.
func (l *leftover) listen(ctx context.Context) {
	l.mu.Lock()
	keepers := maps.Clone(l.of)
	l.mu.Unlock()
	delete(keepers, l.o.Identity)
	gone := map[string]bool{}
	for keeper := range keepers {
		if l.queue.Pace(ctx) != nil {
			return
		}
		is, err := l.listener.Gone(ctx, keeper, l.o.Grace)
		if err != nil {
			l.o.Report.Failed(task, "Lease "+leaseOf(keeper), err)
			continue
		}
		l.o.Report.Settled(task, "Lease "+leaseOf(keeper))
		gone[keeper] = is
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = gone
	l.listener.Only(keepers)
}

// look deletes an entry if its keeper is gone.
func (l *leftover) look(ctx context.Context, e entry) error {
	l.mu.Lock()
	k, there := l.all[e]
	gone := l.gone[k.controller]
	l.mu.Unlock()
	if !there || !gone {
		return nil
	}
	if err := l.queue.Pace(ctx); err != nil {
		return err
	}
	if err := remove(ctx, l.o.API, e, k.uid, k.version); err != nil {
		return err
	}
	l.o.Report.Wrote(task)
	return l.deleteEntry(ctx, e, k.controller)
}

// deleteEntry deletes the Lease of a keeper that is gone, once its last entry is deleted.
func (l *leftover) deleteEntry(ctx context.Context, last entry, controller string) error {
	l.mu.Lock()
	more := l.forget(last)
	l.mu.Unlock()
	if more > 0 {
		return nil
	}
	return l.listener.DeleteKept(ctx, controller)
}
