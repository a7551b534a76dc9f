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

// Gate says who may ask what of a server of the agent's. The zero Gate takes every process of this machine for one that
// may read, and nobody for more.
type Gate struct {
	// Token is what whoever changes something must show, in token.Header; who shows it may do everything.
	Token token.Token
	// Envoys are the processes of the agent's own Envoys, Program is theirs: those, and what they hand on, may not
	// read. Nil: nobody is taken for an Envoy.
	Envoys  func() []int
	Program func() string
	// Own lets processes of the agent's own user and root read, and no others of this machine.
	Own bool

	identifying sync.Mutex // one look at the kernel's tables at a time
}

// A refusal is what those are told who may not; it names the way that is open.
var (
	errNoToken = errors.New(
		"this changes something, so it asks for the agent's token (" + token.Header + "): use `pilot-agent request POST …`, which reads it")
	errNotLocal = errors.New("only from this machine's loopback address")
	errEnvoy    = errors.New("this request comes out of Envoy, or from nobody who can be told: use `pilot-agent request GET …`")
	errUser     = errors.New("only the agent's own user and root may ask this: use `pilot-agent request GET …` as that user")
)

// Change answers a request that changes something.
func (g *Gate) Change(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.ShowsToken(r) {
			refuse(w, errNoToken)
			return
		}
		next(w, r)
	}
}

// Read answers a request that only shows something, but to no stranger.
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

// ShowsToken says whether a request shows the token, from this machine.
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

// identify finds out once for each connection who is there.
func (g *Gate) identify(c net.Conn) error {
	local, remote, ok := Addresses(c)
	if !ok {
		return errEnvoy
	}
	g.identifying.Lock()
	defer g.identifying.Unlock()
	who, err := Of(local, remote)
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

// connection is the key of a request's verdict.
type connection struct{}

// verdict is what was found out of a connection.
type verdict struct {
	conn net.Conn
	once sync.Once
	err  error
}

// Connected is for http.Server.ConnContext: by it a Gate knows which connection a request came on.
func Connected(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, &verdict{conn: c})
}
