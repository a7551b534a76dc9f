package envoy

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"fairway/internal/agent/exposition"
	"fairway/internal/mesh"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// ownMesh starts a mesh of the script's own, for a script about the mesh configuration.
func (s *script) ownMesh(t testing.TB, ts *testscript.TestScript, args []string) error {
	s.m = live.Start(t, live.Options{MeshConfig: ts.ReadFile(args[0])})
	s.own = true
	for i, name := range args[1:] {
		s.m.ClientNode(t, live.Node{Name: name, Sotw: s.sotw, Locality: mesh.ParseLocality([]string{"here/a", "there/a"}[min(i, 1)])})
	}
	return nil
}

// refusing is what a script runs in that is about what proxies refuse.
func (s *script) refusing(t testing.TB, _ []string) error {
	s.m, s.own = live.Start(t, live.Options{MayRefuse: true}), true
	return nil
}

func (s *script) reconfigure(t testing.TB, ts *testscript.TestScript, args []string) error {
	if !s.own {
		return fmt.Errorf("the mesh is not the script's own: it has no command mesh")
	}
	s.m.MeshConfig(t, s.rules(t, ts, args[:1])[0])
	return nil
}

// servers is a command that starts a server of a kind for each name.
func servers(start func(*live.Mesh, testing.TB, string) *live.Backend) func(*script, testing.TB, []string) error {
	return func(s *script, t testing.TB, names []string) error {
		for _, name := range names {
			s.backends[name] = start(s.m, t, name)
		}
		return nil
	}
}

func (s *script) localTCP(t testing.TB, names []string) error {
	for _, name := range names {
		s.ports[name] = s.m.TCPBackendOnLocalhost(t, name)
	}
	return nil
}

func (s *script) socket(t testing.TB, names []string) error {
	for _, name := range names {
		s.backends[name] = s.m.BackendOnSocket(t, name, s.m.File(name))
	}
	return nil
}

// start sends requests that need no answer before the script ends.
func (s *script) start(t testing.TB, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	r, _, err := s.request(append(args[1:], "->"))
	if err == nil {
		live.StartBlocked(t, n, r)
	}
	return err
}

// hold opens a connection that says nothing before the script ends.
func (s *script) hold(t testing.TB, args []string) error {
	to, err := s.address(args[0])
	if err != nil {
		return err
	}
	conn := live.Reach(t, net.Dialer{Timeout: rig.Bound}, to)
	t.Cleanup(func() { conn.Close() })
	return nil
}

// logged waits until one line of a file matches each of the expressions.
func (s *script) logged(t testing.TB, args []string) error {
	for _, text := range args[1:] {
		line, err := regexp.Compile("(?m)" + text)
		if err != nil {
			return err
		}
		rig.Eventually(t, func() error {
			all, err := os.ReadFile(s.m.File(args[0]))
			if err == nil && !line.Match(all) {
				err = fmt.Errorf("no line of %q matches %q", all, text)
			}
			return err
		})
	}
	return nil
}

// unlogged checks that no line of a file matches any of the expressions. The script has to await something later than the unwanted line
// first.
func (s *script) unlogged(_ testing.TB, args []string) error {
	all, err := os.ReadFile(s.m.File(args[0]))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, text := range args[1:] {
		line, err := regexp.Compile("(?m)" + text)
		if err != nil {
			return err
		}
		if found := line.Find(all); found != nil {
			return fmt.Errorf("%s has %q, which matches %q", args[0], found, text)
		}
	}
	return nil
}

// metric waits until a line of a proxy's metrics matches an expression, or with "none" checks that no line does: the script has to await
// something later than the unwanted line first.
func (s *script) metric(t testing.TB, args []string) error {
	e := s.m.Envoy(args[0])
	if e == nil {
		return fmt.Errorf("the mesh has no proxy %q", args[0])
	}
	line, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	found := func() string {
		all := e.Metrics(t, exposition.Workload{})
		if i := slices.IndexFunc(all, line.MatchString); i >= 0 {
			return all[i]
		}
		return ""
	}
	if len(args) > 2 {
		if args[2] != "none" {
			return fmt.Errorf("metrics are awaited, or there are none; not %q", args[2])
		}
		if unwanted := found(); unwanted != "" {
			return fmt.Errorf("%s counts %s", args[0], unwanted)
		}
		return nil
	}
	rig.Eventually(t, func() error {
		if found() == "" {
			return fmt.Errorf("no metric of %s matches %q", args[0], args[1])
		}
		return nil
	})
	return nil
}

// problem waits until an object has a problem of a code.
func (s *script) problem(t testing.TB, args []string) error {
	rig.Eventually(t, func() error {
		all := s.m.ProblemsOf(args[0] + " " + args[1])
		for _, p := range all {
			if p.Code == args[2] {
				return nil
			}
		}
		return fmt.Errorf("%s %s has the problems %v, and no %s", args[0], args[1], all, args[2])
	})
	return nil
}

// place takes a word of a proxy that is not a label: "@namespace=shop", "@locality=here/a", "@idle=2s".
func place(n *live.Node, name, value string) error {
	switch name {
	case "@namespace":
		n.Namespace = value
	case "@locality":
		n.Locality = mesh.ParseLocality(value)
	case "@network":
		n.Network = value
	case "@discovers":
		n.Discovers = value == "true"
	case "@idle":
		n.Idle = value
	default:
		return fmt.Errorf("no word of a proxy: %q", name)
	}
	return nil
}

// connect makes a connection as the words before "->" say: NAME:PORT, by=NAME, and the words of TLS.
func (s *script) connect(t testing.TB, words []string) (func() string, error) {
	to, err := s.address(words[0])
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: rig.Bound}
	secure, encrypted := &tls.Config{InsecureSkipVerify: true}, false
	for _, word := range words[1:] {
		name, _, value := split(word)
		known, err := s.certified.client(secure, name, value)
		switch {
		case err != nil:
			return nil, err
		case known:
			encrypted = true
		case name == "by":
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(s.m.IP(value))}
		case name == "as":
			own, ok := s.identities[value]
			if !ok {
				return nil, fmt.Errorf("the script has no identity %q", value)
			}
			secure, encrypted = asWorkload(own), true
		default:
			return nil, fmt.Errorf("no word of a connection: %q", word)
		}
	}
	return func() string {
		conn := live.Reach(t, d, to)
		if encrypted {
			own := tls.Client(conn, secure)
			_ = own.SetDeadline(time.Now().Add(rig.Bound))
			if own.Handshake() != nil {
				conn.Close()
				return noAnswer
			}
			conn = own
		}
		if name := live.Converse(conn); name != "" {
			return name
		}
		return noAnswer
	}, nil
}

// asWorkload is the TLS of a caller that says it is of the mesh, as its sidecar would: PERMISSIVE ports tell it by that.
func asWorkload(id live.Identity) *tls.Config {
	config := id.TLS.Clone()
	config.NextProtos = []string{"istio"}
	return config
}

// noAnswer is the result of a connection that no server greeted; as the only word of an ANSWER it means no answer.
const noAnswer = "closed"

// unanswered checks that a request gets no answer at all.
func unanswered(r live.Request) error {
	reply, err := live.Try(r)
	if err != nil {
		return nil //nolint:nilerr // it is what is wanted
	}
	return fmt.Errorf("answered %d: %s", reply.Status, strings.TrimSpace(reply.Body))
}
