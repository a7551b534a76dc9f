package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/app/session"
	"fairway/internal/mesh/code"
	"fairway/internal/store"
	"fairway/internal/store/shared"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/registry/etcdserver"
	"fairway/test/rig"
)

// sharer is one control plane's part of the records, and the records of others that it has read.
type sharer struct {
	*shared.Records
	stop context.CancelFunc

	mu     sync.Mutex
	others map[string]string // values by writer and name
	went   int               // how many were gone
	reason string
}

// share shares records as a control plane does, until the test ends or stop is called.
func share(t *testing.T, reach store.Reach, writer string) *sharer {
	t.Helper()
	s := &sharer{others: map[string]string{}}
	s.Records = shared.New(shared.Options{
		Reach: reach, Writer: writer, Lasts: 3 * time.Second, Log: slog.New(slog.DiscardHandler),
		Change: func(all []shared.Change) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, c := range all {
				if c.Gone {
					delete(s.others, c.Writer+" "+c.Name)
					s.went++
				} else {
					s.others[c.Writer+" "+c.Name] = string(c.Value)
				}
			}
		},
		Tell: func(reason string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.reason = reason
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	s.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(s.stop)
	return s
}

// await waits until it has read just these records of others.
func (s *sharer) await(t *testing.T, want map[string]string) {
	t.Helper()
	rig.Eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !maps.Equal(s.others, want) {
			return fmt.Errorf("it has %v, want %v; %s", s.others, want, s.reason)
		}
		return nil
	})
}

// gone is how many records it has given up.
func (s *sharer) gone() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.went
}

func (s *sharer) awaitReason(t *testing.T, some bool) {
	t.Helper()
	rig.Eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if (s.reason != "") != some {
			return fmt.Errorf("it says %q", s.reason)
		}
		return nil
	})
}

// TestRecordsAreShared: records of one control plane reach another one, change, go, and go with a control plane that has died.
func TestRecordsAreShared(t *testing.T) {
	server := etcdserver.Start(t, etcdserver.Options{})
	one := share(t, server.Reach(), "one")
	one.Set("a", []byte("1"))
	one.Set("b", []byte("2"))
	two := share(t, server.Reach(), "two")
	two.Set("c", []byte("3"))
	two.await(t, map[string]string{"one a": "1", "one b": "2"})
	one.await(t, map[string]string{"two c": "3"})
	one.Set("a", []byte("4"))
	one.Set("b", nil)
	two.await(t, map[string]string{"one a": "4"})
	one.stop()
	one.await(t, nil) // it has no others once it has ended
	two.await(t, nil) // once the lease of the first has run out
}

// TestSharedRecordsOutliveOutages: while etcd is away, and where it comes back without its data, no record of a living control plane goes.
func TestSharedRecordsOutliveOutages(t *testing.T) {
	server := etcdserver.Start(t, etcdserver.Options{})
	one, two := share(t, server.Reach(), "one"), share(t, server.Reach(), "two")
	one.Set("a", []byte("1"))
	one.Set("gone", []byte("1"))
	two.await(t, map[string]string{"one a": "1", "one gone": "1"})
	for _, empty := range []bool{false, true} {
		server.Kill()
		two.awaitReason(t, true)
		one.Set("a", fmt.Appendf(nil, "later %v", empty))
		one.Set("gone", nil)
		server.Restart(t, empty)
		two.awaitReason(t, false)
		two.await(t, map[string]string{"one a": fmt.Sprintf("later %v", empty)})
	}
	if n := two.gone(); n != 1 {
		t.Errorf("%d records went, want that which was deleted", n)
	}
}

// TestSharedRecordsAreBounded: a record that is too large is not read, and the status says so; the others are read.
func TestSharedRecordsAreBounded(t *testing.T) {
	server := etcdserver.Start(t, etcdserver.Options{})
	at := store.Layout{}.Shared() + "odd/"
	putKey(t, server.Client(t), at+"small", "1")
	one := share(t, server.Reach(), "one")
	one.await(t, map[string]string{"odd small": "1"})
	putKey(t, server.Client(t), at+"large", string(make([]byte, 5<<10)))
	one.awaitReason(t, true)
	putKey(t, server.Client(t), at+"other", "2")
	one.await(t, map[string]string{"odd small": "1", "odd other": "2"})
}

const sharedGroup = `
kind: WorkloadGroup
apiVersion: networking.istio.io/v1
metadata: {name: vms, namespace: shop}
spec:
  metadata: {labels: {app: vm}}
  template: {serviceAccount: vm, ports: {http: 8080}}
  probe: {httpGet: {port: 8080}}
---
kind: ServiceEntry
apiVersion: networking.istio.io/v1
metadata: {name: vms, namespace: shop}
spec:
  hosts: [vms.example.com]
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  resolution: STATIC
  workloadSelector: {labels: {app: vm}}
`

// sharingPlane runs a control plane that shares machines through an etcd.
func sharingPlane(t *testing.T, server *etcdserver.Server, state string) *plane.Plane {
	t.Helper()
	text, err := json.Marshal(map[string]any{"registries": []any{map[string]any{
		"etcd": map[string]any{"urls": []string{server.URL()}, "shareMachines": true},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	o := plane.SecureOptions(t)
	o.Identity.CA.State = state
	o.RegistriesFile = rig.Write(t, t.TempDir(), "registries", text)
	o.HealthStart, o.HealthGrace = time.Millisecond, time.Millisecond
	p := plane.Start(t, o)
	p.Apply(t, "group.yaml", sharedGroup)
	return p
}

// register connects the proxy of a machine that registers with the group.
func register(t *testing.T, p *plane.Plane, ip string) *ads.Client {
	t.Helper()
	node := plane.Proxy{Name: "vm", Namespace: "shop", IP: ip}.Node()
	node.Metadata.Fields["AUTO_REGISTER_GROUP"] = structpb.NewStringValue("vms")
	c := ads.New(node, ads.NewReader(), func(ads.Event) {})
	c.Credentials = p.Credentials(p.JoinAs(t, "shop", "vm"))
	if err := c.Connect(context.Background(), p.Discovery.SecureAddr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Disconnect)
	return c
}

// TestMachinesAreShared: a machine that registers with one control plane has endpoints at another one that reads the same etcd, as its
// agent reports about the application; it moves, and goes with a control plane that has died.
func TestMachinesAreShared(t *testing.T) {
	server := etcdserver.Start(t, etcdserver.Options{})
	state := t.TempDir()
	one, two := sharingPlane(t, server, state), sharingPlane(t, server, t.TempDir())
	seer := two.Connect(t, plane.Proxy{Name: "seer", IP: "10.4.9.9", Secrets: true})
	sees := func(c *plane.Client, want ...string) {
		t.Helper()
		rig.Eventually(t, func() error {
			got, err := c.Endpoints("outbound|80||vms.example.com")
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("it leads to %v, want %v", got, want)
			}
			return err
		})
	}
	say := func(c *ads.Client, failure string) {
		t.Helper()
		if err := c.Report(session.HealthType, failure); err != nil {
			t.Fatal(err)
		}
	}
	sees(seer)
	machine := register(t, one, "10.4.0.1")
	say(machine, "")
	sees(seer, "10.4.0.1:8080")
	say(machine, "no answer")
	sees(seer)
	say(machine, "")
	sees(seer, "10.4.0.1:8080")

	t.Run("a control plane that starts later has it at once", func(t *testing.T) {
		three := sharingPlane(t, server, t.TempDir())
		got, err := three.Connect(t, plane.Proxy{Name: "late", IP: "10.4.9.8", Secrets: true}).Endpoints("outbound|80||vms.example.com")
		if err != nil || !slices.Equal(got, []string{"10.4.0.1:8080"}) {
			t.Errorf("it leads to %v, %v", got, err)
		}
	})
	whole := t // what a part connects stays connected
	t.Run("it moves", func(t *testing.T) {
		machine.Disconnect()
		sees(seer)
		machine = register(whole, two, "10.4.0.1")
		say(machine, "")
		sees(seer, "10.4.0.1:8080")
		sees(one.Connect(t, plane.Proxy{Name: "other", IP: "10.4.9.7", Secrets: true}), "10.4.0.1:8080")
	})
	t.Run("what is not a record is told", func(t *testing.T) {
		putKey(t, server.Client(t), store.Layout{}.Shared()+"odd/machine/x",
			`{"namespace": "shop", "group": "vms", "account": "vm", "address": "127.0.0.1"}`)
		rig.Eventually(t, func() error {
			for _, p := range two.Discovery.Problems() {
				if p.Code == code.NotShared {
					return nil
				}
			}
			return fmt.Errorf("no %s among %v", code.NotShared, two.Discovery.Problems())
		})
		sees(seer, "10.4.0.1:8080")
		if _, err := server.Client(t).Delete(t.Context(), store.Layout{}.Shared()+"odd/machine/x"); err != nil {
			t.Fatal(err)
		}
		rig.Eventually(t, func() error {
			for _, p := range two.Discovery.Problems() {
				if p.Code == code.NotShared {
					return fmt.Errorf("the record is gone, and there is still %v", p)
				}
			}
			return nil
		})
	})
	t.Run("its control plane dies", func(t *testing.T) {
		last := one.Connect(t, plane.Proxy{Name: "last", IP: "10.4.9.6", Secrets: true})
		sees(last, "10.4.0.1:8080")
		seer.Disconnect()
		if err := two.Stop(); err != nil {
			t.Fatal(err)
		}
		sees(last)
	})
}
