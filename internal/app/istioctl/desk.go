package istioctl

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/identity/authn"
	"fairway/internal/printable"
	"fairway/internal/xds"
)

// Types of questions.
const (
	// Page asks for any page: the request's one resource name is the page with its query, as config_dump?proxyID=web-1.shop. The answer is
	// one resource of this type; its value is the page as it is.
	Page = "istio.io/debug"
	// Sync asks for the state of each proxy: a resource of type ClientConfig for each.
	Sync = "istio.io/debug/syncz"
	// Dump asks for the configuration of the proxy that is the request's one resource name: the parts of Envoy's config_dump.
	Dump = "istio.io/debug/config_dump"
)

// notHere makes istioctl ask another control plane.
const notHere = "Proxy not connected to this Pilot instance. It may be connected to another instance."

// Desk answers questions once it has the pages.
type Desk struct {
	identifier string // of the control plane, as istioctl reads it
	ready      chan struct{}
	pages      http.Handler // set before ready is closed
	answered   atomic.Uint64
}

// NewDesk returns a Desk of the control plane with this name among its replicas. Questions wait until Open.
func NewDesk(name, version string) *Desk {
	text, _ := json.Marshal(map[string]any{ // strings alone
		"Component": "istiod", "ID": name, "Info": map[string]string{"version": version},
	})
	return &Desk{identifier: string(text), ready: make(chan struct{})}
}

// Open has questions answered by pages. It is called once.
func (d *Desk) Open(pages http.Handler) {
	d.pages = pages
	close(d.ready)
}

// Asks implements xds.Asker.
func (d *Desk) Asks(typ string) bool { return typ == Page || strings.HasPrefix(typ, Page+"/") }

// Answer implements xds.Asker.
func (d *Desk) Answer(ctx context.Context, peer net.Addr, q xds.Question) (proto.Message, error) {
	select {
	case <-d.ready:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	target, err := pageOf(q)
	if err != nil {
		return nil, err
	}
	got := d.get(ctx, peer, target)
	resources, err := resourcesOf(q, target, got)
	if err != nil {
		return nil, err
	}
	n := strconv.FormatUint(d.answered.Add(1), 10)
	return &discoveryv3.DiscoveryResponse{
		VersionInfo: n, Nonce: n, TypeUrl: q.Type, Resources: resources,
		ControlPlane: &corev3.ControlPlane{Identifier: d.identifier},
	}, nil
}

func wrong(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// pageOf returns the page that a question is about, and its query.
func pageOf(q xds.Question) (*url.URL, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(q.Type, Page), "/")
	switch {
	case q.Type == Page && len(q.Names) != 1:
		return nil, wrong("%s: want one resource name, a page as syncz or config_dump?proxyID=web-1.shop", Page)
	case q.Type == Page:
		name = q.Names[0]
	case q.Type == Dump && len(q.Names) != 1:
		return nil, wrong("%s: want one resource name, a proxy as web-1.shop", Dump)
	case q.Type == Dump:
		name += "?" + url.Values{"proxyID": q.Names}.Encode()
	}
	u, err := url.Parse(strings.TrimPrefix(strings.TrimPrefix(name, "/"), "debug/"))
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" {
		return nil, wrong("%s is not a page: want a name as syncz, or config_dump?proxyID=web-1.shop",
			printable.Text(name, printable.Short))
	}
	u.Path, u.Fragment = path.Join("/debug", path.Clean("/"+u.Path)), ""
	if strings.HasPrefix(u.Path, "/debug/pprof") {
		return nil, wrong("profiles are served over HTTP alone: /debug/pprof at --httpsAddr")
	}
	return u, nil
}

// answer is a page, as it is written.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter: the first status counts.
func (a *answer) WriteHeader(code int) {
	if a.status == 0 {
		a.status = code
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// get asks for a page as the caller of a stream.
func (d *Desk) get(ctx context.Context, peer net.Addr, target *url.URL) *answer {
	shown := authn.FromContext(ctx)
	r := (&http.Request{
		Method: http.MethodGet, URL: target, Host: "localhost", RemoteAddr: peer.String(), Header: http.Header{},
		Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody,
	}).WithContext(ctx)
	if authn.OverTLS(ctx) {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: shown.Certificates}
	}
	if shown.Token != "" {
		r.Header.Set("Authorization", "Bearer "+shown.Token)
	}
	got := &answer{header: http.Header{}}
	d.pages.ServeHTTP(got, r)
	got.WriteHeader(http.StatusOK) // of an empty page
	return got
}

// codesOf are the gRPC codes of answers that are errors.
var codesOf = map[int]codes.Code{
	http.StatusBadRequest:         codes.InvalidArgument,
	http.StatusUnauthorized:       codes.Unauthenticated,
	http.StatusForbidden:          codes.PermissionDenied,
	http.StatusTooManyRequests:    codes.ResourceExhausted,
	http.StatusServiceUnavailable: codes.Unavailable,
}

// resourcesOf returns the resources for a page. A page that is not there is an answer: istioctl goes on to the next control plane.
func resourcesOf(q xds.Question, target *url.URL, got *answer) ([]*anypb.Any, error) {
	text := got.body.Bytes()
	switch {
	case got.status == http.StatusOK:
	case got.status == http.StatusNotFound && q.Type == Dump:
		return nil, nil
	case got.status == http.StatusNotFound && q.Type == Page:
		if target.Query().Get("proxyID") != "" {
			text = append(text, notHere...)
		}
	default:
		code, known := codesOf[got.status]
		if !known {
			code = codes.Unknown
		}
		return nil, status.Error(code, strings.TrimSpace(string(text)))
	}
	var out []*anypb.Any
	var err error
	switch q.Type {
	case Sync:
		out, err = states(text)
	case Dump:
		out, err = parts(text)
	default:
		out = []*anypb.Any{{TypeUrl: Page, Value: text}}
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "%s: %v", target.Path, err)
	}
	return out, nil
}
