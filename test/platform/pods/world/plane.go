package world

import (
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"fairway/test/platform/kube/front"
	"fairway/test/rig"
)

// planePorts are those of the control plane's Service: discovery with certificates, and webhooks.
var planePorts = [...]int{15012, 15017}

// replicaAt is where a replica listens, in Host.
func replicaAt(i, port int) string { return fmt.Sprintf("127.0.0.%d:%d", 11+i, port) }

// carry has connections to one port of the control plane's Service reach its replicas.
func (w *World) carry(t testing.TB, port int) *front.Front {
	t.Helper()
	var servers []string
	for i := range w.planes {
		servers = append(servers, replicaAt(i, port))
	}
	return w.pass(t, fmt.Sprintf("%s:%d", planeIP, port), servers...)
}

// pass has connections to one of Host's addresses reach servers.
func (w *World) pass(t testing.TB, address string, servers ...string) *front.Front {
	t.Helper()
	var l net.Listener
	var err error
	w.Network.Host.Do(t, func() { l, err = net.Listen("tcp", address) })
	if err != nil {
		t.Fatal(err)
	}
	return front.Start(t, l, w.Network.Host.DialContext, servers...)
}

// StartPlane starts the control plane's first replica and returns once it serves. It may be called again after KillPlane.
func (w *World) StartPlane() { w.StartReplica(0) }

// StartReplica starts one of three replicas and returns once it serves. They share one authority.
func (w *World) StartReplica(i int) {
	t := w.t
	t.Helper()
	rig.Write(t, w.dir, "inject/values", []byte("global: {hub: fairway}")) // of images
	w.planes[i] = rig.ControlPlane{
		Command: rig.Command{
			Name: fmt.Sprintf("pilot-discovery-%d", i), Path: Programs[0].Path(t), Dir: w.dir, In: w.Network.Host,
			Args: []string{"--kubeconfig", w.Kubeconfig(t, nil, "plane", "system:masters"), "--caStateDir", filepath.Join(w.dir, "ca"),
				"--injectConfigFolder", filepath.Join(w.dir, "inject")},
		},
		Secure: replicaAt(i, planePorts[0]), HTTP: fmt.Sprintf(":%d", 8080+i), HTTPS: replicaAt(i, planePorts[1]),
	}.Launch(t)
}

// KillPlane ends the control plane's first replica at once.
func (w *World) KillPlane() { w.EndReplica(0, syscall.SIGKILL) }

// EndReplica ends a replica: at once, or as a deleted pod, which gets no new connections from its Service.
func (w *World) EndReplica(i int, s syscall.Signal) {
	w.t.Helper()
	if s == syscall.SIGTERM {
		for at, f := range w.fronts {
			f.Leave(replicaAt(i, planePorts[at]))
			defer f.Join(replicaAt(i, planePorts[at]))
		}
	}
	w.planes[i].Signal(s)
	w.planes[i].Exit(w.t)
}

// PlanePid returns the process of the control plane's first replica, which runs in the network namespace Network.Host.
func (w *World) PlanePid() int { return w.planes[0].Pid() }
