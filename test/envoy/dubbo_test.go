package envoy

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestDubbo: a consumer of Dubbo calls providers through its sidecar: one behind another sidecar by mutual TLS, others by rules of
// method, attachment and weight, and several with interfaces that share a port.
func TestDubbo(t *testing.T) {
	bothProtocols(t, func(t *testing.T, sotw bool) {
		m, trust := live.Start(t, live.Options{}), live.NewTrust(t)
		m.DubboBackend(t, "greeter-v1", 20880)
		m.DubboBackend(t, "greeter-v2", 20880)
		port := m.DubboBackendOnLocalhost(t, "app")
		m.Set(t, m.Rules(t, "dubbo.txtar:mesh", "port", port))
		m.Proxy(t, live.Node{Name: "app", Sotw: sotw, Identity: trust.Issue(t, "app").Files})
		web := m.ClientNode(t, live.Node{Name: client, Sotw: sotw, Identity: trust.Issue(t, "web").Files})
		call := func(to string, c live.Call) string {
			t.Helper()
			name, err := live.Dubbo(to, c)
			if err != nil {
				return "error: " + err.Error()
			}
			return name
		}
		hello := live.Call{Interface: "com.example.Greeter", Version: "0.0.0", Method: "sayHello"}

		t.Run("through two proxies", func(t *testing.T) {
			if got := call(m.Addr("app-vip", 20880), hello); got != "app" {
				t.Errorf("the consumer is answered by %q", got)
			}
			if got := call(m.Addr("app", 20880), hello); !strings.HasPrefix(got, "error") {
				t.Errorf("past its proxy, in the clear, the consumer is answered by %q", got)
			}
		})
		t.Run("by method and attachment", func(t *testing.T) {
			m.Apply(t, m.Rules(t, "dubbo.txtar:routes"))
			to := m.Addr("greeter-vip", 20880)
			jason, getter := hello, hello
			jason.Attachments, getter.Method = map[string]string{"user": "jason"}, "getAll"
			other := getter
			other.Interface = "com.example.Other"
			rig.Eventually(t, func() error { // a proxy that changes a listener takes some connections by the old one
				for _, c := range []struct {
					call live.Call
					want string
				}{{jason, "greeter-v2"}, {getter, "greeter-v2"}, {hello, "greeter-v1"}, {other, "greeter-v1"}} {
					if got := call(to, c.call); got != c.want {
						return fmt.Errorf("%v is answered by %q, want %s", c.call, got, c.want)
					}
				}
				return nil
			})
		})
		t.Run("by weight", func(t *testing.T) {
			m.Apply(t, m.Rules(t, "dubbo.txtar:weights"))
			web.AwaitStat(t, `cluster\.outbound.*v2.*upstream_cx_total`, 1)
			rig.Eventually(t, func() error {
				got := map[string]int{}
				for range 200 {
					got[call(m.Addr("greeter-vip", 20880), hello)]++
				}
				if n := got["greeter-v2"]; n < 25 || n > 75 || n+got["greeter-v1"] != 200 {
					return fmt.Errorf("of 200 requests, a quarter of which are v2's: %v", got)
				}
				return nil
			})
		})
		t.Run("interfaces that share a port", func(t *testing.T) { sharedPort(t, m) })
	})
}

// sharedPort: services of one port and no address, as a registry of Dubbo's has thousands.
func sharedPort(t *testing.T, m *live.Mesh) {
	number := rig.FreePort(t)
	var rows source.Rows
	for i, name := range []mesh.DubboName{
		{Interface: "com.example.A"}, {Interface: "com.example.B"}, {Interface: "com.example.B", Version: "2.0"},
	} {
		key := mesh.ServiceKey{Host: mesh.Host(fmt.Sprintf("shared-%d.dubbo", i)), Namespace: "default", Registry: "Memory"}
		backend := fmt.Sprintf("shared-%d", i)
		m.DubboBackend(t, backend, 20880)
		rows.Services = append(rows.Services, &mesh.Service{
			Key: key, Ports: []mesh.Port{{Name: "dubbo", Number: uint32(number), Protocol: mesh.Dubbo}},
			ExportTo: []string{"*"}, Dubbo: name,
		})
		rows.Slices = append(rows.Slices, &mesh.Slice{Key: mesh.SliceKey{Service: key, Name: "all"}, Endpoints: []mesh.SliceEndpoint{{
			ID: backend, Endpoint: mesh.Endpoint{Address: m.IP(backend), Ports: mesh.MakeLabels(map[string]string{"dubbo": "20880"})},
		}}})
	}
	m.Plane.Rules.Add(rows)
	m.Settle(t)
	to := "127.0.0.1:" + strconv.Itoa(int(number))
	rig.Eventually(t, func() error {
		for c, want := range map[mesh.DubboName]string{
			{Interface: "com.example.A", Version: "0.0.0"}: "shared-0", {Interface: "com.example.B", Version: "0.0.0"}: "shared-1",
			{Interface: "com.example.B", Version: "2.0"}: "shared-2",
		} {
			got, err := live.Dubbo(to, live.Call{Interface: c.Interface, Version: c.Version, Method: "sayHello"})
			if err != nil || got != want {
				return fmt.Errorf("%v is answered by %q: %v; want %s", c, got, err, want)
			}
		}
		return nil
	})
	if got, err := live.Dubbo(to, live.Call{Interface: "com.example.C", Version: "0.0.0", Method: "sayHello"}); err == nil {
		t.Errorf("an interface that nobody serves is answered by %q", got)
	}
}
