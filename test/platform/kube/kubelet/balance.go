package kubelet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pool has the addresses of Services of type LoadBalancer.
var pool = netip.MustParsePrefix("10.251.0.0/16")

// Usable and Unusable are addresses that a Service may ask for: Balance assigns the first to one Service, and the second to none.
const (
	Usable   = "10.251.255.1"
	Unusable = "10.252.0.1"
)

// balanced returns the addresses of the pool that a Service's status has.
func balanced(s *corev1.Service) (out []string) {
	for _, i := range s.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(i.IP); err == nil && pool.Contains(ip) {
			out = append(out, i.IP)
		}
	}
	return out
}

// Balance assigns an address to each Service of type LoadBalancer, as a cloud's controller does, until the test ends. A Service may ask for
// an address of the pool (spec.loadBalancerIP). If that one is taken or outside of the pool, the Service gets none. Carry serves the
// addresses: clients in Host and in pods reach them.
func (k *Kubelet) Balance(t testing.TB) {
	t.Helper()
	b := balancer{k: k, owners: map[string]string{}, next: pool.Addr().Next()}
	k.under.Go(func() {
		for {
			if err := b.sync(); err != nil && k.ctx.Err() == nil {
				k.mu.Lock()
				k.notes["load balancers"] = err.Error()
				k.mu.Unlock()
			}
			if !pause(k.ctx, 20*time.Millisecond) {
				return
			}
		}
	})
}

type balancer struct {
	k      *Kubelet
	owners map[string]string // the Service's UID, by address
	next   netip.Addr
}

// sync assigns addresses to the Services of now, and returns when a Service has changed.
func (b *balancer) sync() error {
	var all corev1.ServiceList
	if err := b.k.api.get(b.k.ctx, "/api/v1/services", &all); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, s := range all.Items {
		there[string(s.UID)] = s.Spec.Type == corev1.ServiceTypeLoadBalancer
	}
	for ip, uid := range b.owners {
		if !there[uid] {
			delete(b.owners, ip)
		}
	}
	for i := range all.Items {
		if err := b.assign(&all.Items[i]); err != nil {
			return err
		}
	}
	body, err := b.k.api.open(b.k.ctx, http.MethodGet, "/api/v1/services?watch=true&resourceVersion="+all.ResourceVersion, "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(new(json.RawMessage))
}

// assign writes the address of a Service into its status, unless it is there.
func (b *balancer) assign(s *corev1.Service) error {
	has := s.Status.LoadBalancer.Ingress
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		if len(has) == 0 {
			return nil
		}
		return b.write(s, "[]")
	}
	want := s.Spec.LoadBalancerIP
	ip, err := netip.ParseAddr(want)
	switch {
	case len(has) == 1 && b.owners[has[0].IP] == string(s.UID) && (want == "" || want == has[0].IP):
		return nil
	case want == "":
		ip, b.next = b.next, b.next.Next()
	case err != nil || !pool.Contains(ip) || b.owners[want] != "" && b.owners[want] != string(s.UID):
		if len(has) == 0 {
			return nil
		}
		return b.write(s, "[]")
	}
	b.owners[ip.String()] = string(s.UID)
	return b.write(s, fmt.Sprintf(`[{"ip": %q}]`, ip))
}

func (b *balancer) write(s *corev1.Service, ingress string) error {
	at := "/api/v1/namespaces/" + s.Namespace + "/services/" + s.Name + "/status"
	return b.k.api.do(b.k.ctx, http.MethodPatch, at, mergePatch, json.RawMessage(`{"status": {"loadBalancer": {"ingress": `+ingress+`}}}`), nil)
}
