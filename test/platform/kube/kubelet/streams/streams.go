// Package streams serves what an API server asks the kubelet of a machine for: `kubectl logs`, `kubectl exec` and `kubectl port-forward`,
// over SPDY and WebSocket, with the protocols of Kubernetes' own library. It knows neither processes nor networks: a Node has them.
package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"fairway/test/platform/kube/kubelet/journal"
)

// Place names a container of a pod.
type Place struct{ Namespace, Pod, Container string }

// Node runs the pods. Its errors say that there is no such pod or container.
type Node interface {
	// Log returns what a container has written.
	Log(Place) (*journal.Journal, error)
	// Exec runs a program in a container; prepare gives it its input and output.
	Exec(ctx context.Context, at Place, args []string, prepare func(*exec.Cmd) error) error
	// Dial connects to a port of a pod's loopback.
	Dial(ctx context.Context, at Place, port int32) (net.Conn, error)
}

// idle and creation bound how long a stream does nothing, and how long a client takes to open its streams.
const idle, creation = time.Hour, 30 * time.Second

// Handler serves a node's pods.
func Handler(n Node) http.Handler {
	s := server{n}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
	for _, method := range []string{"GET", "POST"} {
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", s.exec)
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{uid}/{container}", s.exec)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", s.forward)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}/{uid}", s.forward)
	}
	return mux
}

type server struct{ node Node }

func place(r *http.Request) Place {
	return Place{r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")}
}

// logs answers with the lines of a container.
func (s server) logs(w http.ResponseWriter, r *http.Request) {
	q, err := query(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	of, err := s.node.Log(place(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	to := &lines{w: w, left: -1}
	if limit := r.FormValue("limitBytes"); limit != "" {
		if to.left, err = strconv.ParseInt(limit, 10, 64); err != nil || to.left < 1 {
			http.Error(w, "limitBytes is no number", http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain")
	if err := of.Copy(r.Context(), to, q); errors.Is(err, journal.ErrNoRun) {
		http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", r.PathValue("container"), r.PathValue("pod")),
			http.StatusBadRequest)
	}
}

// query reads the options of `kubectl logs`.
func query(r *http.Request) (q journal.Query, err error) {
	q = journal.Query{Tail: -1}
	for name, to := range map[string]*bool{"follow": &q.Follow, "previous": &q.Previous, "timestamps": &q.Timestamps} {
		if text := r.FormValue(name); text != "" {
			if *to, err = strconv.ParseBool(text); err != nil {
				return q, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if text := r.FormValue("tailLines"); text != "" {
		if q.Tail, err = strconv.Atoi(text); err != nil {
			return q, fmt.Errorf("tailLines: %w", err)
		}
	}
	if text := r.FormValue("sinceSeconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return q, fmt.Errorf("sinceSeconds: %w", err)
		}
		q.Since = time.Now().Add(-time.Duration(n) * time.Second)
	}
	if text := r.FormValue("sinceTime"); text != "" {
		if q.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return q, fmt.Errorf("sinceTime: %w", err)
		}
	}
	return q, nil
}

// lines sends each line at once, and at most so many bytes.
type lines struct {
	w    http.ResponseWriter
	left int64 // negative: no bound
}

func (l *lines) Write(p []byte) (int, error) {
	cut := l.left >= 0 && int64(len(p)) > l.left
	if cut {
		p = p[:l.left]
	}
	n, err := l.w.Write(p)
	if l.left >= 0 {
		l.left -= int64(n)
	}
	if err == nil && cut {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = http.NewResponseController(l.w).Flush()
	}
	return n, err
}

// exec runs a program in a container.
func (s server) exec(w http.ResponseWriter, r *http.Request) {
	at := place(r)
	if _, err := s.node.Log(at); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	options, err := remotecommand.NewOptions(r)
	args := r.Form["command"]
	if err == nil && len(args) == 0 {
		err = errors.New("no command is named")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, executor{s.node, at}, at.Pod, "", at.Container, args, options, idle, creation,
		remotecommand.SupportedStreamingProtocols)
}

type executor struct {
	node Node
	at   Place
}

// ExecInContainer implements remotecommand.Executor.
func (e executor) ExecInContainer(
	ctx context.Context, _, _, _ string, args []string, in io.Reader, out, err io.WriteCloser, tty bool,
	sizes <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	with := &plumbing{in: in, out: out, err: err, tty: tty, sizes: sizes}
	defer with.close()
	failed := e.node.Exec(ctx, e.at, args, with.prepare)
	var exit *exec.ExitError
	if errors.As(failed, &exit) {
		return utilexec.CodeExitError{Err: failed, Code: Code(exit)}
	}
	return failed
}

// forward connects a client with ports of a pod.
func (s server) forward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	at := place(r)
	portforward.ServePortForward(w, r, forwarder{s.node, at}, at.Pod, "", options, idle, creation, portforward.SupportedProtocols)
}

type forwarder struct {
	node Node
	at   Place
}

// PortForward implements portforward.PortForwarder.
func (f forwarder) PortForward(ctx context.Context, _, _ string, port int32, client io.ReadWriteCloser) error {
	defer client.Close()
	c, err := f.node.Dial(ctx, f.at, port)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	go func() {
		_, _ = io.Copy(c, client) // how it ended makes no difference
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(client, c)
	return err
}
