package peers

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/writes/follow"
)

const (
	mostLeases = 100 // control planes that Leases are read of: the first by name
	lookEvery  = time.Second
)

// lease is the kept part of a Lease.
type lease struct{ version, text string }

// peerState is the last known state of another control plane.
type peerState struct {
	lease
	since    time.Time // when its Lease was last seen to change; other machines' clocks are not trusted
	reported bool
}

// listening holds the state of other control planes.
type listening struct {
	o     Options
	own   string
	known map[string]*peerState // by the name of the Lease
}

// Listen passes the texts of other control planes to OnText until ctx ends; then it withdraws all of them. Only the leader
// runs it.
func (w *Writer) Listen(ctx context.Context) {
	w.lead(true)
	defer w.lead(false)
	leases := w.o.Leases.Leases(w.o.Namespace)
	changed := make(chan struct{}, 1)
	all := follow.New(follow.Options[lease]{
		Task: w.o.Task, Kind: "Leases", Object: &coordinationv1.Lease{}, Report: w.o.Report,
		Select: metav1.ListOptions{LabelSelector: w.o.Marked + "=" + yes},
		List:   func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) { return leases.List(ctx, by) },
		Watch:  leases.Watch,
		Keep: func(o runtime.Object) lease {
			l := o.(*coordinationv1.Lease)
			return lease{l.ResourceVersion, l.Annotations[w.o.Marked]}
		},
		Changed: func(_, _ string) {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { all.Run(ctx) })
	l := &listening{o: w.o, own: w.name, known: map[string]*peerState{}}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			for name := range l.known {
				l.forget(name)
			}
			return
		}
		now := map[string]lease{}
		all.Each(func(_, name string, of lease) { now[name] = of })
		l.look(ctx, now, time.Now())
	}
}

// look takes the current Leases.
func (l *listening) look(ctx context.Context, now map[string]lease, at time.Time) {
	for name := range l.known {
		if _, is := now[name]; !is {
			l.forget(name)
		}
	}
	var names []string
	for name := range now {
		if name != l.own && strings.HasPrefix(name, l.o.Prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		of, h := now[name], l.known[name]
		switch {
		case h == nil && len(l.known) >= mostLeases:
			continue
		case h == nil:
			h = &peerState{lease: of, since: at}
			l.known[name] = h
		case h.version != of.version:
			h.reported = h.reported && h.text == of.text
			h.lease, h.since = of, at
		}
		if at.Sub(h.since) >= aliveFor {
			l.gone(name)
			h.text, h.reported = "", true // until it is renewed
			h.since = at                  // if it cannot be deleted, this is tried again
			l.removeLease(ctx, name, h.version)
			continue
		}
		if !h.reported {
			h.reported = true
			l.report(name, h.text)
		}
	}
}

// report passes on the refusals of a Lease. A Lease that cannot be read has none.
func (l *listening) report(name, text string) {
	if err := l.o.OnText(name, text); err != nil {
		l.o.Report.Failed(l.o.Task, "of "+name, err)
	} else {
		l.o.Report.Settled(l.o.Task, "of "+name)
	}
}

// forget withdraws the refusals of a control plane whose proxies refuse nothing any more, or that is gone.
func (l *listening) forget(name string) {
	delete(l.known, name)
	l.o.Report.Settled(l.o.Task, "of "+name)
	l.gone(name)
}

// removeLease deletes the Lease of a control plane that is gone, unless it has been renewed since.
func (l *listening) removeLease(ctx context.Context, name, version string) {
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	err := l.o.Leases.Leases(l.o.Namespace).Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{ResourceVersion: &version},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // or its control plane has renewed it
		l.o.Report.Settled(l.o.Task, "Lease "+name)
		return
	}
	l.o.Report.Failed(l.o.Task, "Lease "+name, err)
}

// gone withdraws the text of a control plane.
func (l *listening) gone(name string) {
	if err := l.o.OnText(name, ""); err != nil {
		l.o.Report.Failed(l.o.Task, "of "+name, err) // no text can be read always
	}
}
