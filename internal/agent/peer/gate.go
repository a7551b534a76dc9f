package peer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"

	"fairway/internal/agent/token"
	"fairway/internal/identity"
)

// Gate decides which callers may read from a server of the agent's, and which may change something. The zero Gate lets every
// process of this machine read, and none change anything.
type Gate struct {
	// Token must be shown, in token.Header, by a caller that changes something; a caller that shows it may do everything.
	Token token.Token
	// Envoys returns the processes of the agent's own Envoys, Program returns their program: these processes, and requests that
	// they forward, may not read. Nil: no process is taken for an Envoy.
	Envoys  func() []int
	Program func() string
	// Own lets only processes of the agent's own user and root read.
	Own bool

	identifying sync.Mutex // one look at the kernel's tables at a time
}

// These refusals name what is allowed instead.
var (
	errNoToken = errors.New(
		"this changes something, so it asks for the agent's token (" + token.Header + "): use `pilot-agent request POST …`, which reads it")
	errNotLocal = errors.New("only from this machine's loopback address")
	errEnvoy    = errors.New("this request comes from Envoy, or its sender cannot be identified: use `pilot-agent request GET …`")
	errUser     = errors.New("only the agent's own user and root may ask this: use `pilot-agent request GET …` as that user")
)

// Change returns a handler for requests that change something.
func (g *Gate) Change(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.ShowsToken(r) {
			refuse(w, errNoToken)
			return
		}
		next(w, r)
	}
}

// Read returns a handler for requests that only show something, but not to strangers.
func (g *Gate) Read(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := g.mayRead(r); err != nil {
			refuse(w, err)
			return
		}
		next(w, r)
	}
}

func refuse(w http.ResponseWriter, err error) { http.Error(w, err.Error(), http.StatusForbidden) }

// ShowsToken reports whether a request comes from this machine and shows the token.
func (g *Gate) ShowsToken(r *http.Request) bool {
	return g.Token.Admits(r.Header.Get(token.Header)) && isLocal(r)
}

func isLocal(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && identity.Local(from.Addr())
}

func (g *Gate) mayRead(r *http.Request) error {
	if !isLocal(r) {
		return errNotLocal
	}
	if g.Token.Admits(r.Header.Get(token.Header)) || g.Envoys == nil {
		return nil
	}
	seen, ok := r.Context().Value(connection{}).(*verdict)
	if !ok {
		return errEnvoy
	}
	seen.once.Do(func() { seen.err = g.identify(seen.conn) })
	return seen.err
}

// identify checks which process has the other end of a connection; mayRead calls it once for each.
func (g *Gate) identify(c net.Conn) error {
	local, remote, ok := Addresses(c)
	if !ok {
		return errEnvoy
	}
	g.identifying.Lock()
	defer g.identifying.Unlock()
	who, err := Find(local, remote)
	if err != nil {
		return errEnvoy
	}
	if g.Own && who.UID != 0 && who.UID != os.Geteuid() {
		return errUser
	}
	program := ""
	if g.Program != nil {
		program = g.Program()
	}
	if is, err := who.Within(g.Envoys(), program); is || err != nil {
		return errEnvoy
	}
	return nil
}

// connection is the context key of a request's verdict.
type connection struct{}

// verdict is the result of identify for a connection.
type verdict struct {
	conn net.Conn
	once sync.Once
	err  error
}

// Connected is for http.Server.ConnContext: it adds a request's connection to its context, where a Gate finds it.
func Connected(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, &verdict{conn: c})
}
