package interpret

import (
	"crypto/tls"
	"fmt"
	"testing"

	"fairway/internal/interpret"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// Addresses of the network that TestRedirected has to itself.
const (
	workloadIP = "10.244.0.5"
	friendIP   = "10.244.0.6" // of a client
	foeIP      = "10.244.0.7"
	webVIP     = "10.96.0.10" // of services
	otherVIP   = "10.96.0.11"
	unknownIP  = "10.99.0.9"  // of servers that no rule knows
	firstIP    = "10.244.1.1" // of endpoints of web.test
	secondIP   = "10.244.1.2"
)

// TestRedirected is TestInterpret at a sidecar to which the kernel redirects connections: it finds out where they were to go.
func TestRedirected(t *testing.T) {
	live.NeedEnvoy(t)
	if !live.Isolated(t) {
		return
	}
	live.Redirect(t, 15001, 15006)
	w := newWorld(t)
	trust := live.NewTrust(t)
	w.serveRedirected(t)
	w.Set(t, w.Rules(t, "redirected.yaml", "workload", workloadIP, "web-vip", webVIP, "other-vip", otherVIP, "foe", foeIP,
		"v1", firstIP, "v2", secondIP))
	w.Proxy(t, live.Node{Name: "workload", IP: workloadIP, Redirected: true, Identity: trust.Issue(t, "default/workload").Files})
	w.all(t, append(outboundSites("allowed "), w.inboundSites(t, trust)...))
	w.MeshConfig(t, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n")
	rig.Eventually(t, func() error { // the listener of before may still take it for a moment
		if got := live.DialMarked(t, live.Workload, unknownIP+":7777"); got != "" {
			return fmt.Errorf("a connection that nothing allows reached %q", got)
		}
		return nil
	})
	w.all(t, outboundSites("known only "))
	w.enough(t, 4000)
}

// serveRedirected starts the servers: endpoints of services, those that no rule knows, and the workload beside the proxy.
func (w *world) serveRedirected(t *testing.T) {
	at := func(name, address string) {
		w.servers[address] = name
		w.BackendAt(t, name, address)
	}
	tcp := func(name, address string) {
		w.servers[address] = name
		w.TCPBackendAt(t, name, address)
	}
	at("v1", firstIP+":8080")
	at("v2", secondIP+":8080")
	at("v3", w.Addr("v3", live.Backing))
	tcp("tcp-a", w.Addr("tcp-a", 9000))
	tcp("tcp-b", w.Addr("tcp-b", 9000))
	for _, port := range []string{"80", "7789"} {
		at("unknown-"+port, unknownIP+":"+port)
	}
	tcp("unknown-tcp-9000", unknownIP+":9000")
	tcp("unknown-tcp-7777", unknownIP+":7777")
	for _, name := range []string{"tls-one", "tls-two"} {
		w.servers[w.Addr(name, 8443)] = name
		w.SecureBackendAt(t, name, w.Addr(name, 8443), live.NewTrust(t).Issue(t, name).TLS)
	}
	at("app", workloadIP+":8080")
	at("app-unknown", workloadIP+":9999")
	at("app-strict", workloadIP+":8081")
	tcp("app-tcp", workloadIP+":9000")
	tcp("app-tcp-unknown", workloadIP+":3306")
}

// outboundSites are connections of the workload.
func outboundSites(kind string) (out []site) {
	of := func(name, to string, hosts ...string) {
		out = append(out, site{
			name: kind + name, proxy: "workload", to: to, hosts: hosts, tcp: hosts == nil, from: workloadIP, mark: live.Workload,
			entry: interpret.Outbound, rounds: 300,
		})
	}
	of("service", webVIP+":80", "web.test", "other.test", webVIP, "nobody.test")
	of("another service", otherVIP+":80", "other.test", "web.test")
	of("unknown address", unknownIP+":80", "web.test", "nobody.test", unknownIP)
	of("unknown port", unknownIP+":7789", "web.test", "nobody.test")
	of("HTTP/2", webVIP+":80", "web.test", "other.test", "nobody.test")
	out[len(out)-1].http2 = true
	of("HTTP/2 to an unknown port", unknownIP+":7789", "web.test")
	out[len(out)-1].http2 = true
	of("an endpoint's own address", firstIP+":8080", "web.test", "other.test")
	for _, name := range []string{"one.tls.test", "two.tls.test", "nobody.test"} {
		of("TLS to "+name, webVIP+":443", name)
		s := &out[len(out)-1]
		s.tls, s.shown, s.rounds = &tls.Config{ServerName: name, InsecureSkipVerify: true}, &interpret.TLS{ServerName: name}, 50
	}
	of("connections", webVIP+":9000")
	of("connections to another service", otherVIP+":9000")
	of("connections to an unknown address", unknownIP+":9000")
	of("connections to an unknown port", unknownIP+":7777")
	return out
}

// inboundSites are connections to the workload, of a friend and a foe, in plaintext and with certificates.
func (w *world) inboundSites(t *testing.T, trust *live.Trust) (out []site) {
	of := func(name, from string, port int, hosts ...string) *site {
		out = append(out, site{
			name: name, proxy: "workload", to: fmt.Sprintf("%s:%d", workloadIP, port), hosts: hosts, tcp: hosts == nil, from: from,
			mark: live.Outside, entry: interpret.Inbound, rounds: 300,
		})
		return &out[len(out)-1]
	}
	for name, from := range map[string]string{"friend": friendIP, "foe": foeIP} {
		of(name+" in plaintext", from, 8080, "workload.test")
		of(name+" at a port of mutual TLS", from, 8081, "workload.test")
		of(name+" at a port of no service", from, 9999, "workload.test")
		of(name+" with connections", from, 9000)
		of(name+" with connections to a port of no service", from, 3306)
	}
	for _, port := range []int{15001, 15006} { // of the proxy itself
		s := of(fmt.Sprint("port ", port), friendIP, port)
		s.mark, s.entry = 0, interpret.Direct
	}
	for _, account := range []string{"shop/web", "shop/till"} {
		for _, alpn := range []string{"istio-http/1.1", "istio"} {
			for _, port := range []int{8080, 8081, 9999} {
				s := of(fmt.Sprintf("%s with %s at %d", account, alpn, port), friendIP, port, "workload.test")
				s.tls, s.shown = w.certified(t, trust, account, alpn)
				s.rounds = 100
			}
		}
	}
	return out
}
