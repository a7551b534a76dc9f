package authn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"fairway/internal/jwks"
	"fairway/internal/jwks/fetch"
	"fairway/internal/printable"
)

// keySource gives the keys of an issuer. Its errors are for the log.
type keySource interface {
	// known returns the keys without a request.
	known() []jose.JSONWebKey
	// renewed returns the keys after it fetched them again, if that is allowed now; tried is false if it fetched nothing.
	renewed(ctx context.Context) (keys []jose.JSONWebKey, tried bool, err error)
}

// errNoKey is the error of a token that none of the keys signed.
var errNoKey = errors.New("none of the issuer's keys signed it")

// errUnknownKey is the error of a token that names a key that the issuer does not have, while the issuer may not be asked again.
var errUnknownKey = fmt.Errorf("%w: it names a key that the issuer did not have when it was last asked; try again in %s",
	ErrUnavailable, askAgain)

// verify returns the payload of a token that one of the keys signed. If none fits, the keys are fetched again.
func verify(ctx context.Context, signed *jose.JSONWebSignature, from keySource) ([]byte, error) {
	id := signed.Signatures[0].Header.KeyID
	payload, named := tryKeys(signed, id, from.known())
	if payload != nil {
		return payload, nil
	}
	keys, tried, err := from.renewed(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if payload, _ := tryKeys(signed, id, keys); payload != nil {
		return payload, nil
	}
	if !tried && !named {
		return nil, errUnknownKey
	}
	return nil, errNoKey
}

// tryKeys also reports whether one of the keys has the name in the token.
func tryKeys(signed *jose.JSONWebSignature, id string, keys []jose.JSONWebKey) (payload []byte, named bool) {
	for _, k := range keys {
		if id != "" && k.KeyID != "" && k.KeyID != id {
			continue
		}
		named = true
		if payload, err := signed.Verify(k); err == nil {
			return payload, true
		}
	}
	return nil, named
}

// askAgain is how long an issuer is not asked again after a request for its keys, successful or not: made-up tokens must not become
// requests.
const askAgain = 10 * time.Second

// served is a key set that an issuer serves. There is at most one request at a time and one in askAgain, and all callers that need its
// answer wait for it.
type served struct {
	issuer string
	url    string // of the keys; empty: the issuer says
	client *http.Client
	now    func() time.Time
	log    *slog.Logger

	mu           sync.Mutex
	keys         []jose.JSONWebKey
	lastQuestion time.Time // the last time
	last         *question
}

// question is the request that is under way, or the last one.
type question struct {
	done chan struct{}
	err  error // once done is closed
}

func (s *served) known() []jose.JSONWebKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

func (s *served) renewed(ctx context.Context) (keys []jose.JSONWebKey, tried bool, err error) {
	q, tried := s.ask()
	select {
	case <-q.done:
	case <-ctx.Done():
		return nil, tried, ctx.Err()
	}
	keys = s.known()
	if len(keys) > 0 {
		return keys, tried, nil // the previous keys still count
	}
	return nil, tried, q.err
}

// ask returns the request under way, a new one, or the last one if it is too soon for another.
func (s *served) ask() (q *question, tried bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		select {
		case <-s.last.done:
		default:
			return s.last, true
		}
		if since := s.now().Sub(s.lastQuestion); since >= 0 && since < askAgain {
			return s.last, false
		}
	}
	s.lastQuestion, s.last = s.now(), &question{done: make(chan struct{})}
	go s.answer(s.last)
	return s.last, true
}

// answer sends the request, and keeps the answer for all callers.
func (s *served) answer(q *question) {
	ctx, cancel := context.WithTimeout(context.Background(), askAgain)
	defer cancel()
	keys, err := fetch.Keys(ctx, s.client, jwks.Source{URI: s.url, Issuer: s.issuer})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.keys = keys
	} else {
		said := err.Error()
		if status := (*fetch.StatusError)(nil); errors.As(err, &status) {
			said += ": " + printable.Text(status.Body, printable.Short)
		}
		s.log.Warn("an issuer of tokens does not give its keys; those before go on counting",
			"issuer", s.issuer, "keys", len(s.keys), "error", printable.Text(said, printable.Long))
		q.err = errors.New("the issuer's keys cannot be fetched")
	}
	close(q.done)
}
