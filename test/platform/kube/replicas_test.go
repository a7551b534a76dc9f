package kube_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/kube/front"
	"fairway/test/rig"
)

// replica is one of several control planes of a cluster, a process of its own that can be ended and started again.
type replica struct {
	*rig.Process
	command    rig.ControlPlane
	grpc, http string
	direct     *sidecar // its stream goes through no front
}

// start returns once the replica serves, and its own sidecar is connected.
func (r *replica) start(t *testing.T) {
	t.Helper()
	r.Process = r.command.Launch(t)
	if err := r.direct.Connect(context.Background(), r.grpc); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, func() error {
		if !r.direct.Complete() {
			return fmt.Errorf("%s holds %s", r.grpc, r.direct.State())
		}
		return nil
	})
}

// end ends the replica: at once, or as a pod that is deleted, which its Service leaves out from that moment on.
func (r *replica) end(t *testing.T, f *front.Front, s syscall.Signal) {
	t.Helper()
	if s == syscall.SIGTERM {
		f.Leave(r.grpc)
		defer f.Join(r.grpc)
	}
	r.Signal(s)
	r.Exit(t)
	r.direct.Disconnect()
}

// startReplicas runs control planes of one cluster behind one address.
func startReplicas(t *testing.T, c *cluster.Cluster, n int) ([]*replica, *front.Front) {
	t.Helper()
	path, state := discovery.Path(t), t.TempDir()
	var all []*replica
	var servers []string
	for i := range n {
		address := func() string { return fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)) }
		r := &replica{grpc: address(), http: address()}
		r.direct = newSidecar(plane.Proxy{Name: "direct", IP: "10.3.9.9"}, func(ads.Event) {})
		t.Cleanup(func() { r.direct.Disconnect() })
		r.command = rig.ControlPlane{
			Command: rig.Command{Name: fmt.Sprintf("replica-%d", i), Path: path, Dir: t.TempDir(), Args: []string{
				"--registries=Kubernetes", "--kubeconfig=" + c.Kubeconfig(t, nil, r.grpc, "system:masters"), "--caStateDir=" + state,
			}},
			GRPC: r.grpc, HTTP: r.http, Shutdown: "300ms",
		}
		r.start(t)
		all, servers = append(all, r), append(servers, r.grpc)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return all, front.Start(t, l, new(net.Dialer).DialContext, servers...)
}

// mover is a sidecar that connects again whenever its stream ends.
type mover struct {
	*sidecar
	moves   atomic.Int32
	settled atomic.Bool // the steady endpoints are in its resources, and have to stay there
}

func newMover(t *testing.T, address string, x plane.Proxy) *mover {
	t.Helper()
	ended := make(chan struct{}, 1)
	m := &mover{}
	m.sidecar = newSidecar(x, func(e ads.Event) {
		if m.settled.Load() && slices.Contains(e.Names, webCluster) {
			m.checks(t, x.Name)
		}
		if e.Err != nil {
			ended <- struct{}{}
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer m.Disconnect()
		for ctx.Err() == nil {
			if m.Connect(ctx, address) != nil {
				continue // the replica that took the connection is gone already
			}
			select {
			case <-ended:
				m.Disconnect()
				m.moves.Add(1)
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return m
}

// steady are endpoints of web that are ready all along.
var steady = []string{"10.3.0.2:8080", "10.3.0.3:8080"}

func (m *mover) checks(t *testing.T, name string) {
	now, err := m.Endpoints(webCluster)
	if err != nil {
		t.Error(err)
	}
	for _, one := range steady {
		if !slices.Contains(now, one) {
			t.Errorf("%s was sent %v, without %s", name, now, one)
		}
	}
}

// changes are the responses that brought or took something since the last call.
func (s *sidecar) changes() (out []string) {
	for _, e := range s.taken() {
		if len(e.Names)+len(e.Removed) > 0 {
			out = append(out, fmt.Sprintf("%s %v, without %v", ads.Short(e.Type), e.Names, e.Removed))
		}
	}
	return out
}

// Three replicas are killed and ended, one after another, while six sidecars are connected by one address.
func TestReplicasEnd(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+pod(1, true)+"---"+pod(2, true)+"---"+webRule)
	replicas, behind := startReplicas(t, c, 3)
	var movers []*mover
	for i := range 6 {
		m := newMover(t, behind.Address(), plane.Proxy{Name: fmt.Sprintf("web-%d", i), IP: "10.3.0.2"})
		m.reaches(t, webCluster, steady...)
		m.settled.Store(true)
		movers = append(movers, m)
	}
	for _, part := range []func(*testing.T, *cluster.Cluster, []*replica, *front.Front, []*mover){moveInPeace, moveUnderLoad} {
		before := int32(0)
		for _, m := range movers {
			before -= m.moves.Load()
		}
		begun := time.Now()
		part(t, c, replicas, behind, movers)
		for _, m := range movers {
			before += m.moves.Load()
		}
		if before == 0 {
			t.Error("no sidecar has moved")
		}
		t.Logf("%d moves in %s", before, time.Since(begun))
	}
}

// moveInPeace: another replica sends a sidecar nothing that it holds, and goes on with what changes.
func moveInPeace(t *testing.T, c *cluster.Cluster, replicas []*replica, behind *front.Front, movers []*mover) {
	everywhere := func(timeout string) {
		t.Helper()
		c.Apply(t, strings.ReplaceAll(webRule, "3s", timeout))
		for _, m := range movers {
			m.routes(t, fmt.Sprintf(`"timeout":%q`, timeout))
		}
		for _, r := range replicas {
			r.direct.routes(t, fmt.Sprintf(`"timeout":%q`, timeout))
		}
	}
	everywhere("9s")
	for i, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		for _, m := range movers {
			m.changes()
		}
		replicas[i].end(t, behind, s)
		replicas[i].start(t)
		for _, other := range replicas {
			if diff := cmp.Diff(replicas[0].direct.Versions(), other.direct.Versions()); diff != "" {
				t.Errorf("another replica has other versions of the same:\n%s", diff)
			}
		}
		everywhere(fmt.Sprintf("%ds", 10+i)) // its result is the first change since the end of the replica
		want := []string{ads.Short(xdstype.VirtualHostURL) + " [80/web.shop.svc.cluster.local:80], without []"}
		for _, m := range movers {
			if got := m.changes(); !slices.Equal(got, want) {
				t.Errorf("after %s of replica %d %s was sent %q", s, i, m.Node.Id, got)
			}
		}
	}
}

// other is a rule for a host that no service has.
func other(n int, host string) string {
	return strings.NewReplacer("name: web,", fmt.Sprintf("name: other-%d,", n), "[web]", "["+host+"]").Replace(webRule)
}

// moveUnderLoad: while the cluster changes, no sidecar loses a resource that exists all along, and in the end all hold the same as one that
// just connected.
func moveUnderLoad(t *testing.T, c *cluster.Cluster, replicas []*replica, behind *front.Front, movers []*mover) {
	for _, m := range movers {
		m.taken()
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			for _, text := range []string{
				pod(3+n%5, n%2 == 0),
				strings.ReplaceAll(webRule, "3s", fmt.Sprintf("%ds", 20+n)),
				other(n%3, fmt.Sprintf("w%d.test", n)),
			} {
				if _, err := c.Try(context.WithoutCancel(ctx), text); err != nil {
					t.Errorf("change %d: %v", n, err)
				}
			}
		}
		done <- n
	}()
	for i, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL} {
		replicas[i].end(t, behind, s)
		replicas[i].start(t)
	}
	stop()
	t.Logf("%d changes of three objects each", <-done)
	for _, m := range movers {
		fresh := connectTo(t, behind.Address(), plane.Proxy{Name: "fresh", IP: "10.3.0.2"})
		rig.Eventually(t, func() error {
			if diff := cmp.Diff(fresh.InUse(), m.InUse()); diff != "" {
				return fmt.Errorf("%s holds, beside one that just came:\n%s", m.Node.Id, diff)
			}
			return nil
		})
		fresh.Disconnect()
		for _, e := range m.taken() {
			if less := slices.DeleteFunc(e.Removed, func(n string) bool { return strings.Contains(n, ".test") }); len(less) > 0 {
				t.Errorf("%s lost %s %v", m.Node.Id, ads.Short(e.Type), less)
			}
		}
	}
}
