package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairway/internal/mesh"
	"fairway/test/plane"
)

// TestGatewayNames: a control plane serves no proxy before the names of gateways are resolved. If a name cannot be resolved, it
// reports that the gateway is not used.
func TestGatewayNames(t *testing.T) {
	asked, release := make(chan string, 8), make(chan struct{})
	server := &dns.Server{Addr: "127.0.0.1:0", Net: "udp", Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		asked <- q.Question[0].Name
		<-release
		a := new(dns.Msg)
		a.SetReply(q)
		switch at := q.Question[0]; {
		case at.Name != "lb.example.com.":
			a.Rcode = dns.RcodeNameError
		case at.Qtype == dns.TypeA:
			r, _ := dns.NewRR("lb.example.com. 60 A 192.0.2.1")
			a.Answer = append(a.Answer, r)
		}
		_ = w.WriteMsg(a)
	})}
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() { _ = server.ListenAndServe() }()
	<-started
	t.Cleanup(func() { _ = server.Shutdown() })

	opts := plane.Options()
	opts.NameServers = func() ([]string, error) { return []string{server.PacketConn.LocalAddr().String()}, nil }
	opts.Networks = filepath.Join(t.TempDir(), "networks.yaml")
	const networks = `networks:
  w: {endpoints: [{fromRegistry: west}], gateways: [{address: lb.example.com, port: 443}]}
  x: {endpoints: [{fromRegistry: xyz}], gateways: [{address: none.example.com, port: 443}]}
`
	if err := os.WriteFile(opts.Networks, []byte(networks), 0o600); err != nil {
		t.Fatal(err)
	}
	p := plane.Run(t, opts)
	for range 4 { // two names, two families
		<-asked
	}
	select {
	case <-p.Discovery.Synced():
		t.Error("it serves while names of gateways have not been answered for")
	default:
	}
	if p.Discovery.Ready() == nil {
		t.Error("it is ready while names of gateways have not been answered for")
	}
	close(release)
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case <-p.Discovery.Synced():
	case <-timer.C:
		t.Fatal("it does not serve though names have been answered for")
	}
	p.Settle(t)
	var told []mesh.Problem
	for _, problem := range p.Discovery.Problems() {
		if strings.Contains(problem.Message, "example.com") {
			told = append(told, problem)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0].Message, `"none.example.com" is not resolved`) ||
		told[0].Field != "networks[x].gateways[0].address" {
		t.Errorf("told is %v", told)
	}
}
