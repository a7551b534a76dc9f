package registry_test

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"fairway/internal/mesh"
	"fairway/internal/source/consul"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/rig"
)

// consulServices is how many services of ten instances TestConsulScale registers; docs/registries/consul.md has what 5000 cost.
var consulServices = flag.Int("consulservices", 300, "services of ten instances that a Consul holds in TestConsulScale")

// fillConsul registers services of ten instances each, spread over nodes.
func fillConsul(t testing.TB, c *api.Client, services int) {
	t.Helper()
	for n := range consulNodes {
		registerConsul(t, c, &api.CatalogRegistration{Node: fmt.Sprintf("node-%d", n), Address: fmt.Sprintf("10.200.0.%d", n+1)})
	}
	batches := make(chan api.TxnOps)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for ops := range batches {
				if ok, answer, _, err := c.Txn().Txn(ops, nil); err != nil || !ok {
					t.Errorf("register: %v %v", err, answer)
				}
			}
		})
	}
	var ops api.TxnOps
	for k := range services * 10 {
		s, i := k/10, k%10
		node, id := fmt.Sprintf("node-%d", (s*7+i)%consulNodes), fmt.Sprintf("svc-%d-%d", s, i)
		ops = append(ops,
			&api.TxnOp{Service: &api.ServiceTxnOp{Verb: api.ServiceSet, Node: node, Service: api.AgentService{
				ID: id, Service: fmt.Sprintf("svc-%d", s), Address: fmt.Sprintf("10.%d.%d.%d", 1+k/62500, k/250%250, k%250+1), Port: 8080,
				Tags: []string{"http"}, Meta: map[string]string{"version": "v1", "protocol": "http"},
			}}},
			&api.TxnOp{Check: &api.CheckTxnOp{Verb: api.CheckSet, Check: api.HealthCheck{
				Node: node, CheckID: "check-" + id, Name: "check", ServiceID: id, Status: "passing",
			}}})
		if len(ops) == 60 || k == services*10-1 {
			batches <- ops
			ops = nil
		}
	}
	close(batches)
	group.Wait()
}

// ownCPU is what this process has used so far.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// Many services: all are read, and one change costs a few requests and a few kilobytes, however many there are, over HTTP/2;
// over HTTP/1.1 it costs looking through the others, unless the service changed lately. Figures are logged.
func TestConsulScale(t *testing.T) {
	server := consulserver.Start(t, consulserver.Options{TLS: true})
	c := server.Client(t)
	begun := time.Now()
	fillConsul(t, c, *consulServices)
	t.Logf("registered %d services in %s", *consulServices, time.Since(begun).Round(time.Millisecond))
	for _, secure := range []bool{true, false} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			o := consul.Options{Reach: server.Reach()}
			if !secure {
				o.Reach.URLs = []string{"http://" + server.Address()}
			}
			begun, serverCPU, used := time.Now(), server.Process().CPU(t), ownCPU()
			w := followConsul(t, o)
			w.synced(t, consulName)
			requests, bytes := w.source.Traffic()
			t.Logf("read in %s: %d requests, %.1f MB; own CPU %s, Consul's %s", time.Since(begun).Round(time.Millisecond), requests,
				float64(bytes)/1e6, ownCPU()-used, server.Process().CPU(t)-serverCPU)
			rig.Eventually(t, func() error {
				if n := w.source.Stats().Objects; n != *consulServices {
					return fmt.Errorf("there are %d services", n)
				}
				return nil
			})

			idle := time.NewTimer(10 * time.Second)
			used, serverCPU = ownCPU(), server.Process().CPU(t)
			requests, bytes = w.source.Traffic()
			<-idle.C
			r, b := w.source.Traffic()
			t.Logf("idle for 10 s: %d requests, %d bytes, own CPU %s, Consul's %s",
				r-requests, b-bytes, ownCPU()-used, server.Process().CPU(t)-serverCPU)

			for _, spread := range []int{*consulServices, 10} {
				var took []time.Duration
				requests, bytes = w.source.Traffic()
				used, serverCPU = ownCPU(), server.Process().CPU(t)
				const changes = 60
				for k := range changes {
					s := (k*37 + 11) % spread
					part := mesh.Host(fmt.Sprintf("svc-%d.service.consul", s))
					id := fmt.Sprintf("svc-%d-extra", s)
					node := fmt.Sprintf("node-%d", k%consulNodes)
					at := time.Now()
					registerConsul(t, c, &api.CatalogRegistration{
						Node: node, Address: fmt.Sprintf("10.200.0.%d", k%consulNodes+1), SkipNodeUpdate: true,
						Service: &api.AgentService{ID: id, Service: fmt.Sprintf("svc-%d", s), Address: "10.250.0.1", Port: 8080},
					})
					w.awaitPart(t, part, func(all string) bool { return strings.Contains(all, "10.250.0.1") })
					took = append(took, time.Since(at))
					at = time.Now()
					deregisterConsul(t, c, node, id)
					w.awaitPart(t, part, func(all string) bool { return !strings.Contains(all, "10.250.0.1") })
					took = append(took, time.Since(at))
				}
				slices.Sort(took)
				r, b := w.source.Traffic()
				each := float64(r-requests) / float64(len(took))
				t.Logf("among %d services: %d changes, from the call to the Update p50 %s p90 %s p99 %s", spread, len(took),
					took[len(took)/2].Round(time.Microsecond), took[len(took)*9/10].Round(time.Microsecond),
					took[len(took)*99/100].Round(time.Microsecond))
				t.Logf("each %.1f requests, %.1f kB, own CPU %s, Consul's %s", each, float64(b-bytes)/1e3/float64(len(took)),
					(ownCPU()-used)/time.Duration(len(took)), (server.Process().CPU(t)-serverCPU)/time.Duration(len(took)))
				if secure && each > 8 {
					t.Errorf("a change cost %.1f requests", each)
				}
			}
			with := heap()
			w.stop()
			t.Logf("memory: %.1f MB with the source, %.1f MB of it the rows", float64(with)/1e6, float64(heap())/1e6)
			if n := w.lost(); n > 0 {
				t.Errorf("%d services went", n)
			}
			runtime.KeepAlive(w.sink)
		})
	}
}

// awaitPart waits for what there is of one host.
func (w *consulSource) awaitPart(t testing.TB, part mesh.Host, wish func(all string) bool) {
	t.Helper()
	for late := time.After(rig.Bound); ; {
		w.mu.Lock()
		changed, all := w.changed, fmt.Sprint(w.slices[part])
		w.mu.Unlock()
		if wish(all) {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("in vain waited for %s: %s", part, all)
		}
	}
}
