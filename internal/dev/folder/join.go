package folder

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Workload is what joins the mesh.
type Workload struct {
	Name     string            `json:"name"` // of its service, and of its service account
	Gateway  bool              `json:"gateway,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Port     uint16            `json:"port,omitempty"`     // where the application listens on 127.0.0.1; 0: a gateway
	Protocol string            `json:"protocol,omitempty"` // of that port, as a ServiceEntry has it
	// Upstreams are ports of 127.0.0.1 where the application reaches one host each.
	Upstreams []Upstream `json:"upstreams,omitempty"`
	// Was is the place that the workload had before the control plane was started again; nil: it is new.
	Was *Place `json:"was,omitempty"`
}

// Upstream is a local port for a host.
type Upstream struct {
	Host     string `json:"host"`
	Port     uint16 `json:"port"` // of 127.0.0.1
	Protocol string `json:"protocol"`
}

// Place is the place of a workload in the mesh.
type Place struct {
	Workload  string `json:"workload"` // its name with a number, such as web-1
	Namespace string `json:"namespace"`
	Host      string `json:"host,omitempty"` // of its service; empty: a gateway
	Address   string `json:"address"`        // of loopback, the workload's own
	Inbound   uint16 `json:"inbound,omitempty"`
	Outbound  uint16 `json:"outbound,omitempty"` // of the HTTP proxy that its Envoy is
}

// Welcome is the answer to a workload that joins.
type Welcome struct {
	Place
	Labels map[string]string `json:"labels"`
	XDS    string            `json:"xds"`   // host:port
	Token  string            `json:"token"` // admits its agent once
	Roots  string            `json:"roots"` // in PEM
}

// Bounds of a question and of its answer, in bytes.
const (
	MostQuestion = 64 << 10
	mostWelcome  = 1 << 20
)

// Path is where workloads join.
const Path = "/join"

// Member is a workload that has joined. It leaves when it is closed, or when its process ends.
type Member struct {
	Welcome
	body io.Closer
	gone chan struct{}
	once sync.Once
}

// Gone is closed when the control plane has ended, or the member was closed.
func (m *Member) Gone() <-chan struct{} { return m.gone }

// Close has the workload leave.
func (m *Member) Close() { m.once.Do(func() { m.body.Close() }) }

// Join joins the mesh of the control plane that runs with the folder. Without one the error is ErrNone.
func (f Folder) Join(ctx context.Context, w Workload) (*Member, error) {
	if _, err := f.Plane(); err != nil {
		return nil, err
	}
	question, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, ResponseHeaderTimeout: 10 * time.Second,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", f.socket())
		},
	}}
	asked, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, "http://dev"+Path, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(asked)
	var refused *net.OpError
	if errors.As(err, &refused) && refused.Op == "dial" {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("join the mesh: %w", err)
	}
	lines := bufio.NewReader(io.LimitReader(answer.Body, mostWelcome))
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(lines)
		return nil, errors.New(strings.TrimSpace(string(text)))
	}
	m := &Member{body: answer.Body, gone: make(chan struct{})}
	line, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &m.Welcome)
	}
	if err != nil {
		answer.Body.Close()
		return nil, fmt.Errorf("join the mesh: %w", err)
	}
	go func() {
		defer close(m.gone)
		_, _ = io.Copy(io.Discard, lines) // ends with the connection
		m.Close()
	}()
	return m, nil
}
