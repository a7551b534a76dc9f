package live

import (
	"context"
	"net/http"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// Limiter starts a server of Envoy's global rate limits, at port Backing of the address of its name. It allows every request, with the
// header x-counted-by, except the next ones that FailNext says. The questions that it gets are the Backend's received requests: the domain
// is the path, and the entries of the descriptors are headers.
func (m *Mesh) Limiter(t testing.TB, name string) *Backend {
	t.Helper()
	return m.calls(t, name, func(b *Backend) *grpc.Server {
		server := grpc.NewServer()
		ratelimitv3.RegisterRateLimitServiceServer(server, limiter{b: b})
		return server
	})
}

type limiter struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	b *Backend
}

// ShouldRateLimit answers as Limiter's comment says.
func (l limiter) ShouldRateLimit(_ context.Context, in *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	echo := Echo{Server: l.b.Name, Path: in.GetDomain(), Header: http.Header{}}
	for _, d := range in.GetDescriptors() {
		for _, e := range d.GetEntries() {
			echo.Header.Add(e.GetKey(), e.GetValue())
		}
	}
	l.b.count.Add(1)
	l.b.note(echo)
	code := ratelimitv3.RateLimitResponse_OK
	if l.b.fail.Add(-1) >= 0 {
		code = ratelimitv3.RateLimitResponse_OVER_LIMIT
	}
	said := []*corev3.HeaderValue{{Key: "x-counted-by", Value: l.b.Name}}
	return &ratelimitv3.RateLimitResponse{OverallCode: code, ResponseHeadersToAdd: said}, nil
}
