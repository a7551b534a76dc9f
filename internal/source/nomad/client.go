package nomad

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/source/platform"
)

const (
	// Servers say nothing of a stream, not even that it is open, until something happens, and then, or every ten seconds, that they
	// are there.
	headerTime  = 40 * time.Second
	idleTime    = 40 * time.Second
	atOnce      = 8        // questions of one lane
	errorBytes  = 2 << 10  // of what a server says where it refuses
	maxEvent    = 16 << 20 // bytes of a line of a stream
	tokenHeader = "X-Nomad-Token"
)

// clients are those of a registry's servers, in order, and the one whose connections they all use.
func clients(o Options, lanes int) (*http.Client, []*api.Client, error) {
	calls := platform.Calls{
		Header: headerTime, Idle: idleTime, Connections: lanes * (1 + atOnce),
		Token: func(h http.Header, token string) { h.Set(tokenHeader, token) },
	}
	most := o.MaxInstances
	if most == 0 {
		most = defaultInstances
	}
	below := o.Reach.Client(calls)
	bounded := *below
	bounded.Transport = guard{below.Transport, most}
	var out []*api.Client
	for _, url := range o.URLs {
		c, err := api.NewClient(&api.Config{Address: strings.TrimSuffix(url, "/"), Region: o.Region, HttpClient: &bounded})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", url, err)
		}
		out = append(out, c)
	}
	return below, out, nil
}

// guard bounds what Nomad's client makes of an answer, which may be many times its bytes: how many objects there are in it, and how
// long a line of a stream is.
type guard struct {
	http.RoundTripper
	most int // objects of an answer
}

// RoundTrip asks.
func (g guard) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.Header.Del("Accept-Encoding") // what is below takes compression off before it counts bytes
	answer, err := g.RoundTripper.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	switch {
	case answer.StatusCode != http.StatusOK:
		answer.Body = body{io.LimitReader(answer.Body, errorBytes), answer.Body}
	case strings.HasPrefix(q.URL.Path, "/v1/event/"):
		answer.Body = body{&counted{Reader: answer.Body, what: '{', most: g.most, line: maxEvent}, answer.Body}
	default:
		answer.Body = body{&counted{Reader: answer.Body, what: '{', most: 2*g.most + 1000}, answer.Body}
	}
	return answer, nil
}

type body struct {
	io.Reader
	io.Closer
}

// counted fails where a byte comes too often, or a line is too long; a line begins both anew where lines are bounded.
type counted struct {
	io.Reader
	what       byte
	most, line int
	seen, of   int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	for _, b := range p[:n] {
		switch c.of++; {
		case b == '\n' && c.line > 0:
			c.seen, c.of = 0, 0
		case b == c.what:
			c.seen++
		}
		if c.seen > c.most || c.line > 0 && c.of > c.line {
			return 0, errors.New("the answer holds more than is taken (maxInstances)")
		}
	}
	return n, err
}
