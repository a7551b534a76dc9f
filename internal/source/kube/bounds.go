package kube

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// Bounds of what another cluster's API server is believed: it may be anybody's. A watch's events have client-go's bound, 16 MiB.
const (
	maxAnswer        = 64 << 20 // bytes of one answer: a page of a list
	maxRemoteObjects = 200_000  // of one kind
)

// bound has a client of another cluster's API server take answers of so many bytes and no more, and go nowhere else.
func bound(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
}

type bounded struct{ next http.RoundTripper }

// RoundTrip is http.RoundTripper's.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "" {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}

// staying is a client that is led nowhere else.
func staying(client *http.Client) *http.Client {
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
