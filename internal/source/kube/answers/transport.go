package answers

import (
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"fairway/internal/printable"
	"fairway/internal/reading"
)

// maxAnswer is how many bytes one answer of an API server that is not trusted may have: a page of a list. An event of a watch may have
// maxItem.
const maxAnswer = 64 << 20

// bound limits the answers that a client takes from another cluster's API server to maxAnswer bytes. All kinds are requested at once, so
// the process reads only one large answer at a time. Lists are read object by object (stream).
func bound(c *rest.Config, lane *reading.Lane) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next: next, lane: lane} })
}

type bounded struct {
	next http.RoundTripper
	lane *reading.Lane
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") != "" {
		return answer, err
	}
	own := b.lane.Begin()
	turn := reading.From(r.Context()) // of the caller, who ends it once the answer is decoded
	if turn == nil {
		turn = own
	}
	body := http.MaxBytesReader(nil, answer.Body, maxAnswer)
	answer.Body = &answerBody{turn.Reader(r.Context(), body), body, own}
	return answer, nil
}

// answerBody is an answer that waits for its turn as soon as it is large.
type answerBody struct {
	io.Reader
	io.Closer
	own *reading.Turn // not begun if the caller has one
}

// Close implements io.Closer.
func (a *answerBody) Close() error {
	defer a.own.End()
	return a.Closer.Close()
}

// secretsOf returns the secrets that a client sends to the API server. It learns them from the configuration and from requests.
func secretsOf(c *rest.Config) *printable.Secrets {
	secrets := new(printable.Secrets)
	for _, known := range []string{c.BearerToken, c.Password} {
		secrets.Add(known)
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return showing{next, secrets} })
	return secrets
}

type showing struct {
	next    http.RoundTripper
	secrets *printable.Secrets
}

// RoundTrip implements http.RoundTripper.
func (s showing) RoundTrip(r *http.Request) (*http.Response, error) {
	s.secrets.Add(r.Header.Get("Authorization"))
	return s.next.RoundTrip(r)
}

// staying returns a client that follows no redirects.
func staying(client *http.Client) *http.Client {
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
