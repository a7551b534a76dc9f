package live

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// Authorizer starts a server of Envoy's authorization by gRPC, at port Backing of the address of its name. It allows every request, with
// the header x-allowed-by, except those that ask to be refused (x-do: status=403) and the next ones that FailNext says. The requests that
// it checks are the Backend's received requests.
func (m *Mesh) Authorizer(t testing.TB, name string) *Backend {
	t.Helper()
	return m.calls(t, name, func(b *Backend) *grpc.Server {
		server := grpc.NewServer()
		authv3.RegisterAuthorizationServer(server, authorizer{b: b})
		return server
	})
}

// calls starts a server of gRPC, at port Backing of the address of its name. The calls that it gets are the Backend's received requests.
func (m *Mesh) calls(t testing.TB, name string, serving func(*Backend) *grpc.Server) *Backend {
	t.Helper()
	listener, err := net.Listen("tcp", m.Addr(name, Backing))
	if err != nil {
		t.Fatal(err)
	}
	b := &Backend{Name: name, port: Backing, news: make(chan struct{})}
	server := serving(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return b
}

type authorizer struct {
	authv3.UnimplementedAuthorizationServer
	b *Backend
}

// Check answers as Authorizer's comment says.
func (a authorizer) Check(_ context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	asked := in.GetAttributes().GetRequest().GetHttp()
	echo := Echo{
		Server: a.b.Name, Protocol: asked.GetProtocol(), Method: asked.GetMethod(), Path: asked.GetPath(), Host: asked.GetHost(),
		Header: http.Header{}, From: in.GetAttributes().GetSource().GetAddress().GetSocketAddress().GetAddress(),
		Body: asked.GetBody() + string(asked.GetRawBody()),
	}
	for k, v := range asked.GetHeaders() {
		echo.Header.Set(k, v)
	}
	a.b.count.Add(1)
	a.b.note(echo)
	code := 0
	if a.b.fail.Add(-1) >= 0 {
		code = http.StatusForbidden
	}
	_, _ = fmt.Sscanf(echo.Header.Get("x-do"), "status=%d", &code)
	said := []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-allowed-by", Value: a.b.Name}}}
	if code == 0 {
		return &authv3.CheckResponse{HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{Headers: said}}}, nil
	}
	said[0].Header.Key = "x-refused-by"
	return &authv3.CheckResponse{
		Status: &statuspb.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status: &typev3.HttpStatus{Code: typev3.StatusCode(code)}, Headers: said, Body: "refused by " + a.b.Name,
		}},
	}, nil
}
