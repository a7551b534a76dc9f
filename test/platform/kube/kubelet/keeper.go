package kubelet

import (
	"context"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairway/test/platform/kube/kubelet/journal"
)

// keeper runs a container, and runs it again as its policy says.
type keeper struct {
	pod     *Pod
	spec    *corev1.Container
	log     *journal.Journal
	again   corev1.RestartPolicy
	init    bool
	up      chan struct{} // closed when it has started
	hooked  chan struct{} // closed when its postStart has ended
	over    chan struct{} // closed when it has ended and is not started again
	stopped chan struct{} // closed when it is to end

	// Guarded by pod.mu.
	last           *container // the last run; nil: there was none
	started, ready bool
	restarts       int32
	why            string // it does not run; empty: it does, or did
}

func (p *Pod) keeper(spec *corev1.Container, init bool) *keeper {
	k := &keeper{
		pod: p, spec: spec, again: p.latest().Spec.RestartPolicy, init: init, why: "ContainerCreating",
		up: make(chan struct{}), hooked: make(chan struct{}), over: make(chan struct{}), stopped: make(chan struct{}),
	}
	if init && k.again == corev1.RestartPolicyAlways {
		k.again = corev1.RestartPolicyOnFailure
	}
	if spec.RestartPolicy != nil {
		k.again = corev1.RestartPolicy(*spec.RestartPolicy)
	}
	var err error
	if k.log, err = journal.Open(p.logFile(spec.Name)); err != nil {
		p.k.t.Errorf("the log of pod %s: %v", p.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepers = append(p.keepers, k)
	return k
}

// sidecar tells whether it is a native one.
func (k *keeper) sidecar() bool { return k.init && k.spec.RestartPolicy != nil }

// keep returns when the container is not to run again. If ctx ends, the container is killed.
func (k *keeper) keep(ctx context.Context) {
	defer close(k.over)
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if ended := k.once(ctx); ended {
			return
		}
		select {
		case <-k.stopped:
			return
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// once runs the container once, and tells whether that was the last time.
func (k *keeper) once(ctx context.Context) bool {
	e, err := k.pod.entry(ctx, k.spec)
	var c *container
	if err == nil {
		c, err = run(k.pod.net, e, k.log)
	}
	if err != nil {
		k.set(func() { k.why = err.Error() })
		return false
	}
	defer context.AfterFunc(ctx, c.kill)()
	k.set(func() {
		if k.last != nil {
			k.restarts++
		}
		k.last, k.why = c, ""
	})
	select {
	case <-k.stopped: // before it could hear of it
		c.kill()
	default:
	}
	probing, stop := context.WithCancel(ctx)
	var under sync.WaitGroup
	under.Go(func() { k.watch(probing, c) })
	<-c.ended
	stop()
	under.Wait()
	k.set(func() { k.started, k.ready = false, false })
	select {
	case <-k.stopped:
		return true
	case <-ctx.Done():
		return true
	default:
	}
	return k.again == corev1.RestartPolicyNever || k.again == corev1.RestartPolicyOnFailure && c.code == 0
}

// watch runs the hook and the probes of a container that runs.
func (k *keeper) watch(ctx context.Context, c *container) {
	if l := k.spec.Lifecycle; l != nil {
		if err := k.pod.hook(ctx, k.spec, c, l.PostStart); err != nil && ctx.Err() == nil {
			c.kill()
			return
		}
	}
	once(k.hooked)
	if b := k.spec.StartupProbe; b != nil && !k.start(ctx, c, b) || ctx.Err() != nil {
		return
	}
	k.set(func() { k.started, k.ready = true, k.spec.ReadinessProbe == nil })
	once(k.up)
	var under sync.WaitGroup
	defer under.Wait()
	if b := k.spec.LivenessProbe; b != nil {
		under.Go(func() {
			if !k.pod.probe(ctx, k.spec, c, b, patience(b)) {
				c.kill()
			}
		})
	}
	if b := k.spec.ReadinessProbe; b != nil {
		late := patience(b)
		k.pod.probe(ctx, k.spec, c, b, func(err error) bool {
			if tolerable := late(err); err == nil || !tolerable {
				k.set(func() { k.ready = err == nil })
			}
			return true
		})
	}
}

// start waits for the startup probe. If it fails for too long, the container is killed.
func (k *keeper) start(ctx context.Context, c *container, b *corev1.Probe) bool {
	late, started := patience(b), false
	k.pod.probe(ctx, k.spec, c, b, func(err error) bool {
		started = err == nil
		return !started && late(err)
	})
	if !started && ctx.Err() == nil {
		c.kill()
	}
	return started
}

// patience is false once a probe has failed for longer than it may.
func patience(b *corev1.Probe) func(error) bool {
	last := time.Now()
	return func(err error) bool {
		if err == nil {
			last = time.Now()
		}
		return time.Since(last) < tolerance(b)
	}
}

// once closes a channel that only this goroutine, and those after it, close.
func once(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// set changes what the status is made of.
func (k *keeper) set(change func()) {
	k.pod.mu.Lock()
	change()
	k.pod.mu.Unlock()
	k.pod.changed()
}

func (k *keeper) running() *container {
	k.pod.mu.Lock()
	defer k.pod.mu.Unlock()
	return k.last
}

// stop ends the container: preStop, then, once turn is closed, SIGTERM, and SIGKILL when ctx ends. It returns when nothing of
// it runs any more.
func (k *keeper) stop(ctx context.Context, turn <-chan struct{}) {
	close(k.stopped)
	c := k.running()
	if c == nil {
		<-k.over
		return
	}
	if l := k.spec.Lifecycle; l != nil && ctx.Err() == nil {
		_ = k.pod.hook(ctx, k.spec, c, l.PreStop) // the container ends all the same
	}
	select {
	case <-turn:
	case <-ctx.Done():
	}
	c.signal(syscall.SIGTERM)
	select {
	case <-k.over:
	case <-ctx.Done():
		c.kill()
		<-k.over
	}
}

func (p *Pod) logFile(container string) string { return filepath.Join(p.dir, container+".log") }
