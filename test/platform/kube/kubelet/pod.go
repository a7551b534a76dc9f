package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/test/netns"
)

// Pod is one that runs, or ran.
type Pod struct {
	k                    *Kubelet
	namespace, name, uid string
	dir                  string // of its volumes and logs
	net                  *netns.Namespace
	ip                   string
	tokens               map[string]token // by volume and path. It is filling's.

	filling sync.Mutex // held while volumes are filled

	end  chan struct{} // closed when it is to end
	gone chan struct{} // closed when nothing of it is left
	news chan struct{} // holds a token when the status may be different

	mu      sync.Mutex
	object  *corev1.Pod
	keepers []*keeper
	ready   bool          // its init containers have done their work
	grace   time.Duration // once end is closed

	begun      metav1.Time
	conditions map[corev1.PodConditionType]corev1.PodCondition // as last reported
}

// latest is the object as the API server last had it.
func (p *Pod) latest() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.object
}

func (p *Pod) changed() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// finish makes the pod end. The first call counts.
func (p *Pod) finish(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.end:
	default:
		p.grace = grace
		close(p.end)
	}
}

// live is the whole life of a pod. It returns when nothing of it is left, at once where ctx ends.
func (p *Pod) live(ctx context.Context) {
	defer close(p.gone)
	defer p.net.Close()
	living, die := context.WithCancel(ctx)
	defer die()
	var under sync.WaitGroup
	under.Go(func() { p.report(living) })
	defer under.Wait()
	defer die()
	starting, stop := context.WithCancel(ctx) // until the pod is to end
	defer context.AfterFunc(closed(p.end), stop)()
	p.start(starting, living, &under)
	stop()
	p.stopAll(ctx)
	p.mu.Lock()
	ended := p.object.DeletionTimestamp != nil
	p.mu.Unlock()
	for ctx.Err() == nil {
		err := p.send(ctx)
		if err == nil && ended {
			err = p.k.remove(ctx, p.latest())
		}
		if err == nil || errors.Is(err, errGone) {
			return
		}
		pause(ctx, eager)
	}
}

// closed is a context that ends when a channel is closed.
func closed(c <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-c
		cancel()
	}()
	return ctx
}

// start starts the pod, and returns when the pod has to end: because ctx ended, or because its containers have ended.
func (p *Pod) start(ctx, living context.Context, under *sync.WaitGroup) {
	for {
		err := p.fillVolumes(ctx)
		if err == nil {
			break
		}
		p.k.note(p, err)
		if !pause(ctx, eager) {
			return
		}
	}
	under.Go(func() { p.refresh(living) })
	spec := p.latest().Spec
	for i := range spec.InitContainers {
		if !p.initialize(ctx, living, under, &spec.InitContainers[i]) {
			return
		}
	}
	p.mu.Lock()
	p.ready = true
	p.mu.Unlock()
	var all []*keeper
	for i := range spec.Containers {
		k := p.keeper(&spec.Containers[i], false)
		under.Go(func() { k.keep(living) })
		all = append(all, k)
		select {
		case <-k.hooked:
		case <-k.over:
		case <-ctx.Done():
			return
		}
	}
	for _, k := range all {
		select {
		case <-k.over:
		case <-ctx.Done():
			return
		}
	}
}

// initialize runs an init container, and returns when the next may start; false: none is to.
func (p *Pod) initialize(ctx, living context.Context, under *sync.WaitGroup, spec *corev1.Container) bool {
	k := p.keeper(spec, true)
	under.Go(func() { k.keep(living) })
	next := k.over
	if k.sidecar() {
		next = k.up
	}
	select {
	case <-next:
		return k.sidecar() || k.last.code == 0
	case <-ctx.Done():
		return false
	}
}

// leastGrace is the grace that every container gets, however long its hook has taken.
const leastGrace = 2 * time.Second

// stopAll ends the containers that there are: those of the pod's work together, then its sidecars, the last first. All hooks
// are called at once.
func (p *Pod) stopAll(ctx context.Context) {
	p.mu.Lock()
	keepers, grace := p.keepers, p.grace
	p.mu.Unlock()
	if grace == 0 && len(keepers) > 0 {
		grace = time.Duration(*p.latest().Spec.TerminationGracePeriodSeconds) * time.Second
	}
	bounded, cancel := context.WithTimeout(ctx, max(grace, leastGrace))
	defer cancel()
	now, turn := make(chan struct{}), make(chan struct{})
	close(now)
	var work, sidecars sync.WaitGroup
	for _, k := range keepers {
		if !k.sidecar() {
			work.Go(func() { k.stop(bounded, now) })
		}
	}
	last := turn
	for _, k := range slices.Backward(keepers) {
		if !k.sidecar() {
			continue
		}
		mine, next := last, make(chan struct{})
		sidecars.Go(func() {
			defer close(next)
			k.stop(bounded, mine)
		})
		last = next
	}
	work.Wait()
	close(turn)
	sidecars.Wait()
}

// refresh brings volumes up to date from time to time, as kubelets do.
func (p *Pod) refresh(ctx context.Context) {
	for pause(ctx, 10*time.Second) {
		if err := p.fillVolumes(ctx); err != nil && ctx.Err() == nil {
			p.k.note(p, err)
		}
	}
}

// IP is the pod's address.
func (p *Pod) IP() string { return p.ip }

// Name is the pod's.
func (p *Pod) Name() string { return p.name }

// Log is what a container has written.
func (p *Pod) Log(container string) string {
	text, err := os.ReadFile(p.logFile(container))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// DialContext connects from inside the pod, as a program of its user would: where the pod's connections are intercepted, so
// is this one.
func (p *Pod) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return p.net.DialContext(ctx, network, address)
}

// Exec runs a program in a container, as its user, and returns its output.
func (p *Pod) Exec(ctx context.Context, container string, args ...string) (string, error) {
	c := p.container(container)
	if c == nil {
		return "", fmt.Errorf("%s has no container %s that has run", p.name, container)
	}
	return c.exec(ctx, args)
}

// Kill ends a container's processes; its restart policy decides what follows.
func (p *Pod) Kill(container string) {
	if c := p.container(container); c != nil {
		c.signal(syscall.SIGKILL)
	}
}

func (p *Pod) container(name string) *container {
	if k := p.keeperOf(name); k != nil {
		return k.running()
	}
	return nil
}

// keeperOf returns the keeper of a container, or nil if that has not begun.
func (p *Pod) keeperOf(name string) *keeper {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.keepers {
		if k.spec.Name == name {
			return k
		}
	}
	return nil
}

// files writes the files in /etc of all containers of the pod.
func (p *Pod) files() error {
	for _, dir := range []string{"root", "volumes"} {
		if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o755); err != nil {
			return err
		}
	}
	hosts := fmt.Sprintf("127.0.0.1\tlocalhost\n%s\t%s\n", p.ip, p.name)
	resolve := fmt.Sprintf("nameserver %s\nsearch %s.svc.%s svc.%s %s\noptions ndots:5\n", HostIP, p.namespace, domain, domain, domain)
	err := os.WriteFile(filepath.Join(p.dir, "hosts"), []byte(hosts), 0o644)
	return errors.Join(err, os.WriteFile(filepath.Join(p.dir, "resolv.conf"), []byte(resolve), 0o644))
}
