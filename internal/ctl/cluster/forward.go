package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go wants it
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	streaming "k8s.io/streaming/pkg/httpstream"
)

// Forwarded is a port of a pod that is open on this machine's loopback until Close is called.
type Forwarded struct {
	Address string // host:port on this machine
	stop    context.CancelFunc
	done    chan struct{}
}

// Close closes the port, and returns once nothing goes through any more.
func (f *Forwarded) Close() {
	f.stop()
	<-f.done
}

// connectWithin bounds how long the API server may take to reach a pod.
const connectWithin = 20 * time.Second

// Forward opens a pod's port on this machine. It speaks WebSocket with the API server. If the API server, or a proxy before it, knows only
// SPDY, it speaks SPDY.
func (r *Reach) Forward(ctx context.Context, to Plane, port int) (*Forwarded, error) {
	dialer, err := r.dialer(to)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	words := new(words)
	f, err := portforward.NewOnAddressesWithContext(
		ctx, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, ready, io.Discard, words,
	)
	if err != nil {
		stop()
		return nil, err
	}
	out := &Forwarded{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		ended <- f.ForwardPorts()
	}()
	late := time.NewTimer(connectWithin)
	defer late.Stop()
	select {
	case <-ready:
		ports, err := f.GetPorts()
		if err == nil && len(ports) != 1 {
			err = errors.New("it opened no port")
		}
		if err != nil {
			out.Close()
			return nil, err
		}
		out.Address = fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
		return out, nil
	case err := <-ended:
		stop()
		return nil, fmt.Errorf("reach pod %s/%s: %w", to.Namespace, to.Name, whatever(err, words))
	case <-late.C:
		stop()
		return nil, fmt.Errorf("reach pod %s/%s: no answer within %s", to.Namespace, to.Name, connectWithin)
	}
}

// whatever returns the error, or else one with the text that was printed.
func whatever(err error, said *words) error {
	if err != nil {
		return err
	}
	return errors.New(strings.TrimSpace(said.String() + " the connection was closed"))
}

func (r *Reach) dialer(to Plane) (httpstream.Dialer, error) {
	url := r.client.PortForward(to.Namespace, to.Name)
	transport, upgrader, err := spdy.RoundTripperFor(r.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	socket, err := portforward.NewSPDYOverWebsocketDialer(url, r.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialer(socket, old, func(err error) bool {
		return streaming.IsUpgradeFailure(err) || streaming.IsHTTPSProxyError(err)
	}), nil
}

// words keeps the beginning of the text that is written to it.
type words struct {
	most int // bytes; 0: mostWords, for an error message
	mu   sync.Mutex
	text bytes.Buffer
}

const mostWords = 4 << 10

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := w.most
	if most == 0 {
		most = mostWords
	}
	if room := most - w.text.Len(); room > 0 {
		w.text.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
