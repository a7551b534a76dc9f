package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairway/internal/mesh"
	"fairway/internal/writes/work"
)

// apiServer serves one Lease as an API server does. All tests run in a bubble of fake time.
type apiServer struct {
	t       *testing.T
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	leaders map[string]bool
	terms   []string // who led, in order
}

var resource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func newServer(t *testing.T) *apiServer { return &apiServer{t: t, leaders: map[string]bool{}} }

func (s *apiServer) get() (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return nil, apierrors.NewNotFound(resource, "istio-leader")
	}
	return s.lease.DeepCopy(), nil
}

func (s *apiServer) put(l *coordinationv1.Lease, create bool) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case create && s.lease != nil:
		return nil, apierrors.NewAlreadyExists(resource, l.Name)
	case !create && s.lease == nil:
		return nil, apierrors.NewNotFound(resource, l.Name)
	case !create && l.ResourceVersion != s.lease.ResourceVersion:
		return nil, apierrors.NewConflict(resource, l.Name, errors.New("it is another one"))
	}
	s.version++
	s.lease = l.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	return s.lease.DeepCopy(), nil
}

// edit changes the Lease as another client would.
func (s *apiServer) edit(change func(l *coordinationv1.Lease)) {
	s.t.Helper()
	l, err := s.get()
	if err != nil {
		s.t.Fatal(err)
	}
	change(l)
	if _, err := s.put(l, false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *apiServer) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = nil
}

// leader returns the current leader; empty: none.
func (s *apiServer) leader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for who := range s.leaders {
		return who
	}
	return ""
}

func (s *apiServer) begin(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaders[who] = true
	s.terms = append(s.terms, who)
	if len(s.leaders) > 1 {
		s.t.Errorf("%d lead at once: %v", len(s.leaders), s.leaders)
	}
}

func (s *apiServer) end(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaders, who)
}

// replica is a control plane with its connection to the API server.
type replica struct {
	*apiServer
	name   string
	report *work.Report
	rights []mesh.Problem
	slow   time.Duration // Lead takes this long to return
	stop   func()

	line sync.Mutex
	way  func() trouble
}

// trouble is the failure of one request.
type trouble struct {
	before, after time.Duration // before and after the API server carries it out
	lost          bool          // it does not get there
	err           error         // the answer
}

func (s *apiServer) join(name string) *replica {
	r := &replica{apiServer: s, name: name}
	r.report = work.NewReport(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), func(_ string, p []mesh.Problem) { r.rights = p })
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Run(ctx, Options{
			Leases: r, Namespace: "istio-system", Name: "istio-leader", Identity: name, Report: r.report,
			Lead: func(ctx context.Context) {
				s.begin(name)
				<-ctx.Done()
				time.Sleep(r.slow)
				s.end(name)
			},
		})
	}()
	r.stop = func() {
		stop()
		<-ended
	}
	return r
}

// have sets what happens to the replica's requests; nil: nothing.
func (r *replica) have(way func() trouble) {
	r.line.Lock()
	defer r.line.Unlock()
	r.way = way
}

func (r *replica) cut() { r.have(func() trouble { return trouble{before: time.Hour} }) }

func (r *replica) ask(ctx context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	r.line.Lock()
	var x trouble
	if r.way != nil {
		x = r.way()
	}
	r.line.Unlock()
	pass := func(d time.Duration) bool {
		wait(ctx, d)
		return ctx.Err() == nil
	}
	if x.before > 0 && !pass(x.before) {
		return nil, ctx.Err()
	}
	if x.lost {
		return nil, x.err
	}
	lease, err := do()
	if x.after > 0 && !pass(x.after) {
		return nil, ctx.Err()
	}
	if x.err != nil {
		return nil, x.err
	}
	return lease, err
}

func (r *replica) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return r.ask(ctx, r.get)
}

func (r *replica) Create(ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return r.ask(ctx, func() (*coordinationv1.Lease, error) { return r.put(l, true) })
}

func (r *replica) Update(ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return r.ask(ctx, func() (*coordinationv1.Lease, error) { return r.put(l, false) })
}

// expect lets time pass, and checks the leader then.
func (s *apiServer) expect(after time.Duration, want string) {
	s.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if have := s.leader(); have != want {
		s.t.Fatalf("%q leads, not %q", have, want)
	}
}

// tries is longer than two tries of a waiting replica.
const tries = 2*tryTime + 2*tryTime/5 + time.Millisecond

func TestAStoppedLeaderIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.join("a")
		s.expect(0, "a")
		b := s.join("b")
		s.expect(time.Hour, "a")
		if got := b.report.View().Leaders["istio-leader"]; got != "a" {
			t.Errorf("b reports that %q leads", got)
		}
		a.slow = 5 * time.Second // b waits until a's work has ended
		a.stop()
		s.expect(tries, "b")
		l, _ := s.get()
		if *l.Spec.LeaseTransitions != 1 || holderOf(l) != "b" || *l.Spec.LeaseDurationSeconds != 10 {
			t.Errorf("the Lease says %v", &l.Spec)
		}
		if got := b.report.View().Leaders["istio-leader"]; got != "b" {
			t.Errorf("b reports that %q leads", got)
		}
		b.stop()
		if l, _ := s.get(); holderOf(l) != "" || s.leader() != "" {
			t.Errorf("%q holds the Lease of nobody", holderOf(l))
		}
	})
}

func TestACutOffLeaderStopsBeforeOthersLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.join("a")
		s.expect(0, "a")
		b := s.join("b")
		s.expect(time.Minute, "a")
		a.cut()
		s.expect(renewTime+time.Millisecond, "")
		s.expect(leaseTime-renewTime+tries, "b")
		a.have(nil)
		s.expect(time.Minute, "b")
		a.stop()
		b.stop()
	})
}

// TestALateAnswerDoesNotProlong: the time counts from when a renewal was sent, because the API server may process it at once and answer
// late.
func TestALateAnswerDoesNotProlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.join("a")
		s.expect(0, "a")
		b := s.join("b")
		s.expect(time.Minute, "a")
		first := true
		a.have(func() trouble {
			if first {
				first = false
				return trouble{after: renewTime - tryTime - time.Second}
			}
			return trouble{before: time.Hour}
		})
		s.expect(leaseTime+tryTime+tries, "b")
		a.stop()
		b.stop()
	})
}

func TestALeaderThatLosesTheLeaseStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.join("a")
		s.expect(time.Minute, "a")
		other, lasts := "other", int32(3600)
		s.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &other, &lasts })
		s.expect(tryTime+time.Millisecond, "")
		s.expect(3590*time.Second, "")
		s.expect(20*time.Second, "a")
		l, _ := s.get()
		if *l.Spec.LeaseTransitions != 1 {
			t.Errorf("the Lease changed hands %d times", *l.Spec.LeaseTransitions)
		}
		a.stop()
	})
}

func TestALeaderKeepsWhatOthersWroteBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.join("a")
		s.expect(time.Minute, "a")
		strategy := coordinationv1.OldestEmulationVersion
		s.edit(func(l *coordinationv1.Lease) {
			l.Annotations = map[string]string{"note": "mine"}
			l.Spec.Strategy = &strategy
		})
		s.expect(time.Minute, "a")
		if l, _ := s.get(); l.Annotations["note"] != "mine" || l.Spec.Strategy == nil {
			t.Errorf("what others wrote is lost: %v", l)
		}
		s.remove()
		s.expect(time.Minute, "a")
		if l, err := s.get(); err != nil || holderOf(l) != "a" {
			t.Errorf("the Lease is not there again: %v", err)
		}
		if len(s.terms) != 1 {
			t.Errorf("the leader changed: %v", s.terms)
		}
		a.stop()
	})
}

// TestClocksOfOthersDoNotCount: a Lease with the times of a wrong clock is valid while its renewals are seen.
func TestClocksOfOthersDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		odd, lasts := "odd", int32(10)
		renew := func(l *coordinationv1.Lease) {
			at := metav1.NewMicroTime(time.Now().Add(-time.Hour))
			l.Name = "istio-leader"
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &odd, &lasts, &at
		}
		var l coordinationv1.Lease
		renew(&l)
		if _, err := s.put(&l, true); err != nil {
			t.Fatal(err)
		}
		a := s.join("a")
		for range 20 {
			s.expect(5*time.Second, "")
			s.edit(renew)
		}
		s.edit(func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"touched": "not renewed"} })
		s.expect(9*time.Second, "")
		s.expect(time.Second+tries, "a")
		a.stop()
	})
}

func TestMissingRightsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.join("a")
		s.expect(time.Minute, "a")
		a.have(func() trouble {
			return trouble{lost: true, err: apierrors.NewForbidden(resource, "istio-leader", errors.New("no right"))}
		})
		s.expect(renewTime+time.Millisecond, "")
		if len(a.rights) != 1 || !strings.Contains(a.rights[0].Message, "no right") {
			t.Errorf("problems: %v", a.rights)
		}
		a.have(nil)
		s.expect(tries, "a")
		if len(a.rights) != 0 {
			t.Errorf("problems: %v", a.rights)
		}
		a.stop()
		if failed := a.report.View().Tasks[0].Failed; len(failed) != 0 {
			t.Errorf("failures are left: %v", failed)
		}
	})
}

// TestNeverTwoLeaders starts and ends replicas over connections with every kind of failure. There are never two leaders at once, and once
// all connections work there is one.
func TestNeverTwoLeaders(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			s := newServer(t)
			all := map[string]*replica{}
			for i := range 60 {
				name := fmt.Sprint("r", rng.IntN(4))
				r := all[name]
				switch n := rng.IntN(10); {
				case r == nil:
					all[name] = s.join(name)
				case n == 0:
					r.have(nil)
					r.stop()
					delete(all, name)
				case n < 4:
					r.have(nil)
				default:
					r.have(troubles(rand.New(rand.NewPCG(seed, uint64(i)))))
				}
				time.Sleep(time.Duration(rng.Int64N(int64(15 * time.Second))))
			}
			for _, r := range all {
				r.have(nil)
			}
			all["last"] = s.join("last")
			time.Sleep(leaseTime + renewTime + tries)
			synctest.Wait()
			if s.leader() == "" {
				t.Error("nobody leads")
			}
			for _, r := range all {
				r.stop()
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func troubles(rng *rand.Rand) func() trouble {
	hard := rng.IntN(3)
	return func() trouble {
		some := func() time.Duration { return time.Duration(rng.Int64N(int64(9 * time.Second))) }
		switch n := rng.IntN(6); {
		case hard == 0 || n == 0:
			return trouble{before: time.Hour}
		case n == 1:
			return trouble{before: some(), after: some()}
		case n == 2:
			return trouble{after: time.Hour}
		case n == 3:
			return trouble{lost: true, err: errors.New("connection refused")}
		case n == 4:
			return trouble{err: errors.New("connection reset")}
		default:
			return trouble{}
		}
	}
}
