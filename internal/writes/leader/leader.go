package leader

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"fairway/internal/writes/work"
)

// A leader that is killed is followed after leaseTime, which whoever waits counts from when it last saw the Lease
// renewed, and at most two tries: within 13.6 s. One that cannot renew stops before that.
const (
	leaseTime = 10 * time.Second
	renewTime = 7 * time.Second
	tryTime   = 1500 * time.Millisecond
	giveTime  = 3 * time.Second // for giving the Lease up
)

// task is what missing rights are told under.
const task = "leader"

// Options of an Election.
type Options struct {
	Client          coordinationv1.LeasesGetter
	Namespace, Name string // of the Lease
	Identity        string // of this control plane: unlike that of any other
	// Lead is called when this control plane becomes the leader; its context ends when it is no longer, and it returns
	// soon after that.
	Lead   func(context.Context)
	Report *work.Report
}

// Run takes part until ctx ends, and gives the Lease up then.
func Run(ctx context.Context, o Options) error {
	lock := watched{&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
		Client:     o.Client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}, o}
	o.Report.Leader(o.Name, "", false)
	for ctx.Err() == nil {
		if err := once(ctx, lock, o); err != nil {
			return fmt.Errorf("lease %s/%s: %w", o.Namespace, o.Name, err)
		}
	}
	return nil
}

// once waits to become the leader, and leads until that ends.
func once(ctx context.Context, lock watched, o Options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var leading sync.WaitGroup
	led, over := false, false
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: o.Name,
		LeaseDuration: leaseTime, RenewDeadline: renewTime, RetryPeriod: tryTime,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				mu.Lock()
				if over { // it ended before this goroutine began
					mu.Unlock()
					return
				}
				led = true
				leading.Add(1)
				mu.Unlock()
				defer leading.Done()
				o.Lead(ctx)
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(who string) { o.Report.Leader(o.Name, who, who == o.Identity) },
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	stop()
	mu.Lock()
	over = true
	mu.Unlock()
	leading.Wait()
	if led {
		o.Report.Leader(o.Name, "", false)
		release(lock, o.Identity)
	}
	return nil
}

// release gives the Lease up once nothing is written any more, so that another control plane need not wait. Where that
// fails the Lease runs out.
func release(lock watched, identity string) {
	ctx, stop := context.WithTimeout(context.Background(), giveTime)
	defer stop()
	now, _, err := lock.Get(ctx)
	if err != nil || now.HolderIdentity != identity {
		return
	}
	now.HolderIdentity, now.LeaseDurationSeconds = "", 1
	now.RenewTime = metav1.Now()
	_ = lock.Update(ctx, *now)
}

// watched is a Lease of which missing rights are told.
type watched struct {
	*resourcelock.LeaseLock
	o Options
}

// Get is resourcelock.Interface's.
func (w watched) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := w.LeaseLock.Get(ctx)
	return record, raw, w.told(err)
}

// Create is resourcelock.Interface's.
func (w watched) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return w.told(w.LeaseLock.Create(ctx, r))
}

// Update is resourcelock.Interface's.
func (w watched) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return w.told(w.LeaseLock.Update(ctx, r))
}

func (w watched) told(err error) error {
	switch of := w.o.Namespace + "/" + w.o.Name; {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		w.o.Report.Settled(task, of)
	default:
		w.o.Report.Failed(task, of, err)
	}
	return err
}
