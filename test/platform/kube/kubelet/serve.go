package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"testing"

	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/kube/kubelet/journal"
	"fairway/test/platform/kube/kubelet/streams"
	"fairway/test/rig"
)

// port is where the API server asks for logs and the like.
const port = 10250

// serve answers the API server, and no one else, at Host's address until the test ends.
func (k *Kubelet) serve(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	certificate, key, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.Admin().CAData)
	var listen net.Listener
	k.network.Host.Do(t, func() { listen, err = net.Listen("tcp", net.JoinHostPort(HostIP, strconv.Itoa(port))) })
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: streams.Handler(node{k}), BaseContext: func(net.Listener) context.Context { return k.ctx },
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	k.under.Go(func() { _ = server.ServeTLS(listen, "", "") }) // it ends when it is closed
	k.under.Go(func() {
		<-k.ctx.Done()
		server.Close()
	})
}

// node is the kubelet as the API server sees it.
type node struct{ k *Kubelet }

// find returns a pod, also one that has ended, and whether it runs.
func (n node) find(at streams.Place) (*Pod, error) {
	n.k.mu.Lock()
	defer n.k.mu.Unlock()
	for _, all := range []map[string]*Pod{n.k.pods, n.k.past} {
		for _, p := range all {
			if p.namespace == at.Namespace && p.name == at.Pod {
				return p, nil
			}
		}
	}
	return nil, fmt.Errorf("no pod %s/%s is on %s", at.Namespace, at.Pod, Node)
}

// Log implements streams.Node.
func (n node) Log(at streams.Place) (*journal.Journal, error) {
	p, err := n.find(at)
	if err != nil {
		return nil, err
	}
	k := p.keeperOf(at.Container)
	if k == nil {
		return nil, fmt.Errorf("container %s of pod %s has not begun", at.Container, at.Pod)
	}
	return k.log, nil
}

// Exec implements streams.Node.
func (n node) Exec(ctx context.Context, at streams.Place, args []string, prepare func(*exec.Cmd) error) error {
	p, err := n.find(at)
	if err != nil {
		return err
	}
	c := p.container(at.Container)
	if c == nil || isClosed(c.ended) {
		return fmt.Errorf("container %s of pod %s does not run", at.Container, at.Pod)
	}
	return c.execWith(ctx, args, prepare)
}

// Dial implements streams.Node.
func (n node) Dial(ctx context.Context, at streams.Place, port int32) (net.Conn, error) {
	p, err := n.find(at)
	if err != nil {
		return nil, err
	}
	if isClosed(p.gone) {
		return nil, fmt.Errorf("pod %s has ended", at.Pod)
	}
	return p.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
}

// closeLogs releases the files of a pod that has ended.
func (p *Pod) closeLogs() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.keepers {
		k.log.Close()
	}
}

// forget lets a pod go after its object. The caller has k.mu.
func (k *Kubelet) forget(uid string) {
	p := k.past[uid]
	if p == nil {
		return
	}
	delete(k.past, uid)
	p.closeLogs()
}
