package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairway/test/envoy/live"
)

// many services of a mesh, each with an endpoint.
func many(t *testing.T, m *live.Mesh, n int) string {
	t.Helper()
	all := []string{m.Rules(t, "many.txtar:web")}
	for i := range n {
		all = append(all, m.Rules(t, "many.txtar:service", "name", fmt.Sprintf("s%d", i), "ip", fmt.Sprintf("10.9.%d.%d", i/250, 1+i%250)))
	}
	return strings.Join(all, "---\n")
}

// TestFootprint: an agent with an identity, and an Envoy that gets a thousand services through the relay, is ready
// soon, uses little memory, and is idle when nothing happens.
//
// The targets are a second, 40 MB and 0.5 % of a processor. The limit of memory is the target. The limit of the
// processor is twice the target, and that of the time is higher still (most of the time is Envoy's), because the
// machine has other work too.
func TestFootprint(t *testing.T) {
	v := newVictims(t, func(m *live.Mesh) string { return many(t, m, 1000) })
	f := v.connected()
	if f.Relay.Sessions == nil {
		t.Fatal("no relay")
	}
	const watched = 10 * time.Second
	idle := 1.0
	for range 3 { // other work on the machine only adds to the measured time
		cpu, began := v.agent.CPU(t), time.Now()
		<-time.After(watched)
		if idle = min(idle, float64(v.agent.CPU(t)-cpu)/float64(time.Since(began))); idle <= 2*0.005 {
			break
		}
	}
	memory := v.agent.Memory(t)
	t.Logf("ready after %s, of which %s are the agent's; %s; %.2f %% of a processor when idle", v.took.Round(time.Millisecond),
		v.cpu.Round(time.Millisecond), memory, idle*100)
	if v.took > 10*time.Second || v.cpu > 2*time.Second {
		t.Errorf("ready after %s, of which %s are the agent's", v.took, v.cpu)
	}
	if memory.Resident > 40<<20 {
		t.Errorf("it takes %s", memory)
	}
	if idle > 2*0.005 {
		t.Errorf("idle, it takes %.2f %% of a processor", idle*100)
	}
}
