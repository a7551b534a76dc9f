package kubelet

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

const domain = "cluster.local"

// names answers for Services, as a cluster's DNS does: the address of a Service, or of a headless one's endpoints. While the
// API server is away, its answers stay as before.
type names struct {
	api api
	mu  sync.Mutex
	had map[string]known
}

type known struct {
	ips []string
	at  time.Time
}

// resolve serves names at Host's address until the test ends.
func (k *Kubelet) resolve(t testing.TB) {
	t.Helper()
	n := &names{api: k.api, had: map[string]known{}}
	var packets net.PacketConn
	var err error
	k.network.Host.Do(t, func() { packets, err = net.ListenPacket("udp", HostIP+":53") })
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: packets, Handler: n}
	k.under.Go(func() { _ = server.ActivateAndServe() }) // it ends when it is shut down
	k.under.Go(func() {
		<-k.ctx.Done()
		packets.Close()
	})
}

// ServeDNS implements dns.Handler.
func (n *names) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	answer := new(dns.Msg).SetReply(q)
	answer.Authoritative = true
	if len(q.Question) == 1 {
		ask := q.Question[0]
		ips, err := n.find(strings.ToLower(ask.Name))
		switch {
		case errors.Is(err, errGone):
			answer.Rcode = dns.RcodeNameError
		case err != nil:
			answer.Rcode = dns.RcodeServerFailure
		case ask.Qtype == dns.TypeA:
			for _, ip := range ips {
				answer.Answer = append(answer.Answer, &dns.A{
					Hdr: dns.RR_Header{Name: ask.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5}, A: net.ParseIP(ip),
				})
			}
		}
	}
	_ = w.WriteMsg(answer) // the client asks again
}

// find is the addresses of a name.
func (n *names) find(name string) ([]string, error) {
	short, ok := strings.CutSuffix(name, ".svc."+domain+".")
	parts := strings.Split(short, ".")
	if !ok || len(parts) != 2 {
		return nil, errGone
	}
	n.mu.Lock()
	had, known := n.had[name]
	n.mu.Unlock()
	if known && time.Since(had.at) < time.Second {
		return had.ips, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	ips, err := n.ask(ctx, parts[1], parts[0])
	if err != nil && !errors.Is(err, errGone) && known {
		return had.ips, nil
	}
	if err == nil {
		n.keep(name, ips)
	}
	return ips, err
}

func (n *names) keep(name string, ips []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.had[name] = known{ips, time.Now()}
}

func (n *names) ask(ctx context.Context, namespace, name string) (out []string, err error) {
	var s corev1.Service
	if err := n.api.get(ctx, "/api/v1/namespaces/"+namespace+"/services/"+name, &s); err != nil {
		return nil, err
	}
	if s.Spec.ClusterIP != corev1.ClusterIPNone {
		return s.Spec.ClusterIPs[:1], nil
	}
	var all discoveryv1.EndpointSliceList
	at := "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices?labelSelector=kubernetes.io/service-name=" + name
	err = n.api.get(ctx, at, &all)
	for _, slice := range all.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				out = append(out, e.Addresses...)
			}
		}
	}
	return out, err
}
