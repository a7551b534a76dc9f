package pushed

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"fairway/internal/identity"
)

// call is a stream of a caller's, which says nothing.
type call struct {
	grpc.ServerStream
	from   string
	secure bool
}

func (c call) Context() context.Context {
	p := &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1}}
	if c.secure {
		p.AuthInfo = credentials.TLSInfo{}
	}
	return peer.NewContext(context.Background(), p)
}

var galley = identity.ID{TrustDomain: "mesh", Namespace: "galley", ServiceAccount: "galley"}

// entries returns entries for callers with TLS and this proved identity.
func entries(proved identity.ID) (e *Entries, refused *int) {
	refused = new(int)
	return New(Options{
		Prove: func(_ context.Context, knows Knows) error {
			if _, may := knows(proved, nil); !may {
				return status.Error(codes.PermissionDenied, "not you")
			}
			return nil
		},
		Refused: func(net.Addr, error) { *refused++ },
		Log:     slog.New(slog.DiscardHandler),
	}), refused
}

// TestEntries: a stream goes to the source of the entry that names its caller, for as long as there is such an entry; until it is known
// which there are callers are to come again.
func TestEntries(t *testing.T) {
	e, refused := entries(galley)
	var served string
	serve := func(name string) func(grpc.ServerStream) error {
		return func(grpc.ServerStream) error { served = name; return nil }
	}
	secure, here, away := call{from: "10.0.0.1", secure: true}, call{from: "127.0.0.1"}, call{from: "10.0.0.1"}
	passed := call{from: "127.0.0.6"} // a connection from another machine that a sidecar passes on
	remove := e.Add(Entry{Name: "galley", Callers: []string{"spiffe://mesh/ns/else/sa/x", galley.String()}, Serve: serve("galley")})
	e.Add(Entry{Name: "other", Callers: []string{galley.String()}, Serve: serve("other"), Roots: func() (*x509.CertPool, error) {
		t.Error("the file of authorities is read though no certificate has the name")
		return nil, nil
	}})
	if err := e.serve(secure); status.Code(err) != codes.Unavailable {
		t.Errorf("at first: %v", err)
	}
	e.Ready()
	for _, c := range []struct {
		name string
		call call
		want string
	}{{"galley", secure, "galley"}, {"here", here, ""}, {"away", away, ""}} {
		served = ""
		if err := e.serve(c.call); served != c.want || (c.want == "") != (status.Code(err) == codes.PermissionDenied) {
			t.Errorf("%s: %q serves, %v", c.name, served, err)
		}
	}
	e.Add(Entry{Name: "here", Here: true, Callers: []string{galley.String()}, Serve: serve("here")})
	for _, c := range []struct {
		call call
		want string
	}{{here, "here"}, {away, ""}, {passed, ""}, {secure, "galley"}} {
		served = ""
		if e.serve(c.call); served != c.want {
			t.Errorf("%+v is served by %q, want %q", c.call, served, c.want)
		}
	}
	remove()
	if err := e.serve(secure); status.Code(err) != codes.PermissionDenied {
		t.Errorf("once the entry has gone: %v", err)
	}
	if *refused != 5 {
		t.Errorf("%d refusals are told of", *refused)
	}
}

// TestOften: a source that connects again and again is held up, and no other one is.
func TestOften(t *testing.T) {
	e, _ := entries(identity.ID{})
	e.Add(Entry{Name: "here", Here: true, Serve: func(grpc.ServerStream) error { return nil }})
	e.Ready()
	for range atOnce {
		if err := e.serve(call{from: "127.0.0.1"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.serve(call{from: "127.0.0.1"}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	if err := e.serve(call{from: "10.0.0.1", secure: true}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a caller that proves nothing: %v", err)
	}
}
