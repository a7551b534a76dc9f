package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
)

// Options of a Queue of keys.
type Options[K comparable] struct {
	Task string // a word or two: the label of its metrics
	Name func(K) string
	// Do brings the object of the key up to date. It calls Pace before each request. An error: the queue tries again; an error that wraps
	// ErrWait is not reported.
	Do func(context.Context, K) error
	// All adds every existing key, at the start and after the queue was full.
	All    func(add func(K))
	Delay  time.Duration // how long a key waits, so that changes in quick succession are written at once
	Report *Report
}

// ErrWait reports that something cannot be written yet, which is not a failure.
var ErrWait = errors.New("not yet")

// Bounds on the requests of each task to an API server.
const (
	perSecond  = 50
	atOnce     = 100
	workers    = 4
	mostQueued = 100_000
	answerTime = 20 * time.Second
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
	rightPause = 10 * time.Second // after a missing right; and up to twice that
)

// Queue holds the keys of objects that may have to be written, each once, and writes them while Run runs.
type Queue[K comparable] struct {
	o      Options[K]
	limit  *rate.Limiter
	rivals rivals[K]

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[K] // nil while it does not run
	full  bool                                    // some keys were dropped
}

// New returns a queue that does not run yet.
func New[K comparable](o Options[K]) *Queue[K] {
	q := &Queue[K]{o: o, limit: rate.NewLimiter(perSecond, atOnce)}
	o.Report.mu.Lock()
	defer o.Report.mu.Unlock()
	o.Report.of(o.Task).pending = q.pending
	return q
}

func (q *Queue[K]) pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queue == nil {
		return 0
	}
	return q.queue.Len()
}

// Add queues a key. While the queue does not run it does nothing: Run begins with all keys.
func (q *Queue[K]) Add(k K) { q.AddAfter(k, q.o.Delay) }

// AddAfter queues a key after a while.
func (q *Queue[K]) AddAfter(k K, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.queue == nil:
	case q.queue.Len() >= mostQueued:
		q.full = true
	default:
		q.queue.AddAfter(k, d)
	}
}

// AddAllWhen adds all existing keys, and again each time that the channel of changed is closed, until ctx ends.
func (q *Queue[K]) AddAllWhen(ctx context.Context, changed func() <-chan struct{}) {
	for {
		next := changed()
		q.o.All(q.Add)
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// Pace waits until the next request to the API server is allowed.
func (q *Queue[K]) Pace(ctx context.Context) error { return q.limit.Wait(ctx) }

// Run processes keys until ctx ends. It returns once no key is in process any more.
func (q *Queue[K]) Run(ctx context.Context) {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](firstPause, lastPause))
	q.mu.Lock()
	q.queue, q.full = queue, false
	q.mu.Unlock()
	q.o.All(q.Add)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for q.step(ctx, queue) {
			}
		})
	}
	<-ctx.Done()
	q.mu.Lock()
	q.queue = nil
	q.mu.Unlock()
	queue.ShutDown()
	running.Wait()
}

// step processes one key; false: the queue has ended.
func (q *Queue[K]) step(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K]) bool {
	k, ended := queue.Get()
	if ended {
		return false
	}
	defer queue.Done(k)
	if ctx.Err() != nil {
		return true
	}
	err := q.do(ctx, k)
	var rival rivalError
	switch {
	case ctx.Err() != nil:
	case err == nil:
		queue.Forget(k)
		q.o.Report.Settled(q.o.Task, q.o.Name(k))
	case errors.Is(err, ErrWait):
		queue.AddRateLimited(k)
	case errors.As(err, &rival):
		q.o.Report.Failed(q.o.Task, q.o.Name(k), err)
		queue.Forget(k)
		queue.AddAfter(k, rival.wait)
	case lacksRight(err):
		q.o.Report.Failed(q.o.Task, q.o.Name(k), err)
		queue.Forget(k)
		queue.AddAfter(k, rightPause+rand.N(rightPause))
	default:
		q.o.Report.Failed(q.o.Task, q.o.Name(k), err)
		queue.AddRateLimited(k)
	}
	q.refill(queue)
	return true
}

// do calls Do with a time limit. A panic in it ends only this key.
func (q *Queue[K]) do(ctx context.Context, k K) (err error) {
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			q.o.Report.log.Error("what writes an object failed",
				"task", q.o.Task, "of", q.o.Name(k), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("a fault of the control plane's own: %v", p)
		}
	}()
	return q.o.Do(ctx, k)
}

// refill adds all keys again once a queue that was full is empty.
func (q *Queue[K]) refill(queue workqueue.TypedRateLimitingInterface[K]) {
	q.mu.Lock()
	again := q.full && queue.Len() == 0
	if again {
		q.full = false
	}
	q.mu.Unlock()
	if again {
		q.o.All(q.Add)
	}
}

// lacksRight reports whether a request was refused because a right is missing.
func lacksRight(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
