package leader

import (
	"context"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/writes/work"
)

// A leader that is killed is followed after leaseTime, which each waiting control plane counts from when it last saw the Lease
// change, and at most two tries: within 13.6 s. A leader that cannot renew stops renewTime after it sent its last renewal, which is
// before another control plane may lead, however long answers take.
const (
	leaseTime = 10 * time.Second
	renewTime = 7 * time.Second
	tryTime   = 1500 * time.Millisecond
	jitter    = 0.2             // of tryTime, so that waiting control planes do not all try at once
	giveTime  = 3 * time.Second // for the release of the Lease
)

// task is the name under which missing rights are reported.
const task = "leader"

// Leases are the Leases of one namespace.
type Leases interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// Options of an election.
type Options struct {
	Leases          Leases
	Namespace, Name string // of the Lease
	Identity        string // of this control plane: unlike that of any other
	// Lead is called when this control plane becomes the leader. Its context ends when it is no longer the leader, and Lead returns soon
	// after.
	Lead   func(context.Context)
	Report *work.Report
}

// Run takes part until ctx ends, and then releases the Lease.
func Run(ctx context.Context, o Options) {
	e := &election{o: o}
	o.Report.Leader(o.Name, "", false)
	for {
		until, ok := e.win(ctx)
		if !ok {
			return
		}
		e.lead(ctx, until)
	}
}

// election is one control plane's view of the Lease.
type election struct {
	o       Options
	lease   *coordinationv1.Lease // as it was last read; nil: never
	changed time.Time             // when its content was first seen; other machines' clocks are not trusted
	holder  string                // as reported
}

// win tries until this control plane is the leader. It returns the time at which the leader has to stop without a renewal; false: ctx
// ended.
func (e *election) win(ctx context.Context) (until time.Time, ok bool) {
	for ctx.Err() == nil {
		sent := time.Now()
		if e.try(ctx, sent.Add(renewTime)) == won {
			return sent.Add(renewTime), true
		}
		wait(ctx, tryTime+time.Duration(jitter*rand.Float64()*float64(tryTime)))
	}
	return time.Time{}, false
}

// lead leads until the Lease cannot be renewed in time, another control plane holds it, or ctx ends.
func (e *election) lead(ctx context.Context, until time.Time) {
	leading, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.o.Lead(leading)
	}()
	e.renew(ctx, until)
	stop()
	<-done
	e.reportHolder("")
	e.release(ctx)
}

// renew renews the Lease while that works.
func (e *election) renew(ctx context.Context, until time.Time) {
	for ctx.Err() == nil {
		wait(ctx, min(tryTime, time.Until(until)))
		sent := time.Now()
		if !sent.Before(until) {
			return
		}
		switch e.try(ctx, until) {
		case won:
			until = sent.Add(renewTime)
		case otherHolds:
			return
		case failed:
		}
	}
}

// outcome is the result of a try.
type outcome int

const (
	failed     outcome = iota // nothing is known
	otherHolds                // another control plane holds the Lease
	won
)

// try takes or renews the Lease, unless another control plane holds it.
func (e *election) try(ctx context.Context, until time.Time) outcome {
	ctx, stop := context.WithDeadline(ctx, until)
	defer stop()
	if e.lease != nil && e.mine() { // it is usually unchanged
		switch err := e.put(ctx); {
		case err == nil:
			return won
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			return failed
		}
	}
	lease, err := e.o.Leases.Get(ctx, e.o.Name, metav1.GetOptions{})
	switch e.report(err); {
	case apierrors.IsNotFound(err):
		e.lease = nil
	case err != nil:
		return failed
	default:
		e.see(lease)
	}
	if e.lease != nil && !e.mine() && e.valid() {
		return otherHolds
	}
	if e.put(ctx) != nil {
		return failed
	}
	return won
}

// mine reports whether this control plane holds the Lease, as it was last read.
func (e *election) mine() bool { return holderOf(e.lease) == e.o.Identity }

// valid reports whether the holder of the Lease, if there is one, may still lead.
func (e *election) valid() bool {
	lasts := e.lease.Spec.LeaseDurationSeconds
	return holderOf(e.lease) != "" && lasts != nil && time.Since(e.changed) < time.Duration(*lasts)*time.Second
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// see records the Lease as it was read.
func (e *election) see(now *coordinationv1.Lease) {
	if e.lease == nil || !equality.Semantic.DeepEqual(e.lease.Spec, now.Spec) {
		e.changed = time.Now()
	}
	e.lease = now
	e.reportHolder(holderOf(now))
}

// reportHolder reports the leader if it has changed.
func (e *election) reportHolder(holder string) {
	if holder != e.holder {
		e.holder = holder
		e.o.Report.Leader(e.o.Name, holder, holder == e.o.Identity)
	}
}

// put writes this control plane into the Lease. It fails if the Lease has changed since it was last read.
func (e *election) put(ctx context.Context) error {
	now, lasts := metav1.NowMicro(), int32(leaseTime/time.Second)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.o.Name, Namespace: e.o.Namespace}}
	if e.lease != nil {
		lease = e.lease.DeepCopy()
	}
	s := &lease.Spec
	if e.lease == nil || !e.mine() {
		changes := int32(0)
		if e.lease != nil {
			changes++
			if s.LeaseTransitions != nil {
				changes += *s.LeaseTransitions
			}
		}
		s.LeaseTransitions, s.AcquireTime = &changes, &now
	}
	s.HolderIdentity, s.LeaseDurationSeconds, s.RenewTime = &e.o.Identity, &lasts, &now
	var err error
	if e.lease == nil {
		lease, err = e.o.Leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = e.o.Leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if e.report(err); err == nil {
		e.see(lease)
	}
	return err
}

// release releases the Lease once all writes have ended, so that another control plane need not wait. If that fails the Lease expires.
func (e *election) release(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), giveTime)
	defer stop()
	lease, err := e.o.Leases.Get(ctx, e.o.Name, metav1.GetOptions{})
	if e.report(err); err != nil || holderOf(lease) != e.o.Identity {
		return
	}
	nobody, lasts, now := "", int32(1), metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &nobody, &lasts, &now
	lease, err = e.o.Leases.Update(ctx, lease, metav1.UpdateOptions{})
	if e.report(err); err == nil {
		e.see(lease)
	}
}

// report reports a missing right. That another control plane was first is not reported.
func (e *election) report(err error) {
	switch of := e.o.Namespace + "/" + e.o.Name; {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		e.o.Report.Settled(task, of)
	default:
		e.o.Report.Failed(task, of, err)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
