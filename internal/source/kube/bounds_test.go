package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// endless answers every request with a body that does not end.
type endless struct{}

func (endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Body: io.NopCloser(spaces{})}, nil
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) { return copy(p, strings.Repeat(" ", len(p))), nil }

// One large answer of an API server is read at a time; small ones, and the beginnings of others, are read beside it.
func TestOneLargeAnswerAtATime(t *testing.T) {
	c := &rest.Config{}
	bound(c)
	client := c.WrapTransport(endless{})
	ask := func(ctx context.Context) io.ReadCloser {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://kube/api/v1/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Body
	}
	read := func(from io.Reader, most int64) int64 {
		n, err := io.Copy(io.Discard, io.LimitReader(from, most))
		if err != nil {
			t.Errorf("after %d bytes: %v", n, err)
		}
		return n
	}
	first := ask(t.Context())
	read(first, 2*smallAnswer)
	ctx, stop := context.WithCancel(t.Context())
	second, third := ask(ctx), ask(t.Context())
	read(second, smallAnswer)
	read(third, smallAnswer)
	stop()
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, errNoTurn) {
		t.Errorf("beside a large answer another one is read on: %v", err)
	}
	if err := errors.Join(second.Close(), first.Close()); err != nil {
		t.Error(err)
	}
	if n := read(third, smallAnswer); n != smallAnswer {
		t.Errorf("%d bytes when the large answer was over", n)
	}
	if n, err := io.Copy(io.Discard, third); err == nil || n > maxAnswer {
		t.Errorf("%d bytes more, and %v", n, err)
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
}
