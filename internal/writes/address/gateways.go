package address

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/writes/follow"
)

// lookAgain is how often nodes are read for their addresses, if these are the gateways' addresses.
const lookAgain = 30 * time.Second

// follow finds the addresses of the gateways, again whenever other gateways serve Ingresses, until ctx ends.
func (w *Writer) follow(ctx context.Context) {
	for ctx.Err() == nil {
		by, change := w.by.Get()
		of, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() {
			if by.Service != "" {
				w.followService(of, by)
			} else {
				w.followPods(of, metav1.NamespaceAll, map[string]string{"istio": by.Selector})
			}
		})
		select {
		case <-change:
		case <-ctx.Done():
		}
		stop()
		running.Wait()
	}
}

// followService follows the gateways' Service.
func (w *Writer) followService(ctx context.Context, by Gateways) {
	services := w.o.Client.Services(w.o.Namespace)
	changed := make(chan struct{}, 1)
	f := follow.New(follow.Options[corev1.Service]{
		Task: task, Kind: "Service " + by.Service, Object: &corev1.Service{}, Report: w.o.Report,
		Select: metav1.ListOptions{FieldSelector: "metadata.name=" + by.Service},
		List: func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) {
			out, err := services.List(ctx, by)
			if err == nil {
				wake(changed) // there may be none
			}
			return out, err
		},
		Watch: services.Watch,
		Keep: func(o runtime.Object) corev1.Service {
			s := o.(*corev1.Service)
			return corev1.Service{
				Spec: corev1.ServiceSpec{
					Type: s.Spec.Type, ExternalName: s.Spec.ExternalName, ExternalIPs: s.Spec.ExternalIPs, Selector: s.Spec.Selector,
				},
				Status: s.Status,
			}
		},
		Changed: func(string, string) { wake(changed) },
	})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { f.Run(ctx) })
	var pods machines
	defer pods.end()
	for awaitSynced(ctx, f.Synced) {
		s, there := f.Get(w.o.Namespace, by.Service)
		points := pointsOf(s)
		switch {
		case there && len(points) == 0 && s.Spec.Type == corev1.ServiceTypeNodePort && len(s.Spec.Selector) > 0:
			pods.begin(ctx, w, s.Spec.Selector)
		default:
			pods.end()
			w.reached(points)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// machines follows the pods behind a Service that has no address of its own.
type machines struct {
	by   map[string]string
	stop context.CancelFunc
	done chan struct{}
}

func (m *machines) begin(ctx context.Context, w *Writer, by map[string]string) {
	if m.stop != nil && maps.Equal(m.by, by) {
		return
	}
	m.end()
	ctx, m.stop = context.WithCancel(ctx)
	m.by, m.done = by, make(chan struct{})
	go func() {
		defer close(m.done)
		w.followPods(ctx, w.o.Namespace, by)
	}()
}

func (m *machines) end() {
	if m.stop != nil {
		m.stop()
		<-m.done
		m.stop = nil
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// awaitSynced waits until the first list is complete; false: ctx has ended.
func awaitSynced(ctx context.Context, synced func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !synced() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// pointsOf returns a Service's own addresses: those of its load balancer, else its external ones.
func pointsOf(s corev1.Service) []point {
	var out []point
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return []point{{Hostname: s.Spec.ExternalName}}
	}
	for _, at := range s.Status.LoadBalancer.Ingress {
		switch {
		case at.Hostname != "":
			out = append(out, point{Hostname: at.Hostname})
		case at.IP != "":
			out = append(out, point{IP: at.IP})
		}
	}
	if len(out) == 0 {
		for _, ip := range s.Spec.ExternalIPs {
			out = append(out, point{IP: ip})
		}
	}
	return inOrder(out)
}

func inOrder(points []point) []point {
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.Hostname, b.Hostname)) })
	return slices.Compact(points)
}

// followPods takes the nodes on which the gateways' pods run as the gateways' addresses.
func (w *Writer) followPods(ctx context.Context, namespace string, by map[string]string) {
	pods := w.o.Client.Pods(namespace)
	changed := make(chan struct{}, 1)
	f := follow.New(follow.Options[string]{
		Task: task, Kind: "Pods of gateways", Object: &corev1.Pod{}, Report: w.o.Report,
		Select: metav1.ListOptions{LabelSelector: labels.SelectorFromSet(by).String(), FieldSelector: "status.phase=Running"},
		List: func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) {
			out, err := pods.List(ctx, by)
			if err == nil {
				wake(changed)
			}
			return out, err
		},
		Watch:   pods.Watch,
		Keep:    func(o runtime.Object) string { return o.(*corev1.Pod).Spec.NodeName },
		Changed: func(string, string) { wake(changed) },
	})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { f.Run(ctx) })
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for awaitSynced(ctx, f.Synced) {
		nodes := map[string]bool{}
		f.Each(func(_, _ string, node string) { nodes[node] = node != "" })
		if points, ok := w.machines(ctx, nodes); ok {
			w.reached(points)
		}
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// mostMachines bounds the addresses of one Ingress.
const mostMachines = 50

// machines returns the addresses of nodes; false: they could not be read.
func (w *Writer) machines(ctx context.Context, named map[string]bool) (out []point, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if len(out) >= mostMachines {
			break
		}
		list, err := w.o.Client.Nodes().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			w.o.Report.Failed(task, "Node "+name, err)
			return nil, false
		}
		w.o.Report.Settled(task, "Node "+name)
		for i := range list.Items {
			out = append(out, pointOf(&list.Items[i])...)
		}
	}
	return inOrder(out), true
}

// pointOf returns the external addresses of a node, else the internal ones.
func pointOf(n *corev1.Node) []point {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type == kind {
				return []point{{IP: a.Address}}
			}
		}
	}
	return nil
}
