package envoy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// script is a case that is data alone: a txtar file below testdata/features, or testdata/alone, with its commands first, the
// rules they apply after them. ${ip:NAME} is an address of the mesh, and ${port:NAME} the port of a backend that localhost
// started; ${issuer:NAME} is the address of an issuer, ${keys:NAME} its key set, and ${token:NAME} a token; ${wasm:VALUE} is the
// path of a Wasm module that adds the header x-wasm. ${file:NAME} is the path of a file, or of a server's unix socket; ${ca:NAME},
// ${cert:NAME} and ${key:NAME} are files of an authority and of certificates; ${hash:NAME} and ${spki:NAME} are SHA-256 of a
// certificate, hex, and of its public key, base64. In commands they are quoted ('${ip:NAME}').
//
//	backend NAME…                HTTP servers, at port 8080 of the addresses of their names
//	tcp NAME…                    servers that greet connections, at port 9000
//	udp NAME…                    servers that answer datagrams with their names, at port 9053
//	announced NAME…              HTTP servers that take connections with a PROXY header alone, at port 8080
//	socket NAME…                 HTTP servers at the unix sockets ${file:NAME}
//	authorizer NAME…             servers of Envoy's authorization by gRPC, at port 8080; "fail" has them refuse
//	limiter NAME…                servers of Envoy's global rate limits by gRPC, at port 8080; "fail" has them refuse
//	picker NAME…                 endpoint pickers of InferencePools, over TLS, at port 8080; "fail" has them fail
//	collector NAME…              servers that take any message by gRPC, at port 8080
//	authority NAME…              authorities of certificates
//	certificate NAME AUTH HOST [rsa]  a certificate that an authority signs, with a key of ECDSA or of RSA
//	revoke AUTH [CERT]…          the certificates that the authority takes back; ${crl:AUTH} is the file that lists them
//	secret NAME CERT [AUTH [revoked]]  applies a Secret with a certificate ("-" for none), the authority of clients, and what it
//	                             took back
//	configmap NAME AUTH          applies a ConfigMap with an authority's certificate
//	secure NAME CERT [AUTH]      an HTTPS server at port 8080; with an authority clients have to show a certificate of it
//	tls NAME CERT [AUTH]         one that greets connections, at port 9443
//	localhost NAME               an HTTP server at a port of 127.0.0.1 that the system chooses
//	mesh FILE [SIDECAR]…         a mesh of the script's own from here on, by this mesh configuration, with sidecars of clients: the
//	                             first in here/a, others in there/a
//	refusing                     a mesh of the script's own from here on; its proxies may refuse a resource
//	reconfigure FILE             another configuration of that mesh
//	localsecure NAME CERT        an HTTPS server at a port of 127.0.0.1 that the system chooses
//	localtcp NAME…               servers that greet connections, at ports of 127.0.0.1 that the system chooses
//	sidecar NAME [LABEL=VALUE]…  one more proxy; its label app is its name if no labels are given; @namespace=, @locality=,
//	                             @network=, @idle= and @discovers= are not labels
//	client NAME [WORD]…          one more sidecar; requests may be made beside its workload (from=NAME); its words are a sidecar's,
//	                             its labels hold app
//	gateway NAME LABEL=VALUE…    one more gateway
//	forwarder NAME…              HTTP proxies that take CONNECT, at port 3128
//	asked FORWARDER N [POST]     how many connections it was asked for so far, by CONNECT or by POST
//	identity NAME…               identities of service accounts of those names ("web", "shop/web", "td.example/shop/web"), for
//	                             requests (as=NAME)
//	workload NAME [LABEL=VALUE]… a sidecar with the identity of the service account of its name, and of its @namespace=
//	edge NAME LABEL=VALUE…       a gateway with the identity of the service account of its name
//	issuer NAME…                 issuers of tokens (OpenID Connect)
//	rotate NAME                  the issuer has another key from now on
//	silence NAME, speak NAME     the issuer answers errors alone; it answers again
//	token NAME ISSUER [CLAIMS]   a token with these claims (JSON)
//	apply FILE…                  sets the objects of all the files at once, and waits until they are in force
//	set FILE…                    apply without waiting
//	delete KIND NAME…            takes objects away (pairs), "VirtualService reviews" or "VirtualService shop/reviews"
//	ask REQUEST -> ANSWER        sends one request
//	await REQUEST -> ANSWER      the same, until the answer is as wanted
//	share N REQUEST -> SHARES    who answers N requests: "v1=90..110 v2=*"; * is the rest, and no other backend may answer
//	stick N REQUEST              30 values in the place of {}: each one meets one backend, all together meet N
//	session WORD REQUEST         20 clients, which return the cookie (WORD is "cookie") or header of their first answer, stay at one
//	                             backend each, and meet several together
//	dial N NAME:PORT [WORD]… -> SHARES  who takes N connections; "closed" are those that no server
//	                             greets, or that end before an answer. The words are by=, as= and
//	                             those of TLS that a REQUEST may have
//	reach N NAME:PORT [WORD]… -> NAME  connects until N connections in a row are taken by it: while a proxy changes a
//	                             listener, the old one may take connections after the new one did
//	send N NAME:PORT -> SHARES   who answers N datagrams, each from a port of its own; "lost" are those without an answer
//	start N REQUEST              sends N requests, which need no answer before the script ends
//	clusters PROXY NAME…         the services' clusters that it holds, and no other
//	stat PROXY REGEXP N          waits until the statistics add up to N at least, or until one statistic is N ("=3")
//	metric PROXY REGEXP [none]   waits until a line of its metrics matches, as an agent gives them; with "none" no line does
//	hold NAME:PORT               opens a connection, and says nothing
//	logged FILE REGEXP…          waits until a line of ${file:FILE} matches each
//	unlogged FILE REGEXP…        no line of it matches any
//	problem KIND NAME CODE       waits until an object has a problem of the code
//	received BACKEND WORD…       waits for a request with these words of an answer
//	count BACKEND N              how many requests came since this was last asked
//	fail BACKEND N               the next N requests are answered 503
//
// request_test.go describes REQUEST and ANSWER.
type script struct {
	m        *live.Mesh
	backends map[string]*live.Backend
	counted  map[string]int
	ports    map[string]int // of backends on localhost
	issuers  map[string]*live.Issuer
	tokens   map[string]string
	folder   string      // of its own
	trust    *live.Trust // of identities; nil before the first
	sotw     bool        // proxies speak the state-of-the-world protocol
	own      bool        // the mesh is the script's own

	certified  certified
	forwarders map[string]*live.Forwarder
	// identities are those of service accounts.
	identities map[string]live.Identity
}

// Keys of the values of a script.
type (
	scriptKey  struct{}
	testingKey struct{}
)

// scripts runs all of a folder side by side, in one mesh.
func scripts(t *testing.T, m *live.Mesh, sotw bool, folder string) {
	t.Helper()
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, c := range map[string]struct {
		run   func(*script, testing.TB, []string) error
		least int // this many arguments
	}{
		"refusing":  {(*script).refusing, 0},
		"forwarder": {(*script).forwarder, 1}, "asked": {(*script).asked, 2},
		"backend": {(*script).backend, 1}, "tcp": {(*script).tcp, 1},
		"udp": {(*script).udp, 1}, "send": {(*script).send, 4}, "localhost": {(*script).localhost, 1},
		"identity": {(*script).identity, 1}, "workload": {(*script).workload, 1},
		"client":  {(*script).client, 1},
		"sidecar": {(*script).sidecar, 1}, "gateway": {(*script).gateway, 2}, "edge": {(*script).edge, 2}, "delete": {(*script).remove, 2},
		"ask": {(*script).ask, 3}, "await": {(*script).await, 3}, "share": {(*script).share, 4}, "dial": {(*script).dial, 4},
		"reach": {(*script).reach, 4},
		"stick": {(*script).stick, 2}, "session": {(*script).session, 2}, "clusters": {(*script).clusters, 1}, "stat": {(*script).stat, 3},
		"issuer": {(*script).issuer, 1}, "token": {(*script).token, 2}, "rotate": {(*script).rotate, 1},
		"silence": {(*script).silence, 1}, "speak": {(*script).speak, 1},
		"authorizer": {servers((*live.Mesh).Authorizer), 1}, "limiter": {servers((*live.Mesh).Limiter), 1},
		"picker":    {servers((*live.Mesh).Picker), 1},
		"collector": {servers((*live.Mesh).Collector), 1}, "announced": {servers((*live.Mesh).Announced), 1},
		"socket":   {(*script).socket, 1},
		"localtcp": {(*script).localTCP, 1}, "localsecure": {(*script).localSecure, 2},
		"authority": {(*script).authority, 1}, "certificate": {(*script).certificate, 3}, "secret": {(*script).secret, 2},
		"configmap": {(*script).configMap, 2},
		"revoke":    {(*script).revoke, 1}, "metric": {(*script).metric, 2},
		"secure": {(*script).secure, 2}, "tls": {(*script).tlsServer, 2}, "start": {(*script).start, 2},
		"hold":   {(*script).hold, 1},
		"logged": {(*script).logged, 2}, "unlogged": {(*script).unlogged, 2}, "problem": {(*script).problem, 3},
		"received": {(*script).received, 2}, "count": {(*script).count, 2}, "fail": {(*script).fail, 2},
	} {
		commands[name] = command(func(s *script, t testing.TB, _ *testscript.TestScript, args []string) error {
			if len(args) < c.least {
				return fmt.Errorf("%s takes %d arguments at least", name, c.least)
			}
			return c.run(s, t, args)
		})
	}
	for name, run := range map[string]func(*live.Mesh, testing.TB, ...string){"apply": (*live.Mesh).Apply, "set": (*live.Mesh).Set} {
		commands[name] = command(func(s *script, t testing.TB, ts *testscript.TestScript, args []string) error {
			run(s.m, t, s.rules(t, ts, args)...)
			return nil
		})
	}
	commands["mesh"] = command((*script).ownMesh)
	commands["reconfigure"] = command((*script).reconfigure)
	testscript.Run(t, testscript.Params{
		Dir:  folder,
		Cmds: commands,
		Setup: func(env *testscript.Env) error {
			env.Values[testingKey{}] = env.T().(testing.TB)
			env.Values[scriptKey{}] = &script{
				m: m, backends: map[string]*live.Backend{}, counted: map[string]int{}, ports: map[string]int{},
				issuers: map[string]*live.Issuer{}, tokens: map[string]string{}, folder: env.T().(testing.TB).TempDir(), sotw: sotw,
				certified: newCertified(), forwarders: map[string]*live.Forwarder{},
			}
			return nil
		},
	})
}

// command makes one of a script out of a function.
func command(run func(*script, testing.TB, *testscript.TestScript, []string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("no command of these scripts can be negated")
		}
		s, t := ts.Value(scriptKey{}).(*script), ts.Value(testingKey{}).(testing.TB)
		for i, arg := range args {
			args[i] = rig.Fill(t, "a command", arg, s.m.Address, s.word)
		}
		if err := run(s, t, ts, args); err != nil {
			ts.Fatalf("%v", err)
		}
	}
}

// rules are the texts of files, with addresses and ports.
func (s *script) rules(t testing.TB, ts *testscript.TestScript, files []string) (all []string) {
	for _, file := range files {
		all = append(all, rig.Fill(t, file, ts.ReadFile(file), s.m.Address, s.word))
	}
	return all
}

// word returns the value of ${KIND:NAME}.
func (s *script) word(word string) (string, bool) {
	kind, name, _ := strings.Cut(word, ":")
	switch kind {
	case "port":
		port, ok := s.ports[name]
		return strconv.Itoa(port), ok
	case "wasm":
		return s.wasm(name)
	case "token":
		token, ok := s.tokens[name]
		return token, ok
	case "ca", "crl", "cert", "key", "hash", "spki":
		return s.certified.word(kind, name)
	case "issuer", "keys":
		i, ok := s.issuers[name]
		if !ok {
			return "", false
		}
		if kind == "keys" {
			return i.Keys(), true
		}
		return i.URL, true
	}
	return "", false
}

// wasm is the path of a module that adds the header x-wasm with a value.
func (s *script) wasm(value string) (string, bool) {
	path := filepath.Join(s.folder, value+".wasm")
	return path, os.WriteFile(path, live.WasmModule("x-wasm", value), 0o644) == nil
}

func (s *script) issuer(t testing.TB, names []string) error {
	for _, name := range names {
		s.issuers[name] = live.NewIssuer(t)
	}
	return nil
}

// ofIssuer does something with an issuer of the script.
func (s *script) ofIssuer(name string, do func(*live.Issuer) error) error {
	i, ok := s.issuers[name]
	if !ok {
		return fmt.Errorf("the script has no issuer %q", name)
	}
	return do(i)
}

func (s *script) rotate(t testing.TB, args []string) error {
	return s.ofIssuer(args[0], func(i *live.Issuer) error { i.Rotate(t); return nil })
}

func (s *script) silence(_ testing.TB, args []string) error {
	return s.ofIssuer(args[0], func(i *live.Issuer) error { i.Silence(true); return nil })
}

func (s *script) speak(_ testing.TB, args []string) error {
	return s.ofIssuer(args[0], func(i *live.Issuer) error { i.Silence(false); return nil })
}

func (s *script) token(t testing.TB, args []string) error {
	claims := map[string]any{}
	if len(args) > 2 {
		if err := json.Unmarshal([]byte(args[2]), &claims); err != nil {
			return fmt.Errorf("claims %s: %w", args[2], err)
		}
	}
	return s.ofIssuer(args[1], func(i *live.Issuer) error { s.tokens[args[0]] = i.Token(t, claims); return nil })
}

func (s *script) backend(t testing.TB, names []string) error {
	for _, name := range names {
		s.backends[name] = s.m.Backend(t, name)
	}
	return nil
}

func (s *script) tcp(t testing.TB, names []string) error {
	for _, name := range names {
		s.m.TCPBackend(t, name, 9000)
	}
	return nil
}

func (s *script) udp(t testing.TB, names []string) error {
	for _, name := range names {
		s.m.UDPBackend(t, name, 9053)
	}
	return nil
}

// send waits until some datagram is answered by the first of the shares, because Envoy listens some milliseconds after it has acknowledged
// a listener.
func (s *script) send(t testing.TB, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil || args[2] != "->" {
		return fmt.Errorf("N NAME:PORT -> and who answers, not %q", args)
	}
	address, err := s.address(args[1])
	if err != nil {
		return err
	}
	answer := func() string { return cmp.Or(live.SendDatagram(t, address), "lost") }
	first, _, _ := strings.Cut(args[3], "=")
	rig.Eventually(t, func() error {
		if got := answer(); got != first {
			return fmt.Errorf("%q answers, not %q", got, first)
		}
		return nil
	})
	got := map[string]int{}
	for range n {
		got[answer()]++
	}
	return shares(n, got, args[3:])
}

func (s *script) localhost(t testing.TB, names []string) error {
	for _, name := range names {
		s.ports[name] = s.m.BackendOnLocalhost(t, name)
	}
	return nil
}

func (s *script) identity(t testing.TB, names []string) error {
	if s.trust == nil {
		s.trust, s.identities = live.NewTrust(t), map[string]live.Identity{}
	}
	for _, name := range names {
		s.identities[name] = s.trust.Issue(t, name)
	}
	return nil
}

func (s *script) forwarder(t testing.TB, names []string) error {
	for _, name := range names {
		s.forwarders[name] = s.m.Forwarder(t, name, 3128)
	}
	return nil
}

func (s *script) asked(_ testing.TB, args []string) error {
	f, ok := s.forwarders[args[0]]
	if !ok {
		return fmt.Errorf("the script has no forwarder %q", args[0])
	}
	count := f.Asked
	switch {
	case len(args) > 2 && args[2] != http.MethodPost:
		return fmt.Errorf("connections are asked for by CONNECT or by POST, not by %q", args[2])
	case len(args) > 2:
		count = f.Posted
	}
	if got := strconv.Itoa(count()); got != args[1] {
		return fmt.Errorf("%s was asked for %s connections", args[0], got)
	}
	return nil
}

func (s *script) sidecar(t testing.TB, args []string) error { return s.proxy(t, args, live.Node{}) }

func (s *script) gateway(t testing.TB, args []string) error {
	return s.proxy(t, args, live.Node{Router: true})
}

func (s *script) workload(t testing.TB, args []string) error {
	return s.identified(t, args, live.Node{})
}

func (s *script) edge(t testing.TB, args []string) error {
	return s.identified(t, args, live.Node{Router: true})
}

func (s *script) identified(t testing.TB, args []string, n live.Node) error {
	account := args[0]
	for _, a := range args[1:] {
		if namespace, ok := strings.CutPrefix(a, "@namespace="); ok {
			account = namespace + "/" + account
		}
	}
	if err := s.identity(t, []string{account}); err != nil {
		return err
	}
	n.Identity = s.identities[account].Files
	return s.proxy(t, args, n)
}

func (s *script) proxy(t testing.TB, args []string, n live.Node) error {
	n, err := s.node(args, n)
	if err == nil {
		s.m.Proxy(t, n)
	}
	return err
}

// client starts a sidecar; requests may be made beside its workload.
func (s *script) client(t testing.TB, args []string) error {
	n, err := s.node(args, live.Node{})
	if err == nil {
		s.m.ClientNode(t, n)
	}
	return err
}

// node reads the words of a proxy: its name, and its other properties.
func (s *script) node(args []string, n live.Node) (live.Node, error) {
	n.Name, n.Sotw = args[0], s.sotw
	for _, a := range args[1:] {
		label, value, _ := strings.Cut(a, "=")
		if strings.HasPrefix(label, "@") {
			if err := place(&n, label, value); err != nil {
				return n, err
			}
			continue
		}
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[label] = value
	}
	return n, nil
}

func (s *script) remove(t testing.TB, args []string) error {
	if len(args)%2 != 0 {
		return fmt.Errorf("kinds and names, not %q", args)
	}
	var objects []string
	for pair := range slices.Chunk(args, 2) {
		objects = append(objects, strings.Join(pair, " "))
	}
	s.m.Delete(t, objects...)
	return nil
}

func (s *script) ask(t testing.TB, args []string) error {
	r, want, err := s.request(args)
	if err != nil {
		return err
	}
	if slices.Equal(want, []string{noAnswer}) {
		return unanswered(r)
	}
	return check(live.Send(t, r), want)
}

func (s *script) await(t testing.TB, args []string) error {
	r, want, err := s.request(args)
	if err != nil {
		return err
	}
	rig.Eventually(t, func() error {
		if slices.Equal(want, []string{noAnswer}) {
			return unanswered(r)
		}
		reply, err := live.Try(r)
		if err != nil {
			return err
		}
		return check(reply, want)
	})
	return nil
}

func (s *script) share(t testing.TB, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	r, want, err := s.request(args[1:])
	if err != nil {
		return err
	}
	return shares(n, live.Tally(t, n, r), want)
}

func (s *script) dial(t testing.TB, args []string) error {
	n, connect, want, err := s.connections(t, args)
	if err != nil {
		return err
	}
	got := map[string]int{}
	for range n {
		got[connect()]++
	}
	return shares(n, got, want)
}

func (s *script) reach(t testing.TB, args []string) error {
	n, connect, want, err := s.connections(t, args)
	if err != nil {
		return err
	}
	rig.Eventually(t, func() error {
		for range n {
			if got := connect(); !slices.Equal(want, []string{got}) {
				return fmt.Errorf("%s is reached, not %q", got, want)
			}
		}
		return nil
	})
	return nil
}

// connections reads "N NAME:PORT [WORD]… -> WANT".
func (s *script) connections(t testing.TB, args []string) (n int, connect func() string, want []string, err error) {
	if n, err = strconv.Atoi(args[0]); err != nil {
		return 0, nil, nil, err
	}
	end := slices.Index(args, "->")
	if end < 2 {
		return 0, nil, nil, fmt.Errorf("N NAME:PORT [WORD]… -> and who takes them, not %q", args)
	}
	connect, err = s.connect(t, args[1:end])
	return n, connect, args[end+1:], err
}

func (s *script) stick(t testing.TB, args []string) error {
	backends, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	all := map[string]int{}
	for i := range 30 {
		words := slices.Clone(args[1:])
		for j := range words {
			words[j] = strings.ReplaceAll(words[j], "{}", fmt.Sprintf("value-%d", i))
		}
		r, _, err := s.request(append(words, "->"))
		if err != nil {
			return err
		}
		got := live.Tally(t, 3, r)
		if len(got) != 1 {
			return fmt.Errorf("one value met %v", got)
		}
		maps.Copy(all, got)
	}
	if len(all) != backends {
		return fmt.Errorf("30 values met %v, of %d backends", all, backends)
	}
	return nil
}

func (s *script) clusters(t testing.TB, args []string) error {
	if got := outbound(t, s.m.Envoy(args[0])); !slices.Equal(got, args[1:]) {
		return fmt.Errorf("%s holds %q", args[0], got)
	}
	return nil
}

// outbound are an Envoy's clusters of services.
func outbound(t testing.TB, e *live.Envoy) []string {
	t.Helper()
	return slices.DeleteFunc(e.Clusters(t), func(name string) bool { return !strings.HasPrefix(name, "outbound|") })
}

func (s *script) stat(t testing.TB, args []string) error {
	e := s.m.Envoy(args[0])
	if e == nil {
		return fmt.Errorf("the mesh has no proxy %q", args[0])
	}
	text, exact := strings.CutPrefix(args[2], "=")
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return err
	case exact:
		e.AwaitStatIs(t, args[1], n)
	default:
		e.AwaitStat(t, args[1], n)
	}
	return nil
}

func (s *script) received(t testing.TB, args []string) error {
	b, err := s.known(args[0])
	if err == nil {
		b.Await(t, func(e live.Echo) bool { return check(live.Reply{Echo: e}, args[1:]) == nil })
	}
	return err
}

func (s *script) count(_ testing.TB, args []string) error {
	want, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	b, err := s.known(args[0])
	if err != nil {
		return err
	}
	all := b.Count()
	got := all - s.counted[args[0]]
	s.counted[args[0]] = all
	if got != want {
		return fmt.Errorf("%s has got %d requests", args[0], got)
	}
	return nil
}

func (s *script) fail(_ testing.TB, args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	b, err := s.known(args[0])
	if err == nil {
		b.FailNext(n)
	}
	return err
}

func (s *script) known(backend string) (*live.Backend, error) {
	if b := s.backends[backend]; b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("the script has no backend %q", backend)
}
