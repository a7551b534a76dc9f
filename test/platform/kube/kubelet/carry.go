package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"fairway/test/platform/kube/front"
)

// Carry has connections to the addresses of all Services reach their ready endpoints, as a cluster's kube-proxy has them, until the test
// ends. It carries TCP alone, and not the Service kubernetes, which has no pods.
func (k *Kubelet) Carry(t testing.TB) {
	t.Helper()
	c := carrier{k: k, t: t, fronts: map[string]net.Listener{}, had: map[string]bool{}}
	k.under.Go(func() {
		for {
			if err := c.sync(); err != nil && k.ctx.Err() == nil {
				k.mu.Lock()
				k.notes["Services"] = err.Error()
				k.mu.Unlock()
			}
			if !pause(k.ctx, 20*time.Millisecond) {
				return
			}
		}
	})
}

// carrier listens for Services.
type carrier struct {
	k      *Kubelet
	t      testing.TB
	fronts map[string]net.Listener // by address and port
	had    map[string]bool         // addresses of Host's
}

// sync listens for the Services that there are, and returns when there may be others.
func (c *carrier) sync() error {
	var all corev1.ServiceList
	if err := c.k.api.get(c.k.ctx, "/api/v1/services", &all); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, s := range all.Items {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || s.Namespace == "default" && s.Name == "kubernetes" {
			continue
		}
		for _, port := range s.Spec.Ports {
			if port.Protocol != corev1.ProtocolTCP {
				continue
			}
			at := net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(port.Port)))
			wanted[at] = true
			if err := c.listen(at, backend{c.k, s.Namespace, s.Name, port.Name, new(atomic.Uint32)}); err != nil {
				return err
			}
		}
	}
	for at, l := range c.fronts {
		if !wanted[at] {
			l.Close()
			delete(c.fronts, at)
		}
	}
	body, err := c.k.api.open(c.k.ctx, http.MethodGet, "/api/v1/services?watch=true&resourceVersion="+all.ResourceVersion, "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(new(json.RawMessage))
}

// listen forwards connections that come to an address.
func (c *carrier) listen(at string, b backend) error {
	if c.fronts[at] != nil {
		return nil
	}
	ip, _, err := net.SplitHostPort(at)
	if err != nil {
		return err
	}
	if !c.had[ip] {
		c.k.network.Serve(c.t, ip)
		c.had[ip] = true
	}
	var l net.Listener
	if failed := c.k.network.Host.Inside(func() { l, err = net.Listen("tcp", at) }); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	c.fronts[at] = l
	front.Start(c.t, l, b.dial, b.name)
	return nil
}

// backend is a port of a Service.
type backend struct {
	k                     *Kubelet
	namespace, name, port string
	turn                  *atomic.Uint32
}

// dial connects to one of the endpoints, each in its turn.
func (b backend) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var all discoveryv1.EndpointSliceList
	at := "/apis/discovery.k8s.io/v1/namespaces/" + b.namespace + "/endpointslices?labelSelector=kubernetes.io/service-name=" + b.name
	if err := b.k.api.get(ctx, at, &all); err != nil {
		return nil, err
	}
	var to []string
	for _, slice := range all.Items {
		i := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return p.Port != nil && p.Name != nil && *p.Name == b.port
		})
		if i < 0 {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				to = append(to, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*slice.Ports[i].Port))))
			}
		}
	}
	if len(to) == 0 {
		return nil, fmt.Errorf("Service %s/%s has no ready endpoint", b.namespace, b.name)
	}
	slices.Sort(to)
	return b.k.network.Host.DialContext(ctx, network, to[int(b.turn.Add(1))%len(to)])
}
