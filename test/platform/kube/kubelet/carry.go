package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Carry forwards connections and UDP packets from the addresses of all Services to their ready endpoints, as a cluster's kube-proxy does,
// until the test ends. It also does so for the addresses that Balance assigns. The Service kubernetes is left out: it has no pods.
func (k *Kubelet) Carry(t testing.TB) {
	t.Helper()
	c := carrier{k: k, t: t, fronts: map[string]io.Closer{}, had: map[string]bool{}}
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
	fronts map[string]io.Closer // by protocol, address and port
	had    map[string]bool      // addresses of Host's
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
		for _, ip := range append(balanced(&s), s.Spec.ClusterIP) {
			for _, port := range s.Spec.Ports {
				at := net.JoinHostPort(ip, strconv.Itoa(int(port.Port)))
				wanted[string(port.Protocol)+" "+at] = true
				if err := c.listen(ip, at, backend{c.k, s.Namespace, s.Name, port.Name, port.Protocol, new(atomic.Uint32)}); err != nil {
					return err
				}
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

// listen forwards the traffic of an address.
func (c *carrier) listen(ip, at string, b backend) error {
	key := string(b.protocol) + " " + at
	if c.fronts[key] != nil {
		return nil
	}
	if !c.had[ip] {
		c.k.network.Serve(c.t, ip)
		c.had[ip] = true
	}
	var l net.Listener
	var packets net.PacketConn
	var err error
	failed := c.k.network.Host.Inside(func() {
		if b.protocol == corev1.ProtocolUDP {
			packets, err = net.ListenPacket("udp", at)
		} else {
			l, err = net.Listen("tcp", at)
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	if packets != nil {
		c.fronts[key] = packets
		c.k.under.Go(func() { relay(c.k.ctx, packets, b.dial) })
		return nil
	}
	c.fronts[key] = l
	front.Start(c.t, l, b.dial, b.name)
	return nil
}

// backend is a port of a Service.
type backend struct {
	k                     *Kubelet
	namespace, name, port string
	protocol              corev1.Protocol
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
			return p.Port != nil && p.Name != nil && *p.Name == b.port && (p.Protocol == nil || *p.Protocol == b.protocol)
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
