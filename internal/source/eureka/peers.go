package eureka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"fairway/internal/printable"
	"fairway/internal/reading"
)

// peers are the servers of a registry. One of them is asked as long as it answers. They belong to one goroutine.
type peers struct {
	urls   []string
	at     int // the one that is asked
	client *http.Client
	lane   *reading.Lane
}

const (
	headerTime = 15 * time.Second // within which an answer begins
	errorBytes = 2 << 10          // of the text of a refusal
)

// refused is an answer other than 200.
type refused struct {
	code int
	text string
}

func (r *refused) Error() string {
	if r.text == "" {
		return fmt.Sprintf("it answers %d", r.code)
	}
	return fmt.Sprintf("it answers %d: %s", r.code, r.text)
}

// deltaOff reports whether a server serves only everything, and no changes.
func deltaOff(err error) bool {
	var r *refused
	return errors.As(err, &r) && (r.code == http.StatusForbidden || r.code == http.StatusNotFound)
}

// ask asks the server at p.at. begun is when its answer began.
func (p *peers) ask(ctx context.Context, path string, take func(io.Reader) error) (begun time.Time, err error) {
	url := strings.TrimSuffix(p.urls[p.at], "/") + path
	ctx, turn := p.lane.With(ctx)
	defer turn.End()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", url, err)
		}
	}()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return begun, err
	}
	q.Header.Set("Accept", "application/json")
	q.Header.Set("User-Agent", "pilot-discovery")
	answer, err := p.client.Do(q)
	if err != nil {
		return begun, withoutURL(err)
	}
	defer answer.Body.Close()
	begun = time.Now()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, errorBytes)) // what there is of it
		return begun, &refused{answer.StatusCode, printable.Text(strings.TrimSpace(string(text)), printable.Short)}
	}
	if err := take(answer.Body); err != nil {
		return begun, err
	}
	// little is left of a good answer; if there is more, the connection is closed
	_, _ = io.CopyN(io.Discard, answer.Body, errorBytes)
	return begun, nil
}

// askAny asks one server after another, once each, until one answers; switched says that it is not the one asked before.
func (p *peers) askAny(ctx context.Context, path string, take func(io.Reader) error) (begun time.Time, switched bool, err error) {
	var errs []error
	for range p.urls {
		begun, err = p.ask(ctx, path, take)
		if err == nil {
			return begun, len(errs) > 0, nil
		}
		if ctx.Err() != nil {
			return begun, false, ctx.Err()
		}
		errs = append(errs, err)
		p.next()
	}
	return begun, false, errors.Join(errs...)
}

func (p *peers) next() { p.at = (p.at + 1) % len(p.urls) }

// withoutURL removes the method and URL from an error of the client, because the caller adds its own.
func withoutURL(err error) error {
	var of interface{ Unwrap() error }
	if strings.HasPrefix(err.Error(), "Get ") && errors.As(err, &of) {
		return of.Unwrap()
	}
	return err
}
