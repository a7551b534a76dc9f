package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/types/known/anypb"

	"fairway/test/rig"
)

// Entries is the collection that a Process has.
const Entries = "istio/networking/v1alpha3/serviceentries"

// variable holds the settings of the other process; a test's process has none.
const variable = "FAIRWAY_TEST_MCPSERVER"

// Options of a Process.
type Options struct {
	Cert, Key string // files; empty: it speaks in plaintext
	Token     string // that streams have to show; empty: none
}

type told struct {
	Options
	Serve, Control string // addresses
}

// Process is a source of ServiceEntries in a process of its own, which is the test's own program again: its TestMain has to ask Asked.
type Process struct {
	told    told
	dir     string
	process *rig.Process
}

// Start starts one, with nothing in it.
func Start(t testing.TB, o Options) *Process {
	t.Helper()
	p := &Process{told: told{
		o, fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)),
	}, dir: rig.Folder(t)}
	p.Run(t)
	return p
}

// Run starts one that was killed again. It holds nothing.
func (p *Process) Run(t testing.TB) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p.told)
	if err != nil {
		t.Fatal(err)
	}
	p.process = rig.Launch(t, rig.Command{Name: "mcpserver", Path: self, Dir: p.dir, Env: []string{variable + "=" + string(text)}})
	rig.Eventually(t, func() error {
		p.process.Running(t)
		return p.Token(p.told.Token)
	})
}

// Kill ends it at once.
func (p *Process) Kill() { p.process.Kill() }

// Address is where it speaks the protocol.
func (p *Process) Address() string { return p.told.Serve }

// Put sets an object, of a name as "shop/reviews".
func (p *Process) Put(name string, entry *networking.ServiceEntry) error {
	body, err := protojson.Marshal(entry)
	if err != nil {
		return err
	}
	return p.call(http.MethodPut, "/entries?name="+url.QueryEscape(name), body)
}

// Delete takes an object away.
func (p *Process) Delete(name string) error {
	return p.call(http.MethodDelete, "/entries?name="+url.QueryEscape(name), nil)
}

// Token sets the token that streams have to show from now on, and ends the existing streams.
func (p *Process) Token(token string) error { return p.call(http.MethodPut, "/token", []byte(token)) }

func (p *Process) call(method, path string, body []byte) error {
	q, err := http.NewRequest(method, "http://"+p.told.Control+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: rig.Bound}
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s", path, answer.StatusCode, text)
	}
	return nil
}

// Asked reports whether this process is one that Start started.
func Asked() bool { return os.Getenv(variable) != "" }

// Main is what such a process does. It returns the code to exit with.
func Main() int {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve() error {
	var t told
	if err := json.Unmarshal([]byte(os.Getenv(variable)), &t); err != nil {
		return err
	}
	protocol, err := describe()
	if err != nil {
		return err
	}
	s := &state{protocol: protocol, held: map[string]*mcp.Resource{}, wake: make(chan struct{}), token: t.Token, cut: make(chan struct{})}
	var o []grpc.ServerOption
	if t.Cert != "" {
		own, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return err
		}
		o = append(o, grpc.Creds(credentials.NewServerTLSFromCert(&own)))
	}
	l, err := net.Listen("tcp", t.Serve)
	if err != nil {
		return err
	}
	g := grpc.NewServer(o...)
	register(g, s.stream)
	failed := make(chan error, 2)
	go func() { failed <- g.Serve(l) }()
	go func() { failed <- http.ListenAndServe(t.Control, s) }()
	return <-failed
}

// state is what the process holds.
type state struct {
	protocol Protocol

	mu    sync.Mutex
	held  map[string]*mcp.Resource
	count int
	wake  chan struct{} // closed when something changed
	token string
	cut   chan struct{} // closed when streams are to end
}

// ServeHTTP has a test change what there is.
func (s *state) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := q.URL.Query().Get("name")
	switch {
	case !utf8.ValidString(name):
		http.Error(w, "no message can have such a name", http.StatusBadRequest)
		return
	case q.URL.Path == "/token":
		s.token = string(body)
		close(s.cut)
		s.cut = make(chan struct{})
	case q.Method == http.MethodDelete:
		delete(s.held, name)
	default:
		entry := &networking.ServiceEntry{}
		err := protojson.Unmarshal(body, entry)
		var packed *anypb.Any
		if err == nil {
			packed, err = anypb.New(entry)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.count++
		s.held[name] = &mcp.Resource{Metadata: &mcp.Metadata{Name: name, Version: strconv.Itoa(s.count)}, Body: packed}
	}
	close(s.wake)
	s.wake = make(chan struct{})
}

// differs returns the changes for a sink that holds these versions.
func (s *state) differs(held map[string]string) (set []*mcp.Resource, gone []string, wake chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, r := range s.held {
		if held[name] != r.Metadata.Version {
			set = append(set, r)
		}
	}
	for name := range held {
		if s.held[name] == nil {
			gone = append(gone, name)
		}
	}
	slices.SortFunc(set, func(a, b *mcp.Resource) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	return set, gone, s.wake
}

// stream serves one sink.
func (s *state) stream(w grpc.ServerStream) error {
	s.mu.Lock()
	token, cut := s.token, s.cut
	s.mu.Unlock()
	shown, _ := metadata.FromIncomingContext(w.Context())
	if token != "" && !slices.Equal(shown.Get("authorization"), []string{"Bearer " + token}) {
		return status.Error(codes.Unauthenticated, "the token is not the one that counts")
	}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	requests, failed := make(chan Request), make(chan error, 1)
	go func() {
		for {
			r, err := s.protocol.Receive(w)
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	var held map[string]string // nil: the collection has not been asked for
	never := make(chan struct{})
	wake := never
	for nonce := 1; ; nonce++ {
		a := Answer{Nonce: strconv.Itoa(nonce), Incremental: true}
		select {
		case r := <-requests:
			if r.Nonce != "" {
				continue
			}
			if a.Collection = r.Collection; r.Collection != Entries {
				if err := s.protocol.Send(w, a); err != nil {
					return err
				}
				continue
			}
			held = r.Initial
		case <-wake:
		case <-cut:
			return status.Error(codes.Unavailable, "it goes away")
		case err := <-failed:
			return err
		}
		first := wake == never
		a.Collection = Entries
		a.Resources, a.Removed, wake = s.differs(held)
		for _, r := range a.Resources {
			held[r.Metadata.Name] = r.Metadata.Version
		}
		for _, name := range a.Removed {
			delete(held, name)
		}
		if !first && len(a.Resources)+len(a.Removed) == 0 {
			continue
		}
		if err := s.protocol.Send(w, a); err != nil {
			return err
		}
	}
}
