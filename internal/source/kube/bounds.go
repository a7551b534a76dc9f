package kube

import (
	"errors"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// Bounds of what another cluster's API server is believed: it may be anybody's. A watch's events have client-go's bound, 16 MiB.
const (
	maxAnswer        = 64 << 20 // bytes of one answer: a page of a list
	smallAnswer      = 4 << 20  // bytes of one that are read beside others of the same API server
	maxRemoteObjects = 200_000  // of one kind
)

// bound has a client of another cluster's API server take answers of so many bytes and no more, one large one at a time: all
// kinds are asked for at once, and each answer is held in memory as a whole.
func bound(c *rest.Config) {
	large := make(chan struct{}, 1)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next: next, large: large} })
}

type bounded struct {
	next  http.RoundTripper
	large chan struct{} // holds a token while a large answer is read
}

// RoundTrip is http.RoundTripper's.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "" {
		answer.Body = &answerBody{ReadCloser: http.MaxBytesReader(nil, answer.Body, maxAnswer), until: r.Context().Done(), large: b.large}
	}
	return answer, err
}

// answerBody is an answer that waits for its turn as soon as it is large.
type answerBody struct {
	io.ReadCloser
	until <-chan struct{} // closed: nobody waits for the answer any more
	large chan struct{}
	read  int
	turn  bool
}

// Read is io.Reader's.
func (a *answerBody) Read(p []byte) (int, error) {
	if a.read >= smallAnswer && !a.turn {
		select {
		case a.large <- struct{}{}:
			a.turn = true
		case <-a.until:
			return 0, errNoTurn
		}
	}
	n, err := a.ReadCloser.Read(p)
	a.read += n
	return n, err
}

// errNoTurn says that an answer was large, and others of the same API server took all the time that there was.
var errNoTurn = errors.New("other large answers of the API server took all the time")

// Close is io.Closer's.
func (a *answerBody) Close() error {
	if a.turn {
		a.turn = false
		<-a.large
	}
	return a.ReadCloser.Close()
}

// staying is a client that is led nowhere else.
func staying(client *http.Client) *http.Client {
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
